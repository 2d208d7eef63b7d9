/* try_datum: runs one datum on this machine for `pipelinectl try`, with a worker's sandbox, variables, runner
 * and output checks, but without a daemon that schedules it. Nothing is committed: the output goes into a
 * folder.
 *
 * The request is a JSON file, and so is the answer. pipelinectl writes the request and reads the answer:
 *   {"attach": …, "task": …,    as the daemon's answers to attach and next (agent_protocol.h); one row
 *    "store": DIR,              an object store on this machine, with the code and the local inputs
 *    "url": URL | null,         the daemon that has the other inputs; its token is in the environment
 *    "work": DIR,               the work folder, created and removed
 *    "out": DIR | null,         folder for the output, with "prefix" before each path
 *    "expect": [GLOB…],         output.expect, at most PL_TRY_EXPECT_MAX
 *    "sandbox": "bwrap" | "none", "shell": BOOL,     a shell instead of the command
 *    "image": REQUEST | null,   the image in which the command runs (stage_image.h)
 *    "cgroup": DIR | null,      cgroup of the sandbox, with the stage's limits
 *    "result": FILE}            file for the answer
 *
 *   {"success", "gave_back", "oom", "timed_out": BOOL, "reason": TEXT, "exit_code", "signal": N,
 *    "ms": {"fetch", "compute", "upload"}, "bytes": {"in", "out"}, "files": N,
 *    "paths": [{"path", "size"}] (the first PL_TRY_PATHS_MAX),
 *    "unmet": [GLOB…]}          the globs of "expect" that match nothing in the output of a successful datum
 *   or {"error": {"code", "message", "hint"}} if the datum could not be run */
#pragma once

#include "pipelined/agent/worker/worker.h"

#define PL_TRY_PATHS_MAX  1000u
#define PL_TRY_EXPECT_MAX 1000u

struct pl_try_config {
    const char *request;                  /* path of the request file */
    const char *token;                    /* the daemon's token; "" = no daemon */
    const char *ca;                       /* PEM file of CA certificates, as in pl_worker_config */
    const char *runner, *next, *extra_ro; /* as the fields of pl_worker_config with these names */
    /* Called with the worker when it exists, and with NULL before it is freed, so that a signal handler can
     * stop it. */
    void (*on_worker)(struct pl_worker *w);
};

/* Handles the request. 0: the answer file was written and has the result. PL_EUSAGE, PL_ENOTFOUND: the
 * request cannot be read; there is no answer. */
PL_MUST_CHECK
int pl_try_run(const struct pl_try_config *config, struct pl_err *err);
