"""The test runner behind `sh tests/run.sh`: installs, builds, runs groups of tests, and counts.

    arguments ─▶ groups ─▶ for each: packages ─▶ builds ─▶ its function ─▶ Counts ─▶ table, last line

A group is a row of GROUPS. A build is made once a run, however many groups use it. What a group came to on a commit is kept in build/ran/, so
that `all` after the README's command on the same commit runs only the rest. `all` and `more` run two groups at a time, each in a process of its
own: one that computes beside one that mostly waits. Outside the checkout the tests use PL_TEST_CACHE alone, a folder for what is slow to make
(test servers, compiler output).
"""
import concurrent.futures
import contextlib
import dataclasses
import json
import os
import pathlib
import platform
import re
import shlex
import shutil
import signal
import subprocess
import sys
import threading
import time
import xml.etree.ElementTree

TOP = pathlib.Path(__file__).resolve().parents[2]
LOGS = TOP / "build" / "logs"
RAN = TOP / "build" / "ran"
CACHE = pathlib.Path(os.environ.get("PL_TEST_CACHE") or pathlib.Path.home() / ".cache" / "pipelined-tests")
PYTHON = "/usr/bin/python3"
CORES = len(os.sched_getaffinity(0))
FUZZ_SECONDS = int(os.environ.get("PL_FUZZ_SECONDS", "10"))
C_TEST_TIMEOUT_S = 900
PYTEST_TIMEOUT_S = 3600
END_S = 10 if os.environ.get("PL_LANE") else 30  # for what runs when the runner is told to end; a lane is given time to end its own
SHOWN_LINES = 40  # of the log of a command that failed

# What the programs of the tests see. Compilers take ccache where it is installed (CMakeLists.txt).
os.environ.update({
    "ASAN_OPTIONS": "detect_leaks=1:abort_on_error=0:handle_abort=1:detect_stack_use_after_return=1",
    "UBSAN_OPTIONS": "print_stacktrace=1:halt_on_error=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
    "PYTHONDONTWRITEBYTECODE": "1",
    "PYTHONPATH": str(TOP / "tests" / "support"),
    "CCACHE_BASEDIR": str(TOP), "CCACHE_NOHASHDIR": "1",
})
os.environ.setdefault("CCACHE_DIR", str(CACHE / "ccache"))
os.environ.setdefault("CCACHE_MAXSIZE", "3G")
for name in ("PIPELINED_URL", "PIPELINED_TOKEN"):
    os.environ.pop(name, None)


# ---- counts -----------------------------------------------------------------------------------------------------------------------------

@dataclasses.dataclass
class Counts:
    """What a group came to: numbers of tests."""
    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def add(self, passed, failed, skipped=0):
        self.passed += passed
        self.failed += failed
        self.skipped += skipped


class Stopped(Exception):
    """A group cannot go on: what it needs is missing. Its message has been printed and counted."""


def say(text=""):
    print(text, flush=True)


running = set()  # commands, each the leader of a session of its own


def run(words, log=None, timeout=None, **more):
    """Runs a command without input, its output to the terminal or a log; the exit status, "timeout" when that many seconds have passed. Nothing that
    it started in its session outlives it, nor this process: see end_all."""
    with open(log or os.devnull, "wb") as out:
        streams = {"stdout": out, "stderr": subprocess.STDOUT} if log else {}
        try:
            child = subprocess.Popen([str(word) for word in words], stdin=subprocess.DEVNULL, cwd=TOP, start_new_session=True, **streams, **more)
        except FileNotFoundError as missing:
            out.write(f"{missing}\n".encode())
            return 127
        running.add(child)
        try:
            return child.wait(timeout)
        except subprocess.TimeoutExpired:
            return "timeout"
        finally:
            end_all([child])
            running.discard(child)


def end_all(children):
    """Ends sessions as Ctrl-C in a terminal would, so that tests put away what they made; and for good when they do not end soon."""
    for signum in (signal.SIGINT, signal.SIGKILL):
        for child in children:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(child.pid, signum)
        for child in children:
            with contextlib.suppress(subprocess.TimeoutExpired):
                child.wait(END_S)


def in_parallel(work, names, at_once):
    """Yields what work(name) returns, as it comes. When this is left early no more of them begin."""
    threads = concurrent.futures.ThreadPoolExecutor(at_once)
    try:
        for done in concurrent.futures.as_completed([threads.submit(work, name) for name in names]):
            yield done.result()
    finally:
        threads.shutdown(wait=False, cancel_futures=True)


