"""What a stage sees, and what becomes of what it writes."""

import contextlib
import hashlib
import os
import pathlib
import re
import shutil
import subprocess

import pytest

from conftest import SANDBOX, Exec, HttpError, Link, sh, wait_until

HEX = re.compile(r"[0-9a-f]{64}")


def variables(project, stage, path="env"):
    return dict(line.split("=", 1) for line in project.read(stage, path).decode().splitlines() if "=" in line)


def test_a_push_runs_the_stages_one_after_the_other(project):
    project.repo("in").stages(
        sh("prepare", 'tr a-z A-Z <"$PL_INPUT_IN" >"$PL_OUT/$(basename "$PL_INPUT_IN")"', glob="/*.txt"),
        sh("train", 'cat "$PL_INPUT_PREPARE"/*.txt >"$PL_OUT/model"', "prepare"),
        sh("report", 'wc -c <"$PL_INPUT_TRAIN/model" | tr -d " " >"$PL_OUT/size"', "train"))
    run = project.run("in", {"a.txt": "one\n", "b.txt": "two\n"})
    assert [(s, j["state"], j["datums"]["done"]) for s, j in run["job"].items()] == [("prepare", "success", 2), ("train", "success", 1), ("report", "success", 1)]
    assert project.contents("prepare") == {"a.txt": b"ONE\n", "b.txt": b"TWO\n"}
    assert project.contents("train") == {"model": b"ONE\nTWO\n"}
    assert project.contents("report") == {"size": b"8\n"}
    assert {c["id"] for repo in ("in", "prepare", "train", "report") for c in project.commits(repo)} == {run["id"]}


def test_a_job_says_what_it_cost_and_what_it_read(project):
    project.repo("in").stages(sh("s", 'cat "$PL_INPUT_IN/f" >"$PL_OUT/f"'))
    run = project.run("in", {"f": "x" * 60})
    job = run["job"]["s"]
    assert job["started_us"] and job["finished_us"] >= job["started_us"] >= job["created_us"]
    assert {"wait", "fetch", "compute", "upload", "held"} <= set(job["ms"]) and job["ms"]["gpu"] == 0
    assert job["bytes"]["in"] == 60 and job["bytes"]["out"] >= 60
    assert [(i["repo"], i["commit"]) for i in job["inputs"]] == [("in", run["id"])]
    assert job["output"] == run["id"] and HEX.fullmatch(job["code"])
    attempt, = project.datums("s", run["id"])
    assert attempt["ms"] == {phase: job["ms"][phase] for phase in ("wait", "fetch", "compute", "upload", "held")}
    assert attempt["exit_code"] == 0 and attempt["rusage"]["max_rss_kb"] > 0 and attempt["node"]


def test_the_command_sees_its_variables(project):
    project.repo("in", "other-one").commit("other-one", {"x": "x"})
    project.stages({"name": "s", "input": {"cross": [{"repo": "in", "glob": "/*"}, {"repo": "other-one", "name": "more"}]},
                    "env": {"WORD": "a b", "NUMBER": 3, "YES": True}, "run": ["sh", "-c", "env >$PL_OUT/env"]})
    run = project.run("in", {"a.csv": "1"})
    env = variables(project, "s")
    folder = "/pfs" if SANDBOX == "bwrap" else env["PL_OUT"].rsplit("/", 1)[0]
    assert env["PL_INPUT_IN"] == env["in"] == f"{folder}/in/a.csv"
    assert env["PL_INPUT_MORE"] == env["more"] == f"{folder}/more"
    assert env["PL_OUT"] == f"{folder}/out"
    assert (env["WORD"], env["NUMBER"], env["YES"]) == ("a b", "3", "true")
    assert (env["PL_DEVICE"], env["PL_GPU_COUNT"], env["PYTHONUNBUFFERED"]) == ("cpu", "0", "1")
    assert (env["PL_STAGE"], env["PL_PIPELINE"], env["PL_PROJECT"]) == ("s", "p", project.name)
    assert HEX.fullmatch(env["PL_DATUM_ID"]) and env["PL_JOB_ID"] and env["PL_SEED"].isdigit()
    assert env["PACH_JOB_ID"] == env["PACH_OUTPUT_COMMIT_ID"] == run["id"]
    assert env["PACH_DATUM_ID"] == env["PL_DATUM_ID"]
    assert env["in_COMMIT"] == run["id"]
    assert "CUDA_VISIBLE_DEVICES" not in env or env["CUDA_VISIBLE_DEVICES"] in ("", "-1")


