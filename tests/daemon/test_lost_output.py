"""What a datum printed whose worker was lost: what the lost worker sent is kept, what the next one sends is kept, and a line is between."""

import os
import re
import signal

from conftest import sh, wait_until, workers_of


def test_both_texts_are_kept_with_the_reason_between(make_daemon, tmp_path):
    """The text of the second worker is shorter: it is not taken for the first one's, sent again."""
    daemon = make_daemon(sandbox="none").start()
    ran = tmp_path / "ran"
    script = f'echo x >>{ran}; case $(wc -l <{ran}) in 1) echo a long text; echo of the first; printf worker; sleep 600;; 2) echo second; sleep 600;; *) echo third;; esac'
    p = daemon.default.repo("in")
    p.stages(sh("s", script))
    run = p.commit("in", {"f": "1"})["run"]
    daemon.wait_job(run, "s", lambda j: j["state"] == "running", "to run")
    expected = r"a long text\nof the first\nworker"
    for text in ("second", "third"):
        wait_until(lambda: re.fullmatch(expected, p.logs("s", run=run)), lambda: f"the log to be {expected}: {p.logs('s', run=run)}")
        os.kill(*workers_of(daemon), signal.SIGKILL)
        expected = expected.removesuffix(r"\n") + r"\nworker lost: its worker ended: [^\n]*signal 9[^\n]*\n"
        wait_until(lambda: re.match(expected, p.logs("s", run=run)), lambda: f"the log to tell of it: {p.logs('s', run=run)}")
        expected += text + r"\n"
    assert daemon.wait(run)["state"] == "success"
    datum, = [one for one in p.datums("s", run) if one["state"] == "success"]
    assert datum["attempt"] == 1, "a loss is no try"
    printed = daemon.ctl("logs", "s").out
    assert re.fullmatch(expected, printed), printed
    assert daemon.ctl("logs", "s", "--datum", datum["id"]).out == printed == p.logs("s", run=run)


def test_only_what_lost_workers_printed_gets_the_line(make_daemon, tmp_path):
    daemon = make_daemon(sandbox="none").start()
    ran = tmp_path / "ran"
    script = f'n=$(cat "$PL_INPUT_IN"); echo begin $n; if test $n = 2 && ! test -e {ran}; then >{ran}; sleep 600; fi; echo end $n'
    p = daemon.default.repo("in")
    p.stages(sh("s", script, glob="/*", workers=1))
    run = p.commit("in", {"a": "1", "b": "2"})["run"]
    daemon.wait_job(run, "s", lambda j: j["state"] == "running", "to run")
    wait_until(lambda: ran.exists() and "begin 2" in p.logs("s", run=run) and len(p.datums("s", run)) == 1, "the second datum to run, and the first to be kept")
    os.kill(*workers_of(daemon), signal.SIGKILL)
    assert daemon.wait(run)["state"] == "success"
    logs = {d["paths"]: p.logs("s", run=run, datum=d["id"]) for d in p.datums("s", run)}
    assert logs.pop("in=/a") == "begin 1\nend 1\n"
    text, = logs.values()
    assert re.fullmatch(r"begin 2\nworker lost: [^\n]*\nbegin 2\nend 2\n", text), text


def test_what_a_worker_gave_back_has_the_line_and_its_finished_datums_have_not(make_daemon, tmp_path):
    """The worker is told to end, as when its node is drained, and gives back the second datum of its task."""
    daemon = make_daemon(sandbox="none").start()
    script = f'n=$(cat "$PL_INPUT_IN"); echo begin $n; if test $n = 2 && mkdir {tmp_path}/ran 2>/dev/null; then sleep 600; fi; echo end $n'
    p = daemon.default.repo("in")
    p.stages(sh("s", script, glob="/*", workers=1))
    run = p.commit("in", {"a": "1", "b": "2"})["run"]
    daemon.wait_job(run, "s", lambda j: j["state"] == "running", "to run")
    wait_until(lambda: "begin 2" in p.logs("s", run=run), "the second datum to print something")
    os.kill(*workers_of(daemon), signal.SIGTERM)
    assert daemon.wait(run)["state"] == "success"
    datums = p.datums("s", run)
    lost, = [d for d in datums if d["state"] == "lost"]
    logs = {d["paths"]: p.logs("s", run=run, datum=d["id"]) for d in datums}
    assert logs == {"in=/a": "begin 1\nend 1\n",
                    "in=/b": f"begin 2\nworker lost: its worker was told to end (node {lost['node']})\nbegin 2\nend 2\n"}


def test_a_lost_worker_s_line_names_its_node(make_daemon, tmp_path):
    daemon = make_daemon(sandbox="none").start()
    p = daemon.default.repo("in")
    p.stages(sh("s", f"echo begin; if mkdir {tmp_path}/ran 2>/dev/null; then sleep 600; fi"))
    run = p.commit("in", {"f": "1"})["run"]
    daemon.wait_job(run, "s", lambda j: j["state"] == "running", "to run")
    wait_until(lambda: (tmp_path / "ran").exists() and p.logs("s", run=run) == "begin\n", "the command to print something")
    os.kill(*workers_of(daemon), signal.SIGKILL)
    assert daemon.wait(run)["state"] == "success"
    lost, = [d for d in p.datums("s", run) if d["state"] == "lost"]
    assert p.logs("s", run=run) == f"begin\nworker lost: {lost['reason']} (node {lost['node']})\nbegin\n"
