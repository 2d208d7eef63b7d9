/* daemon: one running pipelined: its folder, store, database, engine, executor and API, wired together, from start to drain. */
#pragma once

#include "pipelined/daemon/config.h"

/* Opens everything, serves until SIGTERM or SIGINT, drains, closes. Returns the process's exit code: 0, 1 (could not start; said on
 * stderr), 75 (another daemon took the store over: start again to see who). */
int pl_daemon_run(const struct pl_config *config);
