"""What people do: find the answer in a few clicks, act, sign in and come back to where they wanted to be."""
import urllib.parse

import pytest
import seed
from conftest import kit


def wait_headline(page, part):
    page.do("waitfor", js=f"document.querySelector('h1')?.textContent.includes({part!r})")


class Clicks:
    """Clicks on the page, counted."""

    def __init__(self, page):
        self.page, self.n = page, 0

    def __call__(self, at):
        self.n += 1
        self.page.do("click", at=at)
        self.page.do("settled")
        return self


def test_what_did_the_gpu_do(page):
    page.go("/")
    click = Clicks(page)
    click("nav >> text=GPUs")
    assert page.headline == "No GPU here. One stage waits for 2."
    assert "for 2 GPUs per worker" in page.js("document.querySelector('main').textContent")
    assert click.n <= 3


def test_what_changed_between_the_last_two_datasets(page):
    page.go("/")
    click = Clicks(page)
    click("aside >> text=digits")
    click("main >> text=what changed")
    assert page.headline == "1 file is new in digits."
    assert "train/b3.csv" in page.js("document.querySelector('main').textContent")
    assert click.n <= 3


def test_a_failure_is_read_and_tried_here(page, world):
    page.go("/")
    Clicks(page)("a:has-text('decode failed on')")
    wait_headline(page, "4 of 15 datums failed in decode; the other 11 were kept.")
    page.do("wait", at=".that")
    page.do("waitfor", js="document.querySelectorAll('section[aria-labelledby=h-datums] tbody a').length > 1")  # n goes to the next of them
    text = page.js("document.querySelector('main').innerText")
    assert "2 ways it failed" in text and "ValueError: cannot identify image file" in text and "all below photos:/lisbon/" in text
    assert "pipelinectl try decode --at" in text and "Traceback (most recent call last):" in text
    before = page.js("document.querySelector('.cmd').textContent")
    page.do("press", key="n")
    page.do("waitfor", js=f"document.querySelector('.cmd') && document.querySelector('.cmd').textContent != {before!r}")


def test_a_run_is_stopped_after_a_question_and_rerun(page, world):
    run = world.job("embed")["run"]
    page.go(f"/runs/{run}")
    page.do("click", at="button:has-text('Stop')")
    page.do("wait", at="dialog")
    assert "1 stage ends now. What is done is kept and not done again." in page.do("text", at="dialog")
    assert page.js("document.activeElement.textContent") == "Keep it running"
    page.do("press", key="Escape")
    page.do("wait", at="dialog", state="detached")
    assert world.job("embed")["state"] != "killed"
    page.do("click", at="button:has-text('Stop')")
    page.do("click", at="dialog >> button.main")
    wait_headline(page, "evaluate failed")
    page.do("wait", at="button:has-text('Rerun')")
    assert world.job("embed")["state"] == "killed"
    page.do("click", at="button:has-text('Retry')")
    page.do("click", at="dialog >> button.main")
    page.do("waitfor", js=f"!location.pathname.endsWith({run!r})")
    wait_headline(page, "Rerun: failed jobs of run")


def test_files_are_pushed_from_the_browser(page, world, tmp_path):
    (tmp_path / "b4.csv").write_bytes((seed.pathlib.Path(__file__).resolve().parents[2] / "pipelines/digits/data/train/b1.csv").read_bytes())
    world.ctl("create", "repo", "pushed")  # nothing reads it: other tests go by what digits has last
    page.go("/data/default/pushed")
    page.do("click", at="button:has-text('Push files')")
    page.do("fill", at="dialog >> label:has-text('Folder') >> input", text="incoming")
    page.do("fill", at="dialog >> label:has-text('Message') >> input", text="from the <b>browser</b>")
    page.do("pick", at="dialog >> input[type=file]", files=[str(tmp_path / "b4.csv")])
    page.do("click", at="dialog >> button:has-text('Push 1 file')")
    wait_headline(page, "1 file below /incoming")
    commit = world.daemon.http("GET", "/api/v1/repos/default/pushed/commits?limit=1")["commits"][0]
    assert commit["message"] == "from the <b>browser</b>" and commit["files"] == 1


# ---- login

def test_a_deep_link_survives_the_login_by_token(chromium, world):
    chromium.open(world.daemon, signed_in=False)
    chromium.go("/runs?state=failed")
    chromium.do("fill", at="input[name=token]", text="0" * 64)
    chromium.do("click", at="button:has-text('Sign in')")
    chromium.do("wait", at="[role=alert] >> text=This token is not known or has expired.")
    chromium.do("fill", at="input[name=token]", text=world.daemon.token)
    chromium.do("click", at="button:has-text('Sign in')")
    chromium.do("wait", at="nav >> text=Runs")
    assert chromium.path == "/runs?state=failed"
    assert chromium.js("document.cookie") == ""  # HttpOnly


@pytest.mark.parametrize("to, path", [("/gpus", "/gpus"), ("//evil.example/", "/"), ("https://evil.example/", "/")])
def test_a_link_leads_only_to_own_places(chromium, world, to, path):
    chromium.open(world.daemon, signed_in=False)
    link = world.daemon.http("POST", "/api/v1/login-links")["url"]
    chromium.go("/login?" + urllib.parse.urlsplit(link).query + "&to=" + urllib.parse.quote(to, safe=""))
    assert chromium.path == path
    assert chromium.js("document.querySelector('nav') != null")