def test_nothing_of_the_daemon_reaches_the_command(project):
    project.repo("in").stages(sh("s", 'env >$PL_OUT/env; ls -A "$HOME" >$PL_OUT/home 2>&1 || true'))
    project.run("in", {"a": "1"})
    env = variables(project, "s")
    assert not [k for k in env if "TOKEN" in k or k.startswith("PIPELINED")]
    assert project.d.token not in project.read("s", "env").decode()


@pytest.mark.skipif(SANDBOX != "bwrap", reason="without namespaces the host's files are there")
def test_the_sandbox_hides_the_daemon_and_refuses_changes_of_inputs(project):
    project.repo("in").stages(sh("s", f'''
        test ! -e "{project.d.dir}/token" && echo hidden >$PL_OUT/data
        (echo x >$PL_INPUT_IN/f) 2>/dev/null || echo refused >$PL_OUT/input
        (echo x >/usr/x) 2>/dev/null || echo refused >$PL_OUT/usr
        echo x >/tmp/x && echo yes >$PL_OUT/tmp'''))
    project.run("in", {"f": "1"})
    assert project.contents("s") == {"data": b"hidden\n", "input": b"refused\n", "usr": b"refused\n", "tmp": b"yes\n"}


@pytest.mark.skipif(SANDBOX != "bwrap", reason="without namespaces network: false is refused")
def test_a_stage_without_network_has_its_own_loopback_alone(project):
    listing = "tail -n +3 /proc/net/dev | cut -d: -f1 | tr -d ' ' | sort | tr '\\n' ' ' >$PL_OUT/devices"
    project.repo("in").stages({**sh("with", listing), "network": True}, {**sh("without", listing), "network": False})
    project.run("in", {"a": "1"})
    with open("/proc/net/dev") as f:
        devices = sorted(line.split(":")[0].strip() for line in f.readlines()[2:])
    assert project.read("without", "devices").decode().split() == ["lo"]
    assert project.read("with", "devices").decode().split() == devices


def test_what_one_machine_cannot_do_is_refused_and_what_it_passes_over_is_warned_of(project):
    project.repo("in")
    with pytest.raises(HttpError) as refused:
        project.stages({**sh("s", "true"), "gpu": {"share": {"mode": "mig", "profile": "1g.5gb"}}})
    assert "stages[0].gpu.share.mode: parts of GPUs are only available on Kubernetes" in refused.value.error["message"]
    told = project.stages({**sh("s", "echo 1 >$PL_OUT/x"), "placement": {"queue": "a"}, "user": 1000})
    for field in ("placement", "user"):
        assert any(f"stages[0].{field}: s: ignored on one machine" in warning for warning in told["warnings"]), told
    project.run("in", {"a": "1"})
    assert project.contents("s") == {"x": b"1\n"}


def test_the_seed_belongs_to_the_datum_and_its_content(project):
    project.repo("in").stages(sh("s", "printf %s $PL_SEED >$PL_OUT/$(basename $PL_INPUT_IN)", glob="/*", cache=False))
    project.run("in", {"a": "1", "b": "2"})
    first = project.contents("s")
    project.run("in", {"b": "3"})
    second = project.contents("s")
    assert first["a"] == second["a"] != first["b"] != second["b"]


def test_files_says_which_files_of_a_match_are_given(project):
    project.repo("in").stages({"name": "s", "input": {"repo": "in", "glob": "/*", "files": ["*.npz", "/keep/**"]},
                               "run": ["sh", "-c", "cd $PL_INPUT_IN && find . -type f | sort >$PL_OUT/list"]})
    project.run("in", {"d/a.npz": "1", "d/b.txt": "2", "d/deep/c.npz": "3", "d/keep/x": "4", "e/only.txt": "5"})
    assert project.read("s", "list").decode().split() == ["./a.npz", "./deep/c.npz", "./keep/x"]


