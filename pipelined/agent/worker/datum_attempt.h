/* datum_attempt: one attempt at one datum, in the steps that the worker's threads perform (datum_flow.h). It
 * records the time and bytes of each step, and a reason that a user can read if the datum failed.
 *
 *   fetch: inputs to WORK/next ──▶ compute: inputs in place, command ──▶ take: output to WORK/done ──▶ upload
 *
 * Each step continues with the outcome of the previous step. Once the outcome has a reason for failure, or
 * the datum is given back, the later steps do nothing for it. Each step belongs to one thread. */
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

/* bytes of output sent to the log per attempt; the rest is replaced by a notice */
#define PL_DATUM_LOG_MAX (64ull << 20)
/* time in ms that a command may continue after the agent was told to stop */
#define PL_DATUM_GRACE_MS 2000
/* if fewer bytes are free, the disk of the work folder counts as full */
#define PL_DATUM_FULL_BYTES (1u << 20)

/* Objects that all datums of the worker share. */
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
    struct pl_batch *batch;           /* NULL = not a batch stage */
    struct pl_checkpoint *checkpoint; /* NULL = the stage has no checkpoints */
    struct pl_early *early;           /* NULL = outputs are read only at the end */
    struct pl_gpu_meter *gpu;         /* NULL = GPU use is not measured */
    struct pl_secrets *secrets;       /* NULL = the command receives no secrets */
    /* set when the agent stops */
    const atomic_bool *stopping;
    /* Runs in place of the stage's command, with the command's environment (NAME=value, NULL-terminated) and
     * working directory. NULL = run the command. */
    int (*by_hand)(const struct pl_datum_context *c, const char *const *env, const char *cwd, struct pl_agent_protocol_outcome *o,
                   struct pl_err *err);
    /* the folder that commands write to */
    struct pl_out_folder out;
    /* number of processes that this machine's kernel had killed for lack of memory before the command */
    uint64_t oom_seen;
};

/* Fetches the bytes of the datum's inputs while the previous datum's inputs still wait to be put in place
 * (inputs.h). Does not fail: pl_datum_fetch reports problems. */
void pl_datum_fetch_ahead(struct pl_datum_context *c, const struct pl_agent_protocol_task *task,
                          const struct pl_agent_protocol_datum *row, struct pl_agent_protocol_outcome *o);
/* Builds the datum's inputs in WORK/next. PL_ENOSPC, only if not `alone`: call it again when no other datum
 * is in progress, because there may be space then. Otherwise returns 0, and the outcome says whether the
 * datum failed. */
PL_MUST_CHECK
int pl_datum_fetch(struct pl_datum_context *c, const struct pl_agent_protocol_task *task,
                   const struct pl_agent_protocol_datum *row, bool alone, struct pl_agent_protocol_outcome *o);
/* Puts the inputs in place, calls `placed` (may be NULL), and runs the command. `placed` is called even if
 * the command is not run; after it the next datum's inputs may be built. Returns 0 also if the datum failed.
 * Negative: the worker cannot continue. */
PL_MUST_CHECK
int pl_datum_compute(struct pl_datum_context *c, const struct pl_agent_protocol_task *task,
                     const struct pl_agent_protocol_datum *row, void (*placed)(void *self), void *self,
                     struct pl_agent_protocol_outcome *o, struct pl_err *err);
/* Moves what the command left in its output folder to the empty folder `to`. Returns 1, or 0 if it left
 * nothing. PL_EIO: the output folder cannot be emptied; the worker cannot continue. */
PL_MUST_CHECK
int pl_datum_take(struct pl_datum_context *c, const char *to, struct pl_agent_protocol_outcome *o);
/* Stores the output in the folder `from` (NULL = no output) as entries of the outcome. Returns 0 also if the
 * output cannot be kept. Negative: the daemon does not accept the output, and would not accept that of the
 * task's other datums either. */
PL_MUST_CHECK
int pl_datum_upload(struct pl_datum_context *c, const struct pl_agent_protocol_datum *row, const char *from,
                    struct pl_agent_protocol_outcome *o);
/* Returns the number of processes that the kernel of this machine has killed for lack of memory since it
 * started; 0 = unknown. */
uint64_t pl_datum_oom_count(void);
/* Returns the free bytes on the work folder's disk; UINT64_MAX = unknown. */
uint64_t pl_datum_disk_left(const struct pl_datum_context *c);
