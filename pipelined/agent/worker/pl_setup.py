"""Makes the environment of a stage from a file with requirements; uses only the standard library.

    python3 -B pl_setup.py FILE [INDEX]

FILE is requirements.txt (or any .txt), pyproject.toml, uv.lock or environment.yml, in the working directory. The environment is made at /pl/env, where the stage
finds it too, so that absolute paths in its scripts are right. $SETUP_SECRET, USER:PASSWORD or a token, is for INDEX. What pip downloads is kept in $PL_CHECKPOINT:
an installation that was stopped goes on with the packages that it has."""
import collections
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse

ENV = os.environ.get("PL_SETUP_ENV", "/pl/env")
ERROR = re.compile(r"\s*(ERROR|error|FATAL|fatal)\b:?\s*")
SAYS_NOTHING = re.compile(r"ResolutionImpossible|subprocess-exited-with-error|metadata-generation-failed|note: ")
INDEXES = ("PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "UV_INDEX_URL", "UV_DEFAULT_INDEX", "UV_INDEX")
ISOLATED = "-I"  # the working directory has the user's files, not modules of the installer
PIP = (ISOLATED, "-m", "pip", "--disable-pip-version-check", "--no-input")
TOML = """
import json, sys
try:
    import tomllib
except ImportError:  # before Python 3.11: pip brings the same module
    from pip._vendor import tomli as tomllib
try:
    with open(sys.argv[1], "rb") as f:
        print(json.dumps(tomllib.load(f), default=str))
except ValueError as e:
    sys.exit(f"error: {sys.argv[1]}: {e}")
"""


class Failure(Exception):
    """The environment cannot be made; the text says why, in one line. `said`: the end of what the installer said."""

    def __init__(self, text, said=""):
        super().__init__(text)
        self.said = said


def why(last):
    """The lines of an installer that say why it ended, in one."""
    errors = [ERROR.sub("", line, count=1) for line in last if ERROR.match(line)]
    told = [line for line in errors if not SAYS_NOTHING.search(line)] or errors or [line.strip() for line in last if line.strip()]
    return "; ".join(told[-2:])[-600:] or "it said nothing"


def run(*command, variables, quiet=False):
    """Runs a program; its output is passed on line by line, and returned if `quiet`. Failure with the lines that say why."""
    last = collections.deque(maxlen=200)
    said = []
    try:
        with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, encoding="utf-8", errors="replace") as p:
            for line in p.stdout:
                if quiet:
                    said.append(line)
                else:
                    print(line, end="", flush=True)
                last.append(line.rstrip())
    except OSError as e:
        raise Failure(f"{command[0]}: {e.strerror}") from e
    if p.returncode < 0:
        raise Failure(f"{os.path.basename(command[0])} was killed by signal {-p.returncode}" + (" (is there too little memory?)" if p.returncode == -9 else ""))
    if p.returncode:
        raise Failure(why(last), "\n".join(last))
    return "".join(said)


def with_secret(index, secret):
    """The address with the secret in it, which pip and uv leave out of what they print."""
    parts = urllib.parse.urlsplit(index)
    user, colon, password = secret.partition(":")
    if not colon:
        user, password = "__token__", secret
    who = f"{urllib.parse.quote(user, safe='')}:{urllib.parse.quote(password, safe='')}"
    return urllib.parse.urlunsplit(parts._replace(netloc=f"{who}@{parts.netloc}"))


def variables_for(index, folder):
    v = {k: x for k, x in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "SETUP_SECRET", "VIRTUAL_ENV")}
    kept = os.environ.get("PL_CHECKPOINT") or folder
    for tool in ("pip", "uv", "mamba"):
        os.makedirs(os.path.join(kept, tool), exist_ok=True)  # pip uses no folder that belongs to another user
    v.update(PIP_CACHE_DIR=os.path.join(kept, "pip"), UV_CACHE_DIR=os.path.join(kept, "uv"), MAMBA_ROOT_PREFIX=os.path.join(kept, "mamba"), TMPDIR=folder)
    if index:
        for name in INDEXES:
            v.pop(name, None)
        secret = os.environ.get("SETUP_SECRET")
        v["PIP_INDEX_URL"] = v["UV_DEFAULT_INDEX"] = with_secret(index, secret) if secret else index
    return v


def dependencies(path, python, variables):
    """`dependencies` of a pyproject.toml."""
    project = json.loads(run(python, ISOLATED, "-c", TOML, path, variables=variables, quiet=True)).get("project")
    if not isinstance(project, dict):
        raise Failure(f"{path} has no [project]: list the packages in its dependencies, or in a requirements.txt")
    if "dependencies" in project.get("dynamic", []):
        raise Failure(f"{path}: the dependencies are dynamic, so they are not known without a build: list them in a requirements.txt")
    if not isinstance(project.get("dependencies"), list):
        raise Failure(f"{path}: [project] has no list of dependencies")
    return [str(line) for line in project["dependencies"]]


