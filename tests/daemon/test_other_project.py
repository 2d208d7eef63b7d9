"""Stages that read repos of another project: names, triggers, bytes, provenance, rights and deletion."""

import contextlib
import io
import json
import os
import shutil
import sqlite3
import zipfile

import pytest
from conftest import SANDBOX, HttpError, sh
from people import User, status_of, worker_token


@pytest.fixture
def other(project):
    """The project that has the data."""
    return project.d.project(project.name + "x")


def reads(other, name, script, repo="data", glob="/", **more):
    return sh(name, script, f"{other.name}/{repo}", glob, **more)


def big(letter, n=3_000_000):
    """Bytes of several chunks, and of more than one pack's window."""
    return b"".join(f"{letter}{i:07d}\n".encode() for i in range(n // 9))


def test_a_stage_reads_a_repo_of_another_project_whenever_that_has_a_commit(project, other):
    other.repo("data")
    project.repo("own").stages({"name": "both", "run": ["sh", "-ec", 'echo reading >&2; cat "$PL_INPUT_IN"/* "$PL_INPUT_OWN"/* > "$PL_OUT/all"'], "input": {"cross": [
        {"repo": f"{other.name}/data", "name": "in"}, {"repo": "own"}]}})
    project.commit("own", {"own": "own\n"})
    run = other.run("data", {"a": "from a\n" * 3})
    assert [(j["project"], j["stage"], j["state"]) for j in run["jobs"]] == [(project.name, "both", "success")]
    assert project.read("both", "all") == b"from a\n" * 3 + b"own\n"
    run = other.push("data", "a", big("B"))["run"]
    assert other.wait(run)["state"] == "success"
    assert project.read("both", "all") == big("B") + b"own\n"
    assert "reading" in project.logs("both", run=run)


def test_globs_and_params_over_two_projects(project, other):
    """Many files, and folders: they are located, fetched ahead and updated in place."""
    other.repo("left")
    project.repo("right").stages({"name": "pairs", "run": ["sh", "-ec", 'cat "$PL_INPUT_L"/* "$r" > "$PL_OUT/$(basename "$PL_INPUT_L")-$(basename "$r")-$PL_PARAM_K"'], "input": {"cross": [
        {"repo": f"{other.name}/left", "name": "l", "glob": "/*/", "files": ["*.txt"]}, {"repo": "right", "name": "r", "glob": "/*"}, {"params": {"k": [1, 2]}}]}})
    project.commit("right", {"x": "rx ", "y": "ry "})
    other.run("left", {**{f"d{d}/{i:03}.txt": f"{d}{i} " for d in (1, 2) for i in range(70)}, "d1/no.bin": "no"})
    of = lambda d, last="": "".join(f"{d}{i} " for i in range(70 if not last else 69)) + last
    want = lambda d, last="": {f"d{d}-{r}-{k}": (of(d, last) + f"r{r} ").encode() for r in "xy" for k in (1, 2)}
    assert project.contents("pairs") == {**want(1), **want(2)}
    run = other.run("left", {"d2/069.txt": "new "})
    assert [j["datums"]["reused"] for j in run["jobs"]] == [4], "a new commit there runs only what it touches"
    assert project.contents("pairs") == {**want(1), **want(2, "new ")}


def test_pachyderms_project_of_an_input_is_the_same(project, other):
    other.repo("data")
    spec = {"pipeline": {"name": "edges", "project": {"name": project.name}}, "transform": {"image": "ubuntu:20.04", "cmd": ["sh", "-c", 'cat "$in" >"$PL_OUT/all"']},
            "input": {"pfs": {"name": "in", "project": other.name, "repo": "data", "glob": "/*"}}}
    path = project.d.write("edges.json", json.dumps(spec))
    project.without_images()
    project.d.ctl("create", "pipeline", "-f", path)
    run = other.run("data", {"f": "over there"})
    assert [(j["project"], j["stage"]) for j in run["jobs"]] == [(project.name, "edges")]
    assert project.read("edges", "all") == b"over there"


def test_links_into_an_input_of_another_project_become_files_of_this_one(project, other):
    """Projects share no storage: the output must not refer to what the other project's store alone has."""
    other.repo("data")
    project.stages(reads(other, "s", 'ln -s "$PL_INPUT_DATA" "$PL_OUT/all"; ln -s "$PL_INPUT_DATA/big" "$PL_OUT/one"'))
    other.commit("data", {"small": "s", "mid": "m" * 60, "sub/x": "x"})
    other.push("data", "chunk", "c" * 5000)
    run = other.push("data", "big", big("L"))["run"]
    assert other.wait(run)["state"] == "success"
    assert project.files("s") == {"all/big": "file", "all/chunk": "file", "all/mid": "file", "all/small": "file", "all/sub/x": "file", "one": "file"}
    assert project.read("s", "one") == project.read("s", "all/big") == big("L") and project.read("s", "all/chunk") == b"c" * 5000
    project.d.ctl("fsck", "--full")


def test_a_datum_its_inputs_its_provenance_and_the_graph_lead_there(project, other):
    other.repo("data")
    project.repo("own").stages(reads(other, "s", 'cat "$PL_INPUT_DATA" > "$PL_OUT/f"; test "$(cat "$PL_INPUT_DATA")" != bad', glob="/*"))
    good = other.run("data", {"a": "good"})["id"]
    failed = other.run("data", {"a": "bad"}, state="failure")["id"]
    datum = project.datums("s", failed)[0]["id"]
    with zipfile.ZipFile(io.BytesIO(project.d.http("GET", f"/api/v1/jobs/{project.name}/s/{failed}/datums/{datum}/inputs", raw=True))) as z:
        assert {i.filename: z.read(i) for i in z.infolist()} == {"data/a": b"bad"}
    commit = project.d.get(f"/repos/{project.name}/s/commits/master")
    assert commit["id"] == good
    assert f"{other.name}/data" in project.d.ctl("inspect", "commit", f"{project.name}/s@master").out
    assert f"data={other.name}/data@{good[:8]}" in project.d.ctl("inspect", "job", f"{project.name}/s@{good}").out
    assert project.d.get(f"/pipelines/{project.name}/p")["stages"][0]["inputs"] == [f"{other.name}/data"]
    why = project.d.ctl("why", f"{project.name}/s@master:/f").out
    assert f"{other.name}/data" in why and "/a" in why
    trial = project.d.ctl("try", f"{project.name}/s", "--at", failed, "--sandbox", SANDBOX, "-o", os.path.join(project.d.root, project.name), ok=False)
    assert trial.code == 1 and "exit" in trial.err + trial.out
    trial = project.d.ctl("try", f"{project.name}/s", "--at", good, "--sandbox", SANDBOX, "-o", os.path.join(project.d.root, project.name))
    with open(os.path.join(project.d.root, project.name, "f"), encoding="utf-8") as f:
        assert f.read() == "good"
    eve = User(project.d, "why-" + project.name[-8:], (project.name, "reader"))
    told = eve.get(f"/why/{project.name}/s/master/f")["inputs"]
    assert [one.get("note") for one in told] == ["it comes from a repo that you may not read"] and "/a" not in json.dumps(told)
    assert eve.status("GET", f"/jobs/{project.name}/s/{failed}/datums/{datum}/inputs") == 403
    graph = project.d.get("/graph", project=project.name)
    names = {(n.get("project"), n.get("name")) for n in graph["nodes"]}
    assert (other.name, "data") in names and (project.name, "s") in names, names


def test_nobody_deletes_what_a_stage_of_another_project_reads(project, other):
    other.repo("data", "more")
    project.stages(reads(other, "s", "true"))
    with pytest.raises(HttpError) as e:
        project.d.http("DELETE", f"/api/v1/repos/{other.name}/data")
    assert e.value.status == 409 and f'stage "s" of project "{project.name}" reads repo "data"' in e.value.error["message"]
    with pytest.raises(HttpError) as e:
        project.d.http("DELETE", f"/api/v1/projects/{other.name}")
    assert e.value.status == 409
    other.commit("data", {"f": "1"})
    with pytest.raises(HttpError) as e:
        project.d.http("DELETE", f"/api/v1/repos/{other.name}/data/branches/master")
    assert e.value.status == 409 and project.name in e.value.error["message"]


def test_a_pipeline_whose_output_another_project_reads_is_not_deleted(project, other):
    other.repo("in").stages(sh("made", 'cp "$PL_INPUT_IN"/* "$PL_OUT/"'))
    project.stages(reads(other, "s", 'cp "$PL_INPUT_MADE"/* "$PL_OUT/"', repo="made"))
    run = other.run("in", {"f": "through both"})
    assert {(j["project"], j["stage"]) for j in run["jobs"]} == {(other.name, "made"), (project.name, "s")}
    assert project.contents("s") == {"f": b"through both"}
    with pytest.raises(HttpError) as e:
        project.d.http("DELETE", f"/api/v1/pipelines/{other.name}/p")
    assert e.value.status == 409 and project.name in e.value.error["message"]


def test_a_refused_delete_names_only_stages_that_the_caller_may_read(project, other):
    other.repo("data", "in").commit("data", {"f": "1"})
    other.stages(sh("made", "true", "in"))
    project.stages(reads(other, "s", "true"), reads(other, "t", "true", repo="made"))
    eve = User(project.d, "eve-" + project.name[-8:], (other.name, "admin"))
    deletes = [(f"/repos/{other.name}/data", 'repo "data"'), (f"/repos/{other.name}/data/branches/master", 'branch "master" of repo "data"'),
               (f"/pipelines/{other.name}/p", 'repo "made"')]

    def refusal(path):
        with pytest.raises(HttpError) as e:
            project.d.http("DELETE", "/api/v1" + path, token=eve.token)
        assert e.value.status == 409
        return e.value.error["message"]

    for path, what in deletes:
        assert refusal(path) == f"a stage of another project reads {what}: delete its pipeline first, or use --force"
    project.d.http("PATCH", f"/api/v1/users/{eve.name}", {"roles": [{"scope": project.name, "role": "reader"}]})
    for (path, what), stage in zip(deletes, "sst"):
        assert refusal(path).startswith(f'stage "{stage}" of project "{project.name}" reads {what}: ')
    # a role over the repo alone: the stages of its own project are not the user's either
    project.d.http("PATCH", f"/api/v1/users/{eve.name}", {"roles": [{"scope": other.name, "role": "none"}, {"scope": other.name + "/in", "role": "admin"}]})
    assert refusal(f"/repos/{other.name}/in").startswith('a stage reads repo "in": ')


def test_a_creator_who_may_not_read_there_is_refused(project, other):
    other.repo("data")
    eve = User(project.d, "eve-" + project.name[-8:], (project.name, "writer"))
    spec = {"spec": json.dumps({"pipeline": "p", "project": project.name, "stages": [reads(other, "s", "true")]}), "filename": "spec.json"}
    with pytest.raises(HttpError) as e:
        project.d.http("POST", "/api/v1/pipelines", spec, token=eve.token)
    assert e.value.status == 403 and 'stage "s": input "data"' in e.value.error["message"] and f"{other.name}/data" in e.value.error["message"]
    project.d.http("PATCH", f"/api/v1/users/{eve.name}", {"roles": [{"scope": project.name, "role": "writer"}, {"scope": other.name + "/data", "role": "reader"}]})
    project.d.http("POST", "/api/v1/pipelines", spec, token=eve.token)
    other.run("data", {"f": "1"})


def test_a_worker_reads_the_projects_that_its_stage_reads_and_no_other(project, other, gate):
    third = project.d.project(project.name + "y").repo("data")
    third.push("data", "f", "t" * 500)
    other.repo("data")
    project.stages(reads(other, "s", f'{gate.wait}; cat "$PL_INPUT_DATA"/* > "$PL_OUT/f"'))
    run = other.commit("data", {"f": "1"})["run"]
    gate.arrived()
    with contextlib.closing(sqlite3.connect(f"file:{project.d.dir}/pipelined.db?mode=ro", uri=True)) as db:
        worker = db.execute("SELECT w.id FROM worker w JOIN stage s ON s.id = w.stage WHERE s.project = ?", [project.name]).fetchone()[0]
    token = worker_token(project.d, worker)
    ask = lambda p, verb, more="": status_of(project.d, "POST", f"/projects/{p.name}/{verb}{more}", b"\0" * 32, token=token)
    assert [ask(p, "locate") for p in (project, other, third)] == [200, 200, 403]
    assert status_of(project.d, "POST", "/sessions", {"project": other.name}, token=token) == 403, "it writes nothing there"
    assert status_of(project.d, "GET", f"/repos/{other.name}/data/commits", token=token) == 403, "it lists nothing there"
    gate.leave_open()
    assert other.wait(run)["state"] == "success"


def test_a_restart_in_the_middle_goes_on(make_daemon, gate):
    d = make_daemon().start()
    other, project = d.project("other").repo("data"), d.project("mine")
    project.stages(sh("s", f'{gate.wait}; cat "$PL_INPUT_DATA" > "$PL_OUT/$(basename "$PL_INPUT_DATA")"', "other/data", "/*"))
    run = other.commit("data", {f"f{i}": f"{i}" for i in range(3)})["run"]
    gate.arrived()
    d.kill()
    d.start()
    gate.leave_open()
    assert d.wait(run)["state"] == "success"
    assert project.contents("s") == {f"f{i}": f"{i}".encode() for i in range(3)}
    d.stop()
    d.start()
    assert d.wait(other.commit("data", {"f1": "again"})["run"])["state"] == "success"
    assert project.read("s", "f1") == b"again"


def test_try_reads_there_and_a_folder_may_stand_for_one_of_the_inputs(project, other):
    other.repo("data").push("data", "f", big("T", 200_000))
    project.repo("own").push("own", "f", big("O", 200_000))
    spec = project.d.write("trial/spec.json", json.dumps({"pipeline": "p", "project": project.name, "stages": [
        {"name": "s", "run": ["sh", "-ec", 'cat "$PL_INPUT_DATA"/f "$PL_INPUT_OWN"/f >"$PL_OUT/f"; ln -s "$PL_INPUT_DATA/f" "$PL_OUT/l"'],
         "input": {"cross": [{"repo": f"{other.name}/data"}, {"repo": "own"}]}}]}))
    project.d.write("trial/folder/f", big("L", 200_000))
    folder, out = os.path.join(project.d.root, "trial/folder"), os.path.join(project.d.root, "trial/out")
    for given, want in (((), "TO"), (("--input", f"own={folder}"), "TL"), (("--input", f"data={folder}"), "LO")):
        project.d.ctl("try", "-f", spec, "s", *given, "--sandbox", SANDBOX, "-o", out)
        for name, letters in (("f", want), ("l", want[0])):
            with open(os.path.join(out, name), "rb") as f:
                assert f.read() == b"".join(big(letter, 200_000) for letter in letters), (given, name)
        shutil.rmtree(out)