def one(counts, name, *words):
    """A test that is one command: its output is shown only if it fails. True if it passed."""
    log = LOGS / (re.sub(r"[ /]", "-", name) + ".log")
    good = run(words, log) == 0
    counts.add(int(good), int(not good))
    say(f"{'ok    ' if good else 'FAILED'}  {name}")
    if not good:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
        for line in [line for line in lines[:-SHOWN_LINES] if re.search(r"\berror:", line)] + lines[-SHOWN_LINES:]:
            say("        " + line)
        say("        to run it alone: " + shlex.join(str(word) for word in words))
    return good


# ---- packages and builds ----------------------------------------------------------------------------------------------------------------

def install(counts, groups):
    """Installs the groups of pipelined/deploy/debian-packages.txt that are missing."""
    script = 'top=$1; shift; . "$top/pipelined/deploy/install.sh"; install_packages "$@"'
    if run(["sh", "-c", script, "install", TOP, *groups]) != 0:
        counts.add(0, 1)
        raise Stopped


def fixed_addresses():
    """Sanitizers of gcc 12 want addresses less random than some kernels make them: words to put before a command."""
    words = ["setarch", platform.machine(), "-R"]
    return words if subprocess.run([*words, "true"], capture_output=True, check=False).returncode == 0 else []


built = {}  # (preset of CMakePresets.json, the targets chosen: () is all of it) → whether it was good, and the seconds that it took


def build(counts, name, targets=()):
    """Makes a build (a preset of CMakePresets.json) once a run, and counts it as one test where it was made. In a lane it is there: run_in_lanes has made it."""
    if os.environ.get("PL_LANE"):
        return TOP / "build" / name
    key = (name, ()) if (name, ()) in built else (name, tuple(targets))
    if key not in built:
        began = time.monotonic()
        chosen = f" --target {' '.join(targets)}" if targets else ""
        script = f"cmake --preset {name} && exec cmake --build --preset {name} -j {CORES}{chosen}"
        good = one(counts, f"build {name}", "sh", "-c", script)
        built[key] = (good, time.monotonic() - began)
    if not built[key][0]:
        raise Stopped
    return TOP / "build" / name


# ---- C tests ----------------------------------------------------------------------------------------------------------------------------

# each failed allocation, each crash, many seeds: the group sweeps
SWEEPS = ["test_alloc_open_commits", "test_merge_incremental", "test_alloc_commit", "test_db_crash", "test_open_commits_crash"]
LONGEST = [*SWEEPS, "test_sched_simulation", "test_pack_builder", "test_inputs", "test_exec_kubernetes_attach_timeout",
           "test_gc_random", "test_exec_kubernetes_blocked", "test_http_stream", "test_db"]
THREADS = re.compile(r"pthread|pl_pool_|pl_loop_|threads|pl_head_cache_|gc_world|s3_mock")


def c_tests(pattern=None, chosen=None):
    """Names of the unit tests, those that take longest first; with a pattern, of those whose source matches."""
    names = sorted(path.stem for folder in ("unit", "component") for path in (TOP / "tests" / folder).rglob("test_*.c") if not pattern or pattern.search(path.read_text(encoding="utf-8")))
    if chosen:
        names = [name for name in names if chosen in name]
    return sorted(names, key=lambda name: LONGEST.index(name) if name in LONGEST else len(LONGEST))


def cmocka_counts(text, status):
    """Of the output of one program: passed, failed, skipped. A program that dies counts as one failure more."""
    def total(word, tail=r"[^0-9\n]* (\d+) test\(s\)"):
        return sum(int(n) for n in re.findall(rf"^\[  {word}\]{tail}", text, re.M))
    passed, failed, skipped = total("PASSED  "), total("FAILED  ", r".*? (\d+) test\(s\)"), total("SKIPPED ", r".*? (\d+) test\(s\)")
    return passed, failed or int(status != 0 or passed + skipped == 0), skipped


