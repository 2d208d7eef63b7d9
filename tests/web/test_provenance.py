"""The graph of what came from what: both ways, folded and unfolded, by keyboard alone, with a link that stays."""
import json

from browser import SIZES


def nodes(page):
    return set(page.js("[...document.querySelectorAll('svg a[data-node]')].map((one) => one.getAttribute('data-node').replace(/@.*/, ''))"))


def open_why(page, world, repo, path="", query=""):
    page.go(f"/why/default/{repo}/{world.commits(repo)[0]}/-/{path}{query}")
    page.do("wait", at="svg a[data-node]")


def test_a_file_shows_what_it_was_made_from(page, world):
    open_why(page, world, "infer", "b1/predictions.csv")
    assert nodes(page) == {"default/infer", "default/train", "default/prepare", "default/digits"}
    page.do("waitfor", js="document.querySelector('h1').textContent.startsWith('predictions.csv came from ')")
    page.do("click", at="main >> text=Both")
    page.do("waitfor", js="document.querySelector('svg a[data-node^=\"default/report@\"]')")
    page.do("waitfor", js="document.querySelector('h1').textContent.includes('1 commit was made from it')")
    assert "dir=all" in page.path


def test_a_commit_shows_what_was_made_from_it(page, world):
    open_why(page, world, "digits", query="?dir=down")
    assert nodes(page) == {"default/digits", "default/prepare", "default/train", "default/infer", "default/report"}
    page.do("click", at="svg [aria-label^='Hide what is behind infer']")
    page.do("waitfor", js="!document.querySelector('svg a[data-node^=\"default/report@\"]')")
    page.do("click", at="svg [aria-label^='Show what is behind infer']")
    page.do("waitfor", js="document.querySelector('svg a[data-node^=\"default/report@\"]')")


def test_the_graph_is_walked_by_keyboard_alone(page, world):
    open_why(page, world, "infer", "b1/predictions.csv")
    page.js("document.querySelector('svg a[data-node^=\"default/infer@\"]').focus()")
    page.do("press", key="ArrowLeft")
    page.do("waitfor", js="document.activeElement.getAttribute('data-node')?.startsWith('default/train@')")
    page.do("press", key="ArrowRight")
    page.do("waitfor", js="document.activeElement.getAttribute('data-node')?.startsWith('default/infer@')")
    page.do("press", key="ArrowLeft")
    page.do("press", key="Enter")
    page.do("settled")
    assert page.path.startswith(f"/data/default/train/{world.commits('train')[0]}"), page.path


def test_the_link_and_the_export_are_of_the_commit(page, world):
    page.go("/why/default/infer/master/-/b1/predictions.csv")
    page.do("wait", at="svg a[data-node]")
    page.js("window.blobs = []; URL.createObjectURL = (blob) => { blob.text().then((text) => window.blobs.push(text)); return 'blob:x'; }; HTMLAnchorElement.prototype.click = () => {}; 1")
    page.do("click", at="button:has-text('JSON')")
    page.do("waitfor", js="window.blobs.length === 1")
    told = json.loads(page.js("window.blobs[0]"))
    commit = world.commits("infer")[0]
    assert told["commit"] == commit and told["path"] == "b1/predictions.csv" and told["link"].endswith(f"/why/default/infer/{commit}/-/b1/predictions.csv")
    assert {node["level"] for node in told["nodes"]} == {0, -1, -2, -3}


def test_pictures(chromium, world):
    for size in SIZES:
        for theme in ("light", "dark"):
            page = chromium.open(world.daemon, size=size, theme=theme)
            open_why(page, world, "train", query="?dir=all")
            page.picture(f"provenance-{size}-{theme}")
