"""pipelinectl try: one datum on this machine, with and without a daemon; nothing is committed and nothing is left behind."""

import fcntl
import json
import os
import pty
import re
import signal
import struct
import subprocess
import termios

import pytest
from conftest import BIN, SANDBOX, SANITIZER, sh, wait_until

FAILED, USAGE, NOT_FOUND, INVALID, NO_SERVER = 1, 2, 3, 5, 6


class Desk:
    """A folder to work in, and pipelinectl without a daemon."""

    def __init__(self, top):
        self.top = top
        self.tmp = top / "tmp"
        self.tmp.mkdir()
        self.env = {**os.environ, "HOME": str(top), "XDG_DATA_HOME": str(top), "TMPDIR": str(self.tmp)}

    def line(self, *args):
        return [os.path.join(BIN, "pipelinectl"), *map(str, args)]

    def ctl(self, *args, ok=True, stdin=""):
        done = subprocess.run(self.line(*args), input=stdin, capture_output=True, text=True, cwd=self.top, env=self.env, check=False, timeout=120)
        assert not SANITIZER.search(done.stderr), done.stderr
        assert not ok or done.returncode == 0, done.stderr
        assert not os.listdir(self.tmp), "the temporary folder stayed"
        return done

    def trial(self, *args, **more):
        return self.ctl("try", "--sandbox", SANDBOX, *args, **more)

    def files(self, **contents):
        """files(in={"a/b": "text"}) below in/."""
        for folder, inside in contents.items():
            for path, text in inside.items():
                (self.top / folder / path).parent.mkdir(parents=True, exist_ok=True)
                (self.top / folder / path).write_text(text)
        return self

    def spec(self, *stages, project="default"):
        (self.top / "s.json").write_text(json.dumps({"pipeline": "p", "project": project, "repos": {"in": {}, "more": {}}, "stages": stages}))
        return self.top / "s.json"

    def tree(self, folder):
        top = self.top / folder
        return {str(path.relative_to(top)): path.read_text() for path in sorted(top.rglob("*")) if path.is_file()}


@pytest.fixture
def desk(tmp_path):
    return Desk(tmp_path)


def variables(text):
    return dict(line.split("=", 1) for line in text.splitlines() if "=" in line)


# --- without a daemon

def test_the_output_lies_in_a_folder_as_it_would_in_the_repo(desk):
    desk.files(**{"data": {"b.txt": "bee", "a.txt": "ay", "c.csv": "no"}})
    spec = desk.spec(sh("s", 'echo reading; tr a-z A-Z <"$PL_INPUT_IN" >"$PL_OUT/upper"', glob="/*.txt", output={"prefix": "${in.stem}/"}))
    done = desk.trial("-f", spec, "s", "-i", "in=data", "-o", "out")
    assert done.stdout == "reading\n"
    assert "stage s, datum 0 of 2: in=/a.txt (--datum chooses another)" in done.stderr
    assert "/a/upper  2 B" in done.stderr and "written to out; nothing was committed" in done.stderr
    assert desk.tree("out") == {"a/upper": "AY"}
    desk.trial("-f", spec, "-i", "in=data", "--datum", "1", "-o", "out")
    assert desk.tree("out") == {"a/upper": "AY", "b/upper": "BEE"}


def test_one_stages_folder_is_the_next_ones_input(desk):
    desk.files(data={"a": "1", "b": "2"})
    spec = desk.spec(sh("one", 'cp "$PL_INPUT_IN" "$PL_OUT/"', glob="/*"), sh("two", 'cat "$PL_INPUT_ONE"/* >"$PL_OUT/all"', "one"))
    for number in range(2):
        desk.trial("-f", spec, "one", "-i", "in=data", "--datum", number, "-o", "one", "-q")
    desk.trial("-f", spec, "two", "-i", "one=one", "-o", "two", "-q")
    assert desk.tree("two") == {"all": "12"}


def test_without_o_nothing_is_kept_and_it_says_so(desk):
    desk.files(data={"a": "1"})
    done = desk.trial("-f", desk.spec(sh("s", 'echo x >"$PL_OUT/f"')), "-i", "in=data")
    assert "/f  2 B" in done.stderr and "the output was discarded: -o DIR" in done.stderr
    assert sorted(os.listdir(desk.top)) == ["data", "s.json", "tmp"]


@pytest.mark.parametrize("which", ["1", "/sub/b.txt", "sub/b.txt", "in=/sub/b.txt"])
def test_a_datum_is_named_by_number_path_or_both(desk, which):
    desk.files(data={"a.txt": "1", "sub/b.txt": "2"})
    done = desk.trial("-f", desk.spec(sh("s", 'cat "$PL_INPUT_IN"', glob="/**/*.txt")), "-i", "in=data", "--datum", which)
    assert done.stdout == "2"