def run_c_tests(counts, group, folder, names, only, limit=C_TEST_TIMEOUT_S, **more):
    """Runs cmocka programs, some at once, each for `limit` seconds at most. `only` is the name of one test function, or None."""
    before = fixed_addresses()
    environment = {**os.environ, "CMOCKA_MESSAGE_OUTPUT": "STDOUT", **({"PL_TEST": only} if only else {}), **more}
    alone = "".join(f"{key}={value} " for key, value in more.items()) + f"sh tests/run.sh {group}"

    def program(name):
        log = LOGS / f"{folder.name}-{name}.log"
        return name, log, run([*before, folder / "bin" / name], log, limit, env=environment)

    for name, log, status in in_parallel(program, names, CORES + 1):
        text = log.read_text(encoding="utf-8", errors="replace")
        passed, failed, skipped = cmocka_counts(text, status)
        if only and not passed + skipped and status == 0:
            failed = 0  # the function is another program's
        counts.add(passed, failed, skipped)
        if not failed:
            if not only or passed:
                say(f"ok      {name}: {passed} passed" + (f", {skipped} skipped" if skipped else ""))
            continue
        say(f"FAILED  {name}: {passed} passed, {failed} failed, exit status {status} ({log.relative_to(TOP)})")
        shown = [line for line in text.splitlines() if re.match(r"\[  FAILED|\[   LINE|\[  ERROR|.*ERROR:|.*runtime error|WARNING: Thread|    #\d ", line)]
        for line in shown[:SHOWN_LINES]:
            say("        " + line)
        for test in dict.fromkeys(re.findall(r"^\[  FAILED  \] (?:\S+: )?([a-z]\w+)$", text, re.M)) or [""]:
            say(f"        to run it alone: {alone} -k {name}" + (f":{test}" if test else ""))


def unit_choice(extra):
    """`-k PROGRAM[:FUNCTION]` of the unit groups: (part of the programs' names, function), each None if not given."""
    if not extra:
        return None, None
    if len(extra) != 2 or extra[0] != "-k":
        say(f"the unit groups take -k PROGRAM[:FUNCTION], not {' '.join(extra)}")
        raise Stopped
    program, _, function = extra[1].partition(":")
    return program, function or None


def group_unit(counts, group, extra):
    """The groups unit and sweeps. A program that is named runs in either."""
    chosen, only = unit_choice(extra)
    names = [name for name in c_tests(None, chosen) if chosen or (name in SWEEPS) == (group == "sweeps")]
    run_c_tests(counts, group, build(counts, "asan"), names, only)


def group_tsan(counts, group, extra):
    chosen, only = unit_choice(extra)
    run_c_tests(counts, group, build(counts, "tsan", c_tests(THREADS)), c_tests(THREADS, chosen), only)


# ---- pytest -----------------------------------------------------------------------------------------------------------------------------

def run_pytest(counts, group, folder, extra, programs="asan", workers=1, inside=(), limit=PYTEST_TIMEOUT_S, **environment):
    """Runs a folder of tests over a build's programs; helpers of the tests come from the build "asan". A test named in `extra` stands for the
    folder."""
    result = LOGS / f"pytest-{group}.xml"
    result.unlink(missing_ok=True)
    named = any("::" in word or word.startswith("tests/") for word in extra)
    words = [*inside, PYTHON, "-m", "pytest", "-p", "no:cacheprovider", "-p", "pl_pytest", "-q", "--timeout=300", f"--junit-xml={result}"]
    words += ["-n", str(workers)] if workers > 1 and not named else []
    words += extra if named else [f"tests/{folder}", *extra]
    environment = {**os.environ, "PL_BIN": str(TOP / "build" / programs / "bin"), "PL_TEST_BIN": str(TOP / "build" / "asan" / "bin"), "PL_GROUP": group,
                   **environment}
    status = run([*fixed_addresses(), *words], timeout=limit, env=environment)
    try:
        suites = list(xml.etree.ElementTree.parse(result).iter("testsuite"))
        total, errors, failures, skipped = (sum(int(suite.get(key, 0)) for suite in suites) for key in ("tests", "errors", "failures", "skipped"))
    except (OSError, xml.etree.ElementTree.ParseError):
        total = errors = failures = skipped = 0
    failed = errors + failures
    if status != 0 and failed == 0:
        say(f"FAILED  pytest ended with status {status}")
        failed = 1
    counts.add(max(0, total - errors - failures - skipped), failed, skipped)


