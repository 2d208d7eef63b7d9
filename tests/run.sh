#!/bin/sh
# run.sh [GROUP…] [TEST] [PYTEST OPTION…]: runs tests; its last line is "N passed, N failed". `sh tests/run.sh --help` lists the groups.
# Installs python3 where it is missing; tests/support/runner.py does the rest.
set -u
top=$(cd "$(dirname "$0")/.." && pwd)
cd "$top" || exit 1
python=/usr/bin/python3
if [ ! -x "$python" ]; then
    # shellcheck source=pipelined/deploy/install.sh
    . "$top/pipelined/deploy/install.sh"
    install_packages python || {
        echo "0 passed, 1 failed"
        exit 1
    }
fi
exec "$python" -B "$top/tests/support/runner.py" "$@"