def sync(folder, variables):
    """Installs what a uv.lock has locked."""
    uv = shutil.which("uv")
    if not os.path.exists("pyproject.toml"):
        raise Failure("uv.lock: its pyproject.toml is not in the same folder")
    if not uv:
        tool = os.path.join(folder, "tool")
        run(sys.executable, ISOLATED, "-m", "venv", tool, variables=variables)
        run(os.path.join(tool, "bin", "python"), *PIP, "install", "uv", variables=variables)
        uv = os.path.join(tool, "bin", "uv")
    own = {**variables, "UV_PROJECT_ENVIRONMENT": ENV, "UV_LINK_MODE": "copy", "UV_PYTHON_DOWNLOADS": "never", "UV_NO_PROGRESS": "1"}
    run(uv, "sync", "--frozen", "--no-dev", "--no-install-project", "--inexact", variables=own)


def conda(path, variables):
    tool = next((t for t in map(shutil.which, ("micromamba", "mamba", "conda")) if t), None)
    if not tool:
        raise Failure(f"{path} needs micromamba, mamba or conda, and none is in PATH: add it to the image, or use a requirements.txt")
    os.makedirs(os.path.join(ENV, "conda-meta"), exist_ok=True)  # they refuse a folder that is there and has none
    with open(os.path.join(ENV, "conda-meta", "history"), "a", encoding="utf-8"):
        pass
    run(tool, *(["install", "--yes"] if tool.endswith("micromamba") else ["env", "update"]), "--prefix", ENV, "--file", path, variables=variables)
    write("freeze.txt", run(tool, "list", "--prefix", ENV, variables=variables, quiet=True))


def write(name, text):
    with open(os.path.join(ENV, name), "w", encoding="utf-8") as f:
        f.write(text)


def venv(path, folder, variables):
    python = os.path.join(ENV, "bin", "python3")
    try:
        run(sys.executable, ISOLATED, "-m", "venv", ENV, variables=variables)
    except Failure as e:
        if "ensurepip" in e.said:
            raise Failure("python3 cannot make virtual environments here: on Debian and Ubuntu, apt-get install python3-venv") from e
        raise
    if path == "uv.lock":
        sync(folder, variables)
    else:
        wanted = path
        if path == "pyproject.toml":
            wanted = os.path.join(folder, "wanted.txt")
            with open(wanted, "w", encoding="utf-8") as f:
                f.writelines(f"{line}\n" for line in dependencies(path, python, variables))
        run(python, *PIP, "install", "--no-compile", "--progress-bar", "off", "--requirement", wanted, variables=variables)
    write("freeze.txt", run(python, *PIP, "freeze", "--all", variables=variables, quiet=True))


def compile_all(variables):
    """All files get one time where they are used, so that a .pyc file that depends on a time would be made again by each command: those that are there
    are made anew, but for those of pip, which commands do not use. Some packages have files that do not compile; they are left as they are."""
    python = os.path.join(ENV, "bin", "python3")
    if os.path.exists(python):
        for cache in glob.glob(os.path.join(ENV, "lib", "python3*", "site-packages", "pip", "**", "__pycache__"), recursive=True):
            shutil.rmtree(cache)
        cores = str(min(4, len(os.sched_getaffinity(0))))
        subprocess.run([python, ISOLATED, "-m", "compileall", "-f", "-qq", "-j", cores, "--invalidation-mode", "unchecked-hash", "-x",
                        "/site-packages/pip/", os.path.join(ENV, "lib")], env=variables, check=False)


def make(path, index):
    # beside what is made, on disk: /tmp may be memory, and packages may have gigabytes
    with tempfile.TemporaryDirectory(dir=ENV, prefix=".setup-") as folder:
        variables = variables_for(index, folder)
        if path.endswith((".yml", ".yaml")):
            conda(path, variables)
        else:
            venv(path, folder, variables)
        compile_all(variables)


def main(arguments):
    stage = re.sub("-setup$", "", os.environ.get("PL_STAGE", ""))
    try:
        os.makedirs(ENV, exist_ok=True)
        make(arguments[0], arguments[1] if len(arguments) > 1 else "")
    except (Failure, OSError, ValueError) as e:
        sys.exit(f"error: setup of {stage} failed: {e}")  # the line that the job's reason quotes


if __name__ == "__main__":
    main(sys.argv[1:])
