/* batch_command: the command of a batch stage, one process that stays alive for all datums of its worker, so
 * that it loads a model only once, for example. The caller runs one datum after another; between two datums
 * the command is blocked in pl-next.
 *
 *   down ──run: start──▶ starting ──asks for the next datum──▶ at a datum
 *   at a datum ──asks: done, or failed with a message──▶ waiting ──run: "ok"──▶ at a datum …
 *   waiting ──leave: "end"──▶ down
 *   starting, at a datum, waiting ──the command ends──▶ down
 *
 * If the command ends with exit code 0 in the middle of a datum, it is started again for the same datum, as
 * long as each process completes at least one datum. If it ends otherwise, the datum that it was processing,
 * or was started for, has failed. All calls on one thread, the worker's compute thread. */
#pragma once

#include "pipelined/agent/command/command_env.h"
#include "pipelined/agent/command/output_folder.h"
#include "pipelined/agent/command/runner_client.h"
#include "pipelined/net/agent_protocol/agent_protocol.h"

/* after this many consecutive processes that exit with 0 without completing a datum, the result is
 * PL_BATCH_IDLE */
#define PL_BATCH_IDLE_LIVES 2
/* time in ms for the command to exit after it was told that there are no more datums */
#define PL_BATCH_LEAVE_MS 10000

struct pl_batch;

/* How the run of one datum ended. */
enum pl_batch_end {
    PL_BATCH_DONE,   /* the command asked for the next datum */
    PL_BATCH_FAILED, /* the command reported that the datum failed; see `message` */
    PL_BATCH_ENDED,  /* the command ended, was killed or timed out; see `run` */
    /* PL_BATCH_IDLE_LIVES consecutive processes of the command exited with 0 without completing a datum */
    PL_BATCH_IDLE,
};

struct pl_batch_result {
    enum pl_batch_end end;
    /* resource use of the command; after PL_BATCH_DONE and PL_BATCH_FAILED only the wall time is set, because
     * the processor time is known only when the process ends */
    struct pl_command_result run;
    /* with PL_BATCH_FAILED: the command's message */
    char message[1024];
};

/* Creates the object and its socket WORK/sock/next. All arguments must outlive it. PL_ENOMEM, PL_EIO. */
PL_MUST_CHECK
int pl_batch_create(struct pl_runner_client *runner, const struct pl_sandbox_config *sandbox,
                    const struct pl_sandbox_paths *paths, struct pl_env *env, struct pl_out_folder *out, struct pl_batch **ret,
                    struct pl_err *err);
/* Frees the object without ending the command: call pl_batch_leave first, or stop the runner. */
struct pl_batch *pl_batch_destroy(struct pl_batch *b);

/* Runs one datum whose inputs are in place: writes /pfs/.env and /pfs/.datum.json, starts the command if it
 * is not running, and returns when the datum is over. The fields of `command` that count are argv, cwd,
 * timeout_ms (for this datum) and the callbacks. PL_EIO: the runner was lost, or the output folder cannot be
 * restored. */
PL_MUST_CHECK
int pl_batch_run(struct pl_batch *b, const struct pl_runner_command *command, const struct pl_agent_protocol_task *task,
                 const struct pl_agent_protocol_datum *row, struct pl_batch_result *ret, struct pl_err *err);
/* Tells the command that there are no more datums, waits at most PL_BATCH_LEAVE_MS for it to end, then kills
 * it. */
void pl_batch_leave(struct pl_batch *b);
