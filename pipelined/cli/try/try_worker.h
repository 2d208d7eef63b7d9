/* try_worker: `pipelined-worker --try` from this side: what it is asked (pipelined/agent/worker/try_datum.h), started, waited for, and its answer. */
#pragma once

#include "pipelined/cli/try/try_folder.h"

struct pl_cli_try {
    struct pl_cli *c;
    const struct pl_stage *stage;
    const char *pipeline, *project;
    const char *run; /* 32 hex; zeros when the inputs are no run's */
    const struct pl_cli_try_folder *folder;
    const struct pl_cli_try_inputs *inputs;
    const struct pl_plan *plan; /* over contents */
    size_t datum;
    struct pl_hash code_root; /* zero: no code */
    const char *out;          /* NULL: thrown away */
    const char *sandbox;      /* "bwrap", "none" */
    json_t *gpus;             /* numbers of devices */
    bool shell;
    const char *secrets;     /* folder of the project's; NULL: there is none here */
    const char *url, *token; /* of the daemon that has inputs; NULL when none has */
};

/* Runs the datum; its output is on the terminal. The answer: the caller's reference. PL_ECANCELED after an interrupt; PL_EIO when the agent
 * ended without an answer; errors of the agent as it gave them. */
PL_MUST_CHECK
int pl_cli_try_run(const struct pl_cli_try *t, json_t **ret, struct pl_err *err);
