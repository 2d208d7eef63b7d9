"""What the data pages ask: repos with who makes and uses them, find, totals of a diff, two runs over all repos, archives, what is gone."""
import io
import json
import tarfile
import urllib.parse
import zipfile

import pytest

from conftest import Exec, HttpError, Link, gone, runs_end

LARGE = bytes(range(256)) * 4096 + b"end"  # several chunks
LONG = "long/" + "n" * 120 + "/" + "m" * 200
NAMES = {"a.txt": b"one", "b/c.txt": b"two", "b/run.sh": Exec(b"#!"), "b/empty": b"", "b/large.bin": LARGE, "b/link": Link("c.txt"), "b/out": Link("../../../etc/passwd"),
         "b/absolute": Link("/etc/passwd"), "b/..\\..\\up.txt": b"up", "b/<img src=x onerror=hit()>.txt": b"tag", "b/\u00fcml\u00e4ut \u2603.txt": b"utf", LONG: b"long"}


def archive(d, fmt, path="", ref="master", repo="in"):
    return d.http("GET", f"/api/v1/repos/default/{repo}/refs/{ref}/archive?" + urllib.parse.urlencode({"path": path, "format": fmt}), raw=True)


@pytest.fixture
def filled(daemon):
    daemon.default.repo("in")
    daemon.default.commit("in", {name: content for name, content in NAMES.items() if content is not LARGE})
    daemon.default.push("in", "b/large.bin", LARGE)
    daemon.default.commit("in", {"unrelated": b"1"})
    return daemon


def test_a_folder_comes_as_a_tar(filled):
    with tarfile.open(fileobj=io.BytesIO(archive(filled, "tar"))) as tar:
        entries = {entry.name: entry for entry in tar}
        assert entries["in/b/link"].issym() and entries["in/b/link"].linkname == "c.txt"
        assert entries["in/b/run.sh"].mode == 0o755 and entries["in/a.txt"].mode == 0o644
        got = {name: tar.extractfile(entry).read() for name, entry in entries.items() if entry.isfile()}
    want = {"in/" + name: bytes(content) for name, content in NAMES.items() if not isinstance(content, Link)}
    # a link that leads out of the folder is a text with its target: nothing that unpacks it follows it
    want |= {"in/b/out": b"../../../etc/passwd", "in/b/absolute": b"/etc/passwd", "in/unrelated": b"1"}
    assert got == want


def test_a_folder_comes_as_a_zip(filled):
    with zipfile.ZipFile(io.BytesIO(archive(filled, "zip", "/b"))) as z:
        assert z.testzip() is None
        got = {entry.filename: z.read(entry) for entry in z.infolist()}
        modes = {entry.filename: entry.external_attr >> 16 for entry in z.infolist()}
    want = {name: bytes(content) for name, content in NAMES.items() if name.startswith("b/") and not isinstance(content, Link)}
    want["b/.._.._up.txt"] = want.pop("b/..\\..\\up.txt")  # a backslash is a slash to some programs
    want |= {"b/link": b"c.txt", "b/out": b"../../../etc/passwd", "b/absolute": b"/etc/passwd"}
    assert got == want
    assert modes["b/link"] == 0o120777 and modes["b/out"] == 0o100644 and modes["b/run.sh"] == 0o100755


def test_an_archive_of_what_is_no_folder_is_refused(filled):
    for path, fmt, status, part in (("a.txt", "tar", 400, "is a file"), ("nothing", "zip", 404, "has no files below"), ("b", "rar", 400, "use tar or zip"), ("../x", "tar", 400, "")):
        with pytest.raises(HttpError) as e:
            archive(filled, fmt, path)
        assert e.value.status == status and part in e.value.error["message"], e.value


def test_find_says_how_far_it_looked(filled):
    page = filled.get("/repos/default/in/refs/master/list", find="C.TXT")
    assert [one["path"] for one in page["files"]] == ["b/c.txt"] and page["looked"] == len(NAMES) + 1 and "next" not in page
    assert "looked" not in filled.get("/repos/default/in/refs/master/list")