def test_a_cross_gives_every_combination(project):
    project.repo("a", "b").commit("a", {"1": "", "2": ""})
    project.stages({"name": "s", "input": {"cross": [{"repo": "a", "glob": "/*"}, {"repo": "b", "glob": "/*"}]}, "output": {"prefix": "${a.stem}/${b.stem}/"},
                    "run": ["sh", "-c", "echo $(basename $PL_INPUT_A) $(basename $PL_INPUT_B) >$PL_OUT/pair"]})
    run = project.run("b", {"x": "", "y": ""})
    assert run["job"]["s"]["datums"]["total"] == 4
    assert project.contents("s") == {f"{i}/{j}/pair": f"{i} {j}\n".encode() for i in "12" for j in "xy"}


def test_a_prefix_is_rendered_from_the_match(project):
    project.repo("in").stages(sh("s", "echo >$PL_OUT/f", glob="/data/(*)-(*).csv", output={"prefix": "${in.2}/${in.1}/${in.dir}/${in.stem}/"}))
    project.run("in", {"data/a-1.csv": "", "data/b-2.csv": ""})
    assert sorted(project.files("s")) == ["1/a/data/a-1/f", "2/b/data/b-2/f"]


def test_an_expected_file_that_is_missing_fails_the_job(project):
    project.repo("in").stages(sh("s", "echo 1 >$PL_OUT/model.npy", output={"expect": ["/model.npz"]}))
    run = project.run("in", {"f": "1"}, state="failure")
    assert run["job"]["s"]["reason"] == "stage s succeeded but wrote nothing matching /model.npz; it wrote /model.npy"
    with pytest.raises(HttpError, match="404"):
        project.read("s", "model.npy")


def test_without_datums_a_job_succeeds_with_an_empty_output(project):
    project.repo("in").stages(sh("s", "false", glob="/*.csv", output={"expect": ["/x"]}), sh("after", "ls $PL_INPUT_S >$PL_OUT/list", "s"))
    run = project.run("in", {"f.txt": "1"})
    assert (run["job"]["s"]["state"], run["job"]["s"]["datums"]["total"]) == ("success", 0)
    assert project.files("s") == {}


def test_a_script_runs_by_its_interpreter(project):
    project.repo("in").stages({"name": "py", "input": {"repo": "in"}, "script": "#!/usr/bin/python3\nimport os\nopen(os.environ['PL_OUT'] + '/f', 'w').write('python')\n"},
                              {"name": "shell", "input": {"repo": "in"}, "script": "false || echo shell >$PL_OUT/f\n"},
                              {"name": "stops", "input": {"repo": "in"}, "script": "false\necho no >$PL_OUT/f\n"})
    run = project.run("in", {"f": "1"}, state="failure")
    assert (project.read("py", "f"), project.read("shell", "f")) == (b"python", b"shell\n")
    assert run["job"]["stops"]["state"] == "failure"


def test_files_that_the_command_leaves_alone_are_uploaded_while_it_runs(make_daemon, gate):
    daemon = make_daemon().start(env={"PIPELINED_EARLY_MS": "20"})
    project = daemon.project("early").repo("in")
    project.stages(sh("s", f'''
        cd $PL_OUT
        head -c 3000000 /dev/urandom >kept
        head -c 3000000 /dev/urandom >changed
        {gate.wait}
        echo more >>changed
        sha256sum kept changed >sums'''))
    pushed = project.commit("in", {"f": "1"})
    gate.arrived()
    packs = pathlib.Path(daemon.dir) / "store" / "p" / "early"

    def in_packs():
        with contextlib.suppress(FileNotFoundError):  # a pack that got its name, or a folder that went, in between
            return sum(f.stat().st_size for f in packs.glob("*/*") if f.is_file())
        return 0

    wait_until(lambda: in_packs() > 6_000_000, "both files to be in packs")
    gate.open()
    assert project.wait(pushed["run"])["state"] == "success"
    files = project.contents("s")
    assert files["sums"].decode() == "".join(f"{hashlib.sha256(files[f]).hexdigest()}  {f}\n" for f in ("kept", "changed"))
    assert "1 output files were uploaded" in pathlib.Path(daemon.dir, "logs", "workers.log").read_text()


