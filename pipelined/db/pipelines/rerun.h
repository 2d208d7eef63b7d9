/* rerun: a run that does the jobs of an earlier one again, over the very commits that those read. */
#pragma once

#include "pipelined/db/writer/db.h"

struct pl_rerun_args {
    const char *of; /* id of the run */
    bool failed;    /* only what did not end well, going on with what was finished; else every datum of every job */
    const char *as; /* NULL, or the branch to which the outputs go: inputs may have moved then (aside.h) */
    /* out */
    char run[PL_ID_HEX + 1];
    json_t *stages; /* [project, stage(, "force")]; new reference */
};

/* arg: struct pl_rerun_args. PL_ENOTFOUND: no such run, or nothing of it to do again; PL_EINUSE: it is not over; PL_ECONFLICT: an input or a
 * stage has changed since, so that it would be another computation; as pl_rerun_branch_check and pl_name_check. */
PL_MUST_CHECK
int pl_tx_rerun(struct pl_tx *tx, void *arg, struct pl_err *err);
