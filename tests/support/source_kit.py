"""What tests of sources share: a repository to push from, small specs, and the verbs of a source."""

import json
import os
import subprocess


class Repository:
    """A bare repository and a clone of it to push from."""

    def __init__(self, folder, branch="main"):
        self.bare = folder / "team.git"
        self.clone = folder / "clone"
        self.branch = branch
        self.env = {**os.environ, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_SYSTEM": "/dev/null", "HOME": str(folder)}
        for who in ("AUTHOR", "COMMITTER"):
            self.env |= {f"GIT_{who}_NAME": "Ada", f"GIT_{who}_EMAIL": "ada@example.org"}
        subprocess.run(["git", "init", "-q", "--bare", "-b", branch, self.bare], env=self.env, check=True)
        subprocess.run(["git", "init", "-q", "-b", branch, self.clone], env=self.env, check=True)
        self("remote", "add", "origin", self.bare)

    def __call__(self, *words, **more):
        done = subprocess.run(["git", *map(str, words)], cwd=self.clone, env=self.env, check=True, capture_output=True, **more)
        return done.stdout.decode().strip()

    def write(self, path, content):
        full = self.clone / path
        full.parent.mkdir(parents=True, exist_ok=True)
        if isinstance(content, (dict, list)):
            content = json.dumps(content, indent=1)
        full.write_bytes(content if isinstance(content, bytes) else content.encode())
        return self

    def push(self, message="change", *options):
        """Commits everything and pushes it; the commit's id."""
        self("add", "-A")
        self("commit", "-q", "--allow-empty", "-m", message)
        self("push", "-q", *options, "origin", f"HEAD:{self.branch}")
        return self("rev-parse", "HEAD")


def spec(name, *stages, **more):
    return {"pipeline": name, "repos": {"in": {}}, "stages": list(stages), **more}


def copy(name="copy", repo="in", **more):
    return {"name": name, "input": {"repo": repo, "name": "x", "glob": "/"}, "script": "cat $x/* >$PL_OUT/all", **more}


def source_of(daemon, name="team"):
    return daemon.get(f"/sources/{name}")


def follow(daemon, git, name="team", *options, ok=True):
    """Creates a source of a Repository, or of an address."""
    address = git.bare if isinstance(git, Repository) else git
    return daemon.ctl("create", "source", name, "--git", address, "--interval", "1h", *options, ok=ok)


def sync(daemon, name="team", ok=True):
    return daemon.ctl("sync", "source", name, ok=ok)


def pipelines(daemon):
    return {p["name"]: p for p in daemon.get("/pipelines")["pipelines"]}
