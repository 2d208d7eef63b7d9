"""The graph in the browser: search, boxes that open and shut, keys along the edges, and a thousand stages."""
import json
import os
import pathlib
import statistics
import subprocess

import pytest
from conftest import kit

STAGES = 1000
CHAIN = 10
FOLDED = 2 * STAGES // 50 + 2  # a box and its repo for each pipeline, and the stage that runs


def graph_spec(name, stages, repo):
    return {"pipeline": name, "stages": [{"name": stage, "run": ["true"], "input": {"repo": source or repo}} for stage, source in stages]}


class Large:
    """A daemon with 1,000 stages: 20 pipelines of five chains of ten, whose repo has no commit, so that they do not run; and
    one stage beside them that does."""

    def __init__(self, daemon, folder):
        self.daemon, self.folder = daemon, folder
        daemon.http("POST", "/api/v1/repos", {"name": "in"})
        for p in range(STAGES // 50):
            stages = [(f"p{p:02}-c{c}-s{i}", f"p{p:02}-c{c}-s{i - 1}" if i else "") for c in range(5) for i in range(CHAIN)]
            text = json.dumps(graph_spec(f"p{p:02}", stages, "in"))
            daemon.http("POST", "/api/v1/pipelines", {"spec": text, "yes": True})
        daemon.http("POST", "/api/v1/repos", {"name": "other"})
        daemon.http("POST", "/api/v1/pipelines", {"spec": json.dumps(graph_spec("beside", [("live", "")], "other")), "yes": True})

    def push(self, n):
        (self.folder / "x").write_text(str(n))
        done = subprocess.run([f"{self.daemon.bin}/pipelinectl", "--data", self.daemon.dir, "put", "file", "other@master:/x", "-f", str(self.folder / "x")], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.fixture(scope="module")
def large(tmp_path_factory):
    root = tmp_path_factory.mktemp("large")
    daemon = kit.Daemon(root, "--sandbox", "none").start(env={"PATH": "/usr/bin:/bin"})
    yield Large(daemon, root)
    assert daemon.stop() == 0


@pytest.fixture
def big(chromium, large):
    yield chromium.open(large.daemon)
    assert chromium.do("complaints") == []


def drawn(page):
    """How many nodes are drawn."""
    return page.js("document.querySelectorAll('main [data-at]').length")


def wait_drawn(page, n):
    page.do("waitfor", js=f"document.querySelectorAll('main [data-at]').length === {n}")


def label(page):
    return page.js("document.activeElement.getAttribute('aria-label') ?? ''")


# ---- the graph of the usual data

def test_arrows_follow_the_edges(page):
    page.go("/")
    page.do("waitfor", js="document.querySelector('[aria-label*=\"stage decode\"]') !== null")
    page.js("document.querySelector('[aria-label*=\"stage decode\"]').focus()")
    assert "reads photos, feeds split" in label(page)
    page.do("press", key="ArrowRight")
    assert "stage split" in label(page)
    page.do("press", key="ArrowRight")
    assert "stage train-vit" in label(page) or "stage embed" in label(page) or "stage evaluate" in label(page)
    page.do("press", key="ArrowLeft")
    assert "stage split" in label(page)
    page.do("press", key="ArrowLeft")
    assert "stage decode" in label(page) or "repo labels" in label(page)


def test_the_search_goes_through_what_it_finds(page):
    page.go("/")
    page.do("wait", at=".graph-find input")
    page.do("press", key="s")
    page.do("type", text="e")
    page.do("waitfor", js="/^1 of \\d+/.test(document.querySelector('.graph-find [role=status]').textContent)")
    page.do("wait", at=".found a")  # marked and scrolled to after the count is shown
    first = page.js("document.querySelector('.found a').getAttribute('aria-label')")
    assert page.js("document.querySelectorAll('.g .dim').length") > 0
    page.do("press", key="ArrowDown")
    page.do("waitfor", js="document.querySelector('.graph-find [role=status]').textContent.startsWith('2 of')")
    page.do("waitfor", js=f"document.querySelector('.found a')?.getAttribute('aria-label') !== {json.dumps(first)}")
    page.do("press", key="ArrowUp")
    page.do("waitfor", js="document.querySelector('.graph-find [role=status]').textContent.startsWith('1 of')")
    page.do("press", key="Escape")
    page.do("waitfor", js="document.querySelectorAll('.g .found').length === 0")


def test_a_pipeline_is_shut_and_opened_by_keys_alone(page):
    page.go("/?project=default")
    page.do("waitfor", js="document.querySelector('[aria-label*=\"stage decode\"]') !== null")
    before = drawn(page)
    page.js("document.querySelector('[aria-label*=\"stage decode\"]').focus()")
    page.do("press", key="x")
    page.do("wait", at="[data-opens]")
    assert "shut=default" in page.path and "street" in page.path
    assert "6 stages" in page.js("document.querySelector('[data-opens]').getAttribute('aria-label')")
    page.picture("graph-shut")
    page.js("document.querySelector('[data-opens]').focus()")
    page.do("press", key="Enter")
    wait_drawn(page, before)
    page.do("waitfor", js="(document.activeElement.getAttribute('aria-label') ?? '').includes('stage ')")  # one that came out of the box
    # a link has the folding
    page.go("/?shut=default/street")
    page.do("wait", at="[data-opens]")
    page.do("click", at="button[aria-label='Unfold street']")
    wait_drawn(page, before)


# ---- a thousand stages

def test_a_large_graph_folds_and_unfolds(big):
    big.go("/")
    wait_drawn(big, FOLDED)
    big.picture("graph-large")
    big.do("click", at="button[aria-label='Unfold p03']")
    wait_drawn(big, FOLDED + CHAIN - 1)  # alike stages of five chains stay together
    big.do("click", at="[data-opens][aria-label*='of pipeline p03']")
    big.do("waitfor", js="document.querySelectorAll(\"[data-at][aria-label*='stage p03-']\").length >= 5")
    big.do("click", at="button[aria-label='Fold p03']")
    wait_drawn(big, FOLDED)


def test_the_search_takes_a_stage_out_of_its_box(big):
    big.go("/")
    wait_drawn(big, FOLDED)
    big.do("press", key="s")
    big.do("type", text="p07-c2-s5")
    big.do("waitfor", js="document.querySelector('.graph-find [role=status]').textContent.includes('Enter takes it out')")
    big.do("press", key="Enter")
    big.do("wait", at=".found a[aria-label*='stage p07-c2-s5']")
    big.do("waitfor", js="(() => { const r = document.querySelector('.found a').getBoundingClientRect(); return r.top >= 0 && r.bottom <= innerHeight; })()")  # it is in sight


EVERYTHING = "/?" + "&".join((
    "open=" + ",".join(f"default/p{p:02}" for p in range(20)),
    "spread=" + ",".join(f"default/p{p:02}-c0-s{i}" for p in range(20) for i in range(5)),  # as far as an address may say
))


def whole(page):
    """The names of the stages that are drawn with their text, not as an outline."""
    return page.js("[...document.querySelectorAll('main [data-at]')].filter((a) => a.querySelector('text.name')).map((a) => (/stage ([^,]+),/.exec(a.getAttribute('aria-label')) ?? [])[1])")


def test_only_what_is_in_view_is_drawn_in_full(big):
    big.go(EVERYTHING)
    big.do("waitfor", js="document.querySelectorAll('main [data-at] text.name').length > 0")
    all_of_them, full = drawn(big), whole(big)
    assert all_of_them > 600
    assert 0 < len(full) < all_of_them / 3, f"{len(full)} of {all_of_them}"
    far = "p19-c0-s0"
    assert far not in full
    # an outline has the name and the state in words, and takes the focus, which draws it
    at = f"[data-at][aria-label*='stage {far},']"
    assert "has not run" in big.js(f"document.querySelector({json.dumps(at)}).getAttribute('aria-label')")
    big.js(f"document.querySelector({json.dumps(at)}).focus()")
    big.do("waitfor", js=f"document.querySelector({json.dumps(at + ' text.name')}) !== null")
    assert far in label(big)
    big.do("press", key="ArrowRight")
    big.do("waitfor", js="document.activeElement.querySelector('text.name') !== null")
    assert "stage p19-c0-s1" in label(big) or "reads p19-c0-s0" in label(big)
    assert len(whole(big)) < all_of_them / 3  # what is out of view again is an outline again
    # Tab goes on in the order of the graph, from one that is drawn to one that was not
    order = big.js("[...document.querySelectorAll('main svg.g [data-at]')].map((a) => a.getAttribute('data-at'))")
    for _ in range(5):
        before = big.js("document.activeElement.closest('g').querySelector('[data-at]').getAttribute('data-at')")
        big.do("press", key="Tab")
        after = big.js("document.activeElement.closest('g').querySelector('[data-at]').getAttribute('data-at')")
        assert order.index(after) - order.index(before) in (0, 1)
    # scrolling draws what comes into view
    big.js("scrollTo(0, 0)")
    big.do("waitfor", js=f"document.querySelector({json.dumps(at + ' text.name')}) === null")
    big.js("scrollTo(0, document.documentElement.scrollHeight)")
    big.do("waitfor", js="(() => { const seen = [...document.querySelectorAll('main [data-at]')].filter((a) => { const r = a.getBoundingClientRect(); return r.bottom > 0 && r.top < innerHeight && r.right > 0 && r.left < innerWidth; }); return seen.length > 0 && seen.every((a) => a.querySelector('text.name')); })()")


def test_a_search_draws_what_it_finds_out_of_view(big):
    big.go(EVERYTHING)
    big.do("wait", at=".graph-find input")
    big.do("press", key="s")
    big.do("type", text="p18-c0-s3")
    big.do("wait", at=".found a text.name")
    big.do("waitfor", js="(() => { const r = document.querySelector('.found a').getBoundingClientRect(); return r.top >= 0 && r.bottom <= innerHeight; })()")


def cpu_ms(page):
    """CPU time of the browser's renderers: on a machine with other work it says more than the clock."""
    parents, used, renders = {}, {}, set()
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            stat = (folder / "stat").read_text().rpartition(")")[2].split()
            if "--type=renderer" in (folder / "cmdline").read_text():
                renders.add(int(folder.name))
        except OSError:
            continue  # it has ended
        parents[int(folder.name)], used[int(folder.name)] = int(stat[1]), int(stat[11]) + int(stat[12])

    def is_ours(pid):
        while pid in parents and pid != page.process.pid:
            pid = parents[pid]
        return pid == page.process.pid

    return sum(used[pid] for pid in renders if is_ours(pid)) * 1000 / os.sysconf("SC_CLK_TCK")


def measured(page, act, done):
    """(ms, CPU ms) from `act` until `done` holds and is painted; the time is taken in the page."""
    before = cpu_ms(page)
    page.js(f"""(() => {{
      window.took = null;
      const start = performance.now();
      const look = () => {{ if ({done}) requestAnimationFrame(() => {{ window.took = performance.now() - start; }}); else requestAnimationFrame(look); }};
      {act};
      requestAnimationFrame(look);
    }})()""")
    page.do("waitfor", js="window.took !== null")
    return page.js("window.took"), cpu_ms(page) - before


def test_a_thousand_stages_are_drawn_folded_and_unfolded_in_time(big):
    """The goal is 500 ms on a machine of its own; here four times that is allowed to the best of three, of CPU time: the clock counts what else runs."""
    big.go("/")
    nodes = "document.querySelectorAll('main [data-at]').length"
    wait_drawn(big, FOLDED)
    figures = {}
    go = "history.pushState(null, '', {}); dispatchEvent(new PopStateEvent('popstate'))"
    for n in (1, 2, 3):
        figures[f"unfolded {n}"] = measured(big, go.format(json.dumps(EVERYTHING)), f"{nodes} > 600")
        shown = drawn(big)
        figures[f"folded {n}"] = measured(big, go.format(json.dumps("/")), f"{nodes} === {FOLDED}")
    print(f"\n{shown} nodes: " + ", ".join(f"{what} {ms:.0f} ms ({cpu:.0f} ms of CPU)" for what, (ms, cpu) in figures.items()))
    assert shown > 600
    for what in ("unfolded", "folded"):
        assert min(cpu for key, (_, cpu) in figures.items() if key.startswith(what)) < 2000, figures


def test_a_state_is_shown_soon_after_its_event(big, large):
    """The goal is 50 ms after the event, on a machine of its own. Here the machine has other work: the state must be drawn
    before the daemon is asked again, as fast as the browser gets to it."""
    big.go(EVERYTHING)
    big.do("wait", at="[aria-label*='stage live']")
    # the page hears events in the order of the stream: the reader is wrapped to note when the bytes came
    big.js("""(() => {
      window.times = [];
      let came = 0;
      const read = ReadableStreamDefaultReader.prototype.read;
      ReadableStreamDefaultReader.prototype.read = async function () {
        const chunk = await read.call(this);
        if (typeof chunk.value === "string" && /"stage": ?"live"/.test(chunk.value)) came = performance.now();
        return chunk;
      };
      const label = () => document.querySelector("[aria-label*='stage live']")?.getAttribute("aria-label")?.replace(/\\d+ m?s\\b.*?,/, "");
      let last = label();
      new MutationObserver(() => {
        const now = label();
        if (now === last || now === undefined || !came) return;
        last = now;
        const from = came;
        came = 0;
        requestAnimationFrame(() => window.times.push(performance.now() - from));
      }).observe(document.querySelector("main"), { subtree: true, childList: true, attributes: true, characterData: true });
    })()""")
    for i in range(20):  # all events of a push may come at once, and then nothing is drawn between its start and its end
        large.push(i)
        until = big.js("performance.now()") + 5000
        seen = big.js("window.times.length")
        big.do("waitfor", js=f"window.times.length > {seen} || performance.now() > {until}")
        if big.js("window.times.length") >= 5:
            break
    times = big.js("window.times")
    print(f"\na state was drawn {statistics.median(times):.0f} ms (median), {min(times):.0f} ms (best), {max(times):.0f} ms (worst of {len(times)}) after its event")
    assert len(times) >= 5 and min(times) < 1000, times