def test_a_diff_is_summed_up_by_kind_and_folder(daemon):
    p = daemon.default.repo("in")
    first = p.commit("in", {"x": b"12345", "gone/a": b"1", "gone/b": b"22", "same/a": b"1", "lisbon": b"a file"})["commit"]
    p.commit("in", {"x": b"123", "new/a/b": b"333", "new/c": b"4444"}, ["gone/a", "gone/b"])
    t = daemon.get("/repos/default/in/diff/totals", **{"from": first, "to": "master"})
    assert t["counts"] == {"added": 2, "changed": 1, "removed": 2, "bytes_before": 8, "bytes_after": 10} and not t["more"] and not t["more_folders"]
    assert {f["name"]: f["counts"] for f in t["folders"]} == {
        "": {"added": 0, "changed": 1, "removed": 0, "bytes_before": 5, "bytes_after": 3},
        "gone": {"added": 0, "changed": 0, "removed": 2, "bytes_before": 3, "bytes_after": 0},
        "new": {"added": 2, "changed": 0, "removed": 0, "bytes_before": 0, "bytes_after": 7}}
    below = daemon.get("/repos/default/in/diff/totals?path=/new")
    assert below["counts"]["added"] == 2 and {f["name"] for f in below["folders"]} == {"", "a"}
    one = daemon.get("/repos/default/in/diff/totals?path=/x")
    assert one["counts"]["changed"] == 1 and [f["name"] for f in one["folders"]] == [""]


def test_many_folders_of_a_diff_are_bounded(daemon):
    p = daemon.default.repo("in")
    p.commit("in", {f"d{n:03}/f": b"1" for n in range(250)})
    t = daemon.get("/repos/default/in/diff/totals")
    assert t["counts"]["added"] == 250 and len(t["folders"]) == 199 and t["more_folders"]


def copy_stage(name, repo):
    return {"name": name, "input": {"repo": repo, "glob": "/"}, "run": ["sh", "-c", f"cp -r $PL_INPUT_{repo.upper()}/. $PL_OUT/"]}


def test_repos_say_who_makes_and_uses_them(daemon):
    p = daemon.default.repo("in", "alone")
    p.stages(copy_stage("mid", "in"), copy_stage("end", "mid"))
    run = p.run("in", {"f": b"12345"})
    repos = {r["name"]: r for r in daemon.get("/repos")["repos"]}

    def stage(name):
        return {"project": "default", "stage": name, "pipeline": "p"}
    assert "made_by" not in repos["in"] and repos["in"]["used_by"] == [stage("mid")]
    assert repos["mid"]["made_by"] == stage("mid") and repos["mid"]["used_by"] == [stage("end")]
    assert repos["end"]["used_by"] == [] and repos["alone"]["used_by"] == []
    assert repos["alone"]["commit_us"] is None and repos["in"]["commit_us"] > 0
    assert (repos["end"]["commit"], repos["end"]["files"], repos["end"]["bytes"], repos["end"]["stale"]) == (run["id"], 1, 5, False)
    # an input moves and the stages do not follow
    daemon.post("/pipelines/default/p/stop")
    p.commit("in", {"f": b"other"})
    repos = {r["name"]: r for r in daemon.get("/repos")["repos"]}
    assert repos["mid"]["stale"] and repos["end"]["stale"] and not repos["in"]["stale"]
    assert daemon.get("/repos/default/mid")["stale"]


