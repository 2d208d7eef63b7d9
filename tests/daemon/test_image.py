"""`image` on one machine: commands in the files of an image, which podman gets. podman is a script here, so that its failures can be had; the group image
has the real one."""
import json
import os
import pathlib

import image_root
import pytest
from conftest import SANDBOX, wait_until
from test_try import Desk

pytestmark = pytest.mark.skipif(SANDBOX != "bwrap", reason="an image needs namespaces")

DIGEST = "docker.io/library/tools@sha256:" + "ab" * 32
PODMAN = r"""#!/bin/sh
echo "$*" >>"$PODMAN_FOLDER/calls"
cd "$PODMAN_FOLDER" || exit 9
name() { echo "${1#docker.io/library/}"; }
case "$1 $2" in
"--version ") echo "podman version 4.3.1" ;;
"image exists") test -e "here/$(name "$3")" ;;
"image inspect") cat "here/$(name "$3")" ;;
"image mount") echo "$PODMAN_FOLDER/root" ;;
"pull -q")
    if [ -e closed ]; then echo waits >waiting; while [ -e closed ]; do read -r x <gate; done; fi
    if [ -e broken ]; then cat broken >&2; exit 125; fi
    mkdir -p here && cp "registry/$(name "$3")" here/ 2>/dev/null || { echo "Error: initializing source docker://$3: reading manifest: manifest unknown" >&2; exit 125; } ;;
*) echo "Error: unknown command $*" >&2; exit 125 ;;
esac
"""
SCRIPT = 'cat /etc/of-the-image; echo "$GREETING"; echo "$PATH"; ls /usr/bin; cat "$PL_INPUT_IN" >"$PL_OUT/out"; ! echo x >/etc/new'


