/* rerun: a run that repeats the jobs of an earlier run over the commits that those jobs read, or tries some of the failed
 * datums of one of its jobs again. */
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
    bool alone; /* the new run has only the job that is checked: no other job of it writes an input first */
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

/* Some of the failed datums of one job are tried again, and the stages downstream of it run after it. */
struct pl_retry_args {
    const char *of; /* id of the job's run */
    const char *project, *stage;
    /* failed datums that are not tried again: {"failed": [datum id…], "recovered": [datum id…]}, borrowed. At most
     * PL_RETRY_UNTRIED_MAX ids, which the run's record keeps */
    json_t *untried;
    const char *what; /* names the datums in the run's message: "3 datums of decode" */
    struct pl_run_asker asker;
    /* out: */
    char run[PL_ID_HEX + 1];
};
#define PL_RETRY_UNTRIED_MAX 1000u

/* Creates the run. arg: struct pl_retry_args. PL_ENOTFOUND: the run has no such job; PL_EINUSE: the job has not ended;
 * PL_ECONFLICT: an input or the stage has changed since, so that other datums would run too; PL_ELIMIT. */
PL_MUST_CHECK
int pl_tx_retry(struct pl_tx *tx, void *arg, struct pl_err *err);