def group_check(counts, group, extra):
    if not extra:
        for name in ("size", "layers", "words", "packages", "format"):
            one(counts, name, PYTHON, f"tests/check/{name}.py")
        one(counts, "symbols", PYTHON, "tests/check/symbols.py", build(counts, "asan"))
        one(counts, "shell scripts", "shellcheck", "-x", "-P", TOP, "pipelines/demo.sh", "tests/run.sh", "pipelined/deploy/install.sh", ".ci/run",
            "pipelined/deploy/cluster/certificate.sh")
    run_pytest(counts, group, "check", extra, workers=CORES)


def group_daemon(counts, group, extra):
    build(counts, "asan")  # servers that the tests start
    build(counts, "release")
    run_pytest(counts, group, "daemon", extra, programs="release", workers=2 * CORES)


def group_daemon_asan(counts, group, extra):
    build(counts, "asan")
    run_pytest(counts, group, "daemon", ["-m", "not others_work", *extra], workers=2 * CORES)


def group_smoke(counts, group, extra):
    build(counts, "asan")
    build(counts, "release")
    run_pytest(counts, group, "smoke", extra, programs="release", workers=CORES)


def group_abuse(counts, group, extra):
    build(counts, "release")  # what somebody else waits is measured: no sanitizers, and one attack at a time
    run_pytest(counts, group, "abuse", extra, programs="release")


def web_node():
    """The folder with the Node that made the page, and the environment that finds it."""
    folder = (TOP / "build" / "web" / "node-folder").read_text(encoding="utf-8").strip()
    return pathlib.Path(folder), {**os.environ, "PATH": f"{folder}:{os.environ['PATH']}", "NODE_USE_SYSTEM_CA": "1"}


def group_page(counts, group, extra):
    """The page without a browser: its types, its unit tests, its size. Over a copy of web/ in build/web, where its packages are."""
    build(counts, "release", ("pl_web",))
    folder, environment = web_node()
    made, source = TOP / "build" / "web", TOP / "web"
    for name in ("src", "tests", "openapi.json", "budget.mjs", "tsconfig.json", "vite.config.ts", "package.json"):
        target = made / name
        if target.is_dir():
            shutil.rmtree(target)
        (shutil.copytree if (source / name).is_dir() else shutil.copy)(source / name, target)
    node, result = folder / "node", LOGS / "vitest.json"
    result.unlink(missing_ok=True)
    for what, words in (("types of the interface", ["sh", "-c", "TYPES=made.d.ts npm run -s types >&2 && cmp made.d.ts src/api/schema.d.ts && rm made.d.ts"]), ("page: types", [node, "node_modules/typescript/bin/tsc"]),
                        ("page: size", [node, "budget.mjs"])):
        one(counts, what, "env", "-C", made, f"PATH={environment['PATH']}", *words)
    log = LOGS / "vitest.log"
    status = run(["env", "-C", made, node, "node_modules/vitest/vitest.mjs", "run", "--reporter=default", "--reporter=json", f"--outputFile.json={result}", *extra], log, env=environment)
    try:
        told = json.loads(result.read_text(encoding="utf-8"))
        passed, failed = told["numPassedTests"], told["numFailedTests"]
    except (OSError, ValueError, KeyError):
        passed, failed = 0, 0
    counts.add(passed, failed or int(status != 0))
    say(f"{'ok    ' if status == 0 else 'FAILED'}  page: unit tests: {passed} passed" + ("" if status == 0 else f", {failed} failed ({log.relative_to(TOP)})"))


def group_web(counts, group, extra):
    """The page in Chromium over the release build's daemon."""
    build(counts, "release")
    folder, environment = web_node()
    lock, made = TOP / "tests" / "web" / "package-lock.json", TOP / "build" / "web-tests"
    made.mkdir(parents=True, exist_ok=True)
    if not (made / "installed").exists() or (made / "installed").read_bytes() != lock.read_bytes():
        for name in ("package.json", "package-lock.json"):
            shutil.copy(TOP / "tests" / "web" / name, made / name)
        if not one(counts, "web: packages", "env", "-C", made, f"PATH={environment['PATH']}", "NODE_USE_SYSTEM_CA=1", "npm", "ci", "--no-audit", "--no-fund", "--ignore-scripts"):
            raise Stopped
        shutil.copy(lock, made / "installed")
    run_pytest(counts, group, "web", extra, programs="release", PL_WEB_NODE=str(folder / "node"), PL_WEB_TESTS=str(made))


