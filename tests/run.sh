#!/bin/sh
# run.sh [GROUP…]: runs tests and ends with one line "N passed, N failed"; the exit status is 0 only when something passed and nothing
# failed. Installs what the tests need with apt.
#   all        every group that has tests but s3-more (also without an argument)
#   check      how the code reads: size, layers, map, symbols, format, words, shell scripts
#   unit       the C tests under the address and undefined-behaviour sanitizers; those with threads under the thread sanitizer too
#   daemon     pytest over the real programs, built with sanitizers
#   fuzz       the fuzzers, PL_FUZZ_SECONDS (15) each; this is also the build with clang
#   model      spin over the models of protocols: garbage collection
#   s3         the programs against real S3 servers (radosgw, versitygw), real S3 clients against the gateway; s3-more: minio as the server.
#              What Debian does not have is built or fetched once, into PL_TEST_CACHE (~/.cache/pipelined-tests)
#   kube       the Kubernetes client against a real control plane (etcd, kube-apiserver, kube-scheduler; built once into the same cache,
#              some 20 minutes of a core)
#   kube-real  pods on a real node of it: a kubelet (built with them), containerd and runc of this machine, in namespaces of their own;
#              as root
#   image      the image as buildah makes it from pipelined/deploy/Containerfile, of Debian's packages alone; as root
#   git web
# PL_PYTEST: more arguments for pytest, e.g. "-k push -x". PL_TEST_JOBS: how many tests run at once (a core each). Where ccache is
# installed, compilers' output is kept in PL_TEST_CACHE, too.
set -u

top=$(cd "$(dirname "$0")/.." && pwd)
cd "$top" || exit 1
logs=$top/build/logs
python=/usr/bin/python3
passed=0
failed=0
groups="check unit daemon model s3 s3-more git kube kube-real image web fuzz"
fuzz_seconds=${PL_FUZZ_SECONDS:-15}
jobs=${PL_TEST_JOBS:-$(nproc)}
cache=${PL_TEST_CACHE:-$HOME/.cache/pipelined-tests}
unset PIPELINED_URL PIPELINED_TOKEN
export ASAN_OPTIONS="detect_leaks=1:abort_on_error=0:handle_abort=1:detect_stack_use_after_return=1"
export UBSAN_OPTIONS="print_stacktrace=1:halt_on_error=1"
export TSAN_OPTIONS="halt_on_error=1:second_deadlock_stack=1"
export PYTHONDONTWRITEBYTECODE=1

# shellcheck source=cmake/install.sh
. "$top/cmake/install.sh"

title() {
    printf '\n== %s\n' "$1"
}

count() {
    passed=$((passed + $1))
    failed=$((failed + $2))
}

# One test that is a command: its output is shown when it fails.
one() {
    name=$1
    shift
    log=$logs/$(echo "$name" | tr ' /' '--').log
    if "$@" >"$log" 2>&1; then
        count 1 0
        printf 'ok      %s\n' "$name"
    else
        count 0 1
        printf 'FAILED  %s\n' "$name"
        tail -n 40 "$log" | sed 's/^/        /'
        return 1
    fi
}

# What `each` has run already: its exit status; the log goes to standard output, from where it came.
told() {
    cat "$1.log"
    return "$(cat "$1.status" 2>/dev/null || echo 127)"
}

# Sanitizers of gcc 12 want addresses less random than some kernels make them.
if setarch "$(uname -m)" -R true 2>/dev/null; then
    fixed_addresses="setarch $(uname -m) -R"
else
    fixed_addresses=
fi

# Configures a build folder and builds some targets ("" for all) in it.
compile() {
    folder=$1
    targets=$2
    shift 2
    cmake -S "$top" -B "$folder" -DCMAKE_BUILD_TYPE=Debug -DPL_WERROR=ON -DPL_TESTS=ON "$@" || return 1
    # shellcheck disable=SC2086 # a list
    cmake --build "$folder" -j "$(nproc)" ${targets:+--target $targets}
}

# The build that most groups share; made once, counted once.
asan_state=
build_asan() {
    if [ -z "$asan_state" ]; then
        asan_state=failed
        one "build with gcc, address sanitizer, warnings are errors" compile "$top/build/asan" "" -DPL_SANITIZE=address &&
            asan_state=good
    fi
    [ $asan_state = good ]
}

# Runs a command for each word of a list, some at once, with the word as its last argument and a log of its own, FOLDER/PREFIXWORD.log;
# its exit status comes to lie beside it, in .status. A word that was not come to has none.
each() {
    prefix=$1
    words=$2
    shift 2
    for word in $words; do
        rm -f "$prefix$word.status"
    done
    # shellcheck disable=SC2016,SC2086 # expands in the inner shell; a list
    printf '%s\n' $words | xargs -r -P "$jobs" -I '{}' sh -c '
        prefix=$1
        word=$2
        shift 2
        "$@" "$word" >"$prefix$word.log" 2>&1 </dev/null
        echo $? >"$prefix$word.status"' each "$prefix" '{}' "$@"
}

