/* pipeline_state: stops pipelines and starts them again. A stopped pipeline keeps its version and its outputs, and may be
 * updated. Its running jobs are killed, and runs give its stages no jobs until it is started: then one run brings its
 * outputs up to date.
 *
 *   running ──stop──▶ stopped by hand ──start──▶ running
 *      └──its source prunes it──▶ stopped by its source ──start, or its file comes back──▶ running */
#pragma once

#include "pipelined/db/writer/db.h"

#define PL_STOPPED_BY_HAND   "hand" /* values of pipeline.stopped */
#define PL_STOPPED_BY_SOURCE "source"

struct pl_pipeline_state_args {
    const char *project, *name;
    bool stop; /* false: start it */
    /* out: */
    bool changed;            /* false: it was stopped, or running, already */
    char run[PL_ID_HEX + 1]; /* a start's run; "" = none, because no stage has anything to read */
};

/* Stops or starts a pipeline. arg: struct pl_pipeline_state_args. PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_tx_pipeline_state(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Records that the pipeline is stopped by `who`, PL_STOPPED_…, or with "" that it runs; with an event. */
PL_MUST_CHECK
int pl_pipeline_state_emit(struct pl_tx *tx, const char *project, const char *name, const char *who, struct pl_err *err);
/* Refuses a run of a stopped pipeline: PL_ECONFLICT. A pipeline that does not exist is no error. */
PL_MUST_CHECK
int pl_pipeline_check_runs(struct pl_conn *c, const char *project, const char *name, struct pl_err *err);
