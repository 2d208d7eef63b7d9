"""Any lines of a log, and a search in it: of a large one, of one datum, of text that is hostile."""
import time
import urllib.parse

import pytest

from conftest import HttpError, sh, wait_until


class Log:
    def __init__(self, project, run, stage="s"):
        self.d, self.base = project.d, f"/jobs/{project.name}/{stage}/{run}/log"

    def lines(self, **query):
        return self.d.get(self.base + "?" + urllib.parse.urlencode(query))

    def find(self, **query):
        found = {"next": query.pop("from_", None)}
        while True:
            found = self.d.get(self.base + "/search?" + urllib.parse.urlencode({**query, **({"from": found["next"]} if found["next"] else {})}))
            if found["line"] or not found["next"]:
                return found["line"]


def texts(page):
    return [one["text"] for one in page["lines"]]


def test_the_ends_and_any_line_of_a_large_log_come_at_once(project):
    script = """awk 'BEGIN { for (i = 1; i <= 1500000; i++) printf "line %d of the log, with some text so that it is long\\n", i; print "RuntimeError: at the end" }'"""
    project.repo("in").stages(sh("s", script))
    log = Log(project, project.run("in", {"f": "1"}, timeout=300)["id"])
    total = log.lines(limit=1)["total"]
    assert total > 900000, "64 MiB of a datum's output are kept"
    took = []
    for query in ({"tail": 1}, {"line": 1}, {"line": total // 2}, {"byte": 30_000_000}):
        began = time.monotonic()
        page = log.lines(**query)
        took.append(time.monotonic() - began)
        assert len(page["lines"]) == 200
        one = page["lines"][0]
        assert query.get("tail") or one["text"].startswith(f"line {one['line']} of")
    print("seconds of a sanitizer's build:", took)
    end = log.lines(tail=1)["lines"]
    assert end[-1]["line"] == total
    for how in ((), ("--raw",), ("--prefix", "none")):
        said = project.d.ctl("--project", project.name, "logs", "s", "--tail", "3", *how)
        assert said.out.splitlines() == texts({"lines": end})[-3:]
    assert log.find(q="LINE 800000 OF") == 800000
    assert log.find(q="line 5 of", back=1, from_=700000) == 5
    assert log.find(q="no such text") is None


def test_progress_bars_hostile_bytes_and_long_lines(project):
    script = r"""printf '10%%\r50%%\r100%%\n<script>alert(1)</script>\n\033[31mred\033[0m\nzero \000 byte\nbad \377\376 utf\n'
head -c 10000000 /dev/zero | tr '\0' x; printf '\nValueError: no\nopen'"""
    project.repo("in").stages(sh("s", script))
    log = Log(project, project.run("in", {"f": "1"})["id"])
    page = log.lines(line=1)
    assert texts(page)[:5] == ["100%", "<script>alert(1)</script>", "\x1b[31mred\x1b[0m", "zero \0 byte", "bad \ufffd\ufffd utf"]
    long, error, last = page["lines"][5:]
    assert (len(long["text"]), long["bytes"], long["cut"]) == (16384, 10_000_000, True)
    assert (error["text"], last["text"], last["open"]) == ("ValueError: no", "open", True)
    assert (page["total"], page["final"]) == (8, True)
    assert log.find(errors=1) == 7 and log.find(errors=1, from_=8) is None
    for path, says in (("?limit=0", "1 to 2000"), ("?attempt=1", "name the datum"), ("/search", "1 to 256 bytes"), ("?datum=fe", "has no datum")):
        with pytest.raises(HttpError) as refused:
            project.d.get(log.base + path)
        assert says in str(refused.value)


def test_lines_of_one_datum_and_of_a_job_that_still_prints(project, gate):
    project.repo("in").stages(sh("s", f'echo "this is $(basename $PL_INPUT_IN)"; {gate.wait}; echo done', glob="/*", workers=1))
    run = project.commit("in", {"a": "1", "b": "2"})["run"]
    gate.arrived()
    log = Log(project, run)
    wait_until(lambda: texts(log.lines(tail=1)) == ["this is a"], "the first line")
    assert log.lines()["final"] is False
    gate.open()
    gate.arrived()
    gate.open()
    project.wait(run)
    assert texts(log.lines()) == ["this is a", "done", "this is b", "done"] and log.lines()["final"]
    second = next(one for one in project.datums("s", run) if one["paths"].endswith("/b"))["id"]
    page = log.lines(datum=second[:12], attempt=1)
    assert (texts(page), page["total"]) == (["this is b", "done"], 2)
    assert log.find(q="this", datum=second[:12]) == 1
