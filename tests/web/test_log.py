"""The log of a stage: opened at its end whatever its size, any line of it by its link, searched, followed, colours, hostile lines."""
import json
import os
import subprocess

import pytest
from browser import SIZES
from conftest import kit

PRINT = r"""
import sys
print("\033[31mred\033[0m <img src=x onerror=window.hit=7> \033]0;title\007 zero \0 byte")
sys.stdout.flush()
sys.stdout.buffer.write(b"not \xff utf-8\n" + b"y" * 10_000_000 + b"\n10%\r100%\n")
sys.stdout.buffer.write(b"".join(b"line %d of many\n" % i for i in range(5, 900_000)))
print("ValueError: near the end")
print("done")
"""


class Printed:
    def __init__(self, daemon, folder):
        self.daemon = daemon
        spec = {"pipeline": "p", "repos": {"in": {}}, "stages": [{"name": "print", "input": {"repo": "in"}, "run": ["python3", "-c", PRINT]}]}
        (folder / "spec.json").write_text(json.dumps(spec), encoding="utf-8")
        (folder / "f").write_text("1")
        for words in (["create", "pipeline", "-f", str(folder / "spec.json")], ["put", "file", "in@master:/f", "-f", str(folder / "f")], ["wait", "run", "in@master", "--timeout", "300s"]):
            done = subprocess.run([os.path.join(daemon.bin, "pipelinectl"), "--data", daemon.dir, *words], capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr
        self.log = f"/jobs/default/print/{daemon.http('GET', '/api/v1/jobs?stage=print&limit=1')['jobs'][0]['run']}/log"


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    root = tmp_path_factory.mktemp("printed")
    daemon = kit.Daemon(root, "--sandbox", "none").start(env={"PATH": "/usr/bin:/bin"})
    (root / "files").mkdir()
    yield Printed(daemon, root / "files")
    assert daemon.stop() == 0


@pytest.fixture
def view(chromium, printed):
    yield chromium.open(printed.daemon)
    assert chromium.do("complaints") == []


def seen(page, text):
    """Waits until a line with this text lies in the view."""
    page.do("waitfor", js=f"(() => {{ const box = document.querySelector('.log')?.getBoundingClientRect(); return [...document.querySelectorAll('.log > div')].some((line) => line.textContent.includes({text!r}) && line.getBoundingClientRect().bottom > box.top && line.getBoundingClientRect().top < box.bottom); }})()")


def test_it_opens_at_the_end_and_goes_to_any_line(view, printed):
    view.go(printed.log)
    seen(view, "ValueError: near the end")
    assert view.headline == "print ended with: done"
    assert view.js("document.querySelectorAll('.log > div').length") < 250
    view.js("location.hash = '#L450000'")
    seen(view, "line 450000 of many")
    assert view.js("document.querySelector('.log .sel').id") == "L450000"
    view.js("document.querySelector('.log').focus()")
    view.do("press", key="Home")
    seen(view, "<img src=x onerror=window.hit=7>")


def test_search_goes_forth_and_back_and_to_the_next_error(view, printed):
    view.go(printed.log + "?q=LINE%2070000")
    view.do("waitfor", js="document.querySelector('.log') !== null")
    view.do("press", key="n")
    seen(view, "line 70000 of many")
    assert view.js("document.querySelector('.log mark').textContent") == "line 70000"
    view.do("press", key="n")
    seen(view, "line 700000 of many")
    view.do("press", key="p")
    seen(view, "line 70000 of many")
    view.do("press", key="e")
    seen(view, "ValueError: near the end")
    assert view.path.endswith("#L900000") or "#L" in view.path


def test_hostile_lines_are_text_and_colours_are_classes(view, printed):
    view.go(printed.log + "#L1")
    seen(view, "<img src=x onerror=window.hit=7>")
    assert view.js("window.hit === undefined && !document.querySelector('.log img, .log [style*=color]')")
    first = "document.querySelector('#L1')"
    assert view.js(f"{first}.querySelector('.ansi-1').textContent") == "red"
    assert "title" not in view.js(f"{first}.textContent") and "\\x00" in view.js(f"{first}.textContent")
    assert "in this line" in view.js("document.querySelector('#L3').textContent")
    assert view.js("document.querySelector('#L4').textContent") == "100%"


def fetch_fails(page, status):
    """From now on lines that are asked for by their number are refused; window.asked has the times."""
    page.js(f"""(() => {{
      const real = window.fetch;
      window.asked = [];
      window.fetch = (url, init) => /\\/log\\?.*line=/.test(url) ? (window.asked.push(performance.now()), Promise.resolve(new Response("{{}}", {{ status: {status} }}))) : real(url, init);
    }})()""")


def test_lines_that_cannot_be_had_are_asked_for_after_a_pause(view, printed):
    view.go(printed.log)
    seen(view, "ValueError: near the end")
    fetch_fails(view, 500)
    view.js("location.hash = '#L450000'")
    view.do("wait", at="[role=alert] >> text=the daemon answered 500")
    view.do("waitfor", js="window.asked.length >= 3")
    assert view.js("window.asked[2] - window.asked[0]") > 3500
    view.go(printed.log)
    seen(view, "ValueError: near the end")
    fetch_fails(view, 410)
    view.js("location.hash = '#L450000'")
    view.do("wait", at="[role=alert] >> text=the daemon answered 410")
    view.js("location.hash = '#L350000'")
    view.do("waitfor", js="document.querySelector('#L350000') !== null")
    assert view.js("window.asked.length") == 1, "what is gone is not asked for again"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [*SIZES, (320, 640)])
def test_the_page_fits_and_is_accessible(chromium, printed, size, theme):
    chromium.open(printed.daemon, size, theme)
    chromium.go(printed.log)
    seen(chromium, "done")
    assert chromium.do("axe") == []
    assert not chromium.js("document.documentElement.scrollWidth > innerWidth")
    if isinstance(size, str):
        chromium.picture(f"log-large-{size}-{theme}")
