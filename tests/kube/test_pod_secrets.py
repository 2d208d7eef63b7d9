"""Secrets of projects in a cluster: kept as its Secrets, given to stages' pods, masked in what these print, waited for in words."""
import base64
import re
import urllib.parse

import nodes
from test_demo import kit, world  # noqa: F401  a fixture

VALUE, OTHER = "hunter2-and-more", "correct-horse-battery"
USES = [{"name": "pg", "key": "dsn", "env": "PG"}, {"name": "pg", "mount": "/keys/pg"}]
SCRIPT = "echo \"as $PG, $(cat /keys/pg/user)\"; ls /keys/pg >/pfs/out/keys; printf %s \"$PG\" | sha256sum >/pfs/out/sum; ! touch /keys/pg/x 2>/dev/null"


def objects(one):
    """{name: (label, {key: value})} of the namespace."""
    listed = one.kubelet.plane.request("GET", f"/api/v1/namespaces/{one.kubelet.namespace}/secrets")[1]["items"]
    return {item["metadata"]["name"]: (item["metadata"].get("labels", {}).get("pipelined.io/project"),
                                       {key: base64.b64decode(value).decode() for key, value in item.get("data", {}).items()}) for item in listed}


def put(one, name, label=None, store=None, **values):
    """As `kubectl create secret generic`, with labels or without."""
    labels = {"pipelined.io/project": label, "pipelined.io/store": store}
    made = {"metadata": {"name": name, "labels": {key: value for key, value in labels.items() if value}}, "stringData": values}
    assert one.kubelet.plane.request("POST", f"/api/v1/namespaces/{one.kubelet.namespace}/secrets", made)[0] == 201


def ctl(one, *words, project="vision", **more):
    return one.daemon.ctl(*words, "--project", project, **more)


def ends(one, run, state="success"):
    end = one.daemon.wait(run)
    assert end["state"] == state, (end, one.tell())
    return end


def test_a_stage_has_them_as_variables_and_files_and_does_not_show_them(world):  # noqa: F811
    one = world([nodes.cpu("cpu")])
    vision = one.daemon.project("vision").repo("in")
    ctl(one, "create", "secret", "pg", "--value", f"dsn={VALUE}", "--value", "user=somebody")
    assert objects(one) == {"pg": ("vision", {"dsn": VALUE, "user": "somebody"})}
    vision.stages(kit.sh("s", SCRIPT, secrets=USES))
    ends(one, vision.commit("in", {"x": "1"})["run"])
    assert vision.logs("s") == "as ***, ***\n", one.tell()
    assert vision.read("s", "keys") == b"dsn\nuser\n"
    first = vision.read("s", "sum")
    assert VALUE not in str(one.pods("s")) and VALUE not in one.daemon.log()

    ctl(one, "update", "secret", "pg", "--value", f"dsn={OTHER}")
    assert objects(one)["pg"][1] == {"dsn": OTHER, "user": "somebody"}
    one.kubelet.until(lambda: not one.kubelet.all(), "who has the old value has ended")
    ends(one, vision.commit("in", {"x": "2"})["run"])
    assert vision.read("s", "sum") != first and OTHER not in vision.logs("s"), one.tell()
    assert [(kept["name"], sorted(kept["keys"])) for kept in ctl(one, "list", "secret", "--json").json["secrets"]] == [("pg", ["dsn", "user"])]


def test_those_that_are_not_the_project_s_are_nobodys_and_waited_for_in_words(world):  # noqa: F811
    """A registry's, another project's: no stage of this one gets them, and nothing changes them; what is made meanwhile is taken at once."""
    one = world([nodes.cpu("cpu")])
    put(one, "registry", token=VALUE)
    put(one, "theirs", "other", token=VALUE)
    vision = one.daemon.project("vision").repo("in")
    for name in ("registry", "theirs"):
        said = ctl(one, "create", "secret", name, "--value", "token=x", ok=False)
        assert said.code == 4 and 'that does not belong to project "vision"' in said.err, said.err
        assert ctl(one, "delete", "secret", name, ok=False).code == 3
        assert ctl(one, "update", "secret", name, "--value", "token=x", ok=False).code == 3
    assert ctl(one, "list", "secret", "--json").json["secrets"] == []
    warned = vision.stages(*(kit.sh(name, "true", secrets=[{"name": name, "key": "token", "env": "T"}]) for name in ("registry", "late")))
    assert any('project vision has no secret "registry"' in line for line in warned["warnings"]), warned
    run = vision.commit("in", {"x": "1"})["run"]
    for name in ("registry", "late"):
        words = f'project vision has no secret "{name}": pipelinectl create secret {name} --project vision --file token=FILE'
        one.daemon.wait_job(run, name, lambda job, words=words: words in job["reason"], "says what is missing")
    assert one.pods("registry") == one.pods("late") == []
    ctl(one, "create", "secret", "late", "--value", "token=there")
    one.daemon.wait_job(run, "late", lambda job: job["state"] == "success", "goes on")
    label = {"metadata": {"labels": {"pipelined.io/project": "vision"}}}
    path = f"/api/v1/namespaces/{one.kubelet.namespace}/secrets/registry"
    assert one.kubelet.plane.request("PATCH", path, label, content_type="application/merge-patch+json")[0] == 200
    ends(one, run)


