"""prune: what a commit does with pipelines of its source that are in no file any more."""

import json
import random
import shutil
import time

import pytest
from conftest import wait_until
from test_sources import INVALID, copy, daemon, follow, git, pipelines, source_of, spec, sync  # noqa: F401 (fixtures too)


def begin(daemon, git, prune):
    """Follows a repository with pipelines p and q; q reads what p writes."""
    git.write("pipelines/p.json", spec("p", copy())).write("pipelines/q.json", spec("q", copy("next", "copy"), repos={})).push()
    follow(daemon, git, "team", "--prune", prune)
    assert source_of(daemon)["prune"] == prune
    daemon.default.run("in", {"f": b"1"})


def remove(git, *names):
    for name in names:
        (git.clone / f"pipelines/{name}.json").unlink()
    return git


def repos(daemon):
    return {r["name"] for r in daemon.get("/repos")["repos"]}


def test_prune_off_leaves_pipelines_and_says_so(daemon, git):  # noqa: F811
    begin(daemon, git, "off")
    remove(git, "q").push()
    assert "pipeline q is in no file any more and would stay" in daemon.ctl("diff", "source", "team").out
    assert "pipeline \"q\" is in no file any more, and still runs" in sync(daemon).out
    assert pipelines(daemon)["q"]["state"] == "running"


def test_prune_stop_stops_a_pipeline_until_its_file_comes_back(daemon, git):  # noqa: F811
    begin(daemon, git, "stop")
    remove(git, "q").push()
    assert "pipeline q is in no file any more and would be stopped" in daemon.ctl("diff", "source", "team").out
    assert pipelines(daemon)["q"]["state"] == "running"
    assert "pipeline \"q\" is in no file any more, and is stopped" in sync(daemon).out
    assert (pipelines(daemon)["q"]["state"], pipelines(daemon)["q"]["stopped_by"]) == ("stopped", "source")
    assert set(daemon.default.run("in", {"g": b"2"})["job"]) == {"copy"} and daemon.read("next", "all") == b"1"
    assert "pipeline q is in no file any more and would stay stopped" in daemon.ctl("diff", "source", "team").out
    sync(daemon)
    git.write("pipelines/q.json", spec("q", copy("next", "copy"), repos={})).push()
    assert "pipeline q would be started" in daemon.ctl("diff", "source", "team").out
    sync(daemon)
    assert pipelines(daemon)["q"]["state"] == "running" and pipelines(daemon)["q"]["version"] == 1
    daemon.wait(daemon.get("/runs", limit=1)["runs"][0]["id"])
    assert daemon.read("next", "all") == b"12"


def test_a_pipeline_stopped_by_hand_stays_so_whatever_is_pushed(daemon, git):  # noqa: F811
    begin(daemon, git, "stop")
    daemon.ctl("stop", "pipeline", "q")
    git.write("pipelines/q.json", spec("q", copy("next", "copy", workers=2), repos={})).push()
    assert "pipeline \"q\" is stopped: pipelinectl start pipeline q" in sync(daemon).out
    assert (pipelines(daemon)["q"]["state"], pipelines(daemon)["q"]["version"]) == ("stopped", 2)
    remove(git, "q").push()
    sync(daemon)
    git.write("pipelines/q.json", spec("q", copy("next", "copy"), repos={})).push()
    sync(daemon)
    assert pipelines(daemon)["q"]["stopped_by"] == "hand"


def test_prune_delete_deletes_a_pipeline_with_its_outputs(daemon, git):  # noqa: F811
    begin(daemon, git, "delete")
    git.write("pipelines/keep.json", spec("keep", copy("kept"))).push()
    sync(daemon)
    remove(git, "q").push()
    assert "pipeline q is in no file any more and would be deleted with its outputs" in daemon.ctl("diff", "source", "team").out
    assert set(pipelines(daemon)) == {"p", "q", "keep"} and "next" in repos(daemon)
    assert "pipeline \"q\" was in no file any more, and was deleted with its outputs" in sync(daemon).out
    assert set(pipelines(daemon)) == {"p", "keep"} and repos(daemon) == {"in", "copy", "kept"}
    git.write("pipelines/q.json", spec("q", copy("next", "copy"), repos={})).push()
    sync(daemon)
    remove(git, "p", "q").push()  # in the order of names the one that is read comes first
    sync(daemon)
    assert set(pipelines(daemon)) == {"keep"} and repos(daemon) == {"in", "kept"}
    assert daemon.stop() == 0
    daemon.start()
    assert set(pipelines(daemon)) == {"keep"} and repos(daemon) == {"in", "kept"}


def test_a_pipeline_is_not_deleted_while_another_reads_its_outputs(daemon, git):  # noqa: F811
    begin(daemon, git, "delete")
    remove(git, "p").push()
    why = "the pipeline of stage \"copy\" is in no file any more, and cannot be deleted (prune: delete): stage \"next\" reads repo \"copy\""
    for refused in (daemon.ctl("diff", "source", "team", ok=False), sync(daemon, ok=False)):
        assert refused.code == INVALID and why in refused.err, refused.err
    assert set(pipelines(daemon)) == {"p", "q"} and source_of(daemon)["state"] == "invalid" and daemon.read("next", "all") == b"1"
    git.write("pipelines/q.json", spec("q", copy("next"))).push()  # the reader is changed in the same commit
    sync(daemon)
    assert set(pipelines(daemon)) == {"q"} and repos(daemon) == {"in", "next"}
    daemon.ctl("create", "pipeline", "-f", daemon.write("hand.json", json.dumps(spec("hand", copy("mine", "next")))))
    git.write("pipelines/r.json", spec("r", copy("other")))
    remove(git, "q").push()
    assert "stage \"mine\" reads repo \"next\"" in sync(daemon, ok=False).err
    assert set(pipelines(daemon)) == {"q", "hand"}


