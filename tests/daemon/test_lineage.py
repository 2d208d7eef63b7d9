"""Jobs as events of OpenLineage: each event comes once, whenever it is asked for, and has the members that the specification wants."""
import importlib.util
import uuid

import pytest
from conftest import HttpError, sh, wait_until
from people import User

# Members that the OpenLineage specification 2-0-2 and its facets require (https://openlineage.io/spec, Apache-2.0).
REQUIRED = {
    "parent": ("ParentRunFacet", ["run", "job"]), "nominalTime": ("NominalTimeRunFacet", ["nominalStartTime"]), "errorMessage": ("ErrorMessageRunFacet", ["message", "programmingLanguage"]),
    "processing_engine": ("ProcessingEngineRunFacet", ["version"]), "tags": ("TagsRunFacet", ["tags"]), "jobType": ("JobTypeJobFacet", ["processingType", "integration"]),
    "sourceCode": ("SourceCodeJobFacet", ["language", "sourceCode"]), "sourceCodeLocation": ("SourceCodeLocationJobFacet", ["type", "url"]),
    "version": ("DatasetVersionDatasetFacet", ["datasetVersion"]), "symlinks": ("SymlinksDatasetFacet", ["identifiers"]),
    "inputStatistics": ("InputStatisticsInputDatasetFacet", []), "outputStatistics": ("OutputStatisticsOutputDatasetFacet", []),
}


def check(event):
    assert {"eventTime", "producer", "schemaURL", "run", "job"} <= set(event), event
    assert event["schemaURL"] == "https://openlineage.io/spec/2-0-2/OpenLineage.json#/$defs/RunEvent" and event["eventType"] in ("START", "COMPLETE", "FAIL", "ABORT")
    uuid.UUID(event["run"]["runId"])
    assert event["job"]["namespace"] and event["job"]["name"]
    facets = [event["run"]["facets"], event["job"]["facets"]]
    for dataset, own in [(d, "inputFacets") for d in event["inputs"]] + [(d, "outputFacets") for d in event["outputs"]]:
        assert dataset["namespace"] and dataset["name"]
        facets += [dataset["facets"], dataset[own]]
    for name, facet in [item for one in facets for item in one.items()]:
        schema, members = REQUIRED[name]
        assert {"_producer", "_schemaURL", *members} <= set(facet), (name, facet)
        assert facet["_schemaURL"].startswith("https://openlineage.io/spec/facets/") and facet["_schemaURL"].endswith(f"/{schema}.json#/$defs/{schema}"), facet
    check_by_package(event)


def check_by_package(event):
    """By the classes of openlineage-python, generated from the specification, where it is installed."""
    if not importlib.util.find_spec("openlineage"):
        return
    from openlineage.client import event_v2, facet_v2  # pylint: disable=import-outside-toplevel,import-error
    modules = [getattr(facet_v2, name) for name in dir(facet_v2)]

    def facets(given):
        out = {}
        for name, facet in given.items():
            cls = next(getattr(m, REQUIRED[name][0]) for m in modules if hasattr(m, REQUIRED[name][0]))
            fields = {key: value for key, value in facet.items() if not key.startswith("_")}
            out[name] = cls(**fields)
            assert cls._get_schema() == facet["_schemaURL"], (cls._get_schema(), facet["_schemaURL"])  # pylint: disable=protected-access
        return out
    run, job = event["run"], event["job"]
    event_v2.RunEvent(eventTime=event["eventTime"], eventType=event_v2.RunState[event["eventType"]], producer=event["producer"],
                      run=event_v2.Run(run["runId"], facets(run["facets"])), job=event_v2.Job(job["namespace"], job["name"], facets(job["facets"])),
                      inputs=[event_v2.InputDataset(d["namespace"], d["name"], facets=facets(d["facets"]), inputFacets=facets(d["inputFacets"])) for d in event["inputs"]],
                      outputs=[event_v2.OutputDataset(d["namespace"], d["name"], facets=facets(d["facets"]), outputFacets=facets(d["outputFacets"])) for d in event["outputs"]])


def poll(project, after=None, limit=100):
    """All events after a position, and the next position."""
    events = []
    while True:
        page = project.d.get("/lineage", project=project.name, limit=limit, **({"after": after} if after else {}))
        assert len(page["events"]) <= limit
        events += page["events"]
        if page["next"] == after:
            return events, page["next"]
        after = page["next"]