def test_a_used_link_says_so(chromium, world):
    chromium.open(world.daemon, signed_in=False)
    link = urllib.parse.urlsplit(world.daemon.http("POST", "/api/v1/login-links")["url"]).query
    chromium.go("/login?" + link)
    chromium.open(world.daemon, signed_in=False)
    assert chromium.go("/login?" + link) == 401
    assert "used already" in chromium.js("document.body.innerText")


def test_a_session_that_ends_keeps_the_page(chromium, world):
    chromium.open(world.daemon)
    chromium.go("/pipelines")
    chromium.do("click", at="main >> text=Check a spec")
    chromium.do("fill", at="textarea", text="{}")
    for one in world.daemon.http("GET", "/api/v1/login-sessions")["login_sessions"]:
        world.daemon.http("DELETE", f"/api/v1/login-sessions/{one['id']}")
    chromium.do("press", key="Control+Enter")
    chromium.do("wait", at="dialog >> text=Your session has ended")
    chromium.do("fill", at="dialog >> input", text=world.daemon.token)
    chromium.do("click", at="dialog >> button:has-text('Sign in')")
    chromium.do("wait", at="dialog", state="detached")
    assert chromium.js("document.querySelector('textarea').value") == "{}", "what was typed is kept"
    chromium.js("document.querySelector('nav a[href$=\"/runs\"]').click()")
    wait_headline(chromium, "run")
    assert chromium.path == "/runs"


def test_two_daemons_on_one_host_keep_their_logins(chromium, world, tmp_path):
    other = kit.Daemon(tmp_path, "--sandbox", "none").start(env={"PATH": "/usr/bin:/bin"})
    try:
        chromium.open(world.daemon)
        link = urllib.parse.urlsplit(other.http("POST", "/api/v1/login-links")["url"]).query
        chromium.do("goto", url=f"{other.url.rstrip('/')}/login?{link}")
        chromium.do("wait", at="nav >> text=Runs")
        chromium.go("/runs")  # of the first
        assert chromium.js("document.querySelector('header nav') !== null") and "Sign in" not in chromium.headline
        chromium.do("goto", url=f"{other.url.rstrip('/')}/runs")
        chromium.do("wait", at="nav >> text=Runs")
    finally:
        assert other.stop() == 0


# ---- keys

def test_places_and_rows_are_reached_by_keys(page):
    page.go("/")
    for keys, path in (("gr", "/runs"), ("gd", "/data"), ("gp", "/pipelines"), ("gg", "/gpus"), ("gh", "/")):
        page.do("press", key=keys[0], then=[keys[1]])
        page.do("waitfor", js=f"location.pathname === {path!r}")
        page.do("settled")
    page.do("press", key="g", then=["r"])
    page.do("wait", at="[data-row]")
    page.do("press", key="j")
    page.do("press", key="j")
    page.do("press", key="k")
    assert page.js("document.activeElement === document.querySelector('[data-row]')")
    page.do("press", key="Enter")
    page.do("waitfor", js="location.pathname.startsWith('/runs/')")


def test_find_opens_a_file_by_its_name(page):
    page.go("/")
    page.do("press", key="/")
    page.do("wait", at="dialog input")
    page.do("type", text="report@master:/report.json")
    page.do("wait", at="[role=option]")
    page.do("press", key="Enter")
    page.do("waitfor", js="location.pathname === '/data/default/report/master/-/report.json'")


def test_the_skip_link_moves_the_focus(page):
    page.go("/runs")
    page.js("document.activeElement.blur()")
    page.do("press", key="Tab")
    assert page.js("document.activeElement.className") == "skip"
    page.do("press", key="Enter")
    assert page.js("document.activeElement.id") == "main"
    assert page.path == "/runs"


def test_a_page_whose_code_is_gone_says_so_in_its_frame(page):
    """As after an upgrade of the daemon: the names of code that was not loaded yet are gone."""
    page.go("/")
    page.do("block", at="**/ui/gpus-*.js")
    page.js("window.before = true")
    page.do("click", at="nav >> text=GPUs")
    page.do("waitfor", js="window.before === undefined && document.querySelector('h1') !== null")
    wait_headline(page, "This page cannot be shown")  # the whole page was loaded once more, which did not help
    assert page.path == "/gpus"
    page.do("click", at="nav >> text=Runs")
    wait_headline(page, "run")
    page.do("click", at="nav >> text=GPUs")
    wait_headline(page, "This page cannot be shown")
    page.do("unblock", at="**/ui/gpus-*.js")
    page.do("click", at="button:has-text('Load the page again')")
    wait_headline(page, "GPU")


def test_what_is_deleted_while_it_is_shown_is_gone(page, world):
    world.ctl("create", "repo", "passing")
    page.go("/data/default/passing")
    assert page.headline == "No file yet in passing."
    world.ctl("delete", "repo", "passing")
    wait_headline(page, "epo passing in default")  # "Repo … is gone", or for a moment "There is no repo …"