def group_model(counts, group, extra):
    run_pytest(counts, group, "model", extra, workers=CORES)


def group_git(counts, group, extra):
    build(counts, "asan")
    run_pytest(counts, group, "git", extra, workers=CORES + 1)  # they wait for servers and for time limits


def s3(counts, group, extra, servers):
    build(counts, "asan")
    if not one(counts, "S3 servers", PYTHON, "tests/s3/servers.py", "build", *servers.split()) or \
            not one(counts, "S3 clients", PYTHON, "tests/s3/clients.py", "build"):
        raise Stopped
    run_pytest(counts, group, "s3", extra, PL_S3_SERVERS=servers)


def group_s3(counts, group, extra):
    s3(counts, group, extra, "radosgw versitygw")


def group_s3_more(counts, group, extra):
    s3(counts, group, [*extra, "-k", "not gateway"] if "-k" not in extra else extra, "minio")


def group_kube(counts, group, extra):
    build(counts, "asan")
    # before pytest: the time limit of a test is too short for a build
    if not one(counts, "control plane", PYTHON, "tests/kube/control_plane.py", "build") or \
            not one(counts, "minio", PYTHON, "tests/s3/servers.py", "build", "minio"):
        raise Stopped
    run_pytest(counts, group, "kube", extra, workers=CORES + 1)  # each has a control plane of its own; they wait more than they compute


def group_kube_real(counts, group, extra):
    can = subprocess.run([PYTHON, "tests/kubereal/inside.py", "can"], capture_output=True, text=True, check=False, cwd=TOP)
    if can.returncode != 0:
        say(f"skipped: {can.stdout.strip()}")
        counts.skipped += 1
        return
    bin_folder = build(counts, "asan") / "bin"
    if not one(counts, "control plane and kubelet", "env", f"PL_BIN={bin_folder}", PYTHON, "tests/kubereal/node.py", "build"):
        raise Stopped
    run_pytest(counts, group, "kubereal", extra, inside=(PYTHON, "tests/kubereal/inside.py", "run"))


def group_cgroup(counts, group, extra):
    kernel = (PYTHON, "-B", "tests/cgroup/kernel.py")
    can = subprocess.run([*kernel, "can"], capture_output=True, text=True, check=False, cwd=TOP)
    if can.returncode != 0:
        say(f"skipped: {can.stdout.strip()}")
        counts.skipped += 1
        return
    build(counts, "asan")
    build(counts, "release")  # what ends there is killed for lack of memory: no sanitizers
    run_pytest(counts, group, "cgroup", extra, programs="release", inside=(*kernel, "run"))


def group_podman(counts, group, extra):
    build(counts, "asan")
    run_pytest(counts, group, "podman", extra)


def group_image(counts, group, extra):
    run_pytest(counts, group, "image", extra)


def group_fuzz(counts, group, extra):
    """Each fuzzer for FUZZ_SECONDS from its seeds; `-k PART` chooses by name."""
    chosen, _ = unit_choice(extra)
    sources = sorted(path.stem for path in (TOP / "tests" / "fuzz").glob("fuzz_*.c") if not chosen or chosen in path.stem)
    folder = build(counts, "fuzz")
    before = fixed_addresses()

    def fuzz(name):
        seeds, found = TOP / "tests" / "fuzz" / "corpus" / name.removeprefix("fuzz_"), folder / "found" / name
        if not seeds.is_dir():
            return name, None, f"no seeds in {seeds.relative_to(TOP)}"
        found.mkdir(parents=True, exist_ok=True)
        log = LOGS / f"ran-{name}.log"
        return name, log, run([*before, folder / "bin" / name, f"-max_total_time={FUZZ_SECONDS}", "-timeout=20", "-rss_limit_mb=3000", "-print_final_stats=1",
                               f"-artifact_prefix={found}-", found, seeds], log)

    for name, log, status in in_parallel(fuzz, sources, CORES):
        counts.add(int(status == 0), int(status != 0))
        say(f"{'ok    ' if status == 0 else 'FAILED'}  {name}" + ("" if status == 0 else f": {status}"))
        if status != 0 and log:
            for line in log.read_text(encoding="utf-8", errors="replace").splitlines()[-SHOWN_LINES:]:
                say("        " + line)
            say(f"        to run it alone: sh tests/run.sh {group} -k {name}")


