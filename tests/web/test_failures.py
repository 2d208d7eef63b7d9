"""The page of a job that failed: one way of failing is retried, inputs are downloaded, thousands of datums are paged; and pages whose address changes
to something that is not there."""
import json
import time
import urllib.parse

import pytest
from browser import SIZES
from conftest import kit, worlds

pytestmark = pytest.mark.timeout(900)  # the first test waits for two worlds
MANY = 450  # datums of the stage that fails in one way only: more than two pages of 200


def axe(page):
    return [f"{one['id']}: {node}" for one in page.do("axe") for node in one["nodes"]]


def wait_headline(page, start):
    page.do("waitfor", js=f"(document.querySelector('h1') || {{}}).textContent?.startsWith({json.dumps(start)})")


def datums(page):
    return page.js("[...document.querySelectorAll('section[aria-labelledby=h-datums] tbody a')].map((a) => a.textContent)")


@pytest.fixture(scope="module")
def world(tmp_path_factory):
    """Of its own: retries change what others see of the story."""
    yield from worlds(tmp_path_factory)


@pytest.fixture(scope="module")
def many(world):
    """The run of a stage of which every datum fails, beside one that is done."""
    folder = world.folder / "many"
    folder.mkdir()
    for n in range(MANY):
        (folder / f"f{n:04}.txt").write_text(str(n))
    spec = world.folder / "many.json"
    spec.write_text(json.dumps({"pipeline": "bulk", "repos": {"many": {}}, "stages": [
        {"name": "all-fail", "input": {"repo": "many", "glob": "/*"}, "workers": 2, "on_error": "skip", "run": ["sh", "-c", "echo ValueError: no >&2; exit 3"]},
        {"name": "all-done", "input": {"repo": "many", "glob": "/*"}, "workers": 2, "run": ["true"]}]}))
    world.ctl("create", "pipeline", "-f", str(spec))
    world.ctl("put", "file", "many@master:/", "-r", "-f", str(folder))
    world.ctl("wait", "run", "many@master", "--timeout", "300s")
    return world.commits("many")[0]


def test_one_way_of_failing_is_retried_after_a_question(chromium, world):
    page = chromium.open(world.daemon)
    job = world.job("decode")
    page.go(f"/jobs/default/decode/{job['run']}")
    wait_headline(page, "4 of 15 datums failed in decode")
    page.do("click", at="button:has-text('Retry these 3')")
    page.do("wait", at="dialog")
    text = page.do("text", at="dialog")
    assert f"Retry 3 datums of run {job['run'][:8]}?" in text and "cannot identify image file" in text
    assert "A new run tries these 3 datums of decode again" in text and "The other datum that failed is not tried and stays as it is, left out of what it writes." in text
    assert f"pipelinectl retry job decode@{job['run'][:8]} --group " in text and page.js("document.activeElement.textContent") == "Leave it"
    assert axe(page) == []
    page.do("press", key="Tab")  # by keyboard: the button that does it comes after the one that has the focus
    page.do("waitfor", js="document.activeElement.textContent === 'Retry 3 datums'")
    page.do("press", key="Enter")
    page.do("waitfor", js=f"location.pathname.startsWith('/runs/') && !location.pathname.includes({job['run']!r})")
    run = page.path.removeprefix("/runs/").split("?")[0]
    kit.wait_until(lambda: world.job("decode")["run"] == run and world.job("decode")["state"] == "success", "the retry to end", 120)
    assert world.job("decode")["datums"]["failed"] == 4
    # the datum that was not tried says where it failed
    page.go(f"/jobs/default/decode/{run}")
    wait_headline(page, "4 of 15 datums failed in decode")
    page.do("click", at="section[aria-labelledby=h-ways] a:has-text('MemoryError')")
    page.do("waitfor", js="document.querySelector('main').innerText.includes('This run did not try the datum again')")
    assert "Attempts" in page.js("document.querySelector('main').innerText") and axe(page) == []
    page.picture("failure-retried")


def test_the_inputs_of_a_datum_are_downloaded(chromium, world):
    page = chromium.open(world.daemon)
    page.go(f"/jobs/default/decode/{world.job('decode')['run']}")
    page.do("wait", at="a:has-text('Download inputs')")
    got = page.js("fetch(document.querySelector(\"a[href$='/inputs']\").href).then(async (r) => [r.status, r.headers.get('content-type'), r.headers.get('content-disposition'),"
                  " String.fromCharCode(...new Uint8Array(await r.arrayBuffer()).slice(0, 60))])")
    assert got[:2] == [200, "application/zip"] and "decode-" in got[2] and got[3].startswith("PK") and "photos/lisbon/IMG_" in got[3]


