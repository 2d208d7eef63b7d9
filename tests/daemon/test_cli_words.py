"""pipelinectl's words: help, what people mean who come from elsewhere, what shells complete. Without a daemon."""

import os
import re
import shutil
import subprocess

import pytest
from conftest import BIN, SANITIZER

USAGE = 2


def ctl(*args, ok=True, stdin=""):
    done = subprocess.run([os.path.join(BIN, "pipelinectl"), *args], input=stdin, capture_output=True, text=True, check=False, timeout=60)
    assert not SANITIZER.search(done.stderr), done.stderr
    assert not ok or done.returncode == 0, done.stderr
    return done


def verbs():
    """(verb, noun or None) of every row."""
    rows = []
    for line in ctl("help").stdout.split("\noptions of every subcommand:")[0].splitlines():
        if words := re.fullmatch(r"  ([a-z]\S*)(?: (\S+))? +\S.*", line):
            rows.append(words.groups())
    return rows


VERBS = verbs()


@pytest.mark.parametrize("verb, noun", VERBS, ids=lambda word: word or "-")
def test_every_verb_has_three_examples_and_they_are_of_that_verb(verb, noun):
    shown = ctl("help", verb, *([noun] if noun else [])).stdout
    block = shown.split("\n\nexamples:\n")[-1].split("\n\n")[0].rstrip("\n").splitlines()
    assert len(block) == 3, shown
    assert len(set(block)) == 3
    for line in block:
        assert "pipelinectl" in line
    assert re.search(rf"pipelinectl .*\b{verb}\b", block[0]), block[0]


@pytest.mark.parametrize("line, says", [
    # kubectl
    ("apply -f spec.json", "create pipeline -f SPEC makes a pipeline"), ("describe job train", "inspect job STAGE"), ("get pipelines", "did you mean list pipelines?"),
    ("get jobs", "did you mean list jobs?"), ("get pods", "list job shows what runs"), ("exec train", "--shell"), ("rollout restart", "run pipeline NAME --force"), ("top", "gpus who holds the GPUs"),
    ("edit pipeline digits", "update pipeline -f SPEC"), ("config get-contexts", "list context"), ("explain job", "help VERB"),
    ("set image train=x", "update pipeline -f SPEC"), ("patch pipeline digits", "update pipeline -f SPEC"), ("cluster-info", "status says"),
    # pachctl
    ("auth login", "login URL"), ("flush commit digits@master", "wait run RUN"), ("wait commit digits@master", "wait run REPO@REF"), ("draw pipeline", "open shows the graph"),
    ("restart datum x", "run pipeline NAME --stage STAGE --force"), ("squash commit x", "delete commit REPO@REF"), ("mount digits", "get file REPO@REF:/ -r"),
    ("find commit x", "why REPO@REF:/PATH"), ("inspect cluster", "status says"), ("start transaction", "start commit REPO@BRANCH"), ("extract", "mirror FROM TO"),
    ("delete all", "one by one, by name"), ("list stages", "list pipeline shows them"),
    # dvc
    ("repro", "run pipeline NAME"), ("push", "put file REPO@BRANCH"), ("pull", "get file REPO@REF:/"), ("checkout", "get file REPO@REF:/"), ("dag", "open shows the graph"),
    ("stage add", "create pipeline -f SPEC"), ("exp run", "update pipeline -f SPEC"), ("init", "create repo NAME"), ("remote add", "login URL"),
    ("add data.csv", "put file REPO@BRANCH -f FILE"), ("add", "put file REPO@BRANCH -f FILE"), ("commit", "every put file is a commit"), ("remove data", "delete file REPO@BRANCH:/PATH"),
    ("experiments show", "list run shows runs"), ("data status", "diff file REPO@OLD REPO@NEW"), ("move a b", "put file under the new name"),
    # git
    ("log", "list commit REPO"), ("clone digits", "get file REPO@REF:/"), ("blame digits@master:/x", "why REPO@REF:/PATH"),
    # slips
    ("lst repo", 'did you mean "list"?'), ("tri -f x", 'did you mean "try"?'), ("repo list", "the verb comes first: pipelinectl list repo"),
    ("run stage train", "run pipeline NAME --stage STAGE"), ("delete run x", "stop run ends one"), ("s3 enf", "did you mean s3 env?"),
    # options
    ("logs --pipeline digits", "unknown option --pipeline: stages are named directly, as in logs STAGE"), ("list job -o json", "unknown option -o of list job"),
    ("list job --output=json", "--json gives the answer as JSON"), ("list run --watch", "wait run RUN waits for a run"),
])
def test_words_of_other_tools_lead_to_ours(line, says):
    done = ctl(*line.split(), ok=False)
    assert (done.returncode, done.stdout) == (USAGE, "")
    assert says in done.stderr, done.stderr