def group_soak(counts, group, extra):
    """The random worlds and kills of the other groups, longer: each draws new seeds and prints them."""
    longer = {"PL_SEEDS": "20000", "PL_GC_SEEDS": "5000", "PL_S3_SEEDS": "3000", "PL_TEST_SEEDS": "20000", "PL_OFFER_NODES": "20000",
              "PL_TRANSFER_MIB": "4096"}
    limit = GROUPS[group].minutes * 60
    folder = build(counts, "asan")
    build(counts, "release")
    if not extra:
        run_c_tests(counts, "unit", folder, ["test_merge_incremental", "test_gc_random", "test_db_s3", "test_branch_view", "test_node_capacity", "test_object_s3_memory"], None,
                    limit, **longer)
    run_pytest(counts, group, "daemon", extra or ["tests/daemon/test_kill9.py", "tests/daemon/test_kill_pairs.py", f"--timeout={limit}"], programs="release",
               limit=limit, PL_KILLS="1000", PL_PAIR_ROUNDS="60", **longer)


# ---- groups -----------------------------------------------------------------------------------------------------------------------------

@dataclasses.dataclass
class Group:
    """`tier`: which command runs it: "readme" (the one without an argument), "all" or "more". `lane`: whether it mostly computes or mostly waits.
    `minutes`: its budget on two cores, builds and installs not counted, beside a group of the other lane where its tier is not "readme"."""
    tier: str
    lane: str
    minutes: float
    packages: str
    text: str
    function: object


GROUPS = {
    "check": Group("readme", "computes", 1, "build web test check demo", "how the code reads: sizes, layers, symbols, format, words, shell scripts", group_check),
    "unit": Group("readme", "computes", 5, "build web run test demo", "the C tests under the address and undefined-behaviour sanitizers, but for those of sweeps", group_unit),
    "daemon": Group("readme", "computes", 4, "build web run test demo", "the real programs of the release build, with assertions, driven by pytest", group_daemon),
    "page": Group("readme", "computes", 1, "build web test", "the web page without a browser: its types, its unit tests, the size of what is loaded first", group_page),
    "smoke": Group("readme", "waits", 1, "build web run test demo", "S3, Kubernetes and the image, each against a server in the same process", group_smoke),
    "abuse": Group("all", "computes", 2, "build web run test demo", "small requests that cost much, each beside somebody else's `whoami`: p99 at most 100 ms", group_abuse),
    "sweeps": Group("all", "computes", 4, "build web run test demo", "the longest C tests: each failed allocation and each crash of the database, many seeds", group_unit),
    "tsan": Group("all", "computes", 6, "build web run test demo", "the C tests that have threads, under the thread sanitizer", group_tsan),
    "daemon-asan": Group("all", "computes", 8, "build web run test demo", "the group daemon over the build with the address sanitizer", group_daemon_asan),
    "fuzz": Group("all", "computes", 3, "build web test fuzz", "each parser of foreign bytes for PL_FUZZ_SECONDS (10); also the build with clang", group_fuzz),
    "model": Group("all", "computes", 3, "model", "spin over the model of garbage collection", group_model),
    "podman": Group("all", "waits", 2, "build web run test demo podman", "images of stages on one machine by a real podman, with and without root; as root", group_podman),
    "image": Group("all", "waits", 4, "test image-build", "the container image as buildah makes it; as root", group_image),
    "git": Group("all", "waits", 3, "build web run test demo git", "real git servers: git http-backend over TLS, git daemon, sshd; and what they may do to a client", group_git),
    "s3": Group("all", "waits", 7, "build web run test demo s3", "real S3 servers (radosgw, versitygw), and real S3 clients on the gateway", group_s3),
    "kube": Group("all", "waits", 7, "build web run test demo kube image", "a real Kubernetes control plane with nodes that the tests play", group_kube),
    "kube-real": Group("all", "waits", 6, "build web run test demo kube kube-real image", "a real kubelet with containerd, in namespaces of its own; as root", group_kube_real),
    "cgroup": Group("all", "waits", 3, "build web run test demo" + (" cgroup" if platform.machine() == "x86_64" else ""),
                    "limits of workers by real cgroups, in a kernel of their own (user-mode Linux); as root", group_cgroup),
    "web": Group("all", "waits", 5, "build web run test demo chromium", "the web page in Chromium over the real daemon: flows, accessibility, screenshots in build/web-shots", group_web),
    "s3-more": Group("more", "waits", 6, "build web run test demo s3", "the group s3 with minio as the server", group_s3_more),
    "soak": Group("more", "computes", 90, "build web run test demo", "random worlds and kill -9, some ten times longer than in the other groups", group_soak),
}
TIERS = {"readme": "sh tests/run.sh", "all": "sh tests/run.sh all: these, and those above", "more": "sh tests/run.sh more: too heavy for .ci/run"}


