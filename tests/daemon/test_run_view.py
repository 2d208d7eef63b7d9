"""The list of runs and one run: what was pushed by whom, what the stages did, when it will be done; filters and pages."""
import pytest
from conftest import HttpError, ops_stream, sh, wait_until
from people import User

COPY = 'cp -r "$PL_INPUT_IN" "$PL_OUT/"'


def push(project, author, puts, deletes=()):
    """Pushes to repo `in` as this author; the run, when it has ended."""
    made = project.d.http("POST", f"/api/v1/repos/{project.name}/in/branches/master/commits?author={author}", ops_stream(puts, deletes),
                          headers={"Content-Type": "application/x-pl-ops"})
    return project.wait(made["run"])


def rows(project, **query):
    return project.d.get("/runs", project=project.name, **query)["runs"]


def test_a_row_says_what_was_pushed_and_what_became_of_it(project):
    project.repo("in").stages(sh("a", COPY, glob="/*"), sh("b", 'ls "$PL_INPUT_A" >"$PL_OUT/list"', repo="a"))
    first = push(project, "ben", {"x": "1", "y": "22"})
    second = push(project, "ana", {"x": "333", "z": "4"}, ["y"])
    # changes are counted for a moment only; what is not counted then, is at a later request
    counted = lambda both: both if all("added" in one["pushed"] for one in both) else None
    row, before = wait_until(lambda: counted(rows(project)), lambda: rows(project))
    assert row["id"] == second["id"] and row["author"] == "ana", row
    assert row["pipelines"] == [{"project": project.name, "pipeline": "p"}] and row["states"] == {"success": 2}, row
    assert [(stage["stage"], stage["state"], stage["failed"]) for stage in row["stages"]] == [("a", "success", 0), ("b", "success", 0)]
    assert row["datums"] == {"total": 3, "done": 3, "reused": 0, "failed": 0}, row
    assert row["pushed"] == {"project": project.name, "repo": "in", "branch": "master", "commit": second["id"], "parent": first["id"], "files": 2, "bytes": 4,
                             "added": 1, "changed": 1, "removed": 1, "changed_bytes": 4, "more": False}, row
    assert before["pushed"]["added"] == 2, "all files of a first commit are new"
    one = project.d.get(f"/runs/{second['id']}")
    assert all(one[key] == row[key] for key in ("author", "pipelines", "states", "stages", "datums", "pushed")) and len(one["jobs"]) == 2


def test_who_asked_for_a_run_and_with_what_is_kept(project):
    d = project.d
    project.repo("in").stages(sh("a", COPY))
    first = push(project, "ana", {"x": "1"})
    again = d.http("POST", f"/api/v1/runs/{first['id']}/rerun", {}, headers={"User-Agent": "probe/1 <b>"})["run"]
    asked = d.http("POST", f"/api/v1/pipelines/{project.name}/p/run", {}, headers={"User-Agent": "probe/2"})["run"]
    for run, agent in ((again, "probe/1 <b>"), (asked, "probe/2")):
        d.wait(run)
        got = d.get(f"/runs/{run}")
        assert (got["author"], got["agent"]) == ("daemon", agent) and "pushed" not in got, got
    assert {row["id"] for row in rows(project, by="daemon")} == {again, asked}
    assert [row["id"] for row in rows(project, by="ana,ben")] == [first["id"]]
    assert rows(project, by="nobody") == []


def test_the_author_of_a_push_is_the_user_who_made_it(make_daemon):
    d = make_daemon().start()
    d.default.repo("in")
    ana = User(d, "ana", ("default", "writer"))
    author = lambda: d.get("/repos/default/in/commits")["commits"][0]["author"]
    push(d.default, "", {"d": "4"})
    assert author() == "", "the daemon's own token is no person's"
    ana.ctl("put", "file", "in@master:/a", "--base", "master", "-f", d.write("x", "1"))
    assert author() == "ana"
    ana.ctl("put", "file", "in@master:/", "-r", "-f", d.write("folder/y", "2").removesuffix("/y"))
    assert author() == "ana"
    d.http("PUT", "/api/v1/repos/default/in/branches/master/files/b?author=a%20robot&base=master", b"2", token=ana.token)
    assert author() == "a robot", "a program says for whom it pushes"
    ana.ctl("start", "commit", "in@master")
    ana.ctl("put", "file", "in@master:/c", "-f", d.write("x", "3"))
    ana.ctl("finish", "commit", "in@master")
    assert author() == "ana"