# Runs cmocka programs of a build folder and counts their tests; one that dies counts as one failure more.
run_cmocka() {
    folder=$1
    shift
    prefix=$logs/$(basename "$folder")-
    # shellcheck disable=SC2016,SC2086 # expands in the inner shell; $fixed_addresses is a command and its arguments
    CMOCKA_MESSAGE_OUTPUT=STDOUT each "$prefix" "$*" timeout 900 $fixed_addresses sh -c 'exec "$0/bin/$1"' "$folder"
    for name in "$@"; do
        log=$prefix$name.log
        status=$(cat "$prefix$name.status" 2>/dev/null || echo 127)
        good=$(sed -n 's/^\[  PASSED  \][^0-9]* \([0-9]*\) test(s).*/\1/p' "$log" | awk '{n += $1} END {print n + 0}')
        bad=$(sed -n 's/^\[  FAILED  \].* \([0-9]*\) test(s).*/\1/p' "$log" | awk '{n += $1} END {print n + 0}')
        skipped=$(sed -n 's/^\[  SKIPPED \].* \([0-9]*\) test(s).*/\1/p' "$log" | awk '{n += $1} END {print n + 0}')
        if [ "$bad" -eq 0 ] && { [ "$status" -ne 0 ] || [ "$good" -eq 0 ]; }; then
            bad=1
        fi
        count "$good" "$bad"
        if [ "$bad" -eq 0 ]; then
            printf 'ok      %s: %d passed%s\n' "$name" "$good" "$([ "$skipped" -eq 0 ] || printf ', %d skipped' "$skipped")"
        else
            printf 'FAILED  %s: %d passed, %d failed, exit status %d (%s)\n' "$name" "$good" "$bad" "$status" "${log#"$top"/}"
            grep -E '^\[  FAILED|^\[   LINE|ERROR|runtime error|WARNING: ThreadSanitizer|^    #[0-9] ' "$log" | head -n 40 | sed 's/^/        /'
        fi
    done
}

