"""The start page of a daemon that has nothing yet: three steps, ticked off as they happen."""
import json
import subprocess

from conftest import kit

TICKED = "[...document.querySelectorAll('.steps > li.ok h3')].map((one) => one.textContent)"


def test_the_steps_to_the_first_result_are_ticked_off(chromium, tmp_path):
    daemon = kit.Daemon(tmp_path, "--sandbox", "none").start(env={"PATH": "/usr/bin:/bin"})
    go = tmp_path / "go"
    try:
        page = chromium.open(daemon)
        assert page.headline == "Three steps to the first result"
        assert page.js(TICKED) == []
        assert "put file REPO@master:/" in page.js("document.querySelector('.steps').textContent")
        assert page.do("axe") == []
        daemon.http("POST", "/api/v1/repos", {"name": "in"})
        page.do("waitfor", js="document.querySelector('.steps').textContent.includes('put file in@master:/')")
        script = f"while [ ! -e {go} ]; do sleep 0.05; done"
        spec = {"pipeline": "first", "stages": [{"name": "copy", "input": {"repo": "in"}, "run": ["sh", "-c", script]}]}
        daemon.http("POST", "/api/v1/pipelines", {"spec": json.dumps(spec), "yes": True})
        page.do("waitfor", js=f"({TICKED}).join() === 'Write a pipeline, and create it: done'")
        assert page.headline == "Nothing needs you. Nothing runs."
        (tmp_path / "x").write_text("1")
        subprocess.run([f"{daemon.bin}/pipelinectl", "--data", daemon.dir, "put", "file", "in@master:/x", "-f", str(tmp_path / "x")], capture_output=True, check=True)
        page.do("waitfor", js=f"({TICKED}).length === 2")
        assert page.do("axe") == []
        go.write_text("")
        page.do("waitfor", js="document.querySelector('.steps') === null")  # the result is there
        assert chromium.do("complaints") == []
    finally:
        go.write_text("")
        assert daemon.stop() == 0


def test_new_data_is_what_was_pushed_to_last_of_many_repos(chromium, tmp_path):
    daemon = kit.Daemon(tmp_path, "--sandbox", "none").start(env={"PATH": "/usr/bin:/bin"})
    (tmp_path / "x").write_text("1")
    try:
        for i in range(20):
            daemon.http("POST", "/api/v1/repos", {"name": f"r{i:02}"})
        spec = {"pipeline": "first", "stages": [{"name": "copy", "input": {"repo": "r00"}, "run": ["true"]}]}
        daemon.http("POST", "/api/v1/pipelines", {"spec": json.dumps(spec), "yes": True})
        for repo in ("r19", "r07", "r13"):
            words = ["put", "file", f"{repo}@master:/x", "-f", str(tmp_path / "x"), "-m", f"for {repo}"]
            subprocess.run([f"{daemon.bin}/pipelinectl", "--data", daemon.dir, *words], capture_output=True, check=True)
        page = chromium.open(daemon)
        page.do("wait", at="table[aria-label='New data']")
        rows = page.js("[...document.querySelectorAll(\"table[aria-label='New data'] tr\")].map((row) => row.innerText)")
        assert [(row.split()[0], f"for {row.split()[0]}" in row) for row in rows] == [("r13", True), ("r07", True), ("r19", True)], rows
        assert chromium.do("complaints") == []
    finally:
        assert daemon.stop() == 0
