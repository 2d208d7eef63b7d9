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
