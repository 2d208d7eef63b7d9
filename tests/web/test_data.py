"""The data pages: diffs of text, tables and pictures, what two runs changed everywhere, large and broken files, sound, find, archives, a push that goes on."""
import io
import json
import struct
import urllib.parse
import zipfile

import conftest
import pytest
import seed

QUIET = "window.hit === undefined && !document.querySelector('main script, main iframe, main object, main [onload], main [onerror]')"
EVIL = "<img src=x onerror=window.hit=1>"
MANY = 1_000_000


def wait_headline(page, part):
    page.do("waitfor", js=f"document.querySelector('h1')?.textContent.includes({part!r})")


def main_text(page):
    return page.js("document.querySelector('main').innerText")


def wait_text(page, part):
    page.do("waitfor", js=f"document.querySelector('main')?.innerText.includes({part!r})")


def push(world, repo, path, content):
    return world.daemon.http("PUT", f"/api/v1/repos/default/{repo}/branches/master/files/{urllib.parse.quote(path)}", content, timeout=300)["commit"]


def wav(seconds=1):
    """Silence."""
    data = b"\0" * 8000 * seconds
    return b"RIFF" + struct.pack("<I", 36 + len(data)) + b"WAVEfmt " + struct.pack("<IHHIIHH", 16, 1, 1, 8000, 8000, 1, 8) + b"data" + struct.pack("<I", len(data)) + data


@pytest.fixture(scope="session")
def shelf(world):
    """A repo of files for these tests, with two commits of what changes."""
    world.ctl("create", "repo", "shelf")
    push(world, "shelf", "t/table.csv", f"id,label\n1,cat\n2,{EVIL}\n3,cow\n".encode())
    push(world, "shelf", "t/lines.txt", b"one\ntwo\nthree\n")
    before = push(world, "shelf", "t/picture.png", seed.png(40, 30))
    push(world, "shelf", "t/table.csv", f"id,label\n3,cow\n4,{EVIL}pig\n1,CAT\n".encode())
    push(world, "shelf", "t/lines.txt", f"one\n{EVIL}\nthree\nfour\n".encode())
    push(world, "shelf", f"names/{EVIL}/{EVIL}.csv", b"a,b\n1,2\n")
    after = push(world, "shelf", "t/picture.png", seed.png(60, 30))
    push(world, "shelf", "broken.json", b'{\n  "loss": 0.5,\n  "val_acc": NaN\n}\n')
    push(world, "shelf", "beep.wav", wav())
    return before, after


def test_what_changed_between_two_runs_is_three_clicks_away(page, world):
    page.go("/")
    for at in ("aside >> text=digits", "main >> text=what changed", "main >> text=all repos"):
        page.do("click", at=at)
        page.do("settled")
    wait_headline(page, "differ between these two runs, after a push to digits")
    newest, before = world.commits("digits")[:2]
    assert page.path == f"/diff/{before}/{newest}"
    assert {"digits", "train", "infer"} <= set(page.js("[...document.querySelectorAll('[data-row]')].map((one) => one.textContent)"))


def test_a_table_differs_by_rows(page, shelf):
    page.go("/diff/default/shelf/{}/{}?path=/t&file=t/table.csv".format(*shelf))
    wait_headline(page, "3 files changed in shelf below /t.")
    wait_text(page, "1 row new, 1 row changed, 1 row gone (rows by id)")
    assert page.js("[...document.querySelectorAll('.csv tbody tr')].map((one) => one.querySelector('.n').innerText.trim().split(/\\s+/).pop() + ' ' + one.className)") == ["2 add", "3 ", "2 del"]
    assert page.js("document.querySelector('.csv td.new s').textContent") == "cat"
    assert page.js(QUIET)


def test_lines_stand_side_by_side(page, shelf):
    page.go("/diff/default/shelf/{}/{}?path=/t&file=t/lines.txt&view=beside".format(*shelf))
    page.do("wait", at=".beside")
    rows = page.js("[...document.querySelectorAll('.beside tbody tr')].map((row) => [...row.querySelectorAll('td:not(.n)')].map((one) => one.textContent))")
    assert rows == [["one", "one"], ["− two", "+ " + EVIL], ["three", "three"], ["", "+ four"]]
    page.do("click", at="button:has-text('Lines')")
    page.do("wait", at=".log .del")
    assert page.js(QUIET) and "view=text" in page.path


def test_pictures_lie_one_over_the_other(page, shelf):
    page.go("/diff/default/shelf/{}/{}?path=/t&file=t/picture.png".format(*shelf))
    page.do("waitfor", js="document.querySelectorAll('.split img').length === 2")
    page.do("click", at="button:has-text('One over the other')")
    page.do("waitfor", js="document.querySelectorAll('.swipe img').length === 2 && document.querySelector('.swipe .over').style.clipPath.includes('50%')")
    page.js("(() => { const it = document.querySelector('input[type=range]'); it.value = 80; it.dispatchEvent(new Event('input', { bubbles: true })); })()")
    page.do("waitfor", js="document.querySelector('.swipe .over').style.clipPath.includes('20%')")