def usage():
    say("sh tests/run.sh [GROUP…] [TEST] [PYTEST OPTION…]     runs tests; the last line is \"N passed, N failed\"\n")
    for tier, command in TIERS.items():
        say(command)
        for name, group in GROUPS.items():
            if group.tier == tier:
                say(f"  {name:12} {group.text}")
    say("\nsh tests/run.sh daemon -k push     what follows a group goes to pytest; the groups of C tests take -k PROGRAM[:FUNCTION]")
    say("PL_TEST_CACHE: a folder for what is slow to build (default ~/.cache/pipelined-tests)")


def parse(arguments):
    """(names of groups, what goes to pytest, whether "all" or "more" is among them). Exits on --help and on an unknown group."""
    names, extra, tiers = [], [], False
    for at, word in enumerate(arguments):
        if word in ("-h", "--help"):
            usage()
            sys.exit(0)
        if word.startswith("-") or "::" in word or word.startswith("tests/"):
            extra = arguments[at:]
            break
        if word in ("all", "more"):
            tiers = True
            names += [name for name, group in GROUPS.items() if group.tier == word or (word == "all" and group.tier == "readme")]
        elif word in GROUPS:
            names.append(word)
        else:
            say(f"run.sh: there is no group {word!r}: choose from {' '.join(GROUPS)}, all or more")
            say("0 passed, 1 failed")
            sys.exit(2)
    if extra and len(names) != 1:
        say(f"run.sh: {extra[0]!r} belongs to one group: sh tests/run.sh GROUP {' '.join(extra)}")
        say("0 passed, 1 failed")
        sys.exit(2)
    return list(dict.fromkeys(names)) or [name for name, group in GROUPS.items() if group.tier == "readme"], extra, tiers


def commit():
    """The commit whose files lie here, or None if a file differs from it."""
    def git(*words):
        return subprocess.run(["git", *words], cwd=TOP, capture_output=True, text=True, check=False)
    try:
        head, status = git("rev-parse", "HEAD"), git("status", "--porcelain")
    except OSError:
        return None  # no git here
    return head.stdout.strip() if head.returncode == status.returncode == 0 and not status.stdout.strip() else None


