"""Versions of a pipeline in the browser: the list, what differs between two, where fields come from; and the lines around the mistakes of a refused spec."""
import json
import pathlib
import subprocess

import pytest
from browser import SIZES
from conftest import kit

STAGE = {"name": "count", "input": {"repo": "in", "glob": "/*"}}
FOLLOWS = {"name": "sum", "input": {"repo": "count"}, "run": ["true"]}


def spec(*stages, **more):
    return json.dumps({"pipeline": "tally", "repos": {"in": {}}, **more, "stages": list(stages)}, indent=1)


class Tally:
    """A pipeline with 25 versions, set by hand, and a source whose specs are refused."""

    def __init__(self, daemon, folder):
        self.daemon = daemon
        daemon.http("PUT", "/api/v1/defaults", {"spec": json.dumps({"priority": 3})})
        self.set(spec({**STAGE, "script": "#!/bin/sh\ntrue\n"}, FOLLOWS))
        self.set(spec({**STAGE, "script": "#!/bin/sh\nfalse\n", "workers": 2}, FOLLOWS, defaults={"datum": {"tries": 2}}))
        for workers in range(3, 26):
            self.set(spec({**STAGE, "script": "#!/bin/sh\nfalse\n", "workers": workers}, FOLLOWS, defaults={"datum": {"tries": 2}}))
        bare = folder / "team.git"
        git(folder, "init", "-q", "--bare", "-b", "main", str(bare))
        git(folder, "clone", "-q", str(bare), str(folder / "work"))
        work = folder / "work"
        (work / "pipelines").mkdir()
        (work / "pipelines" / "p.json").write_text('{"pipeline": "p",\n "stages": [{"name": "<b>s</b>", "input": {"repo": "in"},\n  "run": ["true"], "runn": 1}]}\n', encoding="utf-8")
        git(work, "add", ".")
        git(work, "commit", "-q", "-m", "A spec with a mistake")
        git(work, "push", "-q", "origin", "HEAD:main")
        daemon.http("POST", "/api/v1/sources", {"name": "team", "settings": {"git": str(bare)}})
        kit.wait_until(lambda: daemon.http("GET", "/api/v1/sources/team")["state"] == "invalid", "the source to be refused", 60)

    def set(self, text):
        self.daemon.http("POST", "/api/v1/pipelines", {"spec": text, "filename": "tally.json", "update": True, "yes": True})