def test_folders_of_a_diff_lead_to_what_differs_in_them(page, shelf):
    page.go("/diff/default/shelf/{}/{}".format(*shelf))
    wait_headline(page, "1 file is new, 3 changed in shelf.")
    assert page.js("[...document.querySelectorAll('.chips li')].map((one) => one.innerText.trim().replace(/\\s+/g, ' '))") == ["names +1 file", "t ~3 files"]
    page.do("click", at=".chips >> text=names")
    wait_headline(page, "1 file is new in shelf below /names.")
    wait_text(page, EVIL)
    assert page.js(QUIET)


def test_broken_json_is_text_with_the_place_of_the_error(page, shelf):
    page.go("/data/default/shelf/master/-/broken.json")
    page.do("wait", at=".note")
    assert page.do("text", at=".note").strip() == "This is no valid JSON: line 3, column 14: expected a value."
    assert "NaN" in page.js("document.querySelector('.log .bad').textContent")


def test_sound_is_read_by_range_from_its_own_address(page, shelf):
    page.go("/data/default/shelf/master/-/beep.wav")
    page.do("waitfor", js="document.querySelector('audio')?.readyState >= 1")
    assert page.js("document.querySelector('audio').duration") == 1
    assert "/api/v1/repos/default/shelf/refs/" in page.js("document.querySelector('audio').src")


@pytest.mark.timeout(900)
def test_a_table_of_100_mb_opens_at_once(page, world, shelf):
    rows = 5_000_000
    push(world, "shelf", "large.csv", b"n,text\n" + b"".join(b"%07d,%s\n" % (n, b"cells of it") for n in range(rows)))
    page.go("/data/default/shelf/master/-/large.csv")
    page.do("wait", at=".csv tbody tr")

    def first():
        return page.js("document.querySelector('.csv tbody tr').innerText.split(/\\s+/).filter(Boolean)")
    assert first()[:2] == ["1", "0000000"] and page.js("document.querySelectorAll('.csv tbody tr').length") == 500
    page.do("click", at="button:has-text('Next rows')")
    page.do("waitfor", js="document.querySelector('.csv tbody tr')?.innerText.includes('0000500')")
    page.do("click", at="button:has-text('Last rows')")
    page.do("waitfor", js="Number(document.querySelector('.csv tbody tr td:nth-child(2)')?.textContent) == 4999500")
    page.do("click", at="button:has-text('First rows')")
    page.do("waitfor", js="document.querySelector('.csv tbody tr')?.innerText.includes('0000000')")
    asked = page.js("performance.getEntriesByType('resource').filter((one) => one.name.includes('large.csv')).reduce((sum, one) => sum + one.transferSize, 0)")
    assert asked < 4 << 20


def test_a_small_table_of_many_rows_has_pages(page, world, shelf):
    push(world, "shelf", "rows.csv", b"n,text\n" + b"".join(b"%d,x\n" % n for n in range(1200)))
    page.go("/data/default/shelf/master/-/rows.csv")
    for n in (500, 1000):
        page.do("wait", at=".csv tbody tr")
        page.do("click", at="button:has-text('Next rows')")
        page.do("waitfor", js=f"document.querySelector('.csv tbody tr td:nth-child(2)')?.textContent === '{n}'")
    assert page.js("document.querySelectorAll('.csv tbody tr').length") == 200
    assert page.js("document.querySelector('.rows-at button:nth-child(3)').disabled")


def test_find_looks_below_the_folder_and_says_how_far(page, shelf):
    page.go("/data/default/shelf/master/-/")
    page.do("fill", at="input[type=search]", text="IMG SRC")
    wait_text(page, "2 found in")
    wait_text(page, "files, which are all")
    page.do("waitfor", js="document.querySelectorAll('[data-row]').length === 2")
    assert page.js("[...document.querySelectorAll('[data-row]')].map((one) => one.textContent)") == [f"names/{EVIL}", f"names/{EVIL}/{EVIL}.csv"]
    assert page.js(QUIET) and "q=IMG" in page.path


def test_a_folder_is_offered_as_zip_and_tar(page, world, shelf):
    page.go("/data/default/shelf/master/-/names")
    links = page.js("[...document.querySelectorAll('a[download]')].map((one) => one.getAttribute('href'))")
    assert [urllib.parse.parse_qs(urllib.parse.urlsplit(one).query)["format"] for one in links] == [["zip"], ["tar"]]
    with zipfile.ZipFile(io.BytesIO(world.daemon.http("GET", links[0], raw=True))) as z:
        assert z.namelist() == [f"names/{EVIL}/{EVIL}.csv"]


