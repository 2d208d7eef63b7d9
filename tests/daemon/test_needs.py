"""What needs attention: the newest results that failed, whole or in part, the worst first; what is mended is not told."""
from conftest import sh


def needs(project):
    return [one for one in project.d.get("/needs")["needs"] if one["project"] == project.name]


def test_only_the_newest_result_of_a_stage_counts(project):
    project.repo("in").stages(sh("s", 'test "$(cat $PL_INPUT_IN/f)" = good'))
    bad = project.run("in", {"f": "bad"}, state="failure")
    one, = needs(project)
    assert (one["kind"], one["stage"], one["run"]) == ("failed", "s", bad["id"]) and one["text"].startswith("s failed: "), one
    assert one["since_us"] == bad["job"]["s"]["finished_us"], one
    project.run("in", {"f": "good"})
    assert needs(project) == []


def test_a_result_without_some_of_its_datums_comes_after_one_that_failed(project):
    project.repo("in", "other").stages({**sh("partly", 'case $PL_INPUT_IN in */bad*) exit 1;; esac', glob="/*"), "on_error": "skip"},
                                       sh("whole", "exit 1", repo="other"))
    project.run("in", {"bad1": "", "bad2": "", "good": ""})
    project.run("other", {"f": ""}, state="failure")
    assert [(one["kind"], one["text"].split(":")[0]) for one in needs(project)] == [
        ("failed", "whole failed"), ("partly_failed", "2 of 3 datums of partly failed")], needs(project)
