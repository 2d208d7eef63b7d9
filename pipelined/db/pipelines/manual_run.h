/* manual_run: a run that somebody asked for: stages of a pipeline over their inputs' heads, though no input moved. */
#pragma once

#include "pipelined/db/writer/db.h"

struct pl_manual_run_args {
    const char *project, *pipeline;
    const char *stage; /* that one, and what follows from it; NULL = all of the pipeline */
    bool force;        /* every datum of theirs is run again */
    /* out */
    char run[PL_ID_HEX + 1];
    json_t *stages; /* [project, stage(, "force")] of each that the run begins with; new reference */
};

/* arg: struct pl_manual_run_args. PL_ENOTFOUND: pipeline or stage; PL_EINVAL: nothing to read yet, naming the repo. */
PL_MUST_CHECK
int pl_tx_manual_run(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Does the run want every datum of this stage run again? */
PL_MUST_CHECK
int pl_db_run_is_forced(struct pl_conn *c, const char *run, const char *project, const char *stage, bool *ret,
                        struct pl_err *err);