def test_a_datum_is_named_by_the_start_of_its_id_as_plan_tells_it(desk):
    desk.files(data={"a.txt": "1", "b.txt": "2"})
    spec = desk.spec(sh("s", 'cat "$PL_INPUT_IN"; printf " %s" "$PL_DATUM_ID"', glob="/*"))
    rows = [json.loads(line) for line in desk.ctl("plan", "-f", spec, "-i", "in=data").stdout.splitlines()]
    for row, text in zip(rows, "12"):
        assert desk.trial("-f", spec, "-i", "in=data", "--datum", row["id"][:12]).stdout == f"{text} {row['id']}"


def test_only_what_files_takes_of_the_match_is_there(desk):
    desk.files(data={"x/a.txt": "1", "x/b.csv": "2", "x/deep/c.txt": "3", "y/d.txt": "4"})
    spec = desk.spec({"name": "s", "input": {"repo": "in", "glob": "/*", "files": ["*.txt"]}, "run": ["sh", "-c", 'cd "$PL_INPUT_IN/.."; find . -type f | sort']})
    assert desk.trial("-f", spec, "-i", "in=data").stdout.split() == ["./x/a.txt", "./x/deep/c.txt"]


def test_links_executables_and_empty_folders_arrive_as_they_are(desk):
    desk.files(data={"real": "#!/bin/sh\necho ran\n"})
    os.chmod(desk.top / "data" / "real", 0o755)
    os.symlink("real", desk.top / "data" / "link")
    (desk.top / "data" / "none").mkdir()
    spec = desk.spec(sh("s", 'cd "$PL_INPUT_IN"; readlink link; ./real; test -d none && echo folder; stat -c %a real'))
    assert desk.trial("-f", spec, "-i", "in=data").stdout.split() == ["real", "ran", "folder", "555"]


def test_the_code_is_what_lies_on_disk_without_what_git_ignores(desk):
    desk.files(data={"a": "1"}, code={"run.py": "print('first')", "x.pyc": "no", ".gitignore": "*.pyc"})
    spec = desk.spec({"name": "s", "input": {"repo": "in"}, "code": "code", "run": ["sh", "-c", "ls; /usr/bin/python3 run.py; touch mine"]})
    assert desk.trial("-f", spec, "-i", "in=data").stdout.split() == ["run.py", "first"]
    desk.files(code={"run.py": "print('second')"})
    assert "second" in desk.trial("-f", spec, "-i", "in=data").stdout
    assert sorted(os.listdir(desk.top / "code")) == [".gitignore", "run.py", "x.pyc"]


def test_a_script_and_an_environment(desk):
    desk.files(data={"a": "1"})
    spec = desk.spec({"name": "s", "input": {"repo": "in"}, "env": {"WORD": "a b"}, "script": "#!/bin/sh\necho $0 $WORD | sed 's,.*/,,'\n"})
    assert desk.trial("-f", spec, "-i", "in=data").stdout == "script a b\n"


def test_a_failed_command_is_an_error_with_its_reason(desk):
    desk.files(data={"a": "1"})
    done = desk.trial("-f", desk.spec(sh("s", "echo before; exit 3")), "-i", "in=data", "-o", "out", ok=False)
    assert (done.returncode, done.stdout) == (FAILED, "before\n")
    assert "pipelinectl: stage s: datum in=/: exit code 3\n" in done.stderr and "--shell" in done.stderr.splitlines()[-1]
    assert not (desk.top / "out").exists()


@pytest.mark.parametrize("script, said", [
    ('ln -s /etc/passwd "$PL_OUT/l"', "a link to /etc/passwd"),
    ('mkfifo "$PL_OUT/f"', "FIFO"),
    ("kill -9 $$", "killed by signal 9"),
    ("/nothing/there", "exit code 127"),
])
def test_what_would_fail_the_datum_fails_it_here(desk, script, said):
    desk.files(data={"a": "1"})
    done = desk.trial("-f", desk.spec(sh("s", script)), "-i", "in=data", ok=False)
    assert (done.returncode, said in done.stderr) == (FAILED, True), done.stderr


def test_expect_of_an_only_datum_is_checked_as_a_jobs_is(desk):
    desk.files(data={"a": "1"})
    output = {"prefix": "p/", "expect": ["/p/*.npz", "/p/f"]}
    spec = desk.spec(sh("s", 'echo x >"$PL_OUT/f"; echo y >"$PL_OUT/m.npy"', output=output))
    done = desk.trial("-f", spec, "-i", "in=data", "-o", "out", ok=False)
    assert (done.returncode, "stage s succeeded but wrote nothing matching /p/*.npz; it wrote /p/f, /p/m.npy" in done.stderr) == (FAILED, True), done.stderr
    assert desk.tree("out") == {"p/f": "x\n", "p/m.npy": "y\n"}  # to look at
    done = desk.trial("-f", desk.spec(sh("s", "true", output=output)), "-i", "in=data", ok=False)
    assert (done.returncode, "it wrote nothing at all" in done.stderr) == (FAILED, True), done.stderr
    assert desk.trial("-f", desk.spec(sh("s", 'touch "$PL_OUT/f" "$PL_OUT/m.npz"', output=output)), "-i", "in=data").returncode == 0


