"""Pipelines in Pachyderm's form, as they are written there."""

import json
import os

import pytest

from conftest import SANDBOX, sh


def spec(name, cmd, repo, glob="/*", stdin=None, **more):
    transform = {"image": "ubuntu:20.04", "cmd": cmd, **({"stdin": stdin} if stdin else {}), **more.pop("transform", {})}
    return {"pipeline": {"name": name}, "transform": transform, "input": {"pfs": {"repo": repo, "glob": glob}}, **more}


def create(project, *specs, ok=True):
    project.without_images()
    path = project.d.write("specs.json", "\n---\n".join(json.dumps(s) for s in specs))
    return project.d.ctl("create", "pipeline", "-f", path, "--project", project.name, ok=ok)


@pytest.mark.skipif(SANDBOX != "bwrap", reason="a spec of this form names /pfs")
def test_several_documents_of_one_file_become_pipelines_that_read_each_other(project):
    project.repo("in")
    create(project, spec("upper", ["sh"], "in", stdin=['for f in /pfs/in/*; do', 'tr a-z A-Z <$f >/pfs/out/$(basename $f)', 'done']),
           spec("count", ["sh", "-c", "cat /pfs/upper/* | wc -c >/pfs/out/n"], "upper", "/", parallelism_spec={"constant": 2}))
    run = project.run("in", {"a": "one", "b": "two"})
    assert run["job"]["upper"]["datums"]["total"] == 2
    assert project.contents("upper") == {"a": b"ONE", "b": b"TWO"} and project.read("count", "n").split() == [b"6"]
    assert run["job"]["upper"]["pipeline"] == "upper" and run["job"]["count"]["pipeline"] == "count"


def test_a_datum_has_three_tries_and_accepted_codes_are_no_failure(project):
    project.repo("in")
    create(project, spec("accepts", ["sh", "-c", 'cp "$in" "$PL_OUT/"; exit 7'], "in", transform={"accept_return_code": [7]}),
           spec("fails", ["sh", "-c", "exit 3"], "in"))
    run = project.run("in", {"a": "1"}, state="failure")
    assert run["job"]["accepts"]["state"] == "success" and project.contents("accepts") == {"a": b"1"}
    assert [a["attempt"] for a in project.datums("fails", run["id"])] == [1, 2, 3]


def test_err_cmd_recovers_what_it_can(project):
    project.repo("in")
    create(project, spec("s", ["sh", "-c", 'test "$(cat "$in")" = good && cp "$in" "$PL_OUT/"'], "in", datum_tries=1, transform={"err_cmd": ["true"]}))
    run = project.run("in", {"a": "good", "b": "bad"})
    assert run["job"]["s"]["datums"] == {"total": 2, "reused": 0, "done": 1, "failed": 0, "recovered": 1}
    assert project.contents("s") == {"a": b"good"}


def test_links_of_the_output_become_what_they_lead_to(project):
    """Into an input: by reference, without its bytes; within the output: kept; elsewhere: the bytes, as the command could read them."""
    project.repo("in")
    create(project, spec("s", ["sh", "-e"], "in", stdin=[
        'far=$TMPDIR/far; near=$(realpath --relative-to="$PL_OUT" "$far")', 'mkdir -p "$far/deep/empty" "$PL_OUT/sub"', 'echo tool >"$far/tool"; chmod 700 "$far/tool"',
        'echo 1 >"$far/deep/one"; chmod 600 "$far/deep/one"; ln -s ../tool "$far/deep/linked"', 'ln -s "$in" "$PL_OUT/input"; ln -s sub/tool "$PL_OUT/within"; echo plain >"$PL_OUT/plain"',
        'ln -s "$far/tool" "$PL_OUT/again"; ln -s "$far/tool" "$PL_OUT/sub/tool"; ln -s "$near/../far/deep" "$PL_OUT/folder"']))
    project.run("in", {"a": "data"})
    assert project.files("s") == {"again": "exec", "folder/empty": "dir", "folder/linked": "exec", "folder/one": "file", "input": "file", "plain": "file", "sub/tool": "exec", "within": "link"}
    assert {p: project.read("s", p) for p in ("again", "folder/linked", "folder/one", "input", "plain", "sub/tool", "within")} == {
        "again": b"tool\n", "folder/linked": b"tool\n", "folder/one": b"1\n", "input": b"data", "plain": b"plain\n", "sub/tool": b"tool\n", "within": b"sub/tool"}


@pytest.mark.parametrize("make, says", [
    ("", "the target does not exist"),
    ("mkfifo $there", "only files and folders can be copied"),
    ("ln -s there $there", "Too many levels of symbolic links"),
    ("mkdir -p $there && ln -s / $there/root", "inside it, root is a link to a folder: copy the folder"),
    ("ln -s $PL_OUT/.. $there", "it contains the output folder itself"),
    ("echo >$there && chmod 0 $there", "Permission denied")])
def test_a_link_whose_target_cannot_be_copied_fails_the_datum_and_is_named(project, make, says):
    if "chmod 0" in make and os.getuid() == 0:
        pytest.skip("root reads every file")
    project.repo("in")
    create(project, spec("s", ["sh", "-e", "-c", f'there=$TMPDIR/there; rm -rf $there; {make or ":"}; mkdir $PL_OUT/d; ln -s $there $PL_OUT/d/bad'], "in", "/", datum_tries=1))
    run = project.run("in", {"a": "1"}, state="failure")
    reason = run["job"]["s"]["reason"]
    assert "/out/d/bad is a link to /" in reason and says in reason, reason


def test_a_stage_of_the_native_form_asks_for_it(project):
    stage = sh("s", 'echo 1 >$TMPDIR/far; ln -s $TMPDIR/far $PL_OUT/near')
    project.repo("in").stages({**stage, "output": {"copy_links": True}})
    project.run("in", {"a": "1"})
    assert project.contents("s") == {"near": b"1\n"}
    for sandbox in {SANDBOX, "none"}:
        out = os.path.join(project.d.root, project.name, sandbox)
        project.d.ctl("try", "s", "--project", project.name, "--at", "s@master", "--sandbox", sandbox, "-o", out)
        with open(os.path.join(out, "near")) as f:
            assert f.read() == "1\n" and not os.path.islink(f.name)


def test_a_mistake_in_a_later_document_is_told_at_its_line(project):
    project.repo("in")
    got = create(project, spec("one", ["true"], "in"), spec("two", ["true"], "in", spout={}), ok=False)
    assert got.code == 5
    assert "specs.json:3:" in got.err and ': spout: "spout" of Pachyderm\'s form is not available yet' in got.err
    assert project.d.get("/pipelines", project=project.name)["pipelines"] == []  # nothing was begun
