/* job_tx: rows of runs and jobs. What is final goes through the log; progress is of this machine. */
#pragma once

#include "pipelined/db/writer/db.h"

/* A job's row as the engine keeps it. Texts and JSON are borrowed. */
struct pl_job_args {
    int64_t id; /* row id, 0 = not known: by (run, project, stage) */
    const char *run, *project, *stage, *pipeline;
    int64_t version;
    const char *state, *reason, *base, *output;
    struct pl_hash code;
    json_t *inputs, *warnings, *counts, *ms, *bytes;
    int64_t created_us, started_us, finished_us;
    uint64_t live; /* the scheduler's number */
    bool planned;
};

/* Unlogged: inserts or updates the row of an unfinished job, with a "job" event. */
PL_MUST_CHECK
int pl_tx_job_progress(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Within a transaction that commits the job's output: it has not ended, and its stage (and the very version that it is of) is still
 * there, perhaps with a newer version. PL_ECANCELED otherwise. */
PL_MUST_CHECK
int pl_tx_job_may_commit(struct pl_tx *tx, const struct pl_job_args *job, struct pl_err *err);
/* Logged: the final result, with a "job" event. */
PL_MUST_CHECK
int pl_tx_job_end(struct pl_tx *tx, void *arg, struct pl_err *err);

struct pl_run_args {
    const char *id, *cause, *message, *state, *reason;
    json_t *stages; /* borrowed; [[project, stage]…] to run although no input moved; NULL = none */
    const char *of; /* the run whose jobs it does again, or NULL */
    const char *as; /* NULL, or aside: the branch that has its outputs */
};
/* Logged: a run that no push made (pipeline created, run by hand), with a "run" event. */
PL_MUST_CHECK
int pl_tx_run_create(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Logged: the run of a head that moved without a push: of all stages that read a branch of the list `branches` of texts. Its id into
 * `ret_run`, "" when nobody reads one: there is no run then. */
PL_MUST_CHECK
int pl_tx_run_readers(struct pl_tx *tx, const char *project, const char *repo, const json_t *branches, const char *cause,
                      const char *message, char ret_run[PL_ID_HEX + 1], struct pl_err *err);
/* Logged: its end, with a "run" event. */
PL_MUST_CHECK
int pl_tx_run_end(struct pl_tx *tx, void *arg, struct pl_err *err);

/* JSON of a job as events and API give it; new reference. */
json_t *pl_job_json(const struct pl_job_args *job);