def test_expect_of_one_datum_of_several_is_a_warning(desk):
    desk.files(data={"a": "1", "b": "2"})
    spec = desk.spec(sh("s", 'cp "$PL_INPUT_IN" "$PL_OUT/"', glob="/*", output={"expect": ["/b"]}))
    said = "datum 0 of 2 wrote nothing matching /b of output.expect: a job fails if no other datum does (warning)"
    assert said in desk.trial("-f", spec, "-i", "in=data").stderr
    assert "expect" not in desk.trial("-f", spec, "-i", "in=data", "--datum", "/b").stderr
    done = desk.trial("--json", "-f", spec, "-i", "in=data")
    assert json.loads(done.stdout)["unmet"] == ["/b"] and said in done.stderr


@pytest.mark.parametrize("out, said", [
    ("data/a", "-o data/a: {top}/data/a is not a folder: give a folder, or a path that does not exist yet"),
    ("data/a/below", "-o data/a/below"),
    ("shut/out", "-o shut/out: cannot write to {top}/shut"),
    ("/proc/out", "-o /proc/out: cannot write to /proc"),
    ("loose", "-o loose: where this link leads"),
    ("", "-o is empty: give a folder"),
])
def test_a_folder_for_the_output_is_checked_before_the_command_runs(desk, out, said):
    desk.files(data={"a": "1"})
    (desk.top / "shut").mkdir(mode=0o555)
    (desk.top / "loose").symlink_to("nowhere")
    if out.startswith("shut") and os.access(desk.top / "shut", os.W_OK):
        pytest.skip("root may write everywhere")
    done = desk.trial("-f", desk.spec(sh("s", "echo ran")), "-i", "in=data", "-o", out, ok=False)
    assert (done.returncode != 0, done.stdout, said.format(top=os.path.realpath(desk.top)) in done.stderr) == (True, "", True), done.stderr


def test_a_timeout_ends_it(desk):
    desk.files(data={"a": "1"})
    done = desk.trial("-f", desk.spec(sh("s", "sleep 1000", datum={"timeout": "1s"})), "-i", "in=data", ok=False)
    assert (done.returncode, "timed out after 1s" in done.stderr) == (FAILED, True), done.stderr


def test_json_has_the_answer_alone_on_standard_output(desk):
    desk.files(data={"a": "1", "b": "2"})
    spec = desk.spec(sh("s", 'echo noise; echo x >"$PL_OUT/f"; test "$PL_INPUT_IN" = "${PL_INPUT_IN%b}"', glob="/*"))
    done = desk.trial("--json", "-f", spec, "-i", "in=data")
    answer = json.loads(done.stdout)
    assert (answer["success"], answer["stage"], answer["datum"], answer["datums"], answer["files"]) == (True, "s", 0, 2, 1)
    assert answer["paths"] == [{"path": "f", "size": 2}] and done.stderr == "noise\n"
    done = desk.trial("--json", "-f", spec, "-i", "in=data", "--datum", "/b", ok=False)
    assert (json.loads(done.stdout)["exit_code"], done.returncode) == (1, FAILED)
    assert json.loads(done.stderr.splitlines()[-1])["error"]["code"] == "stage_failed"


def test_a_shell_has_the_datum_and_what_it_writes_is_the_output(desk):
    desk.files(data={"a": "text"}, code={"x.py": ""})
    spec = desk.spec({"name": "s", "input": {"repo": "in"}, "code": "code", "env": {"WORD": "w"}, "run": ["false"]})
    done = desk.trial("-f", spec, "-i", "in=data", "-o", "out", "--shell", stdin='ls; cat "$PL_INPUT_IN/a"; echo " $WORD"; echo y >"$PL_OUT/f"; exit 3\n')
    assert done.stdout == "x.py\ntext w\n"
    assert desk.tree("out") == {"f": "y\n"}


@pytest.mark.skipif(SANDBOX != "bwrap", reason="without namespaces the host's files are there")
def test_the_sandbox_is_a_workers(desk):
    desk.files(data={"a": "1"})
    script = f'test ! -e {desk.top}/data && echo hidden; (echo x >"$PL_INPUT_IN/a") 2>/dev/null || echo refused; echo "$PL_INPUT_IN"; ls "$HOME"'
    spec = desk.spec(sh("s", script))
    assert desk.trial("-f", spec, "-i", "in=data").stdout.split() == ["hidden", "refused", "/pfs/in"]
    assert desk.trial("-f", spec, "-i", "in=data", "--shell", stdin=script).stdout.split() == ["hidden", "refused", "/pfs/in"]