def test_outputs_that_another_pipeline_of_the_commit_takes_over_stay(daemon, git):  # noqa: F811
    two = spec("p", copy(), copy("old"))
    git.write("pipelines/p.json", two).push()
    follow(daemon, git, "team", "--prune", "delete")
    daemon.default.run("in", {"f": b"1"})
    before = daemon.default.commits("old")
    git.write("pipelines/p.json", spec("p", copy())).push()
    sync(daemon)
    git.write("pipelines/taker.json", spec("taker", copy()))
    remove(git, "p").push()
    assert "stage \"copy\" already belongs to pipeline \"p\"" in sync(daemon, ok=False).err
    git.write("pipelines/taker.json", spec("taker", copy("old"))).push()
    sync(daemon)
    assert set(pipelines(daemon)) == {"taker"} and repos(daemon) == {"in", "old"}
    assert daemon.default.commits("old")[-1]["id"] == before[-1]["id"]


def test_renamed_and_detached_pipelines_are_never_pruned(daemon, git):  # noqa: F811
    begin(daemon, git, "delete")
    (git.clone / "pipelines/p.json").rename(git.clone / "pipelines/renamed.json")
    git.push()
    sync(daemon)
    by_hand = daemon.write("q.json", json.dumps(spec("q", copy("next", "copy", workers=2))))
    daemon.ctl("update", "pipeline", "-f", by_hand, "--detach", "--yes")
    remove(git, "q").push()
    assert "q" not in "".join(source_of(daemon)["warnings"])
    sync(daemon)
    assert {name: p["state"] for name, p in pipelines(daemon).items()} == {"p": "running", "q": "running"}


def test_a_commit_without_specs_or_a_paused_source_prunes_nothing(daemon, git):  # noqa: F811
    begin(daemon, git, "delete")
    remove(git, "p", "q").push()
    assert "no file of the commit matches" in sync(daemon, ok=False).err
    assert set(pipelines(daemon)) == {"p", "q"}


def test_what_is_left_is_pruned_when_the_setting_changes(daemon, git):  # noqa: F811
    begin(daemon, git, "off")
    remove(git, "q").push()
    sync(daemon)
    daemon.ctl("update", "source", "team", "--prune", "stop")
    wait_until(lambda: pipelines(daemon)["q"]["state"] == "stopped", "the stop")
    daemon.ctl("update", "source", "team", "--prune", "delete")
    wait_until(lambda: "q" not in pipelines(daemon), "the deletion")
    refused = daemon.ctl("update", "source", "team", "--prune", "never", ok=False)
    assert "prune: \"never\" is not accepted: off, stop or delete" in refused.err


# --- properties

def shape(d):
    """What the pipelines do, without versions and times, and the repos there are."""
    out = {}
    for name in pipelines(d):
        whole = d.get(f"/pipelines/default/{name}")
        out[name] = (whole["spec"], whole["origin"]["path"], whole["state"], [(s["name"], s["code"]) for s in whole["stages"]])
    return out, repos(d)


def push_some(git, draw):  # noqa: F811
    """A commit with some of five pipelines in a row, each of which may read the one before."""
    shutil.rmtree(git.clone / "pipelines", ignore_errors=True)
    before = "in"
    for i in sorted(draw.sample(range(5), draw.randrange(1, 6))):
        repo = draw.choice(["in", before])
        git.write(f"pipelines/{draw.choice('ab')}{i}.json", spec(f"p{i}", copy(f"s{i}", repo, workers=draw.randrange(1, 3))))
        before = f"s{i}"
    return git.push()


@pytest.mark.parametrize("seed", range(3))
def test_any_sequence_of_pushes_ends_where_the_last_one_alone_does(make_daemon, git, seed):  # noqa: F811
    draw = random.Random(seed)
    options = ("--git-local-folders", git.bare.parent)
    followed, fresh = make_daemon(*options).start(), make_daemon(*options).start()
    push_some(git, draw)
    follow(followed, git, "team", "--prune", "delete")
    for _ in range(8):
        push_some(git, draw)
        sync(followed)
    follow(fresh, git)
    assert shape(followed) == shape(fresh)


def test_a_daemon_that_is_killed_while_it_prunes_has_done_all_of_it_or_nothing(daemon, git):  # noqa: F811
    draw = random.Random(7)

    def push(letter):
        shutil.rmtree(git.clone / "pipelines", ignore_errors=True)
        for i in range(5):
            git.write(f"pipelines/{letter}{i}.json", spec(f"{letter}{i}", copy(f"{letter}s{i}", "in" if i == 0 else f"{letter}s{i - 1}")))
        return git.push()

    push("p")
    follow(daemon, git, "team", "--prune", "delete")
    for letter in "qpqp":
        sha = push(letter)
        daemon.post("/sources/team/sync")
        time.sleep(draw.uniform(0, 0.1))  # somewhere between the question for the tip and the end
        daemon.kill()
        daemon.start("--linger", "0s")
        found = set(pipelines(daemon))
        assert found in ({f"p{i}" for i in range(5)}, {f"q{i}" for i in range(5)}), found
        wait_until(lambda sha=sha: source_of(daemon)["applied"] == sha, "the commit")
        assert set(pipelines(daemon)) == {f"{letter}{i}" for i in range(5)}
        assert repos(daemon) == {"in"} | {f"{letter}s{i}" for i in range(5)}
