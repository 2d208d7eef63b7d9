"""pipelinectl doctor: what it says of this machine and its daemon."""
import http.server
import json
import os
import shutil
import subprocess
import threading

import pytest
from conftest import BIN, SANDBOX


def doctor(*words, code=0, env=None):
    """-> {check: (grade, text, remedy)}; the last line of a check that has several."""
    done = subprocess.run([os.path.join(BIN, "pipelinectl"), "--json", *map(str, words), "doctor"], capture_output=True, text=True, check=False,
                          env={**os.environ, **(env or {})})
    assert done.returncode == code, done.stdout + done.stderr
    said = json.loads(done.stdout)
    assert said["ok"] + said["warn"] + said["fail"] == len(said["checks"]) and (said["fail"] > 0) == (code == 5), said
    return {line["check"]: (line["grade"], line["text"], line.get("remedy", "")) for line in said["checks"]}


def test_all_is_well_and_words_are_a_persons(daemon):
    found = doctor("--data", daemon.dir)
    assert {check: grade for check, (grade, _, _) in found.items() if check not in ("sandbox", "disk", "limits")} == dict.fromkeys(
        ["programs", "images", "folder", "daemon", "store", "gpus"], "ok"), found
    assert found["sandbox"][0] == ("ok" if SANDBOX == "bwrap" else "warn"), found
    assert daemon.url in found["daemon"][1] and "executor local" in found["daemon"][1], found
    assert found["store"][1] == f"file://{daemon.dir}/store", found
    text = daemon.ctl("doctor").out
    assert f"ok    folder         {daemon.dir}: only its owner can read token, keys and secrets\n" in text and text.endswith(" 0 FAIL\n"), text


def test_what_others_may_read_is_told(daemon):
    for name in ("token", "master.key"):
        path = os.path.join(daemon.dir, name)
        os.chmod(path, 0o640)
        grade, text, remedy = doctor("--data", daemon.dir, code=5)["folder"]
        assert (grade, text) == ("FAIL", f"{path} can be accessed by other users (mode 640)") and remedy.startswith(f"chmod go= {path}; "), (text, remedy)
        os.chmod(path, 0o600)
    assert doctor("--data", daemon.dir)["folder"][0] == "ok"


def test_no_daemon_and_no_folder(tmp_path):
    found = doctor("--data", tmp_path / "none", code=5)
    assert found["folder"] == ("ok", f"{tmp_path}/none does not exist yet: a daemon creates it", "") and found["programs"][0] == "ok", found
    grade, text, remedy = found["daemon"]
    assert grade == "FAIL" and "no daemon runs on folder" in text and remedy and "store" not in found, found


def test_no_bubblewrap(tmp_path):
    grade, text, remedy = doctor("--data", tmp_path / "none", code=5, env={"PATH": str(tmp_path)})["sandbox"]
    assert grade == "warn" and text and "install bubblewrap" in remedy, (grade, text, remedy)


def test_a_program_that_is_missing(tmp_path):
    for name in os.listdir(BIN):
        if name.startswith(("pipeline", "pl-")) and name != "pl-next":
            os.symlink(os.path.realpath(os.path.join(BIN, name)), tmp_path / name)
    shutil.copy(os.path.join(BIN, "pipelinectl"), tmp_path / "ctl")  # a link would lead to its own folder
    done = subprocess.run([tmp_path / "ctl", "--json", "--data", tmp_path / "none", "doctor"], capture_output=True, text=True, check=False)
    line = json.loads(done.stdout)["checks"][0]
    assert (line["grade"], line["check"]) == ("FAIL", "programs") and "pl-next" in line["text"], line


def test_keys_that_a_recovery_could_not_bring_back(make_daemon):
    d = make_daemon().start()
    d.post("/users", {"name": "bob"})
    key = d.post("/s3-keys", {"user": "bob"})["access_key"]
    assert "s3 keys" not in doctor("--data", d.dir)
    d.stop()
    for name in ("pipelined.db", "pipelined.db-wal", "pipelined.db-shm"):
        if os.path.exists(os.path.join(d.dir, name)):
            os.unlink(os.path.join(d.dir, name))
    d.start()
    grade, text, remedy = doctor("--data", d.dir)["s3 keys"]
    assert grade == "warn" and text.endswith(f": {key} of bob") and "create s3-key" in remedy, (text, remedy)


@pytest.fixture
def elsewhere():
    """A daemon that says what the test wants it to: elsewhere.status; its address."""
    class Answers(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
            known = {"/api/v1/status": self.server.status, "/api/v1/gpus": self.server.gpus, "/api/v1/s3-keys": {"s3_keys": []}}
            body = json.dumps(known[self.path.split("?")[0]]).encode()
            self.send_response(200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        server.gpus = {"gpus": [], "nodes": []}
        server.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


GIB = 1 << 30


def place(state, free):
    return {"path": "/srv/p", "state": state, "free_bytes": free, "total_bytes": 100 * GIB, "full_bytes": 2 * GIB}


@pytest.mark.parametrize("change, check, grade, text, remedy", [
    ({"version": "0.0.7"}, "daemon", "warn", "has version 0.0.7, this pipelinectl has version", "same version"),
    ({"executor": "kubernetes"}, "daemon", "ok", "doctor --cluster", ""),
    ({"disk": {"places": [place("low", 5 * GIB)]}}, "disk", "warn", "/srv/p has 5.0 GiB free of 100.0 GiB; below 2.0 GiB pushes are refused", "gc --dry-run"),
    ({"disk": {"places": [place("full", GIB)]}}, "disk", "FAIL", "pushes are refused until 2.0 GiB are free", "gc"),
    ({"packs": {"quarantined": 1, "unread": 0}}, "store", "FAIL", "1 pack whose content does not match", "fsck"),
    ({"packs": {"quarantined": 0, "unread": 3}}, "store", "ok", "3 packs still to be read back", ""),
])
def test_what_a_daemon_says_of_itself(elsewhere, tmp_path, change, check, grade, text, remedy):
    version = json.loads(subprocess.run([os.path.join(BIN, "pipelinectl"), "--json", "version"], capture_output=True, check=True).stdout)["version"]
    elsewhere.status = {"version": version, "url": elsewhere.url, "store": "s3://b/p", "executor": "local", "disk": {"places": [place("good", 50 * GIB)]},
                        "packs": {"quarantined": 0, "unread": 0}, **change}
    elsewhere.gpus = {"gpus": [], "nodes": [{"capacity": 4}, {"capacity": 2}]}
    found = doctor("--server", elsewhere.url, code=5 if grade == "FAIL" else 0, env={"XDG_DATA_HOME": str(tmp_path), "HOME": str(tmp_path)})
    assert found[check][0] == grade and text in found[check][1] and remedy in found[check][2], found
    assert "6 available" in found["gpus"][1], found
