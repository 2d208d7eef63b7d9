"""What came from what, as a graph: up and down of commits and files, page by page."""
import json
import random
import urllib.parse

import pytest
from conftest import HttpError, sh
from people import User


def copy(name):
    return f'cp -r "$PL_INPUT_{name}"/* "$PL_OUT/" || cp "$PL_INPUT_{name}" "$PL_OUT/"'  # a folder, or a file


COPY = copy("IN")


def provenance(project, repo, ref="master", path="", who=None, **query):
    url = f"/provenance/{project.name}/{repo}/{ref}/{urllib.parse.quote(path)}"
    return who.get(url + "?" + urllib.parse.urlencode(query)) if who else project.d.get(url, **query)


def shown(answer):
    """Repo and commit → node, without the root."""
    return {(n["repo"], n["commit"]): n for n in answer["nodes"] if n["key"] != answer["root"]}


def edges(answer):
    by_key = {n["key"]: (n["repo"], n["commit"]) for n in answer["nodes"]}
    return {(by_key[e["from"]], by_key[e["to"]]): e["inputs"] for e in answer["edges"]}


def test_a_commit_tells_what_made_it_and_what_was_made_from_it(project):
    project.repo("photos").repo("labels").stages(
        sh("decode", copy("PHOTOS"), repo="photos", glob="/*"),
        {"name": "train", "input": {"cross": [{"repo": "decode", "name": "decoded"}, {"repo": "labels", "name": "label"}]}, "run": ["sh", "-c", 'ls "$PL_INPUT_DECODED" > "$PL_OUT/model"']})
    labels = project.run("labels", {"l": "1"})["id"]
    run = project.run("photos", {"a": "1", "b": "2"})
    id = run["id"]
    got = provenance(project, "decode", id, dir="all")
    assert got["commit"] == id and got["root"] == f"{project.name}/decode@{id}" and not got["more"] and not got["deeper"]
    assert {at: n["level"] for at, n in shown(got).items()} == {("photos", id): -1, ("train", id): 1}
    assert edges(got) == {(("photos", id), ("decode", id)): ["photos"], (("decode", id), ("train", id)): ["decoded"]}
    train = provenance(project, "train", id)
    assert {at: n["level"] for at, n in shown(train).items()} == {("decode", id): -1, ("labels", labels): -1, ("photos", id): -2}
    nodes = shown(train)
    decode, photos = nodes["decode", id], nodes["photos", id]
    assert nodes["labels", labels]["author"] == project.commits("labels")[0]["author"]
    assert (photos["branch"], photos["files"], "job" in photos) == ("master", 2, False), photos
    job = decode["job"]
    assert (job["stage"], job["run"], job["version"], job["state"], job["device"]) == ("decode", id, 1, "success", "cpu")
    assert len(decode["code"]) == 64 and job["started_us"] and job["finished_us"]
    place, = decode["places"]
    assert (place["attempts"], place["gpus"], place["run"]) == (2, 0, id) and place["finished_us"], place
    assert json.dumps(provenance(project, "train", "master")) == json.dumps(train), "the reply is the same each time"


def test_a_file_is_followed_through_the_datums_that_read_it(project):
    project.repo("in").stages(sh("one", COPY, glob="/*"), sh("all", 'cat "$PL_INPUT_ONE"/* > "$PL_OUT/sum"', repo="one"))
    first = project.run("in", {"a": "1", "b": "2"})["id"]
    second = project.run("in", {"b": "3"})["id"]
    got = shown(provenance(project, "in", second, "a", dir="down"))
    assert {at: n["paths"] for at, n in got.items()} == {("one", second): ["a"], ("all", second): ["sum"]}
    place, = got["one", second]["places"]
    assert place["run"] == first and len(place["datum"]) == 64, "it was computed by the first run"
    up = shown(provenance(project, "all", second, "sum"))
    assert {at: (n["files"], n["paths"]) for at, n in up.items()} == {("one", second): (2, ["a", "b"]), ("in", second): (2, ["a", "b"])}
    up = shown(provenance(project, "one", second, "b"))
    assert {at: n["paths"] for at, n in up.items()} == {("in", second): ["b"]}


def test_many_commits_are_folded_and_given_page_by_page(project):
    project.repo("model").repo("in").stages(
        {"name": "infer", "input": {"cross": [{"repo": "in"}, {"repo": "model"}]}, "run": ["sh", "-c", 'cp "$PL_INPUT_IN"/* "$PL_OUT/"']},
        sh("eval", copy("MODEL"), repo="model"))
    project.run("in", {"x": "first"})
    model = project.run("model", {"m": "1"})["id"]
    made = [project.run("in", {"x": str(i)})["id"] for i in range(4)]
    got = provenance(project, "model", model, dir="down", limit=3)
    level, = got["levels"]
    assert (level["commits"], level["shown"]) == (6, 3)
    assert list(sorted(shown(got))) == sorted([("eval", model), ("infer", made[3]), ("infer", made[2])]), "repos take turns, the newest first"
    rest = []
    while "next" in level:
        page = provenance(project, "model", model, dir="down", limit=3, after=level["next"])
        level, = page["levels"]
        rest += [n["commit"] for n in page["nodes"]]
        assert {(e["from"], e["to"].split("@")[0]) for e in page["edges"]} == {(got["root"], f"{project.name}/infer")}
    assert sorted(rest) == sorted([model, *made[:2]])


def test_a_depth_ends_the_graph_and_says_so(project):
    project.repo("in").stages(sh("a", COPY), sh("b", copy("A"), repo="a"), sh("c", copy("B"), repo="b"))
    run = project.run("in", {"f": "1"})["id"]
    for dir, repo, want in (("down", "in", ["a", "b"]), ("up", "c", ["a", "b"])):
        for path in ("", "f"):
            got = provenance(project, repo, run, path, dir=dir, depth=2)
            assert sorted(at[0] for at in shown(got)) == want and got["deeper"], got
            assert not provenance(project, repo, run, path, dir=dir, depth=3)["deeper"]