@pytest.mark.parametrize("signalled", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGKILL])
def test_interrupted_or_killed_nothing_goes_on_running(desk, signalled, tmp_path):
    """An interrupt goes to the whole group of the terminal; the others to pipelinectl alone."""
    desk.files(data={"a": "1"})
    spec = desk.spec(sh("s", "echo up; exec sleep 1000"))
    line = desk.line("try", "--sandbox", SANDBOX, "-f", spec, "-i", "in=data")
    process = subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=desk.top, env=desk.env, start_new_session=True)
    assert process.stdout.readline() == b"up\n"
    if signalled == signal.SIGINT:
        os.killpg(process.pid, signalled)
    else:
        process.send_signal(signalled)
    out, err = process.communicate(timeout=60)  # the pipe ends when the last process that holds it has ended
    assert out == b"" and not SANITIZER.search(err.decode()), err
    assert process.returncode == (-9 if signalled == signal.SIGKILL else 128 + signalled)
    if signalled != signal.SIGKILL:
        assert not os.listdir(desk.tmp)


@pytest.mark.parametrize("both", [False, True], ids=["output", "messages_too"])
@pytest.mark.parametrize("more", [[], ["--json"]], ids=["text", "json"])
def test_a_reader_that_leaves_early_leaves_nothing_behind(desk, both, more):
    desk.files(data={"a": "1"})
    spec = desk.spec(sh("s", 'i=0; while [ $i -lt 50000 ]; do echo "line $i"; i=$((i+1)); done; echo x >"$PL_OUT/f"'))
    line = " ".join(desk.line("try", "--sandbox", SANDBOX, "-f", spec, "-i", "in=data", *more)) + (" 2>&1" if both else "") + " | head -n 1"
    done = subprocess.run(["/bin/sh", "-c", line], capture_output=True, text=True, cwd=desk.top, env=desk.env, check=False, timeout=120)
    assert done.stdout, done.stderr
    wait_until(lambda: not os.listdir(desk.tmp), lambda: f"the temporary folder to go: {os.listdir(desk.tmp)}", timeout=20)


@pytest.mark.parametrize("line, code, said", [
    ([], USAGE, "Give -f SPEC STAGE, or STAGE --at RUN"),
    (["-f", "s.json", "-i", "in=data"], USAGE, "try which stage? Pipeline p has s, gpu"),
    (["-f", "s.json", "nix", "-i", "in=data"], NOT_FOUND, 'no stage "nix"'),
    (["-f", "s.json", "s", "-i", "in=data", "--datum", "9"], NOT_FOUND, "stage s has 2 datums, none with this number, id or path"),
    (["-f", "s.json", "s", "-i", "in=data", "--datum", "/c"], NOT_FOUND, "none with this number"),
    (["-f", "s.json", "s", "-i", "in=empty"], NOT_FOUND, 'nothing in in matches "/*"'),
    (["-f", "s.json", "s", "-i", "in=data", "-i", "more=data"], USAGE, 'does not read a repo "more"'),
    (["-f", "s.json", "s", "-i", "in=data", "-o", "data"], USAGE, "-o data lies in the input folder data"),
    (["-f", "s.json", "s", "-i", "in=data", "-o", "data/not/there"], USAGE, "-o data/not/there lies in the input folder data"),
    (["-f", "s.json", "s", "-i", "in=data", "--sandbox", "x"], USAGE, "give bwrap or none"),
    (["-f", "s.json", "s", "-i", "in=data", "--gpus", "x"], USAGE, "numbers of /dev/nvidiaN"),
    (["-f", "s.json", "gpu", "-i", "in=data", "--gpus", "999"], USAGE, "numbers of /dev/nvidiaN"),
    (["--server", "http://127.0.0.1:1", "-f", "s.json", "s"], NO_SERVER, "To work without a server, give --input in=DIR"),
])
def test_what_is_missing_is_named(desk, line, code, said):
    desk.files(data={"a": "1", "b": "2"})
    (desk.top / "empty").mkdir()
    desk.spec(sh("s", "true", glob="/*"), sh("gpu", "true", gpu=1))
    done = desk.ctl("try", *line, ok=False)
    assert (done.returncode, said in done.stderr) == (code, True), done.stderr


@pytest.mark.skipif(os.path.exists("/dev/nvidia0"), reason="this machine has one")
def test_a_gpu_that_is_not_there(desk):
    desk.files(data={"a": "1"})
    spec = desk.spec(sh("must", "echo $PL_DEVICE", gpu=1), sh("may", "echo $PL_DEVICE", gpu={"count": 1, "required": False}))
    done = desk.trial("-f", spec, "must", "-i", "in=data", ok=False)
    assert (done.returncode, "needs 1 GPU, this machine has 0" in done.stderr, "--gpus none" in done.stderr) == (INVALID, True, True), done.stderr
    assert desk.trial("-f", spec, "must", "-i", "in=data", "--gpus", "none").stdout == "cpu\n"
    assert desk.trial("-f", spec, "may", "-i", "in=data").stdout == "cpu\n"


