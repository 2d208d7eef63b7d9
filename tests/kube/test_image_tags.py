"""Which image a job's commands ran in, by its digest: on the job, in `why`, and with a warning where one tag was two of them."""
import dataclasses

import nodes
from test_demo import COMMANDS, IMAGES, world  # noqa: F401  a fixture
from test_pod_faults import begin, succeeds

DIGESTS = {letter: "sha256:" + letter * 64 for letter in "ab"}
FULL = {letter: f"registry.test/python@{digest}" for letter, digest in DIGESTS.items()}
COPY = "cp /pfs/in/f /pfs/out/f"


def image(letter):
    return dataclasses.replace(IMAGES[COMMANDS], digest=DIGESTS[letter])


def job(one, run):
    return one.daemon.get(f"/jobs/default/st/{run}")


def ran_in(one, run, *letters):
    """The job once its images are known: a command may be quicker than its node."""
    return one.kubelet.until(lambda: [told for told in [job(one, run)] if told["images"] == [FULL[letter] for letter in letters]],
                             lambda: f"images {letters}: {job(one, run)}")[0]


def again(one, text):
    """One run more, in a pod of its own."""
    one.kubelet.until(lambda: not one.kubelet.all(), "the pod before is removed")
    run = one.daemon.push("in-st", "f", text)["run"]
    succeeds(one, run)
    return run


def test_a_tag_that_was_moved_since_the_last_job_is_told(world):  # noqa: F811
    one = world([nodes.cpu("a")], images={COMMANDS: image("a")})
    first = begin(one, "st", COPY, image=COMMANDS)
    succeeds(one, first)
    assert ran_in(one, first, "a")["warnings"] == []
    one.kubelet.add_image(COMMANDS, image("b"))
    second = again(one, "moved")
    said = f"image {COMMANDS}: sha256:{'a' * 12} in run {first[:8]}, sha256:{'b' * 12} in this one: its tag was moved; use a digest in the spec to pin it"
    assert ran_in(one, second, "b")["warnings"] == [said]
    shown = one.daemon.ctl("inspect", "job", f"st@{second}").out
    assert said in shown and FULL["b"] in shown, shown
    third = again(one, "stayed")
    assert ran_in(one, third, "b")["warnings"] == []
    for run, letter in ((first, "a"), (third, "b")):
        assert f", image registry.test/python@sha256:{letter * 12}\n" in one.daemon.ctl("why", f"st@{run}:/f").out
        assert one.daemon.get(f"/why/default/st/{run}/f")["image_id"] == FULL[letter]
    back = again(one, "moved")  # its output stands already: `why` tells of the run that made it
    told = one.daemon.get(f"/why/default/st/{back}/f")
    assert (told["image_id"], told["run"], job(one, back)["images"]) == (FULL["b"], second, []), told


def test_two_digests_under_one_tag_in_a_job_are_told_once(world, gate):  # noqa: F811
    """Its pod is taken away behind the first datum, and the next one pulls what the tag is by then."""
    one = world([nodes.cpu("a")], images={COMMANDS: image("a")})
    one.daemon.default.repo("in-st")
    script = f"f=$(cd /pfs/in && echo *); [ $f = a ] || {{ {gate.wait}; }}; cp /pfs/in/$f /pfs/out/$f"
    one.daemon.default.stages({"name": "st", "script": script, "input": {"repo": "in-st", "name": "in", "glob": "/*"}}, pipeline="st")
    run = one.daemon.default.commit("in-st", {"a": "1", "b": "2"})["run"]
    gate.arrived()
    assert ran_in(one, run, "a")["warnings"] == []
    one.kubelet.add_image(COMMANDS, image("b"))
    name, = {pod["metadata"]["name"] for pod in one.kubelet.all()}
    one.kubelet.delete(name)
    one.kubelet.wait_gone(name)
    gate.arrived()
    gate.open()
    succeeds(one, run)
    said = f"the default image: sha256:{'a' * 12} and sha256:{'b' * 12} in this job: its tag was moved, or the default was changed; use a digest in the spec to pin it"
    assert ran_in(one, run, "a", "b")["warnings"] == [said]
    for path, letter in (("a", "a"), ("b", "b")):
        assert one.daemon.get(f"/why/default/st/{run}/{path}")["image_id"] == FULL[letter]


def test_a_digest_in_the_spec_is_compared_with_nothing(world):  # noqa: F811
    pinned = f"registry.test/python@{DIGESTS['a']}"
    one = world([nodes.cpu("a")], images={pinned: IMAGES[COMMANDS]})
    for text in ("1", "2"):
        run = begin(one, "st", COPY, image=pinned) if text == "1" else again(one, text)
        succeeds(one, run)
        assert one.kubelet.until(lambda run=run: job(one, run)["images"], "its image is known") and job(one, run)["warnings"] == []