def test_made_by_and_used_by_stand_on_every_page_of_files(page):
    for path in ("/data/default/train/master/-/", "/data/default/train/master/-/model.npz"):
        page.go(path)
        wait_text(page, "made by train")
        wait_text(page, "used by")
    page.go("/data/default/digits/master/-/")
    wait_text(page, "filled by pushes")


def test_a_page_of_a_file_that_is_gone_says_what_became_of_it(page, world, shelf):
    push(world, "shelf", "passing.txt", b"1")
    world.ctl("delete", "file", "shelf@master:/passing.txt")

    def headline():
        page.go("/data/default/shelf/master/-/passing.txt")
        page.do("waitfor", js="/is gone|There is no/.test(document.querySelector('h1')?.textContent)")
        return page.js("document.querySelector('h1').textContent")
    # the daemon looks back for a moment only: another page may say it
    conftest.kit.wait_until(lambda: "is gone" in headline(), headline)
    assert "was removed on 2" in main_text(page)


def test_an_interrupted_push_goes_on_after_a_reload(page, world, shelf, tmp_path):
    files = [tmp_path / "one.txt", tmp_path / "two.txt"]
    for file in files:
        file.write_text(file.name)
    commit = world.daemon.http("POST", "/api/v1/repos/default/shelf/branches/master/open", {"message": "half"})["id"]
    world.daemon.http("PUT", f"/api/v1/repos/default/shelf/open/{commit}/files/in/one.txt", b"one.txt")
    page.go("/data/default/shelf")
    begun = {"target": {"project": "default", "repo": "shelf", "branch": "master", "folder": "in", "message": "half"}, "commit": commit,
             "put": {"one.txt": f"7 {files[0].stat().st_mtime_ns // 1000000}"}}
    page.js(f"localStorage.setItem('pipelined.push / default/shelf', {json.dumps(json.dumps(begun))})")
    page.go("/data/default/shelf")
    wait_text(page, "was interrupted")
    page.do("click", at="button:has-text('Push files')")
    page.do("wait", at="dialog >> text=was interrupted")
    page.do("click", at="dialog >> button:has-text('Leave it')")
    page.do("pick", at=".note input[type=file]:not([webkitdirectory])", files=[str(file) for file in files])
    page.do("wait", at="dialog")
    assert "1 file is missing or changed" in page.do("text", at="dialog")
    page.do("click", at="dialog .btn.main")
    page.do("waitfor", js="location.pathname.includes('/-/in')")
    listed = world.daemon.http("GET", f"/api/v1/repos/default/shelf/refs/{commit}/list?path=/in")
    assert [one["path"] for one in listed["files"]] == ["in/one.txt", "in/two.txt"]
    assert page.js("localStorage.getItem('pipelined.push / default/shelf')") is None


@pytest.mark.timeout(900)
def test_a_folder_of_many_files_scrolls_in_pages(page, world):
    world.ctl("create", "repo", "crowd")
    body = conftest.kit.ops_stream({f"d/f{n:07d}": b"x" for n in range(MANY)}, [])
    world.daemon.http("POST", "/api/v1/repos/default/crowd/branches/master/commits", body, headers={"Content-Type": "application/x-pl-ops"}, timeout=300)
    page.go("/data/default/crowd/master/-/d")
    page.do("wait", at="[data-row]")
    for _ in range(4):
        before = page.js("document.documentElement.scrollHeight")
        page.js("scrollTo(0, document.documentElement.scrollHeight)")
        page.do("waitfor", js=f"document.documentElement.scrollHeight > {before}")
    assert page.js("document.querySelectorAll('[data-row]').length") < 200  # only what is near the view is drawn
    page.do("fill", at="input[type=search]", text="f0999999")
    wait_text(page, "1 found in")


def test_many_repos_are_read_in_pages(page, world):
    world.daemon.http("POST", "/api/v1/projects", {"name": "many"})
    for i in range(450):
        world.daemon.http("POST", "/api/v1/repos", {"project": "many", "name": f"r{i:03}"})
    asked = "performance.getEntriesByType('resource').filter((one) => /v1\\/repos\\?/.test(one.name)).map((one) => new URL(one.name).search)"
    page.go("/data?project=many")
    assert page.headline == "Over 200 repos: of the first 200, 200 take pushes and 0 are written by stages."
    assert set(page.js(asked)) == {"?limit=200&project=many"}  # an event may have asked again
    page.do("waitfor", js="(scrollTo(0, document.documentElement.scrollHeight), [...document.querySelectorAll('[data-row]')].some((one) => one.textContent === 'r449'))")
    assert page.headline == "450 repos take pushes, 0 are written by stages."
    assert page.js("document.querySelectorAll('[data-row]').length") < 200, "only rows near the view are drawn"
    # a filter that leaves nothing reads on until it knows
    page.go("/data?project=many&kind=output")
    page.do("waitfor", js="document.querySelector('.empty')?.textContent === 'No repo is like that.'")
    assert page.headline == "450 repos take pushes, 0 are written by stages."