class Podman:
    """A podman, and a registry with the image `tools:1`."""

    def __init__(self, folder, *programs):
        self.folder = folder
        self.program = folder / "podman"
        self.program.write_text(PODMAN)
        self.program.chmod(0o755)
        (folder / "registry").mkdir()
        os.mkfifo(folder / "gate")
        self.root = image_root.make(folder / "root", "cat", "ls", *programs)
        self.add("tools:1")

    def add(self, name, arch=None, env=("PATH=/usr/bin:/opt/tools", "GREETING=hello", "HOME=/nowhere", "LANG=C")):
        arch = arch or {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
        (self.folder / "registry" / name).write_text(json.dumps([{"Id": "12" * 32, "RepoDigests": [DIGEST], "Architecture": arch, "Config": {"Env": list(env)}}]))

    def calls(self, beginning=""):
        path = self.folder / "calls"
        return [line for line in (path.read_text().splitlines() if path.exists() else []) if line.startswith(beginning)]

    def close(self):
        (self.folder / "closed").touch()

    def waits(self):
        return (self.folder / "waiting").exists()

    def open(self):
        (self.folder / "closed").unlink(missing_ok=True)
        fd = os.open(self.folder / "gate", os.O_RDWR | os.O_NONBLOCK)
        os.write(fd, b"\n" * 64)
        return fd


@pytest.fixture
def podman(tmp_path, monkeypatch):
    folder = tmp_path / "podman"
    folder.mkdir()
    monkeypatch.setenv("PODMAN_FOLDER", str(folder))
    return Podman(folder)


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


@pytest.fixture
def daemon(make_daemon, podman):
    daemon = make_daemon("--podman", str(podman.program)).start()
    daemon.ctl("create", "repo", "in")
    return daemon


def stage(script=SCRIPT, **more):
    return {"name": "s", "input": {"repo": "in", "glob": "/*"}, "image": "tools:1", "output": {"prefix": "${in.stem}/"},
            **({} if "run" in more else {"script": script}), **more}


def create(daemon, desk, *stages, **more):
    return daemon.ctl("create", "pipeline", "-f", desk.spec(*stages), **more)


def reason(daemon, run, name="s"):
    return daemon.default.wait(run)["job"][name]["reason"]


# --- with podman ---


def test_commands_see_the_files_and_variables_of_the_image(daemon, desk, podman):
    create(daemon, desk, stage())
    run = daemon.default.run("in", {"a": "1"})
    assert daemon.default.logs("s", run=run["id"]).splitlines()[:-1] == [
        "a file of the image", "hello", "/pl/bin:/usr/bin:/opt/tools", *sorted(["cat", "dash", "ls", "sh"])]  # the last: /etc cannot be written
    assert daemon.default.read("s", "a/out") == b"1"


def test_its_digest_is_on_record(daemon, desk, podman):
    create(daemon, desk, stage())
    run = daemon.default.run("in", {"a": "1"})
    why = daemon.ctl("why", "s@master:/a/out", "--json")
    assert why.json["image_id"] == DIGEST, why.out
    assert DIGEST in daemon.ctl("inspect", "job", "s", "--json").out and run["job"]["s"]["warnings"] == []


def test_a_worker_that_outlives_its_daemon_is_in_the_same_image(daemon, desk, podman):
    create(daemon, desk, stage("i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done", workers=1))
    commit = daemon.default.commit("in", {"a": "1", "b": "2"})["run"]
    daemon.wait_job(commit, "s", lambda job: job["state"] == "running", "the job")
    daemon.process.kill()
    daemon.process.wait()
    daemon.start()
    run = daemon.default.wait(commit)
    assert run["state"] == "success" and {a["image_id"] for a in daemon.default.datums("s", run["id"])} == {DIGEST}


def test_it_is_fetched_once_for_all_workers(daemon, desk, podman):
    podman.close()
    create(daemon, desk, stage(workers=8), {**stage("cat /etc/of-the-image", workers=8), "name": "t"})  # another request for the same image
    commit = daemon.default.commit("in", {f"f{i}": str(i) for i in range(40)})["run"]
    wait_until(podman.waits, "the fetch")
    fd = podman.open()
    run = daemon.default.wait(commit, timeout=90)
    os.close(fd)
    assert {j["state"] for j in run["job"].values()} == {"success"} and len(podman.calls("pull")) == 1
    assert podman.calls("pull") == ["pull -q docker.io/library/tools:1"]


def test_a_job_says_that_its_image_is_fetched_and_can_be_stopped(daemon, desk, podman):
    podman.close()
    create(daemon, desk, stage())
    commit = daemon.default.commit("in", {"a": "1"})["run"]
    wait_until(podman.waits, "the fetch")
    wait_until(lambda: "getting image tools:1" in daemon.ctl("list", "job").out, "the words")
    daemon.ctl("stop", "run", commit)
    assert daemon.default.wait(commit, timeout=60)["job"]["s"]["state"] == "killed"
    wait_until(lambda: not processes(podman), "the end of the fetch")


def processes(podman):
    """Processes of this podman."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            words = (entry / "cmdline").read_bytes().decode(errors="replace").split("\0") if entry.name.isdigit() else []
            if str(podman.program) in words and "pull" in words:
                found.append(int(entry.name))
        except OSError:
            pass
    return found


def test_a_daemon_that_stops_or_is_killed_while_it_is_fetched(daemon, desk, podman):
    podman.close()
    create(daemon, desk, stage())
    commit = daemon.default.commit("in", {"a": "1"})["run"]
    wait_until(podman.waits, "the fetch")
    assert daemon.stop() == 0
    (podman.folder / "waiting").unlink()
    daemon.start()
    wait_until(podman.waits, "the next fetch")
    daemon.process.kill()
    daemon.process.wait()
    fd = podman.open()
    daemon.start()
    assert daemon.default.wait(commit, timeout=90)["job"]["s"]["state"] == "success"
    os.close(fd)


@pytest.mark.parametrize("image, said", [
    ("nosuch:1", "image nosuch:1 cannot be fetched: initializing source docker://docker.io/library/nosuch:1: reading manifest: manifest unknown"),
    ("other:1", "image other:1 is for s390x, and this machine is "),
])
def test_an_image_that_will_never_run_ends_the_job_at_once(daemon, desk, podman, image, said):
    podman.add("other:1", arch="s390x")
    create(daemon, desk, stage(image=image))
    run = daemon.default.run("in", {"a": "1"}, state="failure")
    assert said in reason(daemon, run["id"]), reason(daemon, run["id"])
    assert len(podman.calls("pull")) == 1


def test_a_registry_that_is_away_is_asked_again(daemon, desk, podman):
    (podman.folder / "broken").write_text("Error: initializing source: dial tcp: i/o timeout\n")
    create(daemon, desk, stage())
    commit = daemon.default.commit("in", {"a": "1"})["run"]
    wait_until(lambda: "cannot be fetched: initializing source: dial tcp: i/o timeout" in daemon.ctl("list", "job").out, "the reason")
    (podman.folder / "broken").unlink()
    assert daemon.default.wait(commit, timeout=90)["job"]["s"]["state"] == "success"


@pytest.mark.parametrize("more, said", [
    ({"run": ["python3", "-c", "1"]}, 'there is no program "python3" in image tools:1 in PATH (/usr/bin:/opt/tools)'),
    ({"run": ["/usr/bin/python3"]}, "/usr/bin/python3 does not exist in image tools:1"),
    ({"script": "#!/usr/bin/env python3\n"}, "/usr/bin/env does not exist in image tools:1"),
])
def test_a_program_that_the_image_lacks(daemon, desk, podman, more, said):
    create(daemon, desk, stage(**more))
    run = daemon.default.run("in", {"a": "1"}, state="failure")
    assert said in reason(daemon, run["id"]), reason(daemon, run["id"])


def test_a_script_in_an_image_without_a_shell(daemon, desk, podman):
    (podman.root / "usr/bin/sh").unlink()
    create(daemon, desk, stage())
    run = daemon.default.run("in", {"a": "1"}, state="failure")
    assert "/bin/sh does not exist in image tools:1" in reason(daemon, run["id"])


def test_links_of_an_image_lead_into_the_image(daemon, desk, podman):
    """Also where the programs are looked for: an image cannot show what this machine has."""
    (podman.root / "opt").mkdir()
    (podman.root / "opt/sh").symlink_to("/usr/bin/dash")
    (podman.root / "opt/out").symlink_to("/../../../../../../etc/shadow")
    create(daemon, desk, stage(run=["/opt/sh", "-c", 'cat /opt/out 2>/dev/null; echo "done" >"$PL_OUT/out"']))
    run = daemon.default.run("in", {"a": "1"})
    assert daemon.default.logs("s", run=run["id"]) == ""


@pytest.mark.parametrize("name", ["etc", "var", "opt"])
def test_a_folder_that_is_a_link_leads_into_the_image(daemon, desk, podman, tmp_path, name):
    """Else the command would see a folder of this machine."""
    (tmp_path / "private").mkdir()
    (tmp_path / "private/key").write_text("secret")
    if (podman.root / name).is_dir():
        (podman.root / name).rename(podman.root / f"old-{name}")
    (podman.root / name).symlink_to(tmp_path / "private")
    create(daemon, desk, stage(f'ls /{name} 2>/dev/null | cat; ! cat /{name}/key 2>/dev/null; echo done'))
    run = daemon.default.run("in", {"a": "1"})
    said = daemon.default.logs("s", run=run["id"]).splitlines()
    assert said[-1] == "done" and "key" not in said and "secret" not in said, said


def test_secrets_come_before_variables_of_the_image_and_in_its_folders(daemon, desk, podman):
    podman.add("tools:2", env=("PATH=/usr/bin", "TOKEN=of the image", "PL_STAGE=another", "VIRTUAL_ENV=/x"))
    (podman.root / "opt/deep/beside").mkdir(parents=True)
    (podman.root / "opt/deep/beside/file").write_text("beside\n")
    (podman.root / "srv").symlink_to("/usr/bin")
    daemon.ctl("create", "secret", "s", "--file", f"token={daemon.write('token', 'hush')}")
    mounts = [{"name": "s", "mount": path} for path in ("/opt/deep/secret", "/srv/secret", "/opt/new")]
    script = 'test "$TOKEN" = hush; echo "$PL_STAGE"; for f in /opt/deep/secret /srv/secret /opt/new; do test "$(cat $f/token)" = hush; done; cat /opt/deep/beside/file'
    create(daemon, desk, stage(script, image="tools:2", secrets=[{"name": "s", "key": "token", "env": "TOKEN"}, *mounts]))
    run = daemon.default.run("in", {"a": "1"})
    assert daemon.default.logs("s", run=run["id"]) == "s\nbeside\n"
    assert not (podman.root / "usr/bin/secret").exists() and not os.path.exists("/usr/bin/secret")


def test_a_long_script(daemon, desk, podman):
    create(daemon, desk, stage("# " + 300_000 * "x" + "\necho done"))
    run = daemon.default.run("in", {"a": "1"})
    assert daemon.default.logs("s", run=run["id"]) == "done\n"


@pytest.mark.parametrize("name", ["--help", "dir:/etc", "containers-storage:[vfs@/tmp/x]y", "a b", "/x", "docker://x", "x" * 513])
def test_what_is_no_name_of_an_image_is_refused(daemon, desk, podman, name):
    done = create(daemon, desk, stage(image=name), ok=False)
    assert done.code == 5 and "is not the name of an image: use [REGISTRY/]NAME[:TAG][@DIGEST], at most 512 bytes" in done.err, done.err
    assert podman.calls() == []


def test_podman_that_goes_is_no_reason_for_the_files_of_the_machine(daemon, desk, podman):
    create(daemon, desk, stage())
    podman.program.rename(podman.program.with_name("gone"))
    commit = daemon.default.commit("in", {"a": "1"})["run"]
    wait_until(lambda: "No such file or directory" in daemon.ctl("list", "job").out, "the reason")
    podman.program.with_name("gone").rename(podman.program)
    assert daemon.default.wait(commit, timeout=90)["job"]["s"]["state"] == "success"


def test_a_stage_without_an_image_beside_one_that_has_one(daemon, desk, podman):
    create(daemon, desk, stage(), {"name": "t", "input": {"repo": "in", "glob": "/*"}, "script": "test ! -e /etc/of-the-image; echo here"})
    run = daemon.default.run("in", {"a": "1"})
    assert daemon.default.logs("t", run=run["id"]) == "here\n"


def test_a_try_runs_in_the_image(daemon, desk, podman):
    desk.files(data={"a": "1"})
    done = desk.ctl("--data", daemon.dir, "try", "-f", desk.spec(stage()), "s", "--input", "in=data", "-o", "out")
    assert "a file of the image\nhello\n" in done.stdout and desk.tree("out") == {"a/out": "1"}
    # --- without a daemon
    (desk.top / "config.json").write_text(json.dumps({"podman": str(podman.program)}))
    done = desk.ctl("try", "-f", desk.spec(stage()), "s", "--input", "in=data", "--config", "config.json")
    assert "a file of the image\nhello\n" in done.stdout
    # --- without podman
    (desk.top / "config.json").write_text(json.dumps({"podman": ""}))
    done = desk.ctl("try", "-f", desk.spec(stage("true")), "s", "--input", "in=data", "--config", "config.json")
    assert "stage s: image tools:1 is not used, the command runs with this machine's files: podman is not on this machine (warning)" in done.stderr


# --- without podman ---


BOTH_WAYS = ('image tools:1 needs podman, which is not on this machine: apt-get install podman; or "image_required": false, in the stage or by pipelinectl '
             "update defaults, runs its commands with this machine's files")
NOT_USED = "image tools:1 is not used: commands run with this machine's files; the image only counts as code"


def test_without_podman_a_new_stage_is_refused_with_both_ways(make_daemon, desk):
    daemon = make_daemon("--podman", "/nowhere/podman").start()
    daemon.ctl("create", "repo", "in")
    done = create(daemon, desk, stage("echo here"), ok=False)
    assert done.code != 0 and BOTH_WAYS in done.err, done.err
    assert "stages[0].image" in done.err or "stage s" in done.err
    # --- one way
    create(daemon, desk, stage("echo here", image_required=False))
    run = daemon.default.run("in", {"a": "1"})
    assert daemon.default.logs("s", run=run["id"]) == "here\n" and run["job"]["s"]["warnings"] == [NOT_USED]


def test_defaults_of_a_project_allow_it(make_daemon, desk):
    daemon = make_daemon().start()
    daemon.ctl("create", "repo", "in")
    daemon.ctl("update", "defaults", "--project", "default", "-f", "-", stdin=b'{"image_required": false}')
    create(daemon, desk, stage("echo here"))
    # --- also in Pachyderm's form
    (desk.top / "p.json").write_text(json.dumps({"pipeline": {"name": "pach"}, "transform": {"image": "tools:1", "cmd": ["true"]}, "input": {"pfs": {"repo": "in", "glob": "/*"}}}))
    daemon.ctl("create", "pipeline", "-f", desk.top / "p.json")


def test_a_stage_that_was_there_goes_on_with_a_warning(make_daemon, desk, podman):
    daemon = make_daemon().start("--podman", str(podman.program))
    daemon.ctl("create", "repo", "in")
    create(daemon, desk, stage("echo here >$PL_OUT/f"))
    daemon.default.run("in", {"a": "1"})
    daemon.stop()
    daemon.start("--podman", "/nowhere/podman")
    run = daemon.default.run("in", {"b": "1"})
    assert run["job"]["s"]["warnings"] == [NOT_USED]
    done = daemon.ctl("update", "pipeline", "-f", desk.spec(stage("echo again")), "--yes")
    assert "stage s: image tools:1 needs podman, which is not on this machine: apt-get install podman; until then its commands run with this machine's files" in done.err


def test_without_a_sandbox_an_image_is_refused(make_daemon, desk, podman):
    daemon = make_daemon("--podman", str(podman.program), sandbox="none").start()
    daemon.ctl("create", "repo", "in")
    done = create(daemon, desk, stage("echo here"), ok=False)
    assert "image tools:1 needs a sandbox: start the daemon without --sandbox none; or \"image_required\": false" in done.err, done.err


def test_a_daemon_that_uses_no_images_says_so(make_daemon, desk):
    daemon = make_daemon("--podman", "").start()
    daemon.ctl("create", "repo", "in")
    done = create(daemon, desk, stage("echo here"), ok=False)
    assert 'image tools:1 needs podman, which this daemon does not use: start it without --podman ""; or "image_required": false' in done.err, done.err