def recall(name, of):
    """What a group came to on this commit: (Counts, minutes), or None."""
    try:
        kept = json.loads((RAN / f"{name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return (Counts(kept["passed"], kept["failed"], kept["skipped"]), kept["minutes"]) if kept["of"] == of else None


def remember(name, of, counts, minutes):
    (RAN / f"{name}.json").write_text(json.dumps({"of": of, "minutes": minutes, **dataclasses.asdict(counts)}), encoding="utf-8")


def servers_ahead():
    """Builds the test servers while other groups run, if the cache has none; groups that want one wait for it."""
    makes = ("s3/servers.py build versitygw", "s3/clients.py build", "kube/control_plane.py build", "s3/servers.py build minio")
    script = ";".join(f"nice -n 5 {PYTHON} tests/{make}" for make in makes)
    with open(LOGS / "servers-ahead.log", "wb") as log:
        return subprocess.Popen(["sh", "-c", script], cwd=TOP, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True)


def run_group(name, extra):
    """One group -> (its counts, the minutes that it took without those of builds and installs)."""
    group, counts = GROUPS[name], Counts()
    say(f"\n== {name}")
    spent, builds = 0, len(built)
    try:
        install(counts, group.packages.split())
        began, before = time.monotonic(), sum(seconds for _, seconds in built.values())
        group.function(counts, name, extra)
        spent = time.monotonic() - began - (sum(seconds for _, seconds in built.values()) - before)
    except Stopped:
        say(f"{name}: not finished")
        counts.failed = counts.failed or 1
    if counts.failed == 0 and counts.passed + counts.skipped == len(built) - builds:  # a build counts as one test
        say(f"{name}: nothing ran" + (f": no test is named by {' '.join(extra)}" if extra else ""))
        counts.failed = 1
    return counts, spent / 60


def run_in_turn(names, extra, rows):
    """Groups one after the other, as the README's command does."""
    for name in names:
        of = commit()
        rows[name] = run_group(name, extra)
        if not extra:
            remember(name, of if of == commit() else None, *rows[name])


def run_in_lanes(names, rows):
    """Two groups at a time, each as a command of its own whose output is shown when it ends. Packages and builds are made before: two apt-get or two
    cmake at a time do not go well."""
    counts = Counts()
    install(counts, sorted({package for name in names for package in GROUPS[name].packages.split()}))
    ahead = servers_ahead() if {"s3", "kube", "kube-real"} & set(names) else None
    try:
        build_and_run(counts, names, rows)
    finally:
        if ahead and ahead.poll() is None:
            os.killpg(ahead.pid, signal.SIGTERM)


def build_and_run(counts, names, rows):
    """The builds that the groups want, then the two lanes."""
    for name, targets in (("release", ()), ("asan", ()), ("tsan", c_tests(THREADS)), ("fuzz", ())):
        if name in ("release", "asan") or name in names:
            build(counts, name, targets)
    waiting, lock = list(names), threading.Lock()

    def next_of(lane):
        with lock:
            name = next((name for name in waiting if GROUPS[name].lane == lane), waiting[0] if waiting else None)
            if name:
                waiting.remove(name)
            return name

    def work(lane):
        while name := next_of(lane):
            log = LOGS / f"group-{name}.log"
            (RAN / f"{name}.json").unlink(missing_ok=True)
            run([PYTHON, "-B", __file__, name], log, env={**os.environ, "PL_LANE": lane})
            with lock:
                say(log.read_text(encoding="utf-8", errors="replace").rstrip())
                rows[name] = recall(name, commit()) or recall(name, None) or (Counts(failed=1), 0)

    threads = [threading.Thread(target=work, args=(lane,)) for lane in ("computes", "waits")]
    for thread in threads:
        thread.start()
    try:
        for thread in threads:
            thread.join()
    finally:
        with lock:
            waiting.clear()


def report(rows, before, minutes):
    """The table of groups, those over their budget, and the last line -> the exit status. `before`: names of groups that ran earlier on this commit."""
    say(f"\n{'group':12} {'passed':>7} {'failed':>7} {'skipped':>8} {'minutes':>8} {'budget':>7}")
    for name, (counts, took) in rows.items():
        say(f"{name:12} {counts.passed:7} {counts.failed:7} {counts.skipped:8} {took:8.1f} {GROUPS[name].minutes:7g}" + ("  ran before" if name in before else ""))
    for (name, _), (_, seconds) in built.items():
        say(f"{'build ' + name:36} {seconds / 60:8.1f}")
    say(f"{'from start to end':36} {minutes:8.1f}")
    for name, (_, took) in rows.items():
        if took > GROUPS[name].minutes:
            say(f"over its budget: {name}: {took:.1f} of {GROUPS[name].minutes:g} minutes")
    for name, (counts, _) in rows.items():
        if counts.failed:
            say(f"failed: sh tests/run.sh {name}")
    passed, failed = (sum(getattr(counts, what) for counts, _ in rows.values()) for what in ("passed", "failed"))
    say(f"\n{passed} passed, {failed} failed")
    return 0 if passed and not failed else 1


def main():
    names, extra, in_lanes = parse(sys.argv[1:])
    for folder in (LOGS, RAN):
        folder.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    began, rows, before = time.monotonic(), {}, []
    try:
        if in_lanes:
            of = commit()
            rows = {name: kept for name in names if of and (kept := recall(name, of))}
            before = list(rows)
            run_in_lanes([name for name in names if name not in rows], rows)
        else:
            run_in_turn(names, extra, rows)
    except Stopped:
        rows[names[-1]] = Counts(failed=1), 0  # packages or a build: said above
    except KeyboardInterrupt:
        say("\ninterrupted")
        rows[next((name for name in names if name not in rows), names[-1])] = Counts(failed=1), 0
    finally:
        end_all(list(running))
    if os.environ.get("PL_LANE"):
        return 0  # a group of a larger run, which has its own table
    return report({name: rows.get(name, (Counts(failed=1), 0)) for name in names}, before, (time.monotonic() - began) / 60)


if __name__ == "__main__":
    sys.exit(main())
