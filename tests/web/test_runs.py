"""The runs: the list with its filters and what waits behind "new", the timeline of the workers, and what is asked of the daemon meanwhile."""
import many_runs
import pytest
from conftest import kit

ASKED = "performance.getEntriesByType('resource').map((one) => new URL(one.name)).filter((url) => url.pathname.includes('/api/')).map((url) => url.pathname + url.search)"


def test_filters_are_in_the_address(page, world):
    page.go("/runs?state=done")
    page.do("wait", at="[data-row]")
    assert page.js("[...document.querySelectorAll('tr[data-run] td:nth-child(2)')].every((cell) => cell.textContent.trim() === 'Done')")
    page.do("click", at="button[aria-pressed=true]")
    page.do("waitfor", js="!location.search.includes('state=')")

    def shown():
        page.go("/runs?pipeline=digits")
        page.do("wait", at="[data-row]")
        return page.js("document.querySelector('table').innerText")
    # the daemon counts for a moment only what pushes changed: another page may say it
    kit.wait_until(lambda: "digits@master +1 file" in shown(), shown)
    assert "street" not in shown()


def test_an_event_brings_its_row_alone_and_new_runs_wait(page, world):
    page.go("/runs")
    page.do("wait", at="[data-row]")
    first = page.js("document.querySelector('tr[data-run]').dataset.run")
    page.do("waitfor", js="performance.getEntriesByType('resource').some((one) => new URL(one.name).pathname.endsWith('/api/v1/pipelines'))")
    page.js("performance.clearResourceTimings()")
    world.ctl("run", "pipeline", "digits", "--stage", "prepare")
    page.do("wait", at="button.fresh >> text=1 new")
    assert page.js("document.querySelector('tr[data-run]').dataset.run") == first, "rows do not move"
    asked = page.js(ASKED)
    assert asked and all("ids=" in one for one in asked), f"only the rows that changed are read: {asked}"
    page.do("click", at="button.fresh")
    page.do("waitfor", js=f"document.querySelector('tr[data-run]').dataset.run != {first!r}")
    page.do("waitfor", js="!document.querySelector('button.fresh')")


def test_what_happens_before_the_events_come_is_shown_by_them(page, world):
    page.do("hold", at="**/api/v1/events?since=*")
    page.go("/runs")
    page.do("wait", at="[data-row]")
    world.ctl("run", "pipeline", "digits", "--stage", "prepare", "--wait")
    page.do("release", at="**/api/v1/events?since=*")
    page.do("wait", at="button.fresh >> text=1 new")


def test_the_timeline_of_workers_zooms_by_keys(page, world):
    page.go(f"/runs/{world.commits('digits')[0]}")
    page.do("wait", at=".lanes .lane rect")
    assert "computed" in page.js("document.querySelector('.lanes .lane title').textContent")
    label = "document.querySelector('[aria-label^=\"Workers from\"]')"
    before = page.js(f"{label}.getAttribute('aria-label')")
    page.js(f"{label}.focus()")
    page.do("press", key="+")
    page.do("press", key="+")
    page.do("waitfor", js=f"{label}.getAttribute('aria-label') != {before!r} && !document.querySelector('.lanes-head button:last-child').disabled")
    page.do("press", key="0")
    page.do("waitfor", js=f"{label}.getAttribute('aria-label') == {before!r}")


@pytest.fixture(scope="module")
def long_history(tmp_path_factory):
    """A daemon with 20,000 runs of five jobs: a hundred pages."""
    daemon = kit.Daemon(tmp_path_factory.mktemp("many"), "--sandbox", "none").start()
    daemon.stop()
    many_runs.make(daemon.dir, 20_000, 5)
    yield daemon.start()
    assert daemon.stop() == 0


def test_a_long_list_is_scrolled_with_flat_memory(chromium, long_history):
    chromium.open(long_history)
    chromium.go("/runs")
    chromium.do("wait", at="[data-row]")
    drawn = []
    loaded = "Number(/([\\d,]+) runs/.exec(document.querySelector('.lead').textContent)[1].replace(/,/g, ''))"
    for pages in (10, 30, 60):
        for _ in range(1000):
            if chromium.js(loaded) >= pages * 200:
                break
            chromium.js("scrollTo(0, document.body.scrollHeight)")
            chromium.do("settled")
        else:
            pytest.fail(f"{pages} pages do not come; the page shows {chromium.js('document.body.innerText')[:2000]}")
        drawn.append(chromium.js("document.querySelectorAll('tr').length"))
    assert max(drawn) < 200, f"only the rows near the view are drawn: {drawn}"
    chromium.js("scrollTo(0, 2000 * 53)")
    chromium.do("waitfor", js="[...document.querySelectorAll('tr[data-run]')].some((row) => { const at = row.getBoundingClientRect().top; return at > 0 && at < innerHeight; })")
    assert chromium.do("complaints") == []


def test_a_run_is_a_graph_too(page, world):
    run = world.job("decode")["run"]  # the push; of "evaluate" another test runs the failed ones again
    page.go(f"/runs/{run}")
    page.do("click", at="main >> .tabs >> text=Graph")
    page.do("waitfor", js="location.search === '?view=graph'")
    assert page.path == f"/runs/{run}?view=graph"
    for label in ("stage evaluate, Failed", "stage export, Not run", "stage decode, 4 failed"):
        page.do("wait", at=f"[data-at][aria-label*='{label}']")
    labels = page.js("[...document.querySelectorAll('main [data-at]')].map((one) => one.getAttribute('aria-label'))")
    photos = next(one for one in labels if "repo photos" in one)
    assert "read at " in photos
    # links lead to the commits of the run, not to what the branches have now
    href = page.js("document.querySelector('[data-at][aria-label*=\"repo photos\"]').getAttribute('href')")
    read = {one["repo"]: one["commit"] for one in world.daemon.http("GET", f"/api/v1/jobs/default/decode/{run}")["inputs"]}
    assert href == f"/data/default/photos/{read['photos']}/-/"
    assert page.js("document.querySelector('[data-at][aria-label*=\"stage evaluate\"]').getAttribute('href')") == f"/jobs/default/evaluate/{run}"
    assert page.do("axe") == []
    page.picture("run-graph", whole=True)
    page.do("click", at="main >> .tabs >> text=List")
    page.do("wait", at="table.stages")