def test_exec_bits_links_and_empty_folders_are_kept(project):
    project.repo("in").stages(sh("s", '''
        cd $PL_OUT
        cp $PL_INPUT_IN/run.sh . && chmod 755 run.sh && ./run.sh >said
        ln -s said link && mkdir empty'''))
    project.run("in", {"run.sh": Exec(b"#!/bin/sh\necho hello\n"), "l": Link("run.sh")})
    assert project.files("in") == {"run.sh": "exec", "l": "link"}
    assert project.files("s") == {"run.sh": "exec", "said": "file", "link": "link", "empty": "dir"}
    assert project.read("s", "said") == b"hello\n"


def test_an_executable_input_can_be_run_and_a_link_followed(project):
    project.repo("in").stages(sh("s", '$PL_INPUT_IN/run.sh >$PL_OUT/a; readlink $PL_INPUT_IN/l >$PL_OUT/b; cat $PL_INPUT_IN/l >$PL_OUT/c'))
    project.run("in", {"run.sh": Exec(b"#!/bin/sh\necho hello\n"), "l": Link("run.sh")})
    assert project.contents("s") == {"a": b"hello\n", "b": b"run.sh\n", "c": b"#!/bin/sh\necho hello\n"}


def test_a_link_into_an_input_becomes_that_input_without_its_bytes(project):
    project.repo("in").push("in", "big", b"0123456789" * 30000)
    project.stages(sh("s", "ln -s $PL_INPUT_IN/big $PL_OUT/same; ln -s $PL_INPUT_IN/d $PL_OUT/folder"))
    project.run("in", {"d/x": "1", "d/y": "2"})
    assert project.files("s") == {"same": "file", "folder/x": "file", "folder/y": "file"}
    assert project.read("s", "same") == b"0123456789" * 30000


def test_large_files_go_through_whole(project):
    project.repo("in").stages(sh("s", "cat $PL_INPUT_IN/f $PL_INPUT_IN/f >$PL_OUT/f"))
    content = bytes(range(256)) * 20000
    project.wait(project.push("in", "f", content)["run"])
    assert project.read("s", "f") == content * 2


def test_a_gpu_that_is_not_required_and_not_there_means_the_cpu(project):
    project.repo("in").stages(sh("s", "echo $PL_DEVICE $PL_GPU_COUNT ${CUDA_VISIBLE_DEVICES-none} >$PL_OUT/f", gpu={"count": 1, "required": False}))
    run = project.run("in", {"f": "1"})
    assert run["job"]["s"]["device"] == "cpu"
    said = "it runs on the CPU: gpu.required is false and no GPU is on offer: a worker wants 1 and the executor has 0"
    assert run["job"]["s"]["warnings"] == [said] and said in project.d.ctl("--project", project.name, "inspect", "job", f"s@{run['id']}").out
    assert project.read("s", "f").split()[:2] == [b"cpu", b"0"]


def test_an_image_is_told_about_on_the_job(project):
    project.repo("in").stages(sh("s", "echo >$PL_OUT/f", image="python:3.12", image_required=False))
    run = project.run("in", {"f": "1"})
    assert any("python:3.12" in w for w in run["job"]["s"]["warnings"])


def test_two_projects_have_repos_and_stages_of_one_name(project):
    other = project.d.project(project.name + "b")
    for p, word in ((project, "one"), (other, "two")):
        p.repo("in").stages(sh("s", f"echo {word} >$PL_OUT/f"))
    runs = [p.commit("in", {"f": "1"})["run"] for p in (project, other)]
    assert [p.wait(r)["state"] for p, r in zip((project, other), runs)] == ["success"] * 2
    assert (project.read("s", "f"), other.read("s", "f")) == (b"one\n", b"two\n")
    assert [p["name"] for p in project.d.get("/pipelines", project=other.name)["pipelines"]] == ["p"]


