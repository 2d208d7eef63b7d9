"""Each page as it is seen: no accessibility violation, nothing that scrolls sideways, no complaint of the policy; pictures in both themes."""
import pytest
from browser import SIZES

PAGES = {
    "home": lambda w: "/",
    "list": lambda w: "/?view=list",
    "runs": lambda w: "/runs",
    "run": lambda w: f"/runs/{w.commits('digits')[0]}",
    "run-failed": lambda w: f"/runs/{w.job('evaluate')['run']}",
    "run-graph": lambda w: f"/runs/{w.job('evaluate')['run']}?view=graph",
    "failure": lambda w: f"/jobs/default/decode/{w.job('decode')['run']}",
    "job": lambda w: f"/jobs/default/prepare/{w.commits('digits')[0]}",
    "log": lambda w: f"/jobs/default/train/{w.commits('digits')[0]}/log",
    "data": lambda w: "/data",
    "repo": lambda w: "/data/default/digits",
    "folder": lambda w: "/data/default/photos/master/-/names",
    "file": lambda w: "/data/default/infer/master/-/b1/predictions.csv",
    "json": lambda w: "/data/default/labels/master/-/notes.json",
    "picture": lambda w: "/data/default/report/master/-/confusion.png",
    "diff": lambda w: "/diff/default/report/{1}/{0}".format(*w.commits("report")),
    "rundiff": lambda w: "/diff/{1}/{0}".format(*w.commits("digits")),
    "why": lambda w: "/why/default/infer/master/-/b1/predictions.csv",
    "why-down": lambda w: "/why/default/digits/master/-/train/b1.csv?dir=down",
    "why-commit": lambda w: f"/why/default/train/{w.commits('train')[0]}/-/?dir=all",
    "metrics": lambda w: "/metrics/default/train",
    "metrics-all": lambda w: "/metrics/-",
    "check": lambda w: "/check",
    "pipelines": lambda w: "/pipelines",
    "pipeline": lambda w: "/pipelines/default/street",
    "pipeline-effective": lambda w: "/pipelines/default/street?view=effective",
    "pipeline-diff": lambda w: "/pipelines/default/street?from=0&to=1",
    "gpus": lambda w: "/gpus",
    "gone": lambda w: "/runs/9ab2",
}


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_pages_are_accessible_and_fit(chromium, world, size, theme):
    chromium.open(world.daemon, size, theme)
    wrong = {}
    for name, path in PAGES.items():
        status = chromium.go(path(world))
        chromium.do("waitfor", js="!document.querySelector('.skeleton') && !/…$/.test(document.querySelector('h1').textContent)")
        found = [f"{one['id']}: {node}" for one in chromium.do("axe") for node in one["nodes"]]
        if status != 200:
            found.append(f"the daemon answers {status} to its address")
        if chromium.js("document.documentElement.scrollWidth > innerWidth"):
            found.append("scrolls sideways")
        if chromium.js("document.querySelectorAll('h1').length != 1 || document.querySelectorAll('main').length != 1"):
            found.append("has not one h1 in one main")
        if chromium.js("document.querySelectorAll('script:not([src]), style').length") or chromium.js("[...document.querySelectorAll('[onclick], [onload], [onerror]')].length"):
            found.append("has inline script or style")
        found += chromium.do("complaints")
        if found:
            wrong[name] = found
        chromium.picture(f"{name}-{size}-{theme}")
    assert wrong == {}


def test_nothing_scrolls_sideways_at_320_px(chromium, world):
    chromium.open(world.daemon, (320, 640))
    wide = []
    for name, path in PAGES.items():
        chromium.go(path(world))
        if chromium.js("document.documentElement.scrollWidth > innerWidth"):
            wide.append(name)
    assert wide == []


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_login_is_accessible(chromium, world, theme):
    chromium.open(world.daemon, "wide", theme, signed_in=False)
    chromium.go("/runs?state=failed")
    assert chromium.headline == "Sign in to see the page that you asked for"
    assert chromium.do("axe") == []
    chromium.picture(f"login-wide-{theme}")


def test_dialogs_are_accessible(page, world):
    page.go("/")
    for keys, title in (("?", "Keys"), ("/", "Find")):
        page.do("press", key=keys)
        page.do("wait", at=f"dialog h2:has-text('{title}')")
        assert page.do("axe") == []
        page.do("press", key="Escape")
        page.do("wait", at="dialog", state="detached")
