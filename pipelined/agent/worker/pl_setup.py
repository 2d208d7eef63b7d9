"""Makes the environment of a stage from a file with requirements; uses only the standard library.

    python3 -B pl_setup.py FILE [INDEX]

FILE is requirements.txt (or any .txt), pyproject.toml, uv.lock or environment.yml, in the working directory. The environment is made at /pl/env, where the stage
finds it too, so that absolute paths in its scripts are right. $SETUP_SECRET, USER:PASSWORD or a token, is for INDEX. What pip downloads is kept in $PL_CHECKPOINT:
an installation that was stopped goes on with it."""
import collections
import os
import re
import shutil
import subprocess
import sys
import tempfile
import urllib.parse

ENV = os.environ.get("PL_SETUP_ENV", "/pl/env")
ERROR = re.compile(r"\s*(ERROR|error|FATAL|fatal)\b:?\s*")
PIP = ["-I", "-m", "pip",  # -I: the working directory has the user's files, not modules of the installer
       "--disable-pip-version-check", "--no-input"]


class Failure(Exception):
    """The environment cannot be made; the text says why."""


def run(*command, variables):
    """Runs a program; its output is passed on line by line. Failure with the line that says why."""
    last = collections.deque(maxlen=200)
    try:
        with subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace") as p:
            for line in p.stdout:
                print(line, end="", flush=True)
                last.append(line.rstrip())
    except OSError as e:
        raise Failure(f"{command[0]}: {e.strerror}") from e
    if p.returncode:
        errors = [line for line in last if ERROR.match(line)]
        how = f"was killed by signal {-p.returncode}" if p.returncode < 0 else f"ended with {p.returncode}"
        raise Failure(ERROR.sub("", errors[-1]) if errors else f"{os.path.basename(command[0])} {how}: {last[-1] if last else 'it said nothing'}")


def netrc(index, secret, folder):
    """A file with the secret, so that neither a command line nor a log has it."""
    host = urllib.parse.urlsplit(index).hostname
    user, colon, password = secret.partition(":")
    path = os.path.join(folder, "netrc")
    with open(os.open(path, os.O_WRONLY | os.O_CREAT, 0o600), "w", encoding="utf-8") as f:
        f.write(f"machine {host}\nlogin {user if colon else '__token__'}\npassword {password if colon else secret}\n")
    return path


def variables_for(index, folder):
    v = {k: x for k, x in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "SETUP_SECRET", "VIRTUAL_ENV")}
    kept = os.environ.get("PL_CHECKPOINT") or folder
    v.update(PIP_CACHE_DIR=os.path.join(kept, "pip"), UV_CACHE_DIR=os.path.join(kept, "uv"), TMPDIR=folder, MAMBA_ROOT_PREFIX=os.path.join(kept, "mamba"))
    if index:
        v.update(PIP_INDEX_URL=index, UV_INDEX_URL=index)
    if index and os.environ.get("SETUP_SECRET"):
        v["NETRC"] = netrc(index, os.environ["SETUP_SECRET"], folder)
    return v


def dependencies(path):
    """`dependencies` of a pyproject.toml."""
    try:
        import tomllib
    except ImportError:  # before Python 3.11: pip brings the same module
        from pip._vendor import tomli as tomllib
    try:
        with open(path, "rb") as f:
            project = tomllib.load(f).get("project", {})
    except tomllib.TOMLDecodeError as e:
        raise Failure(f"{path}: {e}") from e
    if "dependencies" in project.get("dynamic", []):
        raise Failure(f"{path}: the dependencies are dynamic, so they are not known without a build: list them in a requirements.txt")
    return project.get("dependencies", [])


def locked(python, folder, variables):
    """Exports a uv.lock as requirements with their hashes."""
    uv = shutil.which("uv")
    if not os.path.exists("pyproject.toml"):
        raise Failure("uv.lock: its pyproject.toml is not in the same folder")
    if not uv:
        tool = os.path.join(folder, "tool")
        run(python, "-I", "-m", "venv", tool, variables=variables)
        run(os.path.join(tool, "bin", "python"), *PIP, "install", "uv", variables=variables)
        uv = os.path.join(tool, "bin", "uv")
    out = os.path.join(folder, "locked.txt")
    run(uv, "export", "--quiet", "--frozen", "--no-dev", "--no-emit-project", "--format", "requirements-txt", "--output-file", out, variables=variables)
    return out


def conda(path, variables):
    tool = next((t for t in map(shutil.which, ("micromamba", "mamba", "conda")) if t), None)
    if not tool:
        raise Failure(f"{path} needs micromamba, mamba or conda, and none is in PATH: add it to the image, or use a requirements.txt")
    run(tool, *(["create", "--yes"] if tool.endswith("micromamba") else ["env", "create"]), "--prefix", ENV, "--file", path, variables=variables)


def make(path, index, folder):
    variables = variables_for(index, folder)
    python = os.path.join(ENV, "bin", "python3")
    if path.endswith((".yml", ".yaml")):
        conda(path, variables)
    else:
        run(sys.executable, "-I", "-m", "venv", ENV, variables=variables)
        wanted = path
        if path == "uv.lock":
            wanted = locked(sys.executable, folder, variables)
        elif path == "pyproject.toml":
            wanted = os.path.join(folder, "wanted.txt")
            with open(wanted, "w", encoding="utf-8") as f:
                f.writelines(f"{line}\n" for line in dependencies(path))
        run(python, *PIP, "install", "--no-compile", "--progress-bar", "off", "--requirement", wanted, variables=variables)
        with open(os.path.join(ENV, "freeze.txt"), "w", encoding="utf-8") as f:
            subprocess.run([python, *PIP, "freeze", "--all"], env=variables, stdout=f, check=False)
    if os.path.exists(python):
        # All files get one time where they are used, so that a .pyc file that depends on a time would be made again by each command. Some packages
        # have files that do not compile; they are left as they are.
        subprocess.run([python, "-I", "-m", "compileall", "-qq", "-j", "0", "--invalidation-mode", "unchecked-hash", os.path.join(ENV, "lib")], env=variables, check=False)


def main(arguments):
    path, index = arguments[0], arguments[1] if len(arguments) > 1 else ""
    stage = re.sub("-setup$", "", os.environ.get("PL_STAGE", ""))
    try:
        with tempfile.TemporaryDirectory() as folder:
            make(path, index, folder)
    except Failure as e:
        sys.exit(f"error: setup of {stage} failed: {e}")  # the line that the job's reason quotes


if __name__ == "__main__":
    main(sys.argv[1:])
