/* run_wait: waits for runs, for `wait run` and for the option --wait of the commands that start runs. */
#pragma once

#include "pipelined/cli/support/cli.h"
#include "pipelined/cli/support/show.h"

/* Row of an option table. */
#define PL_CLI_WAIT                                                                                                              \
    {                                                                                                                            \
        "wait", 0, NULL,                                                                                                         \
            "wait until the run that this starts has ended, and print its result (with --json: the run); exit 1 if it failed"    \
    }

/* Waits until a run has ended and prints the result of the run and its jobs. `text`: a run's id or the start of one, or
 * REPO@REF, as in the help of `wait run`. `timeout_ms`: 0 = no limit. PL_ESTAGE: the run did not succeed; PL_ETIMEOUT. */
PL_MUST_CHECK
int pl_cli_run_wait(struct pl_cli *c, const char *text, int64_t timeout_ms, struct pl_err *err);
/* Waits until the run `id` has ended, and prints no result. PL_ESTAGE: it did not succeed, or was superseded. */
PL_MUST_CHECK
int pl_cli_run_success(struct pl_cli *c, const char *id, struct pl_err *err);
/* Finishes the open commit in which a branch gathers puts during commit_window; does nothing if there is none. */
PL_MUST_CHECK
int pl_cli_branch_flush(struct pl_cli *c, const char *project, const char *repo, const char *branch, struct pl_err *err);
/* Ends a command whose answer has a member "run": the id of the run that it started, "" = none. With --wait, waits for that
 * run as pl_cli_run_wait does. Otherwise prints the answer with --json, or else what to type next. */
PL_MUST_CHECK
int pl_cli_run_started(struct pl_cli *c, const json_t *answer, struct pl_err *err);
