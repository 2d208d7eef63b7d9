#!/bin/sh
# demo.sh [--exit] [--store URL] [--recover]: from nothing to a trained model on this machine. Installs what is missing, builds, starts
# the daemon, pushes handwritten digits, and shows that one more batch costs only what it touches. The daemon stays; with --exit it is
# stopped, and the exit status is 0 only when every check held. Running it again works and takes seconds.
#   --store URL   the dataset lives there (s3://BUCKET/PREFIX, file:///FOLDER; of a bucket, AWS_ENDPOINT_URL and so on say where it is)
#   --recover     before the last batch the daemon is killed, its folder deleted and recovered from the store alone (with --store)
# PIPELINED_DEMO_DIR: the daemon's folder (build/demo). PIPELINED_DEMO_BIN: programs to use, nothing is built.
set -eu

top=$(cd "$(dirname "$0")/.." && pwd)
dir=${PIPELINED_DEMO_DIR:-$top/build/demo}
bin=${PIPELINED_DEMO_BIN:-$top/build/release/bin}
digits=$top/pipelines/digits
last=b8
required_accuracy=0.95
case $dir in
/*) ;;
*) dir=$PWD/$dir ;;
esac
unset PIPELINED_URL PIPELINED_TOKEN

usage() {
    echo "usage: sh pipelines/demo.sh [--exit] [--store URL] [--recover]" >&2
    exit 2
}

stop_at_end=
store=
lose_folder=
while [ $# -gt 0 ]; do
    case $1 in
    --exit) stop_at_end=1 ;;
    --recover) lose_folder=1 ;;
    --store)
        [ $# -gt 1 ] || usage
        store=$2
        shift
        ;;
    *) usage ;;
    esac
    shift
done
if [ -n "$lose_folder" ] && [ -z "$store" ]; then
    echo "demo: --recover needs --store URL: the folder that is deleted would have the store in it" >&2
    exit 2
fi

# shellcheck source=pipelined/deploy/install.sh
. "$top/pipelined/deploy/install.sh"

milliseconds() {
    echo $(($(date +%s%N) / 1000000))
}

demo_began=$(milliseconds)
phase_began=$demo_began

# A phase that ends: what was done, and how long it took.
phase() {
    at=$(milliseconds)
    printf '%6d.%d s  %s\n' $(((at - phase_began) / 1000)) $(((at - phase_began) / 100 % 10)) "$1"
    phase_began=$at
}

say() {
    printf '%10s%s\n' '' "$1"
}

fail() {
    echo "demo: $1" >&2
    exit 1
}

ctl() {
    "$bin/pipelinectl" --data "$dir" "$@"
}

# Evaluates a Python expression over the JSON document on stdin, named `it`.
json() {
    python3 -c 'import json, sys; it = json.load(sys.stdin); print(eval(sys.argv[1]))' "$1"
}

running() {
    [ -s "$dir/demo.pid" ] && kill -0 "$(cat "$dir/demo.pid")" 2>/dev/null
}

stop_daemon() {
    running || return 0
    pid=$(cat "$dir/demo.pid")
    kill -TERM "$pid"
    tries=0
    while kill -0 "$pid" 2>/dev/null; do
        tries=$((tries + 1))
        [ $tries -lt 300 ] || return 1
        sleep 0.1
    done
    rm -f "$dir/demo.pid"
}

pushed=
clean_up() {
    status=$?
    [ -z "$pushed" ] || rm -rf "$pushed"
    if [ -n "$stop_at_end" ] && ! stop_daemon; then
        echo "demo: the daemon did not stop within 30 s" >&2
        status=1
    fi
    exit $status
}

build() {
    [ -z "${PIPELINED_DEMO_BIN-}" ] || return 0
    mkdir -p "$top/build"
    log=$top/build/release.log
    if ! { cmake -S "$top" -B "$top/build/release" && cmake --build "$top/build/release" -j "$(nproc)"; } >"$log" 2>&1; then
        grep -E 'error|Error' "$log" | head -n 20 >&2 || tail -n 20 "$log" >&2
        fail "the build failed: $log"
    fi
}

# Sets `sandbox` to the options that this machine needs.
choose_sandbox() {
    sandbox=
    if ! reason=$("$bin/pipelined-worker" --probe-sandbox 2>&1); then
        sandbox="--sandbox none"
        say "no sandbox here, so stages run without one (--sandbox none): $(printf '%s\n' "$reason" | tail -n 1)"
    fi
}

# PATH for stages that see the host's: another Python than the system's may come first and know no numpy.
path_with_numpy() {
    if python3 -c 'import numpy' 2>/dev/null; then
        echo "$PATH"
    else
        echo "/usr/bin:/bin:$PATH"
    fi
}

start_daemon() {
    mkdir -p "$dir"
    if running && [ -n "$(find "$bin/pipelined" -newer "$dir/demo.pid")" ]; then
        stop_daemon || fail "the daemon of an earlier build does not stop: kill -KILL $(cat "$dir/demo.pid")"
    fi
    if [ -s "$dir/pipelined.url" ] && ctl status >/dev/null 2>&1; then
        has=$(ctl --json status | json 'it["store"]')
        [ -z "$store" ] || [ "$has" = "$store" ] ||
            fail "the daemon of an earlier demo has its store at $has: stop it with kill $(cat "$dir/demo.pid"), or choose another PIPELINED_DEMO_DIR"
        phase "daemon: already running at $(cat "$dir/pipelined.url")"
        return 0
    fi
    choose_sandbox
    rm -f "$dir/pipelined.url"
    # shellcheck disable=SC2086 # $sandbox is a list of options
    PATH=$(path_with_numpy) setsid "$bin/pipelined" --data "$dir" --listen 127.0.0.1:0 ${store:+--store "$store"} $sandbox >>"$dir/pipelined.out" 2>&1 </dev/null &
    echo $! >"$dir/demo.pid"
    tries=0
    until [ -s "$dir/pipelined.url" ] && ctl status >/dev/null 2>&1; do
        tries=$((tries + 1))
        if ! running || [ $tries -gt 300 ]; then
            tail -n 5 "$dir/pipelined.out" >&2
            fail "the daemon did not start: $dir/pipelined.out"
        fi
        sleep 0.1
    done
    phase "daemon: serves at $(cat "$dir/pipelined.url")"
}

# The same spec again changes nothing; `again` says that this folder has seen the demo before.
create_pipeline() {
    again=
    if ctl inspect pipeline digits >/dev/null 2>&1; then
        again=1
        ctl update pipeline -f "$digits/pipeline.json" --yes >/dev/null || fail "the pipeline was not updated"
        phase "pipeline: digits is there from an earlier demo"
    else
        ctl create pipeline -f "$digits/pipeline.json" >/dev/null || fail "the pipeline was not created"
        phase "pipeline: digits created (prepare, train, infer, report)"
    fi
}

# Waits for the run of the newest commit of digits and sets `run` to its id.
wait_for_run() {
    ctl wait run digits@master --timeout 600s || {
        ctl inspect run "$(ctl --json inspect commit digits@master | json 'it["id"]')" >&2 || true
        fail "the run did not succeed; its stages are above. pipelinectl --data $dir logs STAGE says more"
    }
    run=$(ctl --json inspect commit digits@master | json 'it["id"]')
    ctl --json inspect run "$run" >"$pushed/run.json"
}

# Datums of a stage in the run: those that it computed, and those whose earlier result was taken.
computed() {
    json "[job['datums'].get('done', 0) for job in it['jobs'] if job['stage'] == '$1'][0]" <"$pushed/run.json"
}

reused() {
    json "[job['datums'].get('reused', 0) for job in it['jobs'] if job['stage'] == '$1'][0]" <"$pushed/run.json"
}

accuracy() {
    ctl get file report@master:/report.json -o - >"$pushed/report.json" || fail "there is no report"
    json '"accuracy %.4f: %d of %d held-back images recognised" % (it["accuracy"], it["right"], it["images"])' <"$pushed/report.json"
    [ "$(json "it['accuracy'] >= $required_accuracy" <"$pushed/report.json")" = True ] ||
        fail "the accuracy is below $required_accuracy"
}

# Training batches that are there: the demo's, and those that were pushed beside them since an earlier demo.
batches() {
    ctl --json list file digits@master:/train/ | json 'len(it["files"])'
}

push_most() {
    mkdir "$pushed/data"
    cp -r "$digits/data/train" "$digits/data/test" "$pushed/data/"
    rm "$pushed/data/train/$last.csv"
    if [ -n "$again" ] && ctl get file "digits@master:/train/$last.csv" -o - >/dev/null 2>&1; then
        say "taking $last.csv of the earlier demo out again"
        ctl delete file "digits@master:/train/$last.csv" >/dev/null || fail "$last.csv was not deleted"
    fi
    ctl put file digits@master:/ -r -f "$pushed/data" || fail "the data was not pushed"
    wait_for_run
    there=$(batches)
    [ "$there" -ge 7 ] || fail "7 batches were pushed, and $there are there"
    [ $(($(computed prepare) + $(reused prepare))) -eq "$there" ] ||
        fail "$there batches are there, $(computed prepare) were prepared and $(reused prepare) reused"
    found=$(accuracy) || exit 1
    phase "$there training batches pushed and trained on: $found"
}

# The disk with the daemon's folder is gone; what was acknowledged is in the store.
lose_and_recover() {
    [ -n "$lose_folder" ] || return 0
    running || fail "the daemon was not started by a demo: --recover would not know what to kill"
    ctl --json inspect commit report@master >"$pushed/before"
    pid=$(cat "$dir/demo.pid")
    kill -KILL "$pid"
    tries=0
    while kill -0 "$pid" 2>/dev/null || ! rm -rf "$dir" 2>/dev/null; do # its workers write there until they notice
        tries=$((tries + 1))
        [ $tries -lt 300 ] || fail "$dir cannot be deleted"
        sleep 0.1
    done
    ctl recover --store "$store" >"$pushed/recovered" || fail "nothing was recovered from $store"
    sed 's/^/            /' "$pushed/recovered"
    phase "folder: deleted under the daemon, and recovered from $store"
    start_daemon
    ctl --json inspect commit report@master >"$pushed/after"
    cmp -s "$pushed/before" "$pushed/after" || fail "the report is another one than before"
    found=$(accuracy) || exit 1
    phase "the report is the same: $found"
}

push_last() {
    ctl put file "digits@master:/train/$last.csv" -f "$digits/data/train/$last.csv" || fail "$last.csv was not pushed"
    wait_for_run
    new=$(computed prepare)
    old=$(reused prepare)
    [ $((new + old)) -eq $((there + 1)) ] || fail "$((there + 1)) batches are there, $new were prepared and $old reused"
    if [ -n "$again" ]; then
        [ "$new" -le 1 ] || fail "$new batches were prepared again, expected none: an earlier demo had done them all"
    else
        [ "$new" -eq 1 ] || fail "$new batches were prepared, expected only the new one"
        [ "$(computed train)" -eq 1 ] || fail "the model was not trained again"
        [ "$(computed infer)" -eq 2 ] || fail "the test batches were not given to the new model"
    fi
    found=$(accuracy) || exit 1
    phase "one more batch: $new prepared, $old reused; datums that followed: train $(computed train), infer $(computed infer)"
    say "$found"
    [ "$new" -eq 1 ] || say "(an earlier demo had computed all of this: its results were reused)"
}

show_times() {
    say "how long each stage took in run $(printf '%.8s' "$run"):"
    python3 - "$pushed/run.json" <<'END'
import json, sys

for job in json.load(open(sys.argv[1]))["jobs"]:
    seconds = ((job.get("finished_us") or 0) - (job.get("started_us") or job.get("created_us") or 0)) / 1e6
    parts = ", ".join(f"{name} {spent / 1000:.2f} s" for name, spent in job.get("ms", {}).items() if name in ("wait", "fetch", "compute", "upload"))
    print(f"{'':12}{job['stage']:8} {seconds:6.2f} s on {job.get('device') or '-'}   {parts}")
END
}

show_why() {
    say "where the predictions of the first test batch come from (pipelinectl why):"
    ctl why infer@master:/b1/predictions.csv >"$pushed/why" || fail "why has no answer"
    grep -q model.npz "$pushed/why" || fail "why does not name the model"
    sed 's/^/            /' "$pushed/why"
}

# Makes "pipelinectl" a command of this terminal: a link in the first folder of PATH that is for such things, and there is none of another origin.
put_in_reach() {
    for folder in /usr/local/bin "$HOME/.local/bin"; do
        case :$PATH: in
        *":$folder:"*) ;;
        *) continue ;;
        esac
        [ ! -e "$folder/pipelinectl" ] || [ -L "$folder/pipelinectl" ] || continue
        if mkdir -p "$folder" 2>/dev/null && ln -sf "$bin/pipelinectl" "$folder/pipelinectl" 2>/dev/null; then
            break
        fi
    done
    [ "$(readlink -f "$(command -v pipelinectl)")" = "$(readlink -f "$bin/pipelinectl")" ]
}

goodbye() {
    at=$(milliseconds)
    echo
    echo "All checks held, $(((at - demo_began) / 1000)) s in all."
    [ -z "$stop_at_end" ] || return 0
    echo "The daemon keeps running: $(ctl open --print 2>/dev/null || cat "$dir/pipelined.url")"
    if put_in_reach && pipelinectl -q login "$(cat "$dir/pipelined.url")" --name demo --token-file "$dir/token"; then
        tool=pipelinectl
        echo "You are logged in to it (pipelinectl list context; pipelinectl logout demo ends that)."
    else
        tool="${bin#"$PWD"/}/pipelinectl --data ${dir#"$PWD"/}"
        echo "pipelinectl is not in reach: put $bin into PATH"
    fi
    echo "Try next:"
    echo "  $tool status"
    echo "  $tool get file report@master:/confusion.png -o confusion.png"
    echo "  $tool logs train"
    [ ! -s "$dir/demo.pid" ] || echo "and stop it with: kill $(cat "$dir/demo.pid")  (sh pipelines/demo.sh starts it again)"
}

main() {
    install_packages build web run demo || exit 1
    phase "packages: all there"
    build
    phase "build: $bin"
    pushed=$(mktemp -d)
    trap clean_up EXIT
    trap 'exit 130' INT
    trap 'exit 143' TERM
    start_daemon
    create_pipeline
    push_most
    lose_and_recover
    push_last
    show_times
    show_why
    goodbye
}

main