def test_no_word_of_another_tool_hides_a_verb_of_ours():
    for verb, noun in VERBS:
        assert ctl(verb, *([noun] if noun else []), "--help").stdout.startswith("pipelinectl "), verb


def test_what_is_advised_exists():
    """Every "did you mean" of the table names verbs that are there."""
    known = {verb for verb, _ in VERBS}
    for word in ("apply", "describe", "exec", "draw", "flush", "repro", "push", "pull", "dag", "log", "clone", "blame", "queue", "auth", "kill", "find", "debug", "tag"):
        said = ctl(word, ok=False).stderr.split(" of pipelinectl: ", 1)[1]
        assert any(re.search(rf"\b{verb}\b", said) for verb in known), said


# --- what shells complete

def bash(*words):
    """What bash offers for the last of these words."""
    quoted = " ".join("'" + word + "'" for word in words)
    script = f'{ctl("completion", "bash").stdout}\nCOMP_WORDS=({quoted}); COMP_CWORD={len(words) - 1}; _pipelinectl; printf "%s\\n" "${{COMPREPLY[@]}}"\n'
    done = subprocess.run(["bash", "--norc", "-u", "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout.split()


def zsh(*words):
    """What the function for zsh would offer, with compsys's own functions replaced by ones that print."""
    quoted = " ".join("'" + word + "'" for word in words)
    script = f'''_describe() {{ printf '%s\\n' "${{offer[@]%%:*}}" }}; compadd() {{ shift; printf '%s\\n' "$@" }}; _files() {{ echo FILES }}
words=({quoted}); CURRENT={len(words)}; it() {{
{ctl("completion", "zsh").stdout}
}}; it'''
    done = subprocess.run(["zsh", "-f", "-c", script], capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    return [word for word in done.stdout.split() if word != "FILES" and word.startswith(words[-1])]


SHELLS = [bash, pytest.param(zsh, marks=pytest.mark.skipif(shutil.which("zsh") is None, reason="no zsh here"))]


@pytest.mark.parametrize("shell", SHELLS)
def test_verbs_nouns_and_options_are_completed(shell):
    assert set(shell("pipelinectl", "")) == {verb for verb, _ in VERBS}
    assert shell("pipelinectl", "val") == ["validate"]
    assert set(shell("pipelinectl", "create", "")) == {noun for verb, noun in VERBS if verb == "create"}
    assert "--input" in shell("pipelinectl", "try", "--i")
    assert shell("pipelinectl", "try", "--shel") == ["--shell"]
    assert shell("pipelinectl", "create", "pipeline", "--dry") == ["--dry-run"]
    assert shell("pipelinectl", "create", "repo", "--dry") == []
    assert shell("pipelinectl", "--js") == ["--json"]


@pytest.mark.parametrize("shell", SHELLS)
def test_values_of_options_are_passed_over(shell):
    assert shell("pipelinectl", "--data", "list", "val") == ["validate"]
    assert shell("pipelinectl", "--project", "x", "list", "bra") == ["branch"]
    assert shell("pipelinectl", "-q", "list", "bra") == ["branch"]
    assert shell("pipelinectl", "try", "-f", "") == [], "a file: the shell's own"
    assert shell("pipelinectl", "list", "repo", "") == []


def test_a_shell_that_is_not_known():
    done = ctl("completion", "fish", ok=False)
    assert (done.returncode, "give bash or zsh" in done.stderr) == (USAGE, True)


def test_a_build_makes_both_and_installs_them():
    built = os.path.join(os.path.dirname(BIN), "pipelined", "cli")
    if not os.path.exists(os.path.join(built, "cmake_install.cmake")):
        pytest.skip("the programs are not in a build folder")
    with open(os.path.join(built, "cmake_install.cmake"), encoding="utf-8") as f:
        rules = f.read()
    for shell, place in (("bash", "share/bash-completion/completions"), ("zsh", "share/zsh/site-functions")):
        with open(os.path.join(built, f"completion.{shell}"), encoding="utf-8") as f:
            assert f.read() == ctl("completion", shell).stdout
        assert place in rules
