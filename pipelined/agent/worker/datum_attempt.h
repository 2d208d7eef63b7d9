/* datum: one attempt at one datum, in the steps that the worker's threads do (flow.h), with the seconds and bytes of each and a verdict that
 * a person can read.
 *
 *   fetch: inputs aside ──▶ compute: inputs in place, command ──▶ take: output aside ──▶ upload: entries, bytes in packs
 *
 * A step finds the outcome as the one before left it: once there is a reason why the datum failed, or it is given back, nothing more is
 * done for it. Each step belongs to one thread. */
#pragma once

#include "pipelined/agent/command/batch_command.h"
#include "pipelined/agent/command/command_env.h"
#include "pipelined/agent/command/gpu_sampler.h"
#include "pipelined/agent/command/output_folder.h"
#include "pipelined/agent/command/runner_client.h"
#include "pipelined/agent/connection/output_log.h"
#include "pipelined/agent/connection/task_lease.h"
#include "pipelined/agent/inputs/folder_move.h"
#include "pipelined/agent/inputs/inputs.h"
#include "pipelined/agent/outputs/datum_checkpoint.h"
#include "pipelined/agent/outputs/early_upload.h"
#include "pipelined/agent/outputs/metrics_file.h"
#include "pipelined/agent/outputs/outputs.h"

#define PL_DATUM_LOG_MAX    (64ull << 20) /* of output per attempt; then it is cut with a notice */
#define PL_DATUM_GRACE_MS   2000          /* what a command may still run when the agent is told to end */
#define PL_DATUM_FULL_BYTES (1u << 20)    /* less free than this: the disk of the work folder is full */

/* What the worker's datums share. */
struct pl_datum_context {
    const struct pl_agent_protocol_attach *stage;
    const struct pl_sandbox_config *sandbox;
    const struct pl_sandbox_paths *paths;
    struct pl_runner_client *runner;
    struct pl_inputs *inputs;
    struct pl_input_references refs;
    struct pl_outputs_store *store;
    struct pl_env *env;
    struct pl_lease *lease;
    struct pl_outlog *outlog;
    struct pl_batch *batch;           /* of a batch stage, else NULL */
    struct pl_checkpoint *checkpoint; /* NULL: the stage has none */
    struct pl_early *early;           /* NULL: outputs are read at the end alone */
    struct pl_gpu_meter *gpu;         /* NULL: not measured */
    struct pl_secrets *secrets;       /* NULL: the command is given none */
    const atomic_bool *stopping;
    /* In place of the stage's command, with its environment (NAME=value, NULL-terminated) and working directory; NULL: the command. */
    int (*by_hand)(const struct pl_datum_context *c, const char *const *env, const char *cwd, struct pl_agent_protocol_outcome *o,
                   struct pl_err *err);
    struct pl_out_folder out;
    uint64_t oom_seen; /* the machine's count of processes killed for memory */
};

/* Fetches bytes of the inputs while those of the row before wait (inputs.h). Cannot fail: pl_datum_fetch says what is wrong. */
void pl_datum_fetch_ahead(struct pl_datum_context *c, const struct pl_agent_protocol_task *task,
                          const struct pl_agent_protocol_datum *row, struct pl_agent_protocol_outcome *o);
/* Builds the inputs aside. PL_ENOSPC, of a row that is not `alone`: there may be room once the others are through; try again then.
 * Otherwise 0: the outcome says what became of it. */
PL_MUST_CHECK
int pl_datum_fetch(struct pl_datum_context *c, const struct pl_agent_protocol_task *task,
                   const struct pl_agent_protocol_datum *row, bool alone, struct pl_agent_protocol_outcome *o);
/* Puts the inputs in place, calls `placed` unless NULL (the next ones may be built; also when this row is not run) and runs the command. 0 also when
 * the datum failed. Negative: the worker cannot go on. */
PL_MUST_CHECK
int pl_datum_compute(struct pl_datum_context *c, const struct pl_agent_protocol_task *task,
                     const struct pl_agent_protocol_datum *row, void (*placed)(void *self), void *self,
                     struct pl_agent_protocol_outcome *o, struct pl_err *err);
/* Moves what the command left to the empty folder `to`: 1; 0: it left nothing. PL_EIO: the output folder cannot be emptied; the worker
 * cannot go on. */
PL_MUST_CHECK
int pl_datum_take(struct pl_datum_context *c, const char *to, struct pl_agent_protocol_outcome *o);
/* Makes the output, which lies in `from` (NULL: there is none), entries of the outcome. 0 also when it cannot be kept. Negative: the daemon does not take it, and
 * the same is to be expected of the task's other rows. */
PL_MUST_CHECK
int pl_datum_upload(struct pl_datum_context *c, const struct pl_agent_protocol_datum *row, const char *from,
                    struct pl_agent_protocol_outcome *o);
/* Processes of this machine killed for want of memory since it started; 0 when unknown. */
uint64_t pl_datum_oom_count(void);
