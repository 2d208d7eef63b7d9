"""Names and contents that try to become part of the page, addresses of things that are gone, a daemon that goes away."""
import http.client
import urllib.parse

import pytest
import seed

QUIET = "window.hit === undefined && !document.querySelector('main script, main iframe, main object, main [onload], main [onerror]')"


@pytest.mark.parametrize("kind", seed.INJECTION)
def test_a_name_is_shown_as_text(page, world, kind):
    name = seed.INJECTION[kind]
    path = urllib.parse.quote(f"names/{name}", safe="/")
    page.go("/data/default/photos/master/-/names")
    shown = name.replace("\u202e", "\\u202e")
    assert page.js(f"[...document.querySelectorAll('[data-row]')].some((one) => one.textContent === {shown!r})") or len(shown) > 80
    page.go(f"/data/default/photos/master/-/{path}")
    page.do("wait", at=".log")
    assert "<script>window.hit=5</script>" in page.js("document.querySelector('.log').textContent")
    page.go(f"/why/default/photos/master/-/{path}")
    assert shown in page.headline
    page.go(f"/jobs/default/decode/{world.job('decode')['run']}")
    assert page.js(QUIET)


def test_pictures_run_no_script(page):
    page.go("/data/default/photos/master/-/porto/evil.svg")
    page.do("waitfor", js="document.querySelector('main img')?.naturalWidth > 0")
    assert page.js(QUIET)
    assert page.js("document.querySelector('main img').src").startswith("blob:")


def test_a_file_opened_by_its_address_is_not_a_page(world):
    where = urllib.parse.urlsplit(world.daemon.url)
    connection = http.client.HTTPConnection(where.hostname, where.port, timeout=60)
    connection.request("GET", "/api/v1/repos/default/photos/refs/master/files/porto/evil.svg", headers={"Authorization": "Bearer " + world.daemon.token})
    reply = connection.getresponse()
    assert reply.read() == seed.EVIL_SVG
    assert {name: reply.getheader(name) for name in ("Content-Type", "X-Content-Type-Options", "Content-Disposition", "Content-Security-Policy")} == {
        "Content-Type": "image/svg+xml", "X-Content-Type-Options": "nosniff", "Content-Disposition": "attachment", "Content-Security-Policy": "sandbox; default-src 'none'"}
    connection.close()


def test_a_log_is_text(page, world):
    page.go(f"/jobs/default/decode/{world.job('decode')['run']}/log")
    page.do("wait", at=".log")
    assert "<b>not bold</b>" in page.js("document.querySelector('.log').textContent")
    assert page.js("document.querySelector('.log b')") is None


def test_a_progress_bar_keeps_its_last_state(page, world):
    page.go(f"/jobs/default/train-vit/{world.job('train-vit')['run']}/log")
    page.do("wait", at=".log")
    assert "epoch 30 of 30" in page.headline
    assert "epoch 1 of" not in page.js("document.querySelector('.log').textContent")


@pytest.mark.parametrize("path, part", [
    ("/runs/9ab2", "There is no run 9ab2"), ("/jobs/default/nothing/9ab2", "There is no job of nothing"), ("/data/default/nothing", "There is no repo nothing"),
    ("/data/default/digits/master/-/no/such", "There is no /no/such"), ("/diff/default/digits/aaaaaaaa/bbbbbbbb", "There is no diff"), ("/why/default/digits/master/-/no", "There is no file"),
    ("/pipelines/default/nothing", "There is no pipeline nothing"), ("/runs/a/b/c", "There is nothing at this address"), ("/runs/%3Cimg%20src=x%20onerror=window.hit=9%3E", "<img src=x"),
])
def test_an_address_of_nothing_says_what_there_is(page, path, part):
    page.go(path)
    page.do("waitfor", js=f"document.querySelector('h1')?.textContent.includes({part!r}) || document.querySelector('[role=alert]')")
    assert page.js(QUIET)
    assert page.js("document.querySelectorAll('nav a').length") >= 5


def test_the_page_outlives_a_restart_of_the_daemon(page, world):
    page.go("/data")
    before = page.headline
    port = urllib.parse.urlsplit(world.daemon.url).port
    world.daemon.stop()
    page.do("wait", at=".banner >> text=No answer from the daemon for")
    assert page.headline == before
    world.daemon.spawn("--listen", f"127.0.0.1:{port}", env={"PATH": "/usr/bin:/bin"}).ready()
    page.do("wait", at=".banner", state="detached")
    world.ctl("create", "repo", "made-meanwhile")
    page.do("waitfor", js="document.querySelector('main').textContent.includes('made-meanwhile')")


def test_the_page_works_below_a_path_of_a_proxy(chromium, world, proxy):
    chromium.open(world.daemon, signed_in=False)
    chromium.base = proxy
    link = urllib.parse.urlsplit(world.daemon.http("POST", "/api/v1/login-links")["url"]).query
    chromium.go("/login?" + link + "&to=%2Fdata%2Fdefault%2Fdigits")
    assert chromium.path == "/data/default/digits"
    chromium.do("click", at="nav >> text=Runs")
    chromium.do("wait", at="[data-row]")
    assert chromium.path == "/runs"
    chromium.go("/jobs/default/prepare/" + world.commits("digits")[-1] + "/log")
    assert chromium.path.endswith("/log") and "prepare" in chromium.headline
    assert chromium.do("complaints") == []
