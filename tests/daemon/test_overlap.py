"""What a worker does while a command runs: it fetches the next datum, uploads the last one and what the command leaves alone, and asks for
the next task."""

import hashlib
import signal
import time

import pytest
from fake_daemon import EMPTY_ROOT, FakeDaemon, Worker, decode_ops, eventually, row

IDS = [f"{i:064x}" for i in range(1, 6)]
INPUT = {"name": "in", "path": "", "root": EMPTY_ROOT, "kind": "dir", "files": []}


class Gates:
    """Commands wait for them, tests open them."""

    def __init__(self, folder):
        self.folder = folder

    def wait(self, name):
        """Shell text that waits for the gate."""
        return f"while [ ! -e {self.folder}/{name} ]; do sleep 0.01; done"

    def open(self, name):
        (self.folder / name).touch()


@pytest.fixture
def gates(tmp_path):
    return Gates(tmp_path)


@pytest.fixture
def start(tmp_path):
    """start(shell command, daemon=one that is there, env=, more of the stage) → (daemon, worker)"""
    started = []

    def _start(shell, daemon=None, env=None, **stage):
        daemon = daemon or FakeDaemon({"run": ["sh", "-c", shell], **stage})
        worker = Worker(daemon, tmp_path, env=env)
        started.append((daemon, worker))
        return daemon, worker

    yield _start
    for daemon, worker in started:
        worker.stop()
    for daemon in {id(daemon): daemon for daemon, _ in started}.values():
        daemon.down()


def input_of(i):
    """An empty folder as input; of another name for each datum, so that it must be built."""
    return [{**INPUT, "name": f"in{i}"}]


def rows(*numbers):
    return [row(i, IDS[i], inputs=input_of(i)) for i in numbers]


def of(*cases):
    """Shell text that differs by datum."""
    return "case $PL_DATUM_ID in " + "".join(f"{IDS[i]}) {text};; " for i, text in cases) + "esac"


NEXT = "${PL_OUT%/pfs/out}/next"


@pytest.mark.parametrize("tasks", [[(0, 1)], [(0,), (1,)]], ids=["of one task", "of the next task"])
def test_the_next_datums_inputs_are_fetched_while_one_computes(start, tasks):
    daemon, _ = start(of((0, f"until [ -d {NEXT}/in1 ]; do sleep 0.01; done; ls $PL_OUT/.."), (1, "ls $PL_OUT/..")))
    for number, of_task in enumerate(tasks):
        daemon.give(number, rows(*of_task))
    daemon.wait(lambda: sum(len(r["rows"]) for r in daemon.results) == 2)
    assert all(r["state"] == "success" for result in daemon.results for r in result["rows"])
    assert [daemon.logs[(IDS[i], 1)] for i in (0, 1)] == [b"in0\nout\n", b"in1\nout\n"]


def test_the_inputs_of_one_row_are_built_ahead_not_of_two(start, gates):
    daemon, worker = start(of((0, gates.wait("go"))))
    daemon.give(1, rows(0, 1, 2))
    eventually((worker.work / "next" / "in1").exists)
    daemon.wait(lambda: len(daemon.renews) > 5)
    assert not (worker.work / "next" / "in2").exists()
    gates.open("go")
    assert [r["state"] for r in daemon.result()["rows"]] == ["success"] * 3


@pytest.mark.parametrize("overlap", ["1", "0"], ids=["with overlap", "without"])
def test_the_bytes_of_the_row_behind_it_come_while_it_waits(start, gates, overlap):
    daemon, worker = start(of((0, gates.wait("go"))), env={"PIPELINED_OVERLAP": overlap})
    ahead = worker.work / "next" / ".ahead" / "in"
    daemon.give(1, [row(i, IDS[i], inputs=[{**INPUT, "path": f"d{i}"}]) for i in range(4)])
    if overlap == "1":
        eventually((ahead / "d2").exists)
    daemon.wait(lambda: len(daemon.renews) > 5)
    assert (ahead / "d2").exists() == (overlap == "1")
    assert not (ahead / "d3").exists()
    gates.open("go")
    assert [r["state"] for r in daemon.result()["rows"]] == ["success"] * 4


def test_a_task_is_handed_in_while_the_next_one_computes(start, gates):
    daemon, _ = start("echo -n $PL_DATUM_ID >$PL_OUT/id; " + of((1, gates.wait("go"))))
    daemon.give(1, rows(0))
    daemon.give(2, rows(1))
    assert decode_ops(daemon.result(1)["rows"][0])["id"][1].decode() == IDS[0]
    daemon.wait(lambda: list(daemon.leased) == [2])
    gates.open("go")
    assert decode_ops(daemon.result(2)["rows"][0])["id"][1].decode() == IDS[1]