BATCH = """import pl, sys
print("loaded")
for d in pl.datums():
    with open(d["in"]) as f:
        text = f.read()
    if text == "bad":
        sys.exit(4)
    with open(d.out + "/upper", "w") as f:
        f.write(text.upper())
print("left")
"""


def test_a_batch_stage_gets_its_one_datum_and_is_told_that_there_is_no_more(desk):
    desk.files(data={"a": "text", "b": "bad"}, code={"run.py": BATCH})
    spec = desk.spec({"name": "s", "input": {"repo": "in", "glob": "/*"}, "code": "code", "datum": {"batch": True}, "run": ["/usr/bin/python3", "run.py"]})
    done = desk.trial("-f", spec, "-i", "in=data", "-o", "out")
    assert done.stdout.startswith("loaded\n")
    assert desk.tree("out") == {"upper": "TEXT"}
    done = desk.trial("-f", spec, "-i", "in=data", "--datum", "/b", ok=False)
    assert (done.returncode, "exit code 4" in done.stderr) == (FAILED, True), done.stderr
    done = desk.trial("-f", spec, "-i", "in=data", "--shell", stdin='cat "$PL_INPUT_IN"')
    assert done.stdout == "text"


def test_without_a_sandbox_a_spec_that_names_pfs_is_refused(desk):
    desk.files(data={"a": "1"})
    spec = desk.spec({"name": "s", "input": {"repo": "in"}, "run": ["cat", "/pfs/in/a"]})
    done = desk.ctl("try", "-f", spec, "-i", "in=data", "--sandbox", "none", ok=False)
    assert (done.returncode, "/pfs" in done.stderr, "run[1]" in done.stderr) == (INVALID, True, True), done.stderr


# --- what stages may read

def test_parameters(desk):
    desk.files(data={"a": "1"})
    spec = desk.spec({"name": "s", "input": {"cross": [{"repo": "in"}, {"params": {"lr": [0.1, 0.2], "k": ["x"]}}]},
                      "run": ["sh", "-c", 'echo "${params.lr} $PL_PARAM_K"; cat /pfs/params/params.json 2>/dev/null || cat "$PL_INPUT_PARAMS/params.json"'],
                      "output": {"prefix": "lr=${params.lr}/"}})
    rows = [json.loads(line) for line in desk.ctl("plan", "-f", spec, "-i", "in=data").stdout.splitlines()]
    assert [(r["inputs"], r["prefix"]) for r in rows] == [({"in": "/", "params": {"k": "x", "lr": lr}}, f"lr={lr}/") for lr in (0.1, 0.2)]
    assert desk.trial("-f", spec, "-i", "in=data", "--datum", "1").stdout == '0.2 x\n{"k":"x","lr":0.2}'


def test_a_union_has_the_datums_of_both(desk):
    desk.files(data={"a": "A"}, other={"b": "B"})
    spec = desk.spec({"name": "s", "input": {"union": [{"repo": "in", "glob": "/*"}, {"repo": "more", "glob": "/*"}]},
                      "run": ["sh", "-c", 'cat "${PL_INPUT_IN:-$PL_INPUT_MORE}"']})
    rows = [json.loads(line)["inputs"] for line in desk.ctl("plan", "-f", spec, "-i", "in=data", "-i", "more=other").stdout.splitlines()]
    assert rows == [{"in": "/a"}, {"more": "/b"}]
    assert desk.trial("-f", spec, "-i", "in=data", "-i", "more=other").stdout == "A"
    assert desk.trial("-f", spec, "-i", "in=data", "-i", "more=other", "--datum", "/b").stdout == "B"


def test_the_previous_output_is_a_folder_or_nothing(desk):
    desk.files(data={"a": "1"}, last={"model": "old"})
    spec = desk.spec({"name": "s", "input": {"cross": [{"repo": "in"}, {"repo": "s", "name": "last", "previous": True}]},
                      "run": ["sh", "-c", 'ls "$PL_INPUT_LAST"']})
    assert desk.trial("-f", spec, "-i", "in=data").stdout == ""
    assert desk.trial("-f", spec, "-i", "in=data", "-i", "s=last").stdout == "model\n"


def test_a_writable_input_may_be_changed_and_the_folder_stays_as_it_is(desk):
    desk.files(data={"a": "1"})
    spec = desk.spec({"name": "s", "input": {"repo": "in", "writable": True}, "run": ["sh", "-ec", 'echo 2 >"$PL_INPUT_IN/a"; cat "$PL_INPUT_IN/a"']})
    assert desk.trial("-f", spec, "-i", "in=data").stdout == "2\n"
    assert desk.tree("data") == {"a": "1"}