@pytest.mark.skipif(SANDBOX != "bwrap", reason="without namespaces a command could have changed the last checkout")
def test_a_large_input_is_left_to_the_stages_next_worker_and_becomes_the_next_commit(project):
    def kept():
        folder = os.path.join(project.d.dir, "cache", "kept")
        return os.listdir(folder) if os.path.isdir(folder) else []

    project.repo("in").stages(sh("s", 'cd $PL_INPUT_IN; find . -type f | sort | xargs cat >$PL_OUT/all; find . | sort >$PL_OUT/names'))
    files = {f"d{i % 7}/{i:04}": f"{i}\n" for i in range(1000)}
    project.run("in", files)
    before = wait_until(kept, "the worker leaves and its checkout stays")
    project.run("in", {"d1/new": "new\n", "d2/0002": "other\n"}, deletes=["d0/0000"])
    files = {path: text for path, text in {**files, "d1/new": "new\n", "d2/0002": "other\n"}.items() if path != "d0/0000"}
    assert project.read("s", "all").decode() == "".join(files[path] for path in sorted(files))
    assert project.read("s", "names").decode().splitlines() == sorted([".", *{f"./{p.split('/')[0]}" for p in files}, *(f"./{p}" for p in files)])
    after = wait_until(lambda: kept() != before and kept(), "it is left again")
    assert len(after) == 1


RUNTIMES = {  # what each language's own machinery does: threads, processes, pipes, signals, its garbage collector, memory of NUMA nodes
    "python3": "python3 -c 'import multiprocessing as m, threading, subprocess, mmap; m.set_start_method(\"spawn\"); p = m.Process(target=print, args=(\"x\",)); p.start(); "
               "p.join(); t = threading.Thread(target=print); t.start(); t.join(); mmap.mmap(-1, 4096); print(sum(range(9)), subprocess.check_output([\"true\"]), p.exitcode)'",
    "numpy": "python3 -c 'import numpy as n; print(int((n.ones((300, 300)) @ n.ones((300, 300))).sum()))'",
    "node": "node -e 'const c = require(\"child_process\"); new (require(\"worker_threads\").Worker)(\"1\", {eval: true}).on(\"exit\", () => console.log(c.execSync(\"echo ran\") + \"\"))'",
    "java": "printf 'public class A { public static void main(String[] a) throws Exception { Thread t = new Thread(() -> System.gc()); t.start(); t.join(); "
            "System.out.println(new String(new ProcessBuilder(\"echo\", \"ran\").start().getInputStream().readAllBytes())); } }' >A.java; java A.java",
    "go": "printf 'package main\\nimport (\"fmt\"; \"os/exec\"; \"runtime\")\\nfunc main() { c := make(chan int); go func() { runtime.GC(); c <- 1 }(); <-c; "
          "b, e := exec.Command(\"echo\", \"ran\").Output(); fmt.Println(string(b), e) }' >a.go; GOCACHE=/tmp/c GOFLAGS=-mod=mod /usr/local/go/bin/go run a.go",
    "perl": "perl -e 'my $p = fork; exit 0 unless $p; waitpid $p, 0; print `echo ran`, $?'",
    "tar": "mkdir d && echo x >d/f && tar -czf d.tgz d && mkdir e && tar -C e -xzf d.tgz && cat e/d/f",
}


@pytest.mark.parametrize("name", RUNTIMES)
def test_a_runtime_runs_under_the_list_of_system_calls(project, name):
    if name == "numpy" and subprocess.run(["/usr/bin/python3", "-c", "import numpy"], capture_output=True, check=False).returncode != 0:
        pytest.skip("no numpy here")
    if name != "numpy" and not (shutil.which(name) or os.path.exists(f"/usr/local/{name}/bin/{name}")):
        pytest.skip(f"no {name} here")
    project.repo("in").stages(sh("s", f"cd /tmp && {RUNTIMES[name]} >$PL_OUT/said"))
    project.run("in", {"f": "1"}, timeout=100)
    assert project.read("s", "said").strip()
