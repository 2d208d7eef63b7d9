#!/bin/sh
# run.sh [NAME…]: builds the release programs and measures them beside the tools that Debian has for such work (cp, restic, borg, git,
# rclone, xargs), in one run on one machine. Prints a table: the work, ours, each peer that is installed, ours : peer, the goal. Never
# fails on a number, and installs nothing.
#   files     100,000 files of 4 KiB: into a commit, again, with 1 % changed, checked out; the daemon's memory meanwhile
#   large     a file of 2 GiB; with 1 MiB inserted in the middle; with 320 blocks overwritten
#   latency   one small file to the committed output of a trivial stage
#   datums    10,000 datums of /bin/true
#   commit    one file into a dataset of 1,000,000; a diff there
#   carried   a push with 100,000 reused datums;   planned: with 1,000,000
#   batch     a command that stays for all datums
#   overlap   datums that move data as long as they compute
#   recover   100 commits of 1,000,000 files from their store alone: a folder, and a bucket of a real S3 server (tests/s3/servers.py)
#   gc        half of 1,000,000 files is collected, out of packs whose other half stays, while a writer commits 10 times a second
#   pods      20,000 pods made and seen running, 5,000 adopted, 10,000 nodes with 50,000 pods of others: the executor alone
#   stages    5,000 jobs of 5,000 stages as pods of a real kube-apiserver whose nodes are simulated, beside a client that makes the same pods
#             without a daemon ("raw"); how long a pod waits for the result before it. Once built: tests/kube/control_plane.py build
#   pods-overlap   overlap in a pod that holds a GPU, on a real kube-apiserver whose node is simulated and really runs agent and command; as root
#   lost      a pod that is deleted, evicted or drained, until its datum runs in the next one; agent and command really run; as root
#   killed    a daemon that is killed while it makes pods, until it makes the next one
#   metrics   /metrics with 1,000 stages and 10,000 pods on that API server
#   real      a push on a real kubelet beside a bare pod with the same containers ("raw"); as root, in a corner of the machine
#   puts      10,000 files one by one into an open commit
#   gateway   S3: objects of 4 KiB, one of 256 MiB in parts, pages of a bucket with 1,000,000 keys
#   gateway-down   2 GiB by s5cmd, out of the gateway and out of another S3 server
#   sources_idle   1,000 sources in git with nothing new, over two rounds of looks: processor and memory
#   sources_large  a push to a repository of 100,000 files and 10,000 commits, beside git fetch
#   sources_push   a push to a small one, until its job runs
#   setup     numpy and scikit-learn installed for a stage, beside venv and pip by hand; the start of a worker with them
#   image     a stage in an image, got by a real podman, beside one without; as root
#   idle      the memory of a daemon that does nothing
#   graph     the graph of repos and stages: 1,000 and 10,000 stages laid out, whole and folded; its API over 1,000 stages that have run
#   history   the list of runs over 200,000 runs with 1,000,000 jobs
#   s3-ingest s3-large s3-some   over a bucket: 100,000 files of 4 KiB into it; 2 GiB up and down; 1,000 files of 1,000,000 out of it, at
#             once and with round trips of 100 ms; beside s5cmd, rclone, restic, aws and curl, requests counted
# BENCH_DIR: where all of it lies while it runs (build/bench; needs 20 GB). BENCH_SCALE: part of the sizes above, e.g. 0.05 (1).
# BENCH_RUNS: times that each short work is measured, the median counts (3). BENCH_BIN: programs to measure, not built here. BENCH_S3: the
# server of s3-… (versitygw; tests/s3/servers.py, which also builds it; clients: tests/s3/clients.py). BENCH_PEERS: which of
# them (s5cmd rclone restic aws).
set -eu

top=$(cd "$(dirname "$0")/../.." && pwd)
if [ -z "${BENCH_BIN-}" ]; then
    BENCH_BIN=$top/build/release/bin
    log=$top/build/bench-build.log
    mkdir -p "$top/build"
    if ! { cmake -S "$top" -B "$top/build/release" -DPL_BENCH=ON && cmake --build "$top/build/release" -j "$(nproc)"; } \
        >"$log" 2>&1; then
        tail -n 30 "$log" >&2
        exit 1
    fi
fi
export BENCH_BIN BENCH_DIR="${BENCH_DIR:-$top/build/bench}"
exec /usr/bin/python3 -B "$top/tests/bench/bench.py" "$@"