def test_what_the_command_reads_and_codes_that_are_no_failure(desk):
    desk.files(data={"a": "1"})
    (desk.top / "s.json").write_text(json.dumps({"pipeline": {"name": "old"}, "input": {"pfs": {"repo": "in", "glob": "/"}},
                                                 "transform": {"cmd": ["sh"], "stdin": ["echo read", "exit 3"], "accept_return_code": [3]}}))
    done = desk.trial("-f", "s.json", "-i", "in=data")
    assert done.stdout == "read\n"


def test_a_stage_of_the_second_pipeline_in_a_file(desk):
    desk.files(data={"a": "1"})
    one = {"pipeline": "p", "repos": {"in": {}}, "stages": [sh("first", "echo 1")]}
    two = {"pipeline": "q", "repos": {"in": {}}, "stages": [sh("second", "echo $PL_PIPELINE")]}
    (desk.top / "s.json").write_text(json.dumps(one) + "\n---\n" + json.dumps(two))
    assert desk.trial("-f", "s.json", "second", "-i", "in=data").stdout == "q\n"
    assert desk.trial("-f", "s.json", "third", "-i", "in=data", ok=False).returncode == NOT_FOUND
    rows = [json.loads(line)["stage"] for line in desk.ctl("plan", "-f", "s.json", "-i", "in=data").stdout.splitlines()]
    assert rows == ["first", "second"]


# --- with a daemon

def trial(project, *args, **more):
    return project.d.ctl("try", "--sandbox", SANDBOX, "--project", project.name, *args, **more)


def failing(project):
    """A stage that fails for one of three files."""
    project.repo("in").stages(sh("s", 'echo "at $PL_INPUT_IN"; if grep bad "$PL_INPUT_IN"; then exit 1; fi; cp "$PL_INPUT_IN" "$PL_OUT/"', glob="/*"))
    return project.run("in", {"a": "1", "b": "bad", "c": "3"}, state="failure")


def test_a_failed_datums_message_ends_with_the_line_that_reproduces_it(project):
    run = failing(project)
    shown = project.d.ctl("inspect", "run", run["id"]).err.splitlines()
    line = shown[-1].split("pipelinectl ", 1)
    assert line[0].strip() == "try it here:"
    done = project.d.ctl(*line[1].split(), "--sandbox", SANDBOX, ok=False)
    assert done.code == FAILED
    assert "in=/b" in done.err and "exit code 1" in done.err
    assert "bad" in done.out
    assert project.d.ctl("wait", "run", run["id"], ok=False).err.splitlines()[-2] == shown[-1]
    failed = next(a for a in project.datums("s", run["id"]) if a["state"] == "failed")
    assert project.d.ctl("inspect", "datum", f"{project.name}/s@{run['id']}", failed["id"]).out.splitlines()[-1] == shown[-1].strip()


def test_a_datum_of_a_run_has_its_variables_and_its_seed(project):
    project.repo("in").stages(sh("s", 'env | grep -v "^_=" | sort >"$PL_OUT/env"', glob="/*"))
    run = project.run("in", {"a": "1"})
    real = variables(project.read("s", "env").decode())
    project.run("in", {"a": "2"})
    trial(project, "s", "--at", run["id"][:12], "-o", f"{project.d.root}/{project.name}")
    with open(f"{project.d.root}/{project.name}/env", encoding="utf-8") as f:
        here = variables(f.read())
    if SANDBOX == "bwrap":
        assert here == real
    for name in ("PL_SEED", "PL_DATUM_ID", "PL_JOB_ID", "PL_STAGE", "PL_PIPELINE", "PL_PROJECT", "in_COMMIT"):
        assert here[name] == real[name], name


@pytest.mark.skipif(SANDBOX != "bwrap", reason="without namespaces the host's files are there")
def test_the_sandbox_is_like_that_of_the_daemon(make_daemon, desk):
    """The daemon's folders, and its PATH, are in a try's sandbox, too; without a daemon they come from its configuration."""
    tools, more = desk.top / "tools", desk.top / "more"
    for folder in (tools, more):
        folder.mkdir()
        (folder / f"our-{folder.name}").write_text(f"#!/bin/sh\necho here {folder.name}\n")
        (folder / f"our-{folder.name}").chmod(0o755)
    config = desk.top / "config.json"
    config.write_text(json.dumps({"sandbox_read_only": [str(tools), str(more)]}))
    daemon = make_daemon("--config", str(config)).start(env={"PATH": f"{tools}:{os.environ['PATH']}"})
    daemon.ctl("create", "repo", "in")
    script = f'{more}/our-more; our-tools'
    spec = desk.spec(sh("s", script))
    daemon.ctl("create", "pipeline", "-f", spec)
    desk.files(data={"a": "1"})
    daemon.ctl("put", "file", "in:/a", "-f", f"{desk.top}/data/a")
    run = daemon.ctl("wait", "run", "in@master")
    real = daemon.ctl("logs", "s").out
    assert real == "here more\nhere tools\n", run.err
    line = ["try", "--sandbox", SANDBOX, "-f", spec, "-i", f"in={desk.top}/data"]
    done = daemon.ctl(*line)
    assert done.out == real, done.err
    daemon.stop()
    assert "our-more: not found" in desk.ctl(*line, ok=False).stdout
    desk.env["PATH"] = f"{tools}:{desk.env['PATH']}"
    assert desk.ctl(*line, "--config", config).stdout == real
    for text, said in (("{", "--config"), ('{"sandbox_read_only": 1}', "sandbox_read_only must be a list of folders")):
        (desk.top / "bad.json").write_text(text)
        assert said in desk.ctl(*line, "--config", "bad.json", ok=False).stderr
    assert "bad.json" in desk.ctl(*line, "--config", "nowhere/bad.json", ok=False).stderr