# The names of the unit tests; with a pattern, of those whose source matches.
unit_tests() {
    for source in tests/unit/test_*.c; do
        [ -e "$source" ] || continue
        if [ $# -eq 0 ] || grep -qE "$1" "$source"; then
            basename "$source" .c
        fi
    done
}

run_pytest() {
    run_pytest_in "" "$@"
}

# Some files at once: for tests that need no server that is started once for all.
run_pytest_spread() {
    run_pytest -n "$jobs" --dist loadfile "$@"
}

# The first argument is a command that runs commands somewhere.
run_pytest_in() {
    where=$1
    shift
    result=$logs/pytest.xml
    rm -f "$result"
    # shellcheck disable=SC2086 # $fixed_addresses, $where and $PL_PYTEST are lists
    PL_BIN=$top/build/asan/bin timeout ${where:+--foreground} 3600 $fixed_addresses $where $python -m pytest -p no:cacheprovider -q --timeout=300 \
        --junit-xml="$result" ${PL_PYTEST-} "$@"
    status=$?
    # shellcheck disable=SC2046 # three numbers
    set -- $($python - "$result" <<'END'
import sys
import xml.etree.ElementTree

try:
    suites = list(xml.etree.ElementTree.parse(sys.argv[1]).iter("testsuite"))
except (OSError, xml.etree.ElementTree.ParseError):
    print("0 1 0")
    sys.exit()
total, errors, failures, skipped = (sum(int(suite.get(key, 0)) for suite in suites) for key in ("tests", "errors", "failures", "skipped"))
print(max(0, total - errors - failures - skipped), errors + failures, skipped)
END
    )
    if [ $status -ne 0 ] && [ "$2" -eq 0 ]; then
        set -- "$1" 1 "$3"
    fi
    count "$1" "$2"
    [ "$3" -eq 0 ] || printf 'skipped %d\n' "$3"
}

# Makes the cache of test servers warm while other groups run: what takes minutes when it is cold. Groups that want one wait for it.
servers_ahead() {
    install_packages build test s3 kube || return
    (
        nice -n 5 $python tests/kube/control_plane.py build
        nice -n 5 $python tests/s3/servers.py build versitygw
        nice -n 5 $python tests/s3/clients.py build
    ) >"$logs/servers-ahead.log" 2>&1 </dev/null &
}

group_check() {
    install_packages build test check demo || return 1
    for name in size layers map words packages format; do
        one "$name" $python "tests/check/$name.py"
    done
    if build_asan; then
        one symbols $python tests/check/symbols.py build/asan
    fi
    one "shell scripts" shellcheck -x -P "$top" pipelines/demo.sh tests/run.sh cmake/install.sh .ci/run \
        pipelined/deploy/cluster/certificate.sh
    run_pytest tests/check
}

group_unit() {
    install_packages build run test demo || return 1
    build_asan || return 1
    # shellcheck disable=SC2046 # names without blanks
    run_cmocka "$top/build/asan" $(unit_tests)

    title "unit, thread sanitizer"
    threaded=$(unit_tests 'pthread|pl_pool_|pl_loop_|threads|pl_heads_|gc_world|s3_mock')
    [ -n "$threaded" ] || return 0
    one "build with gcc, thread sanitizer" compile "$top/build/tsan" "$threaded" -DPL_SANITIZE=thread || return 1
    # shellcheck disable=SC2086
    run_cmocka "$top/build/tsan" $threaded
}

group_daemon() {
    install_packages build run test demo || return 1
    build_asan || return 1
    run_pytest_spread tests/daemon
}

group_s3() {
    servers=$1
    install_packages build run test demo s3 || return 1
    build_asan || return 1
    # shellcheck disable=SC2086 # $1 is a list
    one "S3 servers" $python tests/s3/servers.py build $1 || return 1
    shift
    one "S3 clients" $python tests/s3/clients.py build || return 1
    PL_S3_SERVERS=$servers run_pytest tests/s3 "$@"
}

group_kube() {
    install_packages build run test demo kube image || return 1
    build_asan || return 1
    one "control plane" $python tests/kube/control_plane.py build || return 1
    run_pytest tests/kube
}

# Skipped, with the reason, where the machine forbids it.
group_kube_real() {
    install_packages build run test demo kube kube-real image || return 1
    reason=$($python tests/kubereal/inside.py can) || {
        echo "kube-real: skipped: $reason"
        skipped_whole=1
        return 0
    }
    build_asan || return 1
    one "control plane and kubelet" env PL_BIN="$top/build/asan/bin" $python tests/kubereal/node.py build || return 1
    run_pytest_in "$python tests/kubereal/inside.py run" tests/kubereal
}

group_image() {
    install_packages test image-build || return 1
    run_pytest tests/image
}

group_model() {
    install_packages model || return 1
    run_pytest_spread tests/model
}

group_fuzz() {
    install_packages build test fuzz || return 1
    one "build with clang, fuzzers, warnings are errors" compile "$top/build/fuzz" "" -DCMAKE_C_COMPILER=clang-14 -DPL_FUZZ=ON \
        -DPL_SANITIZE=address || return 1
    fuzzers=
    for source in tests/fuzz/fuzz_*.c; do
        [ -e "$source" ] || continue
        name=$(basename "$source" .c)
        mkdir -p "$top/build/fuzz/found/$name"
        if [ -d "tests/fuzz/corpus/${name#fuzz_}" ]; then
            fuzzers="$fuzzers $name"
        else
            count 0 1
            echo "FAILED  $name: no seeds in tests/fuzz/corpus/${name#fuzz_}"
        fi
    done
    # shellcheck disable=SC2016,SC2086 # expands in the inner shell; a list
    each "$logs/ran-" "$fuzzers" $fixed_addresses sh -c '
        found=build/fuzz/found/$1
        exec "build/fuzz/bin/$1" "-max_total_time=$0" -timeout=20 -rss_limit_mb=3000 -print_final_stats=1 "-artifact_prefix=$found-" \
            "$found" "tests/fuzz/corpus/${1#fuzz_}"' "$fuzz_seconds"
    for name in $fuzzers; do
        one "$name" told "$logs/ran-$name"
    done
}

# Whether a group has tests yet.
has_tests() {
    case $1 in
    check | unit | daemon | model | s3 | s3-more | kube | kube-real | image | fuzz) return 0 ;;
    *) return 1 ;;
    esac
}

run_group() {
    title "$1"
    before=$((passed + failed))
    failed_before=$failed
    skipped_whole=
    case $1 in
    check) group_check ;;
    unit) group_unit ;;
    daemon) group_daemon ;;
    s3) group_s3 "radosgw versitygw" ;;
    s3-more) group_s3 minio -k "not gateway" ;;
    kube) group_kube ;;
    kube-real) group_kube_real ;;
    image) group_image ;;
    model) group_model ;;
    fuzz) group_fuzz ;;
    esac || {
        echo "$1: not finished"
        [ "$failed" -gt "$failed_before" ] || count 0 1
    }
    if [ -z "$skipped_whole" ] && [ $((passed + failed)) -eq $before ]; then
        echo "$1: nothing ran"
        count 0 1
    fi
}

mkdir -p "$logs"
[ $# -gt 0 ] || set -- all
# cmake/PlCompiler.cmake takes ccache where it is: let clones in other folders have use of it
export CCACHE_DIR="${CCACHE_DIR:-$cache/ccache}" CCACHE_BASEDIR="$top" CCACHE_NOHASHDIR=1 CCACHE_MAXSIZE="${CCACHE_MAXSIZE:-3G}"
for wanted in "$@"; do
    if [ "$wanted" = all ]; then
        servers_ahead
        for group in $groups; do
            [ "$group" = s3-more ] || ! has_tests "$group" || run_group "$group"
        done
    elif ! echo " $groups " | grep -q " $wanted "; then
        echo "run.sh: there is no group \"$wanted\"; groups: $groups all" >&2
        count 0 1
    elif has_tests "$wanted"; then
        run_group "$wanted"
    else
        echo "$wanted: nothing here yet" >&2
        count 0 1
    fi
done

echo
echo "$passed passed, $failed failed"
[ "$failed" -eq 0 ] && [ "$passed" -gt 0 ]
