"""How far a running job is, as events: at most two in a second, and the last one says where it stands."""
from conftest import sh, wait_until


def told(project, *kinds):
    """The events of these kinds about the project, with their times."""
    events = project.d.http("GET", "/api/v1/events?limit=10000", headers={"Accept": "application/json"})["events"]
    return [(event["at_us"], event["data"]) for event in events if event["type"] in kinds and event["data"].get("project") == project.name]


def test_datums_that_end_are_told_without_the_job_being_told_again(project, gate):
    script = f'case "$PL_INPUT_IN" in *last) {gate.wait};; esac; cp "$PL_INPUT_IN" "$PL_OUT/"'
    project.repo("in").stages(sh("a", script, glob="/*", workers=1))
    run = project.commit("in", {**{f"{i:02}": "x" for i in range(20)}, "z-last": "x"})["run"]
    gate.arrived()
    # by an event about the job, if its state or reason changed then
    last = lambda: [(data.get("datums") or data["counts"])["done"] for _, data in told(project, "progress", "job")][-1:]
    # how many results the agent has sent while it computes the last datum is its own affair: what the job has is told
    wait_until(lambda: last() == [project.d.job(run, "a")["datums"]["done"]], lambda: f"the datums to be told: {last()} of {project.d.job(run, 'a')['datums']}", 20)
    progress = told(project, "progress")
    assert all(data["run"] == run and data["stage"] == "a" and data["datums"]["total"] == 21 for _, data in progress), progress
    done = [data["datums"]["done"] for _, data in progress]
    assert done == sorted(set(done)), "each says more than the one before it"
    assert all(later - earlier >= 450_000 for (earlier, _), (later, _) in zip(progress, progress[1:])), progress
    states = [data["state"] for _, data in told(project, "job")]
    # a new reason is told, too: a slow worker changes it while the job runs
    assert 1 <= states.count("running") <= 5, f"a job event is about the job, not about each of its datums: {states}"
    gate.open()
    assert project.d.wait(run)["state"] == "success"
    assert told(project, "job")[-1][1]["counts"]["done"] == 21