@pytest.mark.skipif(SANDBOX != "bwrap", reason="a daemon with a sandbox does not start here")
def test_a_daemon_with_another_sandbox_is_told(make_daemon, desk):
    daemon = make_daemon("--sandbox", "none").start()
    desk.files(data={"a": "1"})
    done = daemon.ctl("try", "--sandbox", SANDBOX, "-f", desk.spec(sh("s", "true")), "-i", f"in={desk.top}/data")
    assert "the daemon runs stages without a sandbox, this try runs in one: --sandbox none makes it alike (warning)" in done.err


def test_without_a_spec_it_is_the_stage_as_the_run_had_it(project):
    project.repo("in").stages(sh("s", 'echo "old $(cat "$PL_INPUT_IN/f")"'))
    run = project.run("in", {"f": "1"})
    project.stages(sh("s", 'echo "new $(cat "$PL_INPUT_IN/f")"'), update=True)
    newer = project.run("in", {"f": "2"})
    assert trial(project, "s", "--at", run["id"]).out == "old 1\n"
    assert trial(project, "s", "--at", newer["id"]).out == "new 2\n"
    assert trial(project, "s").out == "new 2\n"
    assert trial(project, "s", "--at", "in@master^").out == "old 1\n"


def test_with_a_spec_it_is_the_code_on_disk_over_what_the_run_read(project, desk):
    run = failing(project)
    project.run("in", {"b": "good"})
    desk.files(code={"fix.sh": 'cp "$PL_INPUT_IN" "$PL_OUT/fixed"'})
    spec = desk.spec({"name": "s", "input": {"repo": "in", "glob": "/*"}, "code": "code", "run": ["sh", "fix.sh"]}, project=project.name)
    trial(project, "-f", spec, "s", "--at", run["id"], "--datum", "/b", "-o", desk.top / "out")
    assert desk.tree("out") == {"fixed": "bad"}
    trial(project, "-f", spec, "s", "--datum", "/b", "-o", desk.top / "out")
    assert desk.tree("out") == {"fixed": "good"}


def test_a_folder_may_stand_for_one_input_and_the_daemon_have_the_other(project, desk):
    project.repo("in", "more").commit("more", {"m": "theirs"})
    project.commit("in", {"f": "theirs"})
    desk.files(data={"f": "mine"})
    spec = desk.spec({"name": "s", "input": {"cross": [{"repo": "in"}, {"repo": "more"}]}, "run": ["sh", "-c", 'cat "$PL_INPUT_IN/f" "$PL_INPUT_MORE/m"']},
                     project=project.name)
    assert trial(project, "-f", spec, "-i", f"in={desk.top}/data").out == "minetheirs"
    assert trial(project, "-f", spec).out == "theirstheirs"


def test_links_into_a_daemons_input_become_files(project, desk):
    project.repo("in").commit("in", {"f": "x" * 60, "g/h": "y"})
    spec = desk.spec(sh("s", 'ln -s "$PL_INPUT_IN/f" "$PL_OUT/copy"; ln -s "$PL_INPUT_IN/g" "$PL_OUT/folder"'), project=project.name)
    trial(project, "-f", spec, "-o", desk.top / "out")
    assert desk.tree("out") == {"copy": "x" * 60, "folder/h": "y"}


def test_nothing_is_committed_and_no_run_begins(project, desk):
    run = failing(project)
    before = project.d.get("/status")["counts"]
    for more in (["--at", run["id"], "--datum", "/a"], ["--datum", "/c"]):
        trial(project, "s", *more)
    after = project.d.get("/status")["counts"]
    assert {k: after[k] for k in ("commits", "runs_running", "jobs_unfinished")} == {k: before[k] for k in ("commits", "runs_running", "jobs_unfinished")}


