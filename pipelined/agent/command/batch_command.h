/* batch: the command of a batch stage, which stays alive for all datums of its worker (a model is loaded once). To the caller one datum
 * after another is run; between two of them the command stands still in pl-next.
 *
 *   down ──run: start──▶ starting ──asks──▶ at a datum ──asks: done, or failed with a message──▶ waiting ──run: "ok"──▶ at a datum …
 *                            └──────ends──────────┴─▶ down                                        └──end: "end"──▶ down
 *
 * It leaves a datum undone when it ends: with 0 it is started again for the same datum, as long as each life gets something done;
 * otherwise the datum it was at, or was started for, has failed. One thread (the worker's). */
#pragma once

#include "pipelined/agent/command/command_env.h"
#include "pipelined/agent/command/output_folder.h"
#include "pipelined/agent/command/runner_client.h"
#include "pipelined/net/agent_protocol/agent_protocol.h"

#define PL_BATCH_IDLE_LIVES 2     /* so many in a row that end with 0 and get nothing done are an error */
#define PL_BATCH_LEAVE_MS   10000 /* what the command may take to leave after it was told that there is no more */

struct pl_batch;

enum pl_batch_end {
    PL_BATCH_DONE,   /* it asked for the next datum */
    PL_BATCH_FAILED, /* it said that the datum failed: `message` */
    PL_BATCH_ENDED,  /* it ended, was killed or timed out: `run` */
    PL_BATCH_IDLE,   /* it ended with 0 again and again and got nothing done */
};

struct pl_batch_result {
    enum pl_batch_end end;
    struct pl_command_result
        run; /* of DONE and FAILED only the wall time counts: the processor time of a life is known at its end */
    char message[1024];
};

/* Makes the socket. All arguments must outlive it. */
PL_MUST_CHECK
int pl_batch_create(struct pl_runner_client *runner, const struct pl_sandbox_config *sandbox,
                    const struct pl_sandbox_paths *paths, struct pl_env *env, struct pl_out_folder *out, struct pl_batch **ret,
                    struct pl_err *err);
/* Does not end the command: that is pl_batch_leave's, or the runner's when it is stopped. */
struct pl_batch *pl_batch_destroy(struct pl_batch *b);

/* Runs one datum, whose inputs are in place: writes /pfs/.env and /pfs/.datum.json, starts the command when it is not up, and comes back
 * when the datum is over. Of `command` argv, cwd, timeout_ms (of this datum) and the callbacks count. PL_EIO: the runner is lost. */
PL_MUST_CHECK
int pl_batch_run(struct pl_batch *b, const struct pl_runner_command *command, const struct pl_agent_protocol_task *task,
                 const struct pl_agent_protocol_datum *row, struct pl_batch_result *ret, struct pl_err *err);
/* There are no more datums: waits until the command has left, at most PL_BATCH_LEAVE_MS, then kills it. */
void pl_batch_leave(struct pl_batch *b);