def told(events):
    return [(e["job"]["name"].split("/")[1], e["eventType"]) for e in events]


def test_a_run_is_told_with_what_it_read_and_wrote(project):
    project.repo("in").stages(sh("good", 'cp "$PL_INPUT_IN"/* "$PL_OUT/"'), sh("bad", "echo no; exit 3", repo="good"), sh("after", "true", repo="bad"))
    run = project.run("in", {"a": "12", "b": "3"}, state="failure")["id"]
    events, _ = poll(project)
    for event in events:
        check(event)
    assert sorted(told(events)) == [("after", "ABORT"), ("after", "START"), ("bad", "FAIL"), ("bad", "START"), ("good", "COMPLETE"), ("good", "START")]
    by = {name: e for name, e in zip(told(events), events)}
    good = by["good", "COMPLETE"]
    read, = good["inputs"]
    assert read["name"] == f"{project.name}/in" and read["facets"]["version"]["datasetVersion"] == run
    assert (read["inputFacets"]["inputStatistics"]["fileCount"], read["inputFacets"]["inputStatistics"]["size"]) == (2, 3)
    wrote, = good["outputs"]
    assert wrote["name"] == f"{project.name}/good" and wrote["facets"]["version"]["datasetVersion"] == run and wrote["outputFacets"]["outputStatistics"]["fileCount"] == 2
    assert good["run"]["runId"] == by["good", "START"]["run"]["runId"] != by["bad", "START"]["run"]["runId"]
    assert good["run"]["facets"]["parent"]["run"]["runId"].replace("-", "") == run and good["run"]["facets"]["parent"]["job"]["name"] == f"{project.name}/p"
    assert by["bad", "START"]["inputs"][0]["name"] == wrote["name"], "one name is read and written"
    assert "exit" in by["bad", "FAIL"]["run"]["facets"]["errorMessage"]["message"]
    assert 'cp "$PL_INPUT_IN"' in good["job"]["facets"]["sourceCode"]["sourceCode"]
    assert all(e["eventTime"] >= by[name, "START"]["eventTime"] for (name, _), e in by.items())


def test_each_event_comes_once_however_it_is_polled(make_daemon, tmp_path):
    d = make_daemon(sandbox="none").start()
    project, gate = d.default, tmp_path / "gate"
    project.repo("in").stages(sh("slow", f"while ! test -e {gate}; do sleep 0.05; done"), sh("next", "true", repo="slow"))
    run = project.commit("in", {"a": "1"})["run"]
    wait_until(lambda: len(project.d.get("/jobs", run=run)["jobs"]) == 2, "the jobs of the run")
    before, at = poll(project)
    assert ("slow", "START") in told(before) and ("slow", "COMPLETE") not in told(before)
    assert poll(project, at)[0] == [], "nothing happened"
    gate.write_text("")
    project.wait(run)
    rest, at = poll(project, at, limit=2)
    assert sorted(told(before + rest)) == [("next", "COMPLETE"), ("next", "START"), ("slow", "COMPLETE"), ("slow", "START")]
    assert poll(project, at)[0] == []
    project.run("in", {"a": "2"})
    assert len(poll(project, at)[0]) == 4
    again = [poll(project, limit=limit)[0] for limit in (2, 3, 100)]
    assert all(sorted(map(str, events)) == sorted(map(str, again[0])) for events in again) and len(again[0]) == 8
    assert d.stop() == 0


def test_a_user_is_told_of_what_they_may_read(project):
    project.repo("in").stages(sh("open", "true"), sh("shut", "true"))
    project.run("in", {"a": "1"})
    bob = User(project.d, f"{project.name}-bob", (f"{project.name}/open", "reader"))
    events = bob.get("/lineage")["events"]
    assert sorted(told(events)) == [("open", "COMPLETE"), ("open", "START")]
    assert all(not e["inputs"] for e in events)


@pytest.mark.parametrize("query, field", [({"after": "x"}, "after"), ({"after": "1+"}, "after"), ({"after": "1,2"}, "after"), ({"after": "-1"}, "after"), ({"limit": 1}, "limit"),
                                          ({"after": "1+" + ",".join(["1"] * 201)}, "after"), ({"limit": 1001}, "limit")])
def test_what_is_asked_wrongly_is_refused(daemon, query, field):
    with pytest.raises(HttpError) as refused:
        daemon.get("/lineage", **query)
    assert refused.value.status == 400 and field in str(refused.value.error), refused.value.error