def test_they_go_when_they_are_deleted_and_with_their_project(world):  # noqa: F811
    one = world([nodes.cpu("cpu")])
    one.daemon.project("vision")
    one.daemon.project("vision-")
    put(one, "registry", token=VALUE)
    for name in ("a", "b", "c"):
        ctl(one, "create", "secret", name, "--value", "k=v")
    ctl(one, "create", "secret", "d", "--value", "k=v", project="vision-")
    again = ctl(one, "create", "secret", "a", "--value", "k=v", ok=False)
    assert again.code == 4 and "update secret a" in again.err
    ctl(one, "delete", "secret", "a")
    assert ctl(one, "delete", "secret", "a", ok=False).code == 3
    assert set(objects(one)) == {"b", "c", "d", "registry"}
    one.daemon.ctl("delete", "project", "vision")
    assert set(objects(one)) == {"d", "registry"}
    one.daemon.ctl("delete", "project", "vision-")
    assert set(objects(one)) == {"registry"}


def test_those_of_another_daemon_and_those_labelled_by_hand_stay_whose_they_are(world):  # noqa: F811
    """What is said to remove them are selectors that the cluster takes."""
    one = world([nodes.cpu("cpu")])
    store = one.daemon.get("/status")["store_id"]
    put(one, "twin", "vision", "0123abcd", token=VALUE)
    put(one, "hub", "vision", token=VALUE)
    put(one, "left", "vision", store, token=VALUE)
    over = one.daemon.ctl("create", "project", "vision", ok=False)
    patterns = (
        r"delete secret -l (\S+) removes left;",
        r"label secret -l '(\S+)' pipelined.io/project- releases these, which were labelled by hand: hub",
    )
    said = [re.search(pattern, over.err) for pattern in patterns]
    assert over.code == 4 and all(said), over.err
    for found, name in zip(said, ("left", "hub"), strict=True):
        listed = one.kubelet.plane.request("GET", f"/api/v1/namespaces/{one.kubelet.namespace}/secrets?labelSelector={urllib.parse.quote(found[1])}")
        assert listed[0] == 200 and [item["metadata"]["name"] for item in listed[1]["items"]] == [name]
    one.daemon.ctl("create", "project", "vision", "--with-secrets")
    assert [kept["name"] for kept in ctl(one, "list", "secret", "--json").json["secrets"]] == ["hub", "left"]
    assert ctl(one, "update", "secret", "twin", "--value", "token=x", ok=False).code == 3
    refused = ctl(one, "delete", "secret", "hub", ok=False)
    assert f"label secret hub pipelined.io/store={store}" in refused.err, refused.err
    vision = kit.Project(one.daemon, "vision").repo("in")
    warned = vision.stages(kit.sh("s", 'test -n "$T"', secrets=[{"name": "hub", "key": "token", "env": "T"}]),
                           kit.sh("t", "true", secrets=[{"name": "twin", "key": "token", "env": "T"}]))
    assert any('no secret "twin"' in line for line in warned["warnings"]) and not any('"hub"' in line for line in warned["warnings"]), warned
    run = vision.commit("in", {"x": "1"})["run"]
    one.daemon.wait_job(run, "s", lambda job: job["state"] == "success", "has what was lent")
    one.daemon.wait_job(run, "t", lambda job: 'no secret "twin"' in job["reason"], "has none of another daemon's")
    one.daemon.project("other")
    ctl(one, "create", "secret", "own", "--value", "k=v", project="other")
    put(one, "lent", "other", token=VALUE)
    gone = one.daemon.ctl("delete", "project", "other")
    assert "by hand and remain: lent." in gone.err and set(objects(one)) == {"twin", "hub", "left", "lent"}