def git(folder, *words):
    subprocess.run(["git", "-c", "user.name=Ada", "-c", "user.email=ada@example.org", *words], cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def tally(tmp_path_factory):
    root = tmp_path_factory.mktemp("versions")
    folder = pathlib.Path(root) / "repositories"
    folder.mkdir()
    daemon = kit.Daemon(root, "--sandbox", "none", "--git-local-folders", str(folder)).start(env={"PATH": "/usr/bin:/bin"})
    yield Tally(daemon, folder)
    assert daemon.stop() == 0


@pytest.fixture
def seen(chromium, tally):
    yield chromium.open(tally.daemon)
    assert chromium.do("complaints") == []


def rows(page, selector):
    return page.js(f"[...document.querySelectorAll({json.dumps(selector)})].map((one) => one.innerText.replace(/\\s+/g, ' '))")


def wait_text(page, text):
    page.do("waitfor", js=f"document.querySelector('main').innerText.includes({json.dumps(text)})")


VERSIONS = "[aria-labelledby=h-versions] li"


def test_versions_are_listed_in_pages_with_who_set_them(seen):
    seen.go("/pipelines/default/tally")
    seen.do("waitfor", js=f"document.querySelectorAll('{VERSIONS}').length === 20")
    first = rows(seen, VERSIONS)[0]
    assert "version 25 now" in first and "1 stage changed" in first and "daemon by hand" in first
    seen.do("click", at="main >> text=Older versions")
    seen.do("waitfor", js=f"document.querySelectorAll('{VERSIONS}').length === 25")
    assert "version 1 " in rows(seen, VERSIONS)[-1] and "2 stages new" in rows(seen, VERSIONS)[-1]
    assert "Older versions" not in seen.js("document.querySelector('main').innerText")


def test_an_earlier_version_is_shown_with_its_spec(seen):
    seen.go("/pipelines/default/tally")
    seen.do("click", at="main >> text=version 24")
    wait_text(seen, "tally was this at version 24; its version is 25 now.")
    assert seen.path == "/pipelines/default/tally?version=24" and '"workers": 24' in seen.js("document.querySelector('[aria-labelledby=h-spec]').innerText")
    assert seen.js("![...document.querySelectorAll('button')].some((one) => one.innerText.includes('Run'))"), "an earlier version is not run"
    seen.do("click", at="main >> text=Show version 25")
    wait_text(seen, "tally runs version 25 of 2 stages.")


def test_two_versions_are_compared_at_an_address_that_stays(seen):
    seen.go("/pipelines/default/tally")
    seen.do("click", at="[aria-labelledby=h-versions] li:first-child >> text=what it changed")
    wait_text(seen, "1 stage differs between version 24 and version 25; nothing runs anew.")
    assert seen.path == "/pipelines/default/tally?from=24&to=25"
    table = rows(seen, ".stage-diff tbody tr")
    assert len(table) == 1 and "workers" in table[0] and "24" in table[0] and "25" in table[0] and "runs nothing anew" in table[0]
    # another pair, by the fields
    seen.go("/pipelines/default/tally?from=1&to=25")
    wait_text(seen, "2 stages differ between version 1 and version 25; all datums of count run anew, and some of sum.")
    text = seen.js("document.querySelector('[aria-labelledby=h-diff]').innerText.replace(/\\s+/g, ' ')")
    assert "script" in text and "− true" in text and "+ false" in text and "datum.tries" in text
    assert "from the spec" not in text
    wait_text(seen, "The spec as written")
    seen.do("fill", at="input[max] >> nth=0", text="24")
    seen.do("press", key="Enter")
    seen.do("waitfor", js="location.search === '?from=24&to=25'")
    seen.do("click", at="[aria-labelledby=h-diff] >> text=Close")
    seen.do("waitfor", js="location.search === ''")


def test_stages_that_follow_are_named_with_what_runs_anew(seen):
    seen.go("/pipelines/default/tally?from=1&to=2")
    wait_text(seen, "between version 1 and version 2")
    heads = rows(seen, ".stage-diff h3")
    assert heads[0].startswith("~ count changed: all its datums run anew") and heads[1].startswith("~ sum changed: datums whose key is new run anew, with count"), heads


def test_a_version_that_is_not_there_says_so(seen):
    seen.go("/pipelines/default/tally?from=1&to=77")
    wait_text(seen, "has no version 77: its newest is 25")
    seen.go("/pipelines/default/tally?version=77")
    wait_text(seen, "77")
    seen.do("complaints")  # the browser complains of the 404s that were wanted


def test_each_field_says_where_it_comes_from(seen):
    seen.go("/pipelines/default/tally?view=effective")
    wait_text(seen, "Comes from")
    table = {row[0]: row[1:] for row in seen.js("[...document.querySelectorAll('[aria-label=\"Stage count\"] tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent))")}
    assert table["workers"] == ["25", "writtenwritten in the stage"]
    assert table["datum.tries"] == ["2", "spec's defaultsfrom the defaults of the spec"]
    assert table["priority"] == ["3", "clusterfrom the defaults of the cluster"]
    assert table["on_new"] == ['"newest"', "languagethe default of the language"]
    assert "from the cluster's" in seen.js("document.querySelector('main').innerText")


def test_a_mistake_in_a_sources_spec_is_shown_in_its_lines(seen):
    seen.go("/pipelines")
    seen.do("waitfor", js="document.querySelector('.excerpt .bad mark')")
    text = seen.js("document.querySelector('[aria-labelledby=h-sources]').innerText")
    assert "pipelines/p.json:2:" in text and "pipelines/p.json:3:" in text
    marked = seen.js("[...document.querySelectorAll('.excerpt .bad')].map((one) => one.innerText)")
    assert any('"runn": 1' in line for line in marked) and any("<b>s</b>" in line for line in marked), "as text"
    assert "Line 3, with the mistake" in seen.js("document.querySelector('main').textContent")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_the_pages_are_accessible_and_fit(chromium, tally, size, theme):
    chromium.open(tally.daemon, size, theme)
    wrong = {}
    for name, path in {"versions": "/pipelines/default/tally", "diff": "/pipelines/default/tally?from=1&to=25", "effective": "/pipelines/default/tally?view=effective", "sources": "/pipelines"}.items():
        chromium.go(path)
        chromium.do("waitfor", js="!document.querySelector('.skeleton') && !/…$/.test(document.querySelector('h1').textContent)")
        found = [f"{one['id']}: {node}" for one in chromium.do("axe") for node in one["nodes"]]
        if chromium.js("document.documentElement.scrollWidth > innerWidth"):
            found.append("scrolls sideways")
        if found := found + chromium.do("complaints"):
            wrong[name] = found
        chromium.picture(f"version-{name}-{size}-{theme}")
    assert wrong == {}, json.dumps(wrong, indent=1)


def test_a_start_that_is_refused_says_why_and_may_be_tried_again(seen, tally):
    tally.daemon.http("POST", "/api/v1/pipelines/default/tally/stop")
    seen.go("/pipelines/default/tally")
    seen.do("wait", at="button >> text=Start")
    seen.js("""(() => {
      const real = window.fetch;
      window.fetch = (url, init) => /\\/start$/.test(url) ? (window.fetch = real, Promise.resolve(new Response('{"error": {"code": "busy", "message": "not now"}}', { status: 503, headers: { "Content-Type": "application/json" } }))) : real(url, init);
    })()""")
    seen.do("click", at="button >> text=Start")
    seen.do("wait", at="[role=alert] >> text=not now")
    assert seen.do("axe") == []
    seen.do("click", at="button >> text=Start")
    seen.do("waitfor", js="document.querySelector('[role=alert]') === null")
    seen.do("wait", at="button >> text=Stop")
