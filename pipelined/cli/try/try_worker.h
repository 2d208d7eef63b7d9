/* try_worker: runs `pipelined-worker --try`: writes the worker's request (format:
 * pipelined/agent/worker/try_datum.h), starts the worker, waits for it, and reads its answer. */
#pragma once

#include "pipelined/cli/try/try_folder.h"

/* Describes the datum to run and how; everything is borrowed. */
struct pl_cli_try {
    struct pl_cli *c;
    const struct pl_stage *stage;
    const char *pipeline, *project;
    const char *run; /* id of the run, 32 hex digits; all zeros if the inputs come from no run */
    const struct pl_cli_try_folder *folder;
    const struct pl_cli_try_inputs *inputs;
    /* the plan with the datum; its datum keys are computed from the contents of the files */
    const struct pl_plan *plan;
    size_t datum;
    struct pl_hash code_root; /* root of the tree with the stage's code; zero = the stage has no code */
    const char *out;          /* folder to which the output is written; NULL = the output is discarded */
    const char *sandbox;      /* kind of sandbox: "bwrap" or "none" */
    const char *podman;       /* podman's name or path, for the stage's image; "" = images are not used */
    json_t *gpus;             /* numbers of the GPU devices to use */
    bool shell;
    const char *secrets; /* folder with the project's secrets; NULL = none */
    /* address and token of the daemon from which inputs are read; NULL = all inputs are local */
    const char *url, *token;
};

/* Runs the datum; the command's output goes to the terminal. `ret` receives the worker's answer, which the
 * caller owns. PL_ECANCELED: interrupted; PL_EIO: the worker ended without an answer; errors that the worker
 * reported. */
PL_MUST_CHECK
int pl_cli_try_run(const struct pl_cli_try *t, json_t **ret, struct pl_err *err);
