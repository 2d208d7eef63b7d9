/* try: one datum on this machine, for `pipelinectl try`: a worker's sandbox, variables, runner and checks of the output, with nobody
 * above it. Nothing is committed: the output goes into a folder.
 *
 * Asked by a JSON file, answered by another (pipelinectl makes the one and reads the other):
 *   {"attach": …, "task": …,    as the daemon answers attach and next (wire.h); one row
 *    "store": DIR,              an object store of this machine that holds the code and the inputs that are folders here
 *    "url": URL | null,         of the daemon that holds the other inputs; its token in the environment, as for every worker
 *    "work": DIR,               the work folder, made and removed
 *    "out": DIR | null,         where the output goes, with "prefix" before each path
 *    "sandbox": "bwrap" | "none", "shell": BOOL,     a shell in place of the command
 *    "cgroup": DIR | null,      the group that its sandbox lives in, with the stage's limits
 *    "result": FILE}
 *   {"success", "gave_back", "oom", "timed_out": BOOL, "reason": TEXT, "exit_code", "signal": N, "ms": {"fetch", "compute", "upload"},
 *    "bytes": {"in", "out"}, "files": N, "paths": [{"path", "size"}] (the first PL_TRY_PATHS_MAX)}
 *   or {"error": {"code", "message", "hint"}} when it could not be run */
#pragma once

#include "pipelined/agent/worker/worker.h"

#define PL_TRY_PATHS_MAX 1000u

struct pl_try_config {
    const char *request;                  /* the file that asks */
    const char *token;                    /* "" when there is no daemon */
    const char *ca;                       /* as a worker's */
    const char *runner, *next, *extra_ro; /* as a worker's (worker.h) */
    /* Called with the worker when there is one, and with NULL before it goes: for who ends it by a signal. */
    void (*on_worker)(struct pl_worker *w);
};

/* 0: the answer says what came of it. PL_EUSAGE, PL_ENOTFOUND: the request cannot be read, there is no answer. */
PL_MUST_CHECK
int pl_try_run(const struct pl_try_config *config, struct pl_err *err);
