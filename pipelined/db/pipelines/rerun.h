/* rerun: a run that repeats the jobs of an earlier run over the commits that those jobs read. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "pipelined/db/writer/name_lookup.h"

struct pl_rerun_args {
    const char *of; /* id of the earlier run */
    /* true: repeat only jobs that did not succeed, and reuse the datums that they finished; false: run every
     * datum of every job again */
    bool failed;
    /* separate branch for the outputs (db/tx/rerun_branch.h); with it the inputs may have changed since the
     * earlier run. NULL = write the stages' own branches */
    const char *as;
    struct pl_run_asker asker;
    /* out: */
    char run[PL_ID_HEX + 1];
    json_t *stages; /* [project, stage(, "force")]; new reference */
};

/* Creates the run. arg: struct pl_rerun_args. PL_ENOTFOUND: no such run, or it has no jobs to repeat;
 * PL_EINUSE: the earlier run has not ended; PL_ECONFLICT: an input or a stage has changed since, so the
 * result would differ; also the errors of pl_rerun_branch_check and pl_name_check. */
PL_MUST_CHECK
int pl_tx_rerun(struct pl_tx *tx, void *arg, struct pl_err *err);