def test_datums_are_paged_and_only_those_near_the_view_are_drawn(chromium, many, world):
    page = chromium.open(world.daemon)
    page.go(f"/jobs/default/all-fail/{many}")
    wait_headline(page, f"{MANY} of {MANY} datums failed in all-fail")
    page.do("waitfor", js="document.querySelectorAll('section[aria-labelledby=h-datums] tbody a').length === 12")
    page.do("click", at=f"button:has-text('{MANY - 12} more')")
    page.do("waitfor", js="document.querySelectorAll('section[aria-labelledby=h-datums] tbody a').length > 12")
    assert page.js("document.querySelector('section[aria-labelledby=h-datums] table').getAttribute('aria-rowcount')") == str(MANY + 1)
    last = "document.querySelector('section[aria-labelledby=h-datums] table').getBoundingClientRect().bottom"
    seen = set(datums(page))
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        page.js(f"scrollBy(0, {last} - innerHeight)")
        page.do("settled")
        seen.update(datums(page))
        if len(seen) > 20 and page.js("document.querySelectorAll('section[aria-labelledby=h-datums] tbody tr').length") and len(datums(page)) < MANY and page.js(f"{last} <= innerHeight + 2"):
            rows = page.js("[...document.querySelectorAll('section[aria-labelledby=h-datums] tbody tr.room td')].reduce((sum, td) => sum + td.getBoundingClientRect().height, 0) / 37")
            if rows + len(datums(page)) >= MANY - 1:
                break
    else:
        pytest.fail("the last page did not come")
    assert len(datums(page)) < 200 and axe(page) == []


def test_the_state_of_listed_datums_is_in_the_address(chromium, many, world):
    page = chromium.open(world.daemon)
    page.go(f"/jobs/default/all-done/{many}")
    wait_headline(page, f"Nothing failed here: all-done ran {MANY} datums")
    page.do("waitfor", js="document.querySelectorAll('section[aria-labelledby=h-datums] tbody a').length === 12")
    page.do("click", at="a:has-text('lost with their worker')")
    page.do("waitfor", js="location.search === '?state=lost' && document.querySelector('main').innerText.includes('No such datum is kept')")
    page.do("click", at="a:text-is('all')")
    page.do("waitfor", js="location.search === '?state=all' && document.querySelectorAll('section[aria-labelledby=h-datums] tbody a').length === 12")
    assert axe(page) == []
    page.go(f"/jobs/default/all-fail/{many}?state=failed")  # an address is enough
    page.do("waitfor", js="document.querySelector('.tabs a[aria-current]').textContent === 'failed'")
    page.go(f"/jobs/default/all-fail/{many}?state=success")
    page.do("waitfor", js="document.querySelector('main').innerText.includes('No such datum is kept')")


@pytest.mark.parametrize("size", SIZES)
def test_the_job_page_with_many_datums_fits(chromium, many, world, size):
    page = chromium.open(world.daemon, size)
    for stage in "all-fail", "all-done":
        page.go(f"/jobs/default/{stage}/{many}")
        page.do("wait", at="section[aria-labelledby=h-datums] tbody a")
        assert not page.js("document.documentElement.scrollWidth > innerWidth") and axe(page) == []
        page.picture(f"job-{stage}-{size}")


def test_an_address_of_what_is_not_there_shows_that_alone(chromium, world):
    page = chromium.open(world.daemon)
    new, old = world.commits("digits")[:2]
    for good, bad in ((f"/why/default/digits/{new}/-/train/b1.csv", f"/why/default/digits/{new}/-/train/none.csv"),
                      (f"/diff/default/digits/{old}/{new}", f"/diff/default/digits/{old}/{'0' * 32}"), (f"/diff/{old}/{new}", f"/diff/{old}/{'0' * 32}")):
        page.go(good)
        page.do("waitfor", js="!document.querySelector('.skeleton') && !document.querySelector('h1').textContent.startsWith('There is no')")
        before = page.js("document.querySelector('h1').textContent")
        page.js(f"history.pushState(null, '', {bad!r})")  # as a link of the page does
        wait_headline(page, "There is no")
        text = page.js("document.querySelector('main').innerText")
        assert before not in text and page.js("document.querySelectorAll('main svg.graph, main table').length") == 0 and axe(page) == []


@pytest.mark.parametrize("path", ["/why/default/short/master/-/f", "/diff/default/short/master%5E1/master"])
def test_what_goes_while_it_is_shown_is_not_shown_any_more(chromium, world, path):
    d = world.daemon
    d.http("POST", "/api/v1/repos", {"name": "short"})
    for content in b"1", b"2":
        d.http("PUT", "/api/v1/repos/default/short/branches/master/files/f", content)
    page = chromium.open(d)
    page.go(path)
    page.do("waitfor", js="!document.querySelector('.skeleton') && !document.querySelector('h1').textContent.startsWith('There is no')")
    before = page.headline
    d.http("DELETE", "/api/v1/repos/default/short")
    port = urllib.parse.urlsplit(d.url).port
    d.stop()
    d.spawn("--listen", f"127.0.0.1:{port}", env={"PATH": "/usr/bin:/bin"}).ready()  # the page asks again when the daemon answers again
    page.do("waitfor", js=f"document.querySelector('h1').textContent !== {json.dumps(before)}")
    assert "short" in page.headline and page.js("document.querySelectorAll('main svg.graph, main table, main pre').length") == 0