@pytest.mark.parametrize("args, code, said", [
    (["nix"], NOT_FOUND, 'stage "nix"'),
    (["s", "--at", "0123"], NOT_FOUND, "0123"),
    (["s", "--at", "x y"], USAGE, "is not a run"),
    (["s", "--datum", "/nothing"], NOT_FOUND, "stage s has 1 datum"),
])
def test_what_the_daemon_does_not_have(project, args, code, said):
    project.repo("in").stages(sh("s", "true"))
    project.run("in", {"f": "1"})
    done = trial(project, *args, ok=False)
    assert (done.code, said in done.err) == (code, True), done.err


def test_a_token_never_reaches_the_command(project, desk):
    project.repo("in").commit("in", {"f": "1"})
    spec = desk.spec(sh("s", "env"), project=project.name)
    out = trial(project, "-f", spec).out
    assert "TOKEN" not in out and project.d.token not in out


# --- a shell on a terminal


class Sitting:
    """Somebody at a terminal, with a shell of `try`."""

    def __init__(self, desk, *args):
        self.ours, theirs = pty.openpty()
        self.resize(33, 101)
        self.before = termios.tcgetattr(self.ours)
        self.shown = b""
        self.process = subprocess.Popen(desk.line("try", "--sandbox", SANDBOX, *args, "--shell"), cwd=desk.top, env={**desk.env, "TERM": "dumb"}, stdin=theirs, stdout=theirs,
                                        stderr=theirs, start_new_session=True, preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.theirs = theirs  # so that the terminal is there when all have ended

    def resize(self, rows, columns):
        fcntl.ioctl(self.ours, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def type(self, text):
        os.write(self.ours, text.encode())

    def see(self, pattern):
        """Reads on until the pattern was shown; what it matched."""
        while not (found := re.search(pattern.encode(), self.shown)):
            self.shown += os.read(self.ours, 4096)
        self.shown = self.shown[found.end():]
        return found[0].decode()

    def ended(self):
        """→ exit code; the terminal is as it was."""
        wait_until(lambda: self.process.poll() is not None, "the shell to end")
        assert termios.tcgetattr(self.ours) == self.before, "the terminal's settings"
        os.close(self.ours)
        os.close(self.theirs)
        return self.process.returncode


@pytest.fixture
def sitting(desk):
    desk.files(data={"a": "text"})
    spec = desk.spec({"name": "s", "input": {"repo": "in"}, "run": ["false"]})
    at = Sitting(desk, "-f", spec, "-i", "in=data", "-o", "out")
    at.see(r"s:[^ ]*[$#] ")
    yield at
    if at.process.poll() is None:
        at.process.kill()
        at.process.wait()


def test_a_shell_has_a_terminal_of_its_own(desk, sitting):
    sitting.type("stty size; test -t 0 -a -t 1 -a -t 2 && echo is'-'one\n")
    sitting.see("33 101")
    sitting.see("is-one")
    mine = os.fstat(sitting.theirs).st_rdev
    sitting.type("echo device:$((0x$(stat -Lc %t /proc/self/fd/0))),$((0x$(stat -Lc %T /proc/self/fd/0))).\n")
    assert sitting.see(r"device:\d+,\d+\.") != f"device:{os.major(mine)},{os.minor(mine)}."
    sitting.resize(44, 111)
    sitting.process.send_signal(0)
    sitting.type("until stty size | grep '44 111'; do :; done\n")
    sitting.see("44 111\r\n")
    sitting.type("stty -echo; echo kept >$PL_OUT/f; exit 3\n")
    assert sitting.ended() == 0 and desk.tree("out") == {"f": "kept\n"}


def test_ctrl_c_goes_through_to_what_the_shell_runs(sitting):
    sitting.type("sh -c 'trap \"echo caught; exit 7\" INT; echo re\"\"ady; while :; do sleep 0.1; done'; echo code $?.\n")
    sitting.see("ready")
    sitting.type("\x03")
    sitting.see("caught")
    sitting.see(r"code \d+\.")
    sitting.type("exit\n")
    assert sitting.ended() == 0


@pytest.mark.parametrize("signalled", [signal.SIGTERM, signal.SIGHUP])
@pytest.mark.parametrize("whom", ["pipelinectl", "agent"])
def test_the_terminal_is_restored_when_a_shell_is_ended_from_outside(sitting, signalled, whom):
    with open(f"/proc/{sitting.process.pid}/task/{sitting.process.pid}/children", encoding="ascii") as children:
        agent = int(children.read().split()[0])
    sitting.type("stty raw -echo; echo up''now; sleep 1000\n")
    sitting.see("upnow")
    os.kill(sitting.process.pid if whom == "pipelinectl" else agent, signalled)
    assert sitting.ended() != 0
    wait_until(lambda: not os.path.exists(f"/proc/{agent}"), "the agent to end")


def test_the_terminal_is_restored_when_the_agent_is_killed(sitting):
    with open(f"/proc/{sitting.process.pid}/task/{sitting.process.pid}/children", encoding="ascii") as children:
        os.kill(int(children.read().split()[0]), signal.SIGKILL)
    assert sitting.ended() != 0