def test_outputs_do_not_mix_while_an_upload_waits(start, gates):
    """The first output's upload is refused until the second datum has written its own."""
    daemon, _ = start(of((0, "head -c 100000 /dev/urandom >$PL_OUT/a; mkdir $PL_OUT/only0; echo 0 >$PL_OUT/only0/x"),
                         (1, f"echo 1 >$PL_OUT/a; ls -A $PL_OUT; {gates.wait('go')}")))
    daemon.refuse["have"] = [(507, "disk_full")] * 3
    daemon.give(1, rows(0))
    daemon.give(2, rows(1))
    daemon.wait(lambda: (IDS[1], 1) in daemon.logs)
    assert daemon.logs[(IDS[1], 1)] == b"a\n"
    gates.open("go")
    first, second = (decode_ops(daemon.result(n)["rows"][0]) for n in (1, 2))
    assert set(first) == {"a", "only0/x"} and second == {"a": (1, b"1\n")}


def test_an_output_of_nothing_but_folders_that_may_not_be_entered_is_taken_away(start):
    daemon, _ = start("mkdir -p $PL_OUT/d/e; chmod 0 $PL_OUT/d; chmod 500 $PL_OUT; ls -A $PL_OUT")
    daemon.give(1, rows(0, 1))
    assert [set(decode_ops(r)) for r in daemon.result()["rows"]] == [{"d/e"}] * 2
    assert daemon.logs[(IDS[1], 1)] == b"d\n"


def test_held_time_is_counted_once(start):
    """Two rows that compute 0.2 s each, the second one's fetch and the first one's upload meanwhile."""
    daemon, _ = start("head -c 3000000 /dev/urandom >$PL_OUT/data; sleep 0.2")
    began = time.monotonic()
    daemon.give(1, rows(0, 1, 2))
    ms = [r["ms"] for r in daemon.result()["rows"]]
    took = (time.monotonic() - began) * 1000
    assert all(m["held"] >= m["compute"] >= 200 for m in ms)
    # "wait" began before it was given; of all else no moment is two rows'
    assert sum(m["held"] for m in ms) - ms[0]["wait"] <= took + 10, (ms, took)


def test_without_overlap_nothing_is_asked_or_fetched_meanwhile(start, gates):
    daemon, worker = start(of((0, gates.wait("go"))), env={"PIPELINED_OVERLAP": "0"})
    daemon.give(1, rows(0, 1))
    daemon.give(2, rows(2))
    daemon.wait(lambda: len(daemon.renews) > 5 and list(daemon.leased) == [1])
    assert not list((worker.work / "next").iterdir()) and len(daemon.nexts) == 1
    gates.open("go")
    daemon.result(2)
    assert [len(r["rows"]) for r in daemon.results] == [2, 1]


@pytest.mark.parametrize("how", ["stop", "sigterm"])
def test_what_was_fetched_ahead_is_given_back(start, gates, how):
    daemon, worker = start(of((1, "echo here; sleep 100")))
    daemon.give(1, rows(0))
    daemon.give(2, rows(1))
    daemon.give(3, rows(2, 3))
    daemon.wait(lambda: (IDS[1], 1) in daemon.logs)
    daemon.holds(2, 3)
    if how == "stop":
        daemon.renew_reply = {"stop": True}
    else:
        worker.process.send_signal(signal.SIGTERM)
    assert worker.end() == 0
    assert sorted((r["task"], r["gave_back"]) for r in daemon.results) == [(1, []), (2, [1]), (3, [2, 3])]
    assert not worker.work.exists()


def test_the_end_while_a_command_runs_means_that_it_is_not_wanted(start):
    daemon, worker = start("echo here; sleep 100")
    daemon.give(1, rows(0))
    daemon.wait(lambda: daemon.logs)
    daemon.end()
    assert worker.end() == 0
    assert [r["gave_back"] for r in daemon.results] == [[0]]


def test_a_lost_lease_ends_only_its_own_task(start, gates):
    daemon, _ = start(of((0, gates.wait("go")), (1, "echo here; sleep 100")))
    daemon.give(1, rows(0))
    daemon.give(2, rows(1))
    daemon.holds(1, 2)
    daemon.renew_reply = {"lost": [{"task": 2}]}
    daemon.holds(1)
    gates.open("go")
    daemon.give(3, rows(2))
    daemon.result(2)
    assert [r["task"] for r in daemon.results] == [1, 3]
    assert (IDS[1], 1) not in daemon.logs


