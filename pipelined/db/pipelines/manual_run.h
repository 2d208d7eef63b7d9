/* manual_run: starts a run at a user's request. It runs stages of a pipeline over the heads of their inputs,
 * although no input has changed. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "pipelined/db/writer/name_lookup.h"

struct pl_manual_run_args {
    const char *project, *pipeline;
    const char *stage; /* run this stage and those downstream of it; NULL = all stages of the pipeline */
    bool force;        /* run every datum of the stages in `stages` again; reuse no earlier result */
    bool may_be_none;  /* if no stage has a commit to read, make no run */
    bool dry_run;      /* make no run: fill `stages`, then fail with PL_ECANCELED */
    struct pl_run_asker asker;
    /* out: */
    char run[PL_ID_HEX + 1]; /* "" = none was made */
    json_t *stages;          /* [project, stage(, "force")] of each stage with which the run begins; new reference */
};

/* Creates the run. arg: struct pl_manual_run_args. PL_ENOTFOUND: no such pipeline or stage; PL_ECONFLICT:
 * the pipeline is stopped; PL_EINVAL: no wanted stage has a commit to read; the message names the repo. */
PL_MUST_CHECK
int pl_tx_manual_run(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Sets *ret to true if the run must run every datum of this stage again. */
PL_MUST_CHECK
int pl_db_run_is_forced(struct pl_conn *c, const char *run, const char *project, const char *stage, bool *ret,
                        struct pl_err *err);
