"""GET /graph and /graph/state over real runs: what stages did, and which outputs are older than what they are made from."""

from conftest import sh, wait_until

COPY = 'cp -r $PL_INPUT_IN/. $PL_OUT/'


def state_of(d):
    """{key: stage or repo} of /graph/state."""
    state = d.get("/graph/state")
    return {one["key"].removeprefix("default/"): one for one in [*state["stages"], *state["repos"]]}


def words(d, *names):
    now = state_of(d)
    return [now[name]["state"] for name in names]


def stale(d):
    return sorted(key for key, one in state_of(d).items() if one.get("stale"))


def test_the_graph_has_what_the_spec_says(daemon):
    d, p = daemon, daemon.default
    p.repo("in", "more")
    p.stages(sh("a", "true", glob="/*"), {"name": "b", "run": ["true"], "input": {"cross": [
        {"repo": "a", "name": "first", "files": ["*.csv", "x"]}, {"union": [{"repo": "more", "name": "second", "glob": "/x/*"}, {"params": {"n": [1, 2]}}]},
        {"repo": "b", "name": "last", "previous": True}]}})
    graph = d.get("/graph")
    nodes = [node["key"] for node in graph["nodes"]]
    assert nodes == ["default/a", "default/b", "default/in", "default/more"]
    assert [(nodes[e["from"]], nodes[e["to"]], e["input"], e["glob"], e.get("files")) for e in graph["edges"]] == [
        ("default/in", "default/a", "in", "/*", None), ("default/a", "default/b", "first", "/", ["*.csv", "x"]),
        ("default/more", "default/b", "second", "/x/*", None), ("default/b", "default/b", "last", "/", None)]
    a, b = graph["nodes"][:2]
    assert (a["w"], a["h"], b["layer"]) == (184, 84, 2)
    assert graph["version"] == d.get("/graph/state")["version"]


def test_the_state_follows_the_runs(daemon, gate):
    d, p = daemon, daemon.default
    p.repo("in", "slow")
    p.stages(sh("good", COPY), sh("after", 'cp -r $PL_INPUT_GOOD/. $PL_OUT/', repo="good"),
             sh("part", 'test "$(cat $PL_INPUT_IN)" != bad && cp $PL_INPUT_IN $PL_OUT', glob="/*", on_error="skip"),
             sh("held", gate.wait, repo="slow"), sh("last", "true", repo="held"))
    assert words(d, "good", "after", "part", "held", "last") == ["none"] * 5
    p.run("in", {"a": "1", "b": "bad"})
    now = state_of(d)
    assert [now[name]["state"] for name in ("good", "after", "part")] == ["done", "done", "partly_failed"]
    assert now["part"]["datums"] == {"total": 2, "reused": 0, "done": 1, "failed": 1}
    assert now["good"]["commit"]["files"] == 2 and now["good"]["device"] == "cpu"
    assert now["in"]["commit"]["id"] == p.commits("in")[0]["id"]
    assert now["good"]["finished_us"] >= now["good"]["started_us"] >= now["good"]["created_us"]
    p.push("slow", "x", b"1")
    gate.arrived()
    wait_until(lambda: words(d, "held", "last") == ["running", "waiting"], "held runs and last waits")
    assert "held" in state_of(d)["last"]["reason"]
    p.push("slow", "x", b"2")  # its job waits for the one before, which is the one that counts
    assert words(d, "held") == ["running"]
    for one in d.get("/runs")["runs"]:
        if one["state"] == "running":
            d.post(f"/runs/{one['id']}/stop")
    wait_until(lambda: words(d, "held", "last") == ["stopped", "stopped"] or words(d, "held", "last") == ["stopped", "not_run"], "both ended")


def test_a_failure_and_what_is_behind_it(daemon):
    d, p = daemon, daemon.default
    p.repo("in")
    p.stages(sh("s", "exit 3"), sh("t", "true", repo="s"))
    p.run("in", {"a": "1"}, state="failure")
    assert words(d, "s", "t") == ["failed", "not_run"]
    assert state_of(d)["t"]["reason"]


def test_an_output_is_stale_while_an_input_is_newer(daemon, gate):
    """The chain in -> a -> b -> c is held at b: b is older than a, c is made from b, and a is made from what there is."""
    d, p = daemon, daemon.default
    p.repo("in", "free")
    held = f'if [ "$(cat $PL_INPUT_A/x)" = 2 ]; then {gate.wait}; fi; cp -r $PL_INPUT_A/. $PL_OUT/'
    p.stages(sh("a", COPY), sh("b", held, repo="a"), sh("c", 'cp -r $PL_INPUT_B/. $PL_OUT/', repo="b"),
             sh("apart", 'cp -r $PL_INPUT_FREE/. $PL_OUT/', repo="free"))
    p.run("in", {"x": "1"})
    p.run("free", {"x": "1"})
    assert not stale(d)
    p.push("in", "x", b"2")
    gate.arrived()
    wait_until(lambda: words(d, "a") == ["done"], "a is done")
    assert stale(d) == ["b", "c"]
    assert d.get("/graph/state", project="default", pipeline="none")["stages"] == []
    gate.open()
    wait_until(lambda: not stale(d), "all is made from the newest")


def test_a_rerun_on_a_branch_of_its_own_changes_no_state(daemon):
    d, p = daemon, daemon.default
    p.repo("in")
    p.stages(sh("s", COPY))
    run = p.run("in", {"x": "1"})
    before = state_of(d)["s"]
    again = d.post(f"/runs/{run['id']}/rerun", {"as": "trial"})["run"]
    p.wait(again)
    assert state_of(d)["s"] == before


def test_a_job_waits_while_there_is_no_gpu_for_it(daemon):
    """The scheduler has it ready to start, so that its reason alone says that it waits."""
    d, p = daemon, daemon.default
    p.repo("in")
    p.stages(sh("s", "true", gpu={"count": 1}))
    run = p.push("in", "x", b"1")["run"]
    wait_until(lambda: state_of(d)["s"].get("reason", "").startswith("waiting for 1 GPU"), "s has no GPU")
    assert d.get(f"/runs/{run}")["jobs"][0]["state"] == "starting"
    assert words(d, "s") == ["waiting"] and state_of(d)["s"]["device"] == "gpu"