def test_rows_that_are_recalled_go_back_at_once_unless_begun(start, gates):
    daemon, worker = start("echo here; " + of((0, gates.wait("go"))))
    daemon.give(1, rows(0, 1))
    daemon.give(2, rows(2, 3))
    daemon.wait(lambda: (IDS[0], 1) in daemon.logs)
    daemon.renew_reply = {"recall": [{"task": 1}]}
    first = daemon.result(1)
    assert (first["task"], first["rows"], first["gave_back"]) == (1, [], [1])
    daemon.wait(lambda: len(daemon.results) > 1)  # told again, it answers again
    assert daemon.results[1] == first
    daemon.renew_reply = {}
    gates.open("go")
    daemon.wait(lambda: daemon.results[-1]["task"] == 2)
    last = [r for r in daemon.results if r["task"] == 1][-1]
    assert ([r["index"] for r in last["rows"]], last["gave_back"]) == ([0], [1])
    assert set(daemon.logs) == {(IDS[i], 1) for i in (0, 2, 3)}


def test_a_task_fetched_ahead_is_recalled_whole(start, gates):
    daemon, worker = start("echo here; " + of((0, gates.wait("go"))))
    daemon.give(1, rows(0))
    daemon.give(2, rows(1, 2))
    daemon.wait(lambda: (IDS[0], 1) in daemon.logs)
    daemon.holds(1, 2)
    daemon.renew_reply = {"recall": [{"task": 2}]}
    assert daemon.result(1)["gave_back"] == [1, 2] and daemon.results[0]["task"] == 2
    daemon.holds(1)
    daemon.renew_reply = {}
    gates.open("go")
    daemon.give(3, rows(3))
    daemon.wait(lambda: not daemon.leased and len(daemon.results) == 3)
    assert [r["task"] for r in daemon.results] == [2, 1, 3]
    assert set(daemon.logs) == {(IDS[0], 1), (IDS[3], 1)}


def test_all_tasks_held_are_told_to_a_daemon_that_comes_back(start, gates):
    daemon, _ = start("echo here; " + gates.wait("go"))
    daemon.give(1, rows(0), fence=4)
    daemon.give(2, rows(1), fence=5)
    daemon.wait(lambda: daemon.logs)
    daemon.holds(1, 2)
    daemon.known.clear()
    daemon.wait(lambda: len(daemon.attaches) == 2)
    assert sorted(t["task"] for t in daemon.attaches[-1]["held"]) == [1, 2]
    gates.open("go")
    daemon.result(2)


@pytest.mark.parametrize("phase", ["fetched ahead", "upload waits"])
def test_a_killed_agent_leaves_nothing_that_the_next_one_minds(start, gates, phase):
    daemon, worker = start("head -c 100000 /dev/urandom >$PL_OUT/data; " + of((1, f"echo here; {gates.wait('go')}")))
    if phase == "upload waits":
        daemon.refuse["have"] = [(507, "disk_full")] * 100
    daemon.give(1, rows(0))
    daemon.give(2, rows(1, 2))
    daemon.wait(lambda: (IDS[1], 1) in daemon.logs)
    if phase == "fetched ahead":
        eventually((worker.work / "next" / "in2").exists)
    worker.process.kill()
    worker.process.wait()
    daemon.refuse.clear()
    gates.open("go")
    before = len(daemon.results)
    _, again = start("", daemon=daemon)
    daemon.wait(lambda: len(daemon.attaches) == 2)
    daemon.give(3, rows(3), fence=9)
    daemon.wait(lambda: len(daemon.results) > before)
    assert [r["state"] for r in daemon.results[-1]["rows"]] == ["success"]
    daemon.end()
    assert again.end() == 0
    assert not worker.work.exists()


# --- output files that the command leaves alone ---

EARLY = {"PIPELINED_EARLY_MS": "20"}


def text_of(letter):
    """Shell text that prints 5,000 bytes, and their id."""
    return f"printf '%5000s' {letter}", hashlib.sha256(letter.rjust(5000).encode()).hexdigest()


def in_a_pack(daemon, chunk):
    return any(bytes.fromhex(chunk) in pack for pack in list(daemon.packs.values()))