def test_filters_choose_by_state_pipeline_time_and_id(project):
    project.repo("in", "other").stages(sh("a", 'grep -q good "$PL_INPUT_IN" && cp "$PL_INPUT_IN" "$PL_OUT/"', glob="/*", on_error="skip"))
    project.stages({**sh("o", "exit 1", repo="other")}, pipeline="q")
    good = project.run("in", {"f": "good"})
    partly = project.run("in", {"g": "bad"})
    bad = project.run("other", {"f": "1"}, state="failure")
    ids = lambda **query: [row["id"] for row in rows(project, **query)]
    assert ids() == [bad["id"], partly["id"], good["id"]]
    assert ids(state="failure") == [bad["id"]] and ids(state="success") == [partly["id"], good["id"]]
    assert ids(state="partly_failed") == [partly["id"]] and ids(state="complete") == [good["id"]] and ids(state="running") == []
    assert ids(state="failure,complete") == [bad["id"], good["id"]]
    assert ids(pipeline="p") == [partly["id"], good["id"]] and ids(pipeline="q") == [bad["id"]] and ids(pipeline="p,q") == ids()
    assert ids(since=partly["created_us"]) == [bad["id"], partly["id"]]
    assert ids(ids=f"{good['id']},{bad['id']}") == [bad["id"], good["id"]] and ids(ids="0" * 32) == []
    with pytest.raises(HttpError) as refused:
        ids(state="finished")
    assert refused.value.error["field"] == "state" and '"finished": use running, success' in refused.value.error["message"]
    with pytest.raises(HttpError) as refused:
        ids(ids=",".join(["0" * 32] * 201))
    assert refused.value.error["field"] == "ids"


def test_pages_follow_each_other(project):
    project.repo("in").stages(sh("a", COPY))
    made = [project.run("in", {"x": str(i)})["id"] for i in range(5)]
    seen, after = [], None
    while True:
        page = project.d.get("/runs", project=project.name, limit=2, after=after)
        seen += [row["id"] for row in page["runs"]]
        after = page.get("next")
        if not after:
            break
    assert seen == made[::-1]


def test_a_run_that_goes_on_is_expected_to_take_as_long_as_those_before_it(project, gate):
    project.repo("in").stages(sh("a", f'{COPY}; {gate.wait}'))
    took = []
    for i in range(4):
        pushed = project.commit("in", {"x": str(i)})["run"]
        gate.arrived()
        row = rows(project)[0]
        assert row["id"] == pushed and row["state"] == "running"
        assert ("eta" in row) == (i == 3), (i, row)
        gate.open()
        if i < 3:
            run = project.d.wait(pushed)
            took.append((run["finished_us"] - run["created_us"]) // 1000)
    eta = row["eta"]
    assert eta["took_ms"] == sorted(took)[1] and eta["runs"] == 3 and eta["by"] == "the median of the last 3 runs of the same stages", (eta, took)
    assert abs(eta["ends_us"] - row["created_us"] - eta["took_ms"] * 1000) < 1000
    assert "eta" not in project.d.wait(pushed)


def test_a_reader_sees_only_what_is_theirs(project, shared):
    hidden = shared.project(project.name[:40] + "-h")
    for one in (project, hidden):
        one.repo("in").stages(sh("a", COPY))
        one.run("in", {"x": "1"})
    user = User(shared, "reader-of-one", (project.name, "reader"))
    got = user.get("/runs")["runs"]
    assert got and all(row["pushed"]["project"] == project.name for row in got), got
    assert user.get(f"/runs?project={hidden.name}")["runs"] == []


def test_a_run_is_its_projects_from_its_start(project):
    """Before it has a job, and if it gets none: whoever pushes or runs something finds the run at once; also who may see nothing else."""
    project.repo("in", "unread").stages(sh("s", "true"))
    ana = User(project.d, f"ana-{project.name}", (project.name, "writer"))
    listed = lambda who, run: run in {row["id"] for row in who.get(f"/runs?project={project.name}")["runs"]}
    for i in range(20):
        for what, run in (("push", project.commit("in", {"a": str(i)})["run"]), ("unread", project.commit("unread", {"a": str(i)})["run"]),
                          ("force", project.d.post(f"/pipelines/{project.name}/p/run", {"force": True})["run"])):
            assert listed(ana, run) and listed(project.d, run), (what, i)
    assert project.wait(run)["state"] == "success" and listed(ana, run)
