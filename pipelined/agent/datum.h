/* datum: one attempt at one datum: inputs in place → command → output captured, with the seconds and bytes of each and a verdict that a
 * person can read. One thread (the worker's). */
#pragma once

#include "pipelined/agent/batch.h"
#include "pipelined/agent/checkpoint.h"
#include "pipelined/agent/env.h"
#include "pipelined/agent/gpu.h"
#include "pipelined/agent/inputs.h"
#include "pipelined/agent/lease.h"
#include "pipelined/agent/metrics.h"
#include "pipelined/agent/outlog.h"
#include "pipelined/agent/outputs.h"
#include "pipelined/agent/runner_client.h"

#define PL_DATUM_LOG_MAX    (64ull << 20) /* of output per attempt; then it is cut with a notice */
#define PL_DATUM_GRACE_MS   2000          /* what a command may still run when the agent is told to end */
#define PL_DATUM_FULL_BYTES (1u << 20)    /* less free than this: the disk of the work folder is full */

/* What the worker's datums share. */
struct pl_datum_context {
    const struct pl_wire_attach *stage;
    const struct pl_sandbox_config *sandbox;
    const struct pl_sandbox_paths *paths;
    struct pl_runner_client *runner;
    struct pl_inputs *inputs;
    struct pl_outputs_store *store;
    struct pl_env *env;
    struct pl_lease *lease;
    struct pl_outlog *outlog;
    struct pl_batch *batch;           /* of a batch stage, else NULL */
    struct pl_checkpoint *checkpoint; /* NULL: the stage has none */
    struct pl_gpu_meter *gpu;         /* NULL: not measured */
    const atomic_bool *stopping;
    /* In place of the stage's command, with its environment (NAME=value, NULL-terminated) and working directory; NULL: the command. */
    int (*by_hand)(const struct pl_datum_context *c, const char *const *env, const char *cwd, struct pl_wire_outcome *o,
                   struct pl_err *err);
    int out_fd;        /* WORK/pfs/out */
    uint64_t oom_seen; /* the machine's count of processes killed for memory */
};

/* Runs the row and fills `ret` (finish it with pl_wire_outcome_finish). Returns 0 also when the datum failed: `ret` says so. ret->gave_back:
 * it was not run to its end (told to stop, not wanted any more, the daemon away for too long). Negative: the worker cannot go on. */
PL_MUST_CHECK
int pl_datum_run(struct pl_datum_context *c, const struct pl_wire_task *task, const struct pl_wire_row *row,
                 struct pl_wire_outcome *ret, struct pl_err *err);
/* Processes of this machine killed for want of memory since it started; 0 when unknown. */
uint64_t pl_datum_oom_count(void);
