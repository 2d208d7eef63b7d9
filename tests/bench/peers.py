"""The tools beside which we are measured. Each: save(source, repo) writes the folder's state into its repository, restore(repo, into)
gets the last one out, both -> Timed; repositories are made outside of the measurement."""
import os
import shutil

import measure


class Peer:
    command = ""
    versions = True  # a second save stores what is new beside the first
    large = True     # makes sense of one large file

    def __init__(self, scratch):
        self.scratch = scratch

    def present(self):
        return shutil.which(self.command) is not None

    def create(self, repo):
        repo.mkdir(parents=True)


class Cp(Peer):
    """cp -a, and sync(2): what the disk can do."""
    name = "cp -a"
    command = "cp"
    versions = False

    def save(self, source, repo):
        return measure.run(["cp", "-a", f"{source}/.", repo], then_sync=True)

    def restore(self, repo, into):
        into.mkdir(parents=True)
        return measure.run(["cp", "-a", f"{repo}/.", into])


class Restic(Peer):
    name = command = "restic"

    def env(self, repo):
        return {"RESTIC_PASSWORD": "bench", "RESTIC_REPOSITORY": str(repo), "RESTIC_CACHE_DIR": f"{self.scratch}/restic-cache"}

    def create(self, repo):
        repo.parent.mkdir(parents=True, exist_ok=True)
        measure.run(["restic", "init", "-q"], self.env(repo))

    def save(self, source, repo):
        return measure.run(["restic", "backup", "-q", "."], self.env(repo), cwd=source)

    def restore(self, repo, into):
        return measure.run(["restic", "restore", "-q", "latest", "--target", into], self.env(repo))


class Borg(Peer):
    name = command = "borg"

    def env(self):
        return {"BORG_BASE_DIR": f"{self.scratch}/borg", "BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK": "yes",
                "BORG_RELOCATED_REPO_ACCESS_IS_OK": "yes"}

    def create(self, repo):
        repo.parent.mkdir(parents=True, exist_ok=True)
        measure.run(["borg", "init", "-e", "none", repo], self.env())

    def save(self, source, repo):
        return measure.run(["borg", "create", f"{repo}::" + "{now:%s.%f}", "."], self.env(), cwd=source)

    def restore(self, repo, into):
        into.mkdir(parents=True)
        last = measure.run(["borg", "list", "--short", "--last", "1", repo], self.env()).out.strip()
        return measure.run(["borg", "extract", f"{repo}::{last}"], self.env(), cwd=into)


class Git(Peer):
    name = command = "git"
    large = False

    def env(self, repo):
        who = {f"GIT_{role}_{what}": "bench@localhost" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        return {"GIT_DIR": str(repo), "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1", **who}

    def create(self, repo):
        measure.run(["git", "init", "-q", repo], self.env(repo))
        measure.run(["git", "config", "gc.auto", "0"], self.env(repo))

    def save(self, source, repo):
        return measure.run(["sh", "-c", "git add -A . && git commit -q --allow-empty -m bench"],
                           {**self.env(repo), "GIT_WORK_TREE": str(source)}, cwd=source)

    def restore(self, repo, into):
        into.mkdir(parents=True)
        env = {**self.env(repo), "GIT_WORK_TREE": str(into), "GIT_INDEX_FILE": f"{repo}/restore-index"}
        return measure.run(["git", "checkout", "-q", "-f", "HEAD", "--", "."], env, cwd=into)


class Rclone(Peer):
    name = command = "rclone"
    versions = False

    def save(self, source, repo):
        return self.sync(source, repo)

    def restore(self, repo, into):
        return self.sync(repo, into)

    def sync(self, source, target):
        many = str(4 * os.cpu_count())
        return measure.run(["rclone", "sync", "-q", "--config", "/dev/null", "--transfers", many, "--checkers", many, source, target])


EVERY = (Cp, Restic, Borg, Git, Rclone)


def present(scratch):
    """-> peers that are installed, names of those that are not."""
    peers = [kind(scratch) for kind in EVERY]
    return [peer for peer in peers if peer.present()], [peer.command for peer in peers if not peer.present()]