def test_a_file_left_alone_is_uploaded_while_the_command_runs(start, gates):
    shell, chunk = text_of("a")
    daemon, _ = start(f"mkdir $PL_OUT/d; {shell} >$PL_OUT/d/a; {gates.wait('go')}", env=EARLY)
    daemon.give(1, rows(0))
    daemon.wait(lambda: daemon.packs)
    assert not daemon.results
    daemon.has_all = True
    gates.open("go")
    result = daemon.result()["rows"][0]
    assert decode_ops(result, ids=True) == {"d/a": (1, chunk)}
    assert in_a_pack(daemon, chunk) and len(daemon.packs) == 1


def test_a_file_that_changes_after_its_upload_is_what_it_is_at_the_end(start, gates):
    (first, _), (second, chunk) = text_of("a"), text_of("b")
    daemon, _ = start(f"{first} >$PL_OUT/a; {gates.wait('go')}; {second} 1<>$PL_OUT/a", env=EARLY)
    daemon.give(1, rows(0))
    daemon.wait(lambda: daemon.packs)
    gates.open("go")
    assert decode_ops(daemon.result()["rows"][0], ids=True) == {"a": (1, chunk)}
    assert in_a_pack(daemon, chunk)


def test_what_the_daemon_lost_meanwhile_is_uploaded_again(start, gates):
    shell, chunk = text_of("a")
    daemon, _ = start(f"{shell} >$PL_OUT/a; {gates.wait('go')}", env=EARLY)
    daemon.give(1, rows(0))
    daemon.wait(lambda: daemon.packs)
    daemon.packs.clear()
    gates.open("go")
    assert decode_ops(daemon.result()["rows"][0], ids=True) == {"a": (1, chunk)}
    assert in_a_pack(daemon, chunk)


def test_early_uploads_of_one_datum_are_not_anothers(start, gates):
    (first, one), (second, two) = text_of("a"), text_of("b")
    daemon, _ = start(of((0, f"{first} >$PL_OUT/a; {gates.wait('one')}"), (1, f"{second} >$PL_OUT/a; {gates.wait('two')}")), env=EARLY)
    daemon.give(1, rows(0, 1))
    for gate, chunk in (("one", one), ("two", two)):
        daemon.wait(lambda chunk=chunk: in_a_pack(daemon, chunk))
        daemon.has_all = gate == "two"
        gates.open(gate)
    assert [decode_ops(r, ids=True) for r in daemon.result()["rows"]] == [{"a": (1, one)}, {"a": (1, two)}]


def test_a_batch_stages_files_are_uploaded_early_too(start, gates):
    shell, chunk = text_of("a")
    loop = f"while pl-next; do {shell} >$PL_OUT/$(cat /proc/sys/kernel/random/uuid); {gates.wait('go')}; done"
    daemon, _ = start(loop, env=EARLY, datum={"batch": True})
    daemon.give(1, rows(0, 1))
    daemon.wait(lambda: in_a_pack(daemon, chunk))
    assert not daemon.results
    gates.open("go")
    assert [[c for _, c in decode_ops(r, ids=True).values()] for r in daemon.result()["rows"]] == [[chunk]] * 2


def test_a_failed_datums_early_uploads_are_nothing(start, gates):
    daemon, _ = start(f"{text_of('a')[0]} >$PL_OUT/a; {gates.wait('go')}; exit 3", env=EARLY)
    daemon.give(1, rows(0))
    daemon.wait(lambda: daemon.packs)
    gates.open("go")
    row_ = daemon.result()["rows"][0]
    assert row_["state"] == "failed" and not row_.get("output")


def test_an_agent_ends_while_the_daemon_takes_no_early_upload(start, gates):
    daemon, worker = start(f"{text_of('a')[0]} >$PL_OUT/a; {gates.wait('go')}", env=EARLY)
    daemon.refuse["have"] = [(507, "disk_full")] * 1000
    daemon.give(1, rows(0))
    daemon.wait(lambda: len(daemon.refuse.get("have", [])) < 999)
    worker.process.send_signal(signal.SIGTERM)
    assert worker.end() == 0
    assert daemon.result()["gave_back"] == [0]
    assert not worker.work.exists()


def test_nothing_is_uploaded_early_when_it_is_off(start, gates):
    daemon, _ = start(f"{text_of('a')[0]} >$PL_OUT/a; {gates.wait('go')}", env={"PIPELINED_EARLY_MS": "0"})
    daemon.give(1, rows(0))
    daemon.wait(lambda: len(daemon.renews) > 5)
    assert not daemon.asked
    gates.open("go")
    daemon.result()
