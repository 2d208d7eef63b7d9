"""pl_setup.py alone, without a sandbox: what each kind of file installs, and how its mistakes are told."""
import importlib.util
import json
import os
import subprocess

import pytest

from conftest import TOP
from package_index import Index, wheel

PROGRAM = os.path.join(TOP, "pipelined", "agent", "worker", "pl_setup.py")
A = wheel("a", "1.0", {"a.py": "WORD = 'a'\n"})
B = wheel("b", "2.0", {"b.py": "import a\n"}, requires=["a"])


@pytest.fixture
def index():
    one = Index(A, B)
    yield one
    one.close()


@pytest.fixture
def install(tmp_path, index):
    """install(FILE, files=, tools=) runs the program in a folder with these files; `tools`: programs that are first in PATH."""
    def run(name, files, tools=None, **variables):
        folder, bins = tmp_path / "code", tmp_path / "bin"
        for place, inside in ((folder, files), (bins, tools or {})):
            place.mkdir(exist_ok=True)
            for path, text in inside.items():
                (place / path).write_text(text)
                (place / path).chmod(0o755)
        env = {"PATH": f"{bins}:/usr/bin:/bin", "HOME": str(tmp_path), "PL_SETUP_ENV": str(tmp_path / "env"), "PL_STAGE": "train-setup", **variables}
        return subprocess.run(["/usr/bin/python3", "-B", PROGRAM, name, index.url], cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)
    run.env = tmp_path / "env"
    return run


def has(env, module):
    return subprocess.run([env / "bin" / "python3", "-c", f"import {module}"], check=False, capture_output=True).returncode == 0


def test_dependencies_of_a_project(install):
    done = install("pyproject.toml", {"pyproject.toml": '[project]\nname = "ours"\nversion = "1"\ndependencies = ["b>=1", "a"]\n'})
    assert done.returncode == 0, done.stderr
    assert has(install.env, "b") and not has(install.env, "ours")


@pytest.mark.parametrize("text,says", [('[project]\nname = "x"\ndynamic = ["dependencies"]\n', "the dependencies are dynamic"), ("[project\n", "pyproject.toml: ")])
def test_a_project_that_does_not_say_them(install, text, says):
    done = install("pyproject.toml", {"pyproject.toml": text})
    assert done.returncode != 0 and done.stderr.startswith("error: setup of train failed: pyproject.toml: ") and says in done.stderr, done.stderr


def test_compiled_files_depend_on_no_time(install):
    assert install("requirements.txt", {"requirements.txt": "a\n"}).returncode == 0
    compiled, = install.env.glob("lib/python3*/site-packages/__pycache__/a.*.pyc")
    assert compiled.read_bytes()[4:8] == b"\x01\x00\x00\x00"  # PEP 552: by its hash, which is not looked at


def test_a_lock_of_uv(install):
    """The tool stands for uv: it writes what it has locked, with hashes."""
    import hashlib
    locked = f"a==1.0 --hash=sha256:{hashlib.sha256(A[1]).hexdigest()}"
    tool = f'#!/bin/sh\nprintf "%s\\n" "$*" >seen\nwhile [ "$1" != --output-file ]; do shift; done\nprintf "%s\\n" "{locked}" >"$2"\n'
    files = {"uv.lock": "", "pyproject.toml": '[project]\nname = "x"\n'}
    done = install("uv.lock", files, {"uv": tool})
    assert done.returncode == 0, done.stderr
    assert has(install.env, "a") and not has(install.env, "b")


def test_a_lock_without_its_project(install):
    done = install("uv.lock", {"uv.lock": ""}, {"uv": "#!/bin/sh\n"})
    assert done.stderr == "error: setup of train failed: uv.lock: its pyproject.toml is not in the same folder\n"


def test_a_lock_with_other_files_than_the_index_has(install):
    tool = '#!/bin/sh\nwhile [ "$1" != --output-file ]; do shift; done\necho "a==1.0 --hash=sha256:' + "0" * 64 + '" >"$2"\n'
    done = install("uv.lock", {"uv.lock": "", "pyproject.toml": ""}, {"uv": tool})
    assert done.returncode != 0 and "setup of train failed" in done.stderr and "hash" in done.stdout.lower()


def test_conda_makes_it_at_the_same_place(install):
    """The tool stands for micromamba."""
    tool = '#!/bin/sh\nprintf "%s\\n" "$*" >seen\nwhile [ "$1" != --prefix ]; do shift; done\nmkdir -p "$2/bin"; echo made >"$2/made"\n'
    done = install("environment.yml", {"environment.yml": "dependencies: [python]\n"}, {"micromamba": tool})
    assert done.returncode == 0, done.stderr
    assert (install.env / "made").read_text() == "made\n"


def test_without_conda_it_is_told_what_is_missing(install):
    done = install("environment.yml", {"environment.yml": ""})
    assert done.stderr == ("error: setup of train failed: environment.yml needs micromamba, mamba or conda, and none is in PATH: add it to the image, or use a "
                           "requirements.txt\n")


def test_files_beside_the_requirements_are_no_part_of_the_installer(install):
    assert install("requirements.txt", {"requirements.txt": "a\n", "venv.py": "raise SystemExit(1)\n", "pip.py": "raise SystemExit(1)\n"}).returncode == 0


def test_an_installer_that_is_killed_is_told_as_killed(install):
    done = install("uv.lock", {"uv.lock": "", "pyproject.toml": ""}, {"uv": "#!/bin/sh\nkill -9 $$\n"})
    assert done.stderr == "error: setup of train failed: uv was killed by signal 9: it said nothing\n"


def test_a_token_goes_into_a_file_for_its_host_only(tmp_path):
    spec = importlib.util.spec_from_file_location("pl_setup", PROGRAM)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    for number, (secret, user, password) in enumerate((("ana:a:b", "ana", "a:b"), ("tok", "__token__", "tok"))):
        folder = tmp_path / str(number)
        folder.mkdir()
        path = module.netrc("https://pypi.example:8443/simple", secret, str(folder))
        assert open(path, encoding="utf-8").read() == f"machine pypi.example\nlogin {user}\npassword {password}\n"
        assert os.stat(path).st_mode & 0o777 == 0o600
    assert json.dumps(module.variables_for("", str(tmp_path))) and "NETRC" not in module.variables_for("", str(tmp_path))