def test_a_repo_says_who_uses_it_once_and_its_settings_say_nothing_of_it(daemon):
    p = daemon.default.repo("in")
    both = {"name": "both", "input": {"cross": [{"repo": "in", "glob": "/a", "name": "x"}, {"repo": "in", "glob": "/b", "name": "y"}]}, "run": ["true"]}
    p.stages(both, copy_stage("end", "both"), copy_stage("other", "in"))
    stage = lambda name: {"project": "default", "stage": name, "pipeline": "p"}  # noqa: E731
    one = daemon.get("/repos/default/in")
    assert sorted(one["used_by"], key=lambda of: of["stage"]) == [stage("both"), stage("other")] and "made_by" not in one
    assert one in daemon.get("/repos")["repos"]
    mid = daemon.get("/repos/default/both")
    assert mid["made_by"] == stage("both") and mid["used_by"] == [stage("end")] and not mid["stale"]
    # what changes a repo answers with the repo alone: who uses it needs the state of all stages
    changed = daemon.http("PATCH", "/api/v1/repos/default/in", {"description": "new"})
    assert changed == {key: one[key] for key in one if key not in ("stale", "used_by")} | {"description": "new"}
    assert not {"stale", "used_by", "made_by"} & set(daemon.post("/repos", {"name": "in", "exist_ok": True}))


def test_two_runs_are_compared_in_every_repo(daemon):
    p = daemon.default.repo("in", "other")
    p.commit("other", {"o": b"1"})
    p.stages(copy_stage("mid", "in"), {"name": "both", "input": {"cross": [{"repo": "mid", "glob": "/"}, {"repo": "other", "glob": "/"}]}, "run": ["sh", "-c", "cp $PL_INPUT_MID/* $PL_OUT/"]})
    first = p.run("in", {"f": b"1"})["id"]
    second = p.run("in", {"f": b"22", "g": b"333"})["id"]
    told = daemon.get(f"/runs/{second}/changes")
    assert (told["from"], told["to"], told["same"]) == (first, second, 1)  # `other` was read by both, and is the same
    assert [(r["repo"], r["kind"], r["from"], r["to"]) for r in told["repos"]] == [("both", "output", first, second), ("in", "input", first, second), ("mid", "output", first, second)]
    assert all(r["counts"] == {"added": 1, "changed": 1, "removed": 0, "bytes_before": 1, "bytes_after": 5} and not r["more"] for r in told["repos"])
    back = daemon.get(f"/runs/{first}/changes", **{"from": second[:8]})
    assert {r["counts"]["removed"] for r in back["repos"]} == {1}
    pages, after = [], None
    while True:
        page = daemon.get(f"/runs/{second}/changes", limit=1, after=after)
        pages += [r["repo"] for r in page["repos"]]
        after = page.get("next")
        if not after:
            break
    assert pages == ["both", "in", "mid"]
    with pytest.raises(HttpError) as e:
        daemon.get(f"/runs/{first}/changes")
    assert e.value.status == 404 and e.value.error["field"] == "from"


def test_what_is_gone_says_what_became_of_it(daemon):
    p = daemon.default.repo("in")
    first = p.commit("in", {"kept": b"1", "d/file": b"2"})["commit"]
    p.commit("in", {"kept": b"2"})
    third = p.commit("in", {}, ["d/file"])["commit"]
    for call in (lambda: p.read("in", "d/file"), lambda: daemon.get("/repos/default/in/refs/master/list?path=/d")):
        said = gone(call)
        assert "was removed on 2" in said and f"in commit {third[:8]} of in; commit" in said
    assert f"commit {p.commits('in')[1]['id']} has it" in gone(lambda: p.read("in", "d/file"))
    with pytest.raises(HttpError) as e:
        p.read("in", "never")
    assert e.value.status == 404
    runs_end(daemon)  # a commit whose run goes on is in use
    daemon.http("DELETE", f"/api/v1/repos/default/in/commits/{third}")
    assert f"commit {third[:8]} of default/in was removed on 2" in gone(lambda: daemon.get(f"/repos/default/in/commits/{third}"))
    assert "was removed on" in gone(lambda: p.read("in", "kept", third[:10]))
    assert "was removed on" in gone(lambda: daemon.get("/repos/default/in/diff", **{"from": first, "to": third}))
    daemon.http("DELETE", "/api/v1/repos/default/in")
    said = gone(lambda: daemon.get("/repos/default/in"))
    assert said.startswith('repo "in" of project "default" was deleted on 2') and " by " in said, json.dumps(said)
    assert "was deleted on" in gone(lambda: p.read("in", "kept"))
    p.repo("in")
    assert daemon.get("/repos/default/in")["files"] == 0
