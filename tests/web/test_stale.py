"""Outputs that are out of date: the badge and the command on the pages of the pipeline, the repo, all repos and the start page."""
import json

import pytest


def text(page, at="main"):
    return page.js(f"document.querySelector({at!r})?.innerText ?? ''")


def wait_text(page, part):
    page.do("waitfor", js=f"document.querySelector('main')?.innerText.includes({part!r})")


@pytest.fixture(scope="module")
def lab(world):
    """A stage whose new code fails, and one that reads it; the id of the run that failed."""
    def stages(script):
        return {"pipeline": "aging", "repos": {"aged": {}}, "stages": [
            {"name": "brew", "input": {"repo": "aged"}, "run": ["sh", "-ec", script]},
            {"name": "pour", "input": {"repo": "brew"}, "run": ["sh", "-ec", "cp -r $PL_INPUT_BREW/. $PL_OUT/"]}]}

    d = world.daemon
    d.http("POST", "/api/v1/pipelines", {"spec": json.dumps(stages("cp -r $PL_INPUT_AGED/. $PL_OUT/")), "filename": "spec.json"})
    world.ctl("wait", "run", d.http("PUT", "/api/v1/repos/default/aged/branches/master/files/a.txt", b"1")["run"])
    run = d.http("POST", "/api/v1/pipelines", {"spec": json.dumps(stages("exit 3")), "filename": "spec.json", "update": True})["run"]
    d.wait(run)
    yield run
    world.ctl("delete", "pipeline", "aging", "--yes")  # the start page has the story of seed.py alone again
    world.ctl("delete", "repo", "aged", "--yes")


def test_the_pipeline_and_the_repo_say_why_and_what_to_do(page, lab):
    page.go("/pipelines/default/aging")
    wait_text(page, "out of date")
    said = text(page)
    assert f"1 datum, code changed in run {lab[:8]}" in said and "pipelinectl run pipeline aging" in said
    assert "its input brew is out of date (code)" in said and "2 of 2 stages are out of date" in said
    page.go("/data/default/pour")
    wait_text(page, "Out of date")
    said = text(page)
    assert "its input brew is out of date (code)" in said and "pipelinectl run pipeline aging" in said
    page.go("/data/default/aged")
    wait_text(page, "aged")
    assert "out of date" not in text(page).lower()


def test_lists_and_the_start_page_show_it(page, lab):
    page.go("/pipelines")
    wait_text(page, "aging")
    assert "2 of 2 stages are out of date" in text(page)
    page.go("/data?stale=1")
    wait_text(page, "pour")
    badges = page.js("[...document.querySelectorAll('main .chip.wait')].map((one) => one.title)")
    assert f"out of date: 1 datum, code changed in run {lab[:8]}" in badges
    page.go("/")
    wait_text(page, "Out of date")
    assert f"code changed in run {lab[:8]}" in text(page)
