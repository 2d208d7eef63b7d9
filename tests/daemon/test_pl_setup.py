"""pl_setup.py alone, without a sandbox: what each kind of file installs, and how its mistakes are told."""
import importlib.util
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


@pytest.mark.parametrize("text,says", [("[tool.poetry]\n", "has no [project]"), ('[project]\nname = "x"\n', "has no list of dependencies"),
                                       ('[project]\nname = "x"\ndynamic = ["dependencies"]\n', "the dependencies are dynamic"), ("[project\n", "pyproject.toml: ")])
def test_a_project_that_does_not_say_them(install, text, says):
    done = install("pyproject.toml", {"pyproject.toml": text})
    assert done.returncode != 0 and done.stderr.startswith("error: setup of train failed: pyproject.toml") and says in done.stderr, done.stderr


def test_compiled_files_depend_on_no_time(install):
    assert install("requirements.txt", {"requirements.txt": "a\n"}).returncode == 0
    compiled, = install.env.glob("lib/python3*/site-packages/__pycache__/a.*.pyc")
    assert compiled.read_bytes()[4:8] == b"\x01\x00\x00\x00"  # PEP 552: by its hash, which is not looked at


def test_a_lock_of_uv(install):
    """The tool stands for uv."""
    tool = '#!/bin/sh\necho "$*" "$UV_PROJECT_ENVIRONMENT" "$UV_DEFAULT_INDEX" >"$UV_PROJECT_ENVIRONMENT/seen"\n'
    done = install("uv.lock", {"uv.lock": "", "pyproject.toml": '[project]\nname = "x"\n'}, {"uv": tool})
    assert done.returncode == 0, done.stderr
    words = (install.env / "seen").read_text().split()
    assert words[:3] == ["sync", "--frozen", "--no-dev"] and words[-2] == str(install.env) and words[-1].startswith("http://127.0.0.1:")


def test_a_lock_without_its_project(install):
    done = install("uv.lock", {"uv.lock": ""}, {"uv": "#!/bin/sh\n"})
    assert done.stderr == "error: setup of train failed: uv.lock: its pyproject.toml is not in the same folder\n"


def test_conda_makes_it_at_the_same_place(install):
    """The tool stands for micromamba."""
    tool = '#!/bin/sh\necho "ran $1"\nwhile [ "$1" != --prefix ]; do shift; done\ntest -d "$2/conda-meta" || exit 3\necho made >"$2/made"\n'
    done = install("environment.yml", {"environment.yml": "dependencies: [python]\n"}, {"micromamba": tool})
    assert done.returncode == 0, done.stderr
    assert (install.env / "made").read_text() == "made\n" and (install.env / "freeze.txt").read_text() == "ran list\n"


def test_without_conda_it_is_told_what_is_missing(install):
    done = install("environment.yml", {"environment.yml": ""})
    assert done.stderr == ("error: setup of train failed: environment.yml needs micromamba, mamba or conda, and none is in PATH: add it to the image, or use a "
                           "requirements.txt\n")


def test_files_beside_the_requirements_are_no_part_of_the_installer(install):
    assert install("requirements.txt", {"requirements.txt": "a\n", "venv.py": "raise SystemExit(1)\n", "pip.py": "raise SystemExit(1)\n"}).returncode == 0


def test_an_installer_that_is_killed_is_told_as_killed(install):
    done = install("uv.lock", {"uv.lock": "", "pyproject.toml": ""}, {"uv": "#!/bin/sh\nkill -9 $$\n"})
    assert done.stderr == "error: setup of train failed: uv was killed by signal 9 (is there too little memory?)\n"


@pytest.fixture(scope="module")
def module():
    spec = importlib.util.spec_from_file_location("pl_setup", PROGRAM)
    made = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(made)
    return made


@pytest.mark.parametrize("secret,address", [
    ("ana:word", "https://ana:word@pypi.example:8443/simple"), ("tok", "https://__token__:tok@pypi.example:8443/simple"),
    ("a@b:p:/ \\\"", "https://a%40b:p%3A%2F%20%5C%22@pypi.example:8443/simple")])
def test_a_secret_in_the_address(module, secret, address):
    assert module.with_secret("https://pypi.example:8443/simple", secret) == address


def test_an_index_is_used_alone(module, tmp_path, monkeypatch):
    """Else a package of that name could come from another one."""
    for name in module.INDEXES:
        monkeypatch.setenv(name, "https://elsewhere/")
    own = module.variables_for("https://pypi.example/simple", str(tmp_path))
    assert {name: own.get(name) for name in module.INDEXES} == {
        "PIP_INDEX_URL": "https://pypi.example/simple", "UV_DEFAULT_INDEX": "https://pypi.example/simple", "PIP_EXTRA_INDEX_URL": None, "UV_INDEX_URL": None,
        "UV_INDEX": None}
    assert module.variables_for("", str(tmp_path))["PIP_EXTRA_INDEX_URL"] == "https://elsewhere/"


@pytest.mark.parametrize("lines,says", [
    (["Collecting a", "ERROR: Cannot install a and b because they conflict", "ERROR: ResolutionImpossible: for help visit x"],
     "Cannot install a and b because they conflict"),
    (["  error: subprocess-exited-with-error", "error: command 'gcc' failed: No such file", "note: this is an issue of the package"], "command 'gcc' failed: No such file"),
    (["ERROR: HTTP error 404 while getting a", "ERROR: b"], "HTTP error 404 while getting a; b"),
    (["what it said", "", ""], "what it said"), ([], "it said nothing")])
def test_the_line_that_says_why(module, lines, says):
    assert module.why(lines) == says
