"""What a command without a sandbox may do to its output folder itself: another folder in its place is the output, anything else fails the
datum; the next datum has a folder of its own."""

import os

import pytest
from fake_daemon import FakeDaemon, Worker, decode_ops, row

LOOK = 'ls -A "$PL_OUT"; stat -c %a "$PL_OUT"; '  # what the datum finds: nothing but its folder
REPLACED = {
    "rm and mkdir": 'rm -rf "$PL_OUT"; mkdir "$PL_OUT"; printf %s $PL_DATUM_ID >"$PL_OUT/f"',
    "rmdir and mkdir -p with a mode": 'rmdir "$PL_OUT"; mkdir -m 500 "$PL_OUT"; printf %s $PL_DATUM_ID >"$PL_OUT/f"',
    "shutil.rmtree": 'python3 -c "import os, shutil; o = os.environ[\'PL_OUT\']; shutil.rmtree(o); os.makedirs(o)"; printf %s $PL_DATUM_ID >"$PL_OUT/f"',
    "mv of a folder": 'mkdir "$TMPDIR/new"; printf %s $PL_DATUM_ID >"$TMPDIR/new/f"; rm -rf "$PL_OUT"; mv "$TMPDIR/new" "$PL_OUT"',
    "mv over it": 'mkdir "$TMPDIR/new"; printf %s $PL_DATUM_ID >"$TMPDIR/new/f"; mv -T "$TMPDIR/new" "$PL_OUT"',
    "its folder moved away": 'mv "$PL_OUT" "$TMPDIR/kept.$PL_DATUM_ID"; mkdir "$PL_OUT"; printf %s $PL_DATUM_ID >"$PL_OUT/f"',
    "closed to all": 'printf %s $PL_DATUM_ID >"$PL_OUT/f"; chmod 0 "$PL_OUT"',
}
SPOILT = {
    "a link": ('ln -s "$TMPDIR/mine" "$PL_OUT"', "replaced its output folder by a link"),
    "a link that leads nowhere": ('ln -s nowhere "$PL_OUT"', "replaced its output folder by a link"),
    "a file": ('echo x >"$PL_OUT"', "replaced its output folder by a file"),
    "nothing": (":", "removed its output folder"),
}


@pytest.fixture
def start(tmp_path):
    """start(shell command, more of the stage) → the daemon that its worker asks."""
    started = []

    def _start(shell, **stage):
        daemon = FakeDaemon({"run": ["sh", "-ec", shell], **stage})
        started.append((daemon, Worker(daemon, tmp_path)))
        return daemon

    yield _start
    for daemon, worker in started:
        worker.stop()
        daemon.down()


def datum(i):
    return f"{i:064x}"


def batch(body):
    """The command of a batch stage that does `body` for each datum."""
    return f'while pl-next; do\n. "${{PL_OUT%/out}}/.env"\n{body}\ndone'


def as_batch(is_batch, body):
    return {"shell": batch(body), "datum": {"batch": True}} if is_batch else {"shell": body}


def run(daemon, n):
    daemon.give(1, [row(i, datum(i)) for i in range(n)])
    return {r["index"]: r for r in daemon.result()["rows"]}


@pytest.mark.parametrize("is_batch", [False, True], ids=["one", "batch"])
@pytest.mark.parametrize("body", REPLACED.values(), ids=REPLACED)
def test_a_new_folder_is_the_output_of_its_datum_alone(start, body, is_batch):
    daemon = start(**as_batch(is_batch, LOOK + body))
    rows = run(daemon, 4)
    assert [rows[i]["state"] for i in range(4)] == ["success"] * 4
    assert [decode_ops(rows[i]) for i in range(4)] == [{"f": (1, datum(i).encode())} for i in range(4)]
    assert {bytes(daemon.logs[(datum(i), 1)]) for i in range(4)} == {b"755\n"}


@pytest.mark.parametrize("is_batch", [False, True], ids=["one", "batch"])
@pytest.mark.parametrize("spoil, why", SPOILT.values(), ids=SPOILT)
def test_anything_else_fails_the_datum_and_the_next_has_its_folder(start, spoil, why, is_batch):
    body = f'{LOOK} mkdir -p "$TMPDIR/mine"; touch "$TMPDIR/mine/kept"; ls "$TMPDIR/mine"; case $PL_DATUM_ID in *1) rm -r "$PL_OUT"; {spoil};; *) printf %s $PL_DATUM_ID >"$PL_OUT/f";; esac'
    daemon = start(**as_batch(is_batch, body))
    rows = run(daemon, 3)
    assert [rows[i]["state"] for i in range(3)] == ["success", "failed", "success"]
    assert rows[1]["reason"].startswith(f"output: the command {why}") and "/work/pfs/out" in rows[1]["reason"]
    assert decode_ops(rows[2]) == {"f": (1, datum(2).encode())}
    assert {bytes(daemon.logs[(datum(i), 1)]) for i in range(3)} == {b"755\nkept\n"}


def test_a_command_that_failed_says_so_and_not_where_its_folder_went(start):
    daemon = start('case $PL_DATUM_ID in *0) rm -r "$PL_OUT"; exit 3;; esac; touch "$PL_OUT/f"')
    rows = run(daemon, 2)
    assert (rows[0]["reason"], rows[1]["state"]) == ("exit code 3", "success")


def test_the_command_of_on_error_finds_a_folder(start):
    daemon = start('rm -r "$PL_OUT"; exit 3', on_error={"run": ["sh", "-ec", 'touch "$PL_OUT/f"; rm -r "$PL_OUT"']})
    assert [r["recovered"] for r in run(daemon, 2).values()] == [True] * 2


def test_a_batch_command_that_leaves_without_a_folder_starts_again_with_one(start):
    daemon = start('pl-next || exit 0; . "${PL_OUT%/out}/.env"; if [ -e "$TMPDIR/again" ]; then ls -A "$PL_OUT"; touch "$PL_OUT/f"; pl-next; exit 0; fi\n'
                   'touch "$TMPDIR/again"; mkdir -p "$TMPDIR/mine"; touch "$TMPDIR/mine/kept"; rm -r "$PL_OUT"; ln -s "$TMPDIR/mine" "$PL_OUT"', datum={"batch": True})
    rows = run(daemon, 1)
    assert (rows[0]["state"], decode_ops(rows[0])) == ("success", {"f": (1, b"")})


def test_metrics_are_followed_into_a_new_folder(start, tmp_path):
    go = tmp_path / "go"
    os.mkfifo(go)
    daemon = start(f'rm -r "$PL_OUT"; mkdir "$PL_OUT"; echo \'{{"step": 1}}\' >"$PL_OUT/metrics.jsonl"; read x <{go}; echo \'{{"step": 2}}\' >>"$PL_OUT/metrics.jsonl"')
    daemon.give(1, [row()])
    daemon.wait(lambda: daemon.metric_lines == ['{"step": 1}'])
    go.write_text("go\n")
    assert "metrics.jsonl" in decode_ops(daemon.result()["rows"][0])
    assert daemon.metric_lines == ['{"step": 1}', '{"step": 2}']