def test_what_may_not_be_read_is_not_told(project):
    d = project.d
    project.repo("in").repo("open").stages(
        {"name": "both", "input": {"cross": [{"repo": "in"}, {"repo": "open"}]}, "run": ["sh", "-c", 'cp "$PL_INPUT_OPEN"/* "$PL_OUT/"']}, sh("shut", copy("OPEN"), repo="open"))
    project.run("in", {"f": "1"})
    run = project.run("open", {"g": "1"})["id"]
    bob = User(d, f"{project.name}-bob", (f"{project.name}/both", "reader"), (f"{project.name}/open", "reader"))
    got = provenance(project, "both", run, who=bob)
    hidden, = [n for n in got["nodes"] if "note" in n]
    assert set(hidden) == {"key", "level", "note"} and "may not read" in hidden["note"] and "/in@" not in json.dumps(got), got
    assert {at[0] for at in shown(provenance(project, "open", run, who=bob, dir="down"))} == {"both"}
    assert {at[0] for at in shown(provenance(project, "open", run, "g", who=bob, dir="down"))} == {"both"}


def test_a_deleted_commit_is_named_as_such(project):
    project.repo("in").stages(sh("s", COPY))
    project.run("in", {"f": "1"})
    second = project.run("in", {"f": "2"})["id"]
    project.d.http("DELETE", f"/api/v1/repos/{project.name}/in/commits/{second}")
    for path in ("", "f"):
        got = provenance(project, "s", second, path)
        assert [n["note"] for n in got["nodes"] if "note" in n] == ["the commit has been deleted"], got


@pytest.mark.parametrize("query, field", [({"dir": "left"}, "dir"), ({"depth": 0}, "depth"), ({"depth": 65}, "depth"), ({"limit": 201}, "limit"), ({"after": "x"}, "after"),
                                          ({"after": "0/3"}, "after"), ({"after": "1/2/3"}, "after")])
def test_what_is_asked_wrongly_is_refused(project, query, field):
    project.repo("in")
    project.push("in", "f", b"1")
    with pytest.raises(HttpError) as refused:
        provenance(project, "in", **query)
    assert refused.value.status == 400 and field in json.dumps(refused.value.error), refused.value.error


def test_a_file_that_is_not_there_is_not_found(project):
    project.repo("in")
    project.push("in", "d/f", b"1")
    assert provenance(project, "in", path="d")["nodes"][0]["paths"] == ["d/f"]
    with pytest.raises(HttpError) as refused:
        provenance(project, "in", path="g")
    assert refused.value.status == 404


@pytest.mark.parametrize("seed", range(3))
def test_down_is_the_inverse_of_up_in_a_random_world(project, seed):
    """Of every file of every commit, against each other and against the tree of /why."""
    rnd = random.Random(seed)
    project.repo("x").repo("y").stages(
        sh("each", 'cp -r "$PL_INPUT_X" "$PL_OUT/"', repo="x", glob="/*"),
        {"name": "pair", "input": {"cross": [{"repo": "each", "name": "e", "glob": "/*"}, {"repo": "y", "name": "y", "glob": "/*/"}]},
         "run": ["sh", "-c", 'for e in "$PL_INPUT_E" "$PL_INPUT_E"/*; do for y in "$PL_INPUT_Y"/*; do test -f "$e" && cat "$e" "$y" > "$PL_OUT/$(basename $e)-$(basename $y)"; done; done; true']},
        {"name": "some", "input": {"union": [{"repo": "x", "name": "a", "files": ["f*"]}, {"repo": "y", "name": "b", "glob": "/*"}]},
         "run": ["sh", "-c", 'cd "${PL_INPUT_A:-$PL_INPUT_B}"; mkdir -p "$PL_OUT/${PL_INPUT_A:+a}"; find . -type f | sort > "$PL_OUT/${PL_INPUT_A:+a/}$(basename "$PWD").txt"']},
        sh("end", 'find "$PL_INPUT_SOME" -type f | wc -l > "$PL_OUT/n"', repo="some"))
    project.run("y", {"d/1": "1"})
    files = ["f0", "f1", "g0", "d/f2", "d/g1"]
    project.run("x", {f: "0" for f in files[:3]})
    for i in range(3):
        if rnd.random() < 0.5:
            project.run("x", {f: f"new {i}" for f in rnd.sample(files, 2)})
        else:
            project.run("y", {f"{rnd.choice('de')}/{rnd.randrange(3)}": f"new {i}"})
    world = [(repo, c["id"], path) for repo in ("x", "y", "each", "pair", "some", "end") for c in project.commits(repo)
             for path, kind in project.files(repo, c["id"]).items() if kind != "dir"]
    assert len(world) > 30
    found = {}
    for dir in ("up", "down"):
        for repo, commit, path in world:
            got = provenance(project, repo, commit, path, dir=dir)
            assert not got["more"] and not got["deeper"]
            found[dir, (repo, commit, path)] = {(*at, p) for at, n in shown(got).items() for p in n["paths"]}
    for file in world:
        for other in world:
            assert (other in found["up", file]) == (file in found["down", other]), (file, other)
    for repo, commit, path in world:
        tree, stack = set(), [project.d.get(f"/why/{project.name}/{repo}/{commit}/{path}")]
        while stack:
            node = stack.pop()
            stack += node.get("inputs", [])
            if "size" in node:
                tree.add((node["repo"], node["commit"], node["path"][1:]))
        assert tree - {(repo, commit, path)} == found["up", (repo, commit, path)], (repo, commit, path)
