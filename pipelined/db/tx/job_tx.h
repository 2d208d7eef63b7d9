/* job_tx: transactions on runs and jobs. Final results go through the log; progress is unlogged and local to this
 * machine. */
#pragma once

#include "pipelined/db/writer/db.h"

/* What subscribers are told of a job's row that was written. */
enum pl_job_tell {
    PL_JOB_TELL_STATE,    /* a "job" event: state, reason and figures */
    PL_JOB_TELL_PROGRESS, /* a "progress" event: only its datums have changed */
    PL_JOB_TELL_NOTHING
};

/* A job's row as the engine keeps it. Texts and JSON are borrowed. */
struct pl_job_args {
    int64_t id; /* row id, 0 = unknown: found by (run, project, stage) */
    const char *run, *project, *stage, *pipeline;
    int64_t version;
    const char *state, *reason, *base, *output;
    struct pl_hash code;
    json_t *inputs, *warnings, *counts, *ms, *bytes;
    int64_t created_us, started_us, finished_us;
    uint64_t live; /* number of the job in the scheduler */
    bool planned;
    enum pl_job_tell tell; /* only for pl_tx_job_progress */
};

/* Unlogged: inserts or updates the row of an unfinished job, with the event that `tell` names. */
PL_MUST_CHECK
int pl_tx_job_progress(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Called in the transaction that commits the job's output. Checks that the job has not ended, and that the
 * stage version that the job runs still exists; a newer version may be current. PL_ECANCELED otherwise. */
PL_MUST_CHECK
int pl_tx_job_may_commit(struct pl_tx *tx, const struct pl_job_args *job, struct pl_err *err);
/* Logged: records the final result, with a "job" event. */
PL_MUST_CHECK
int pl_tx_job_end(struct pl_tx *tx, void *arg, struct pl_err *err);

struct pl_run_args {
    const char *id, *cause, *message, *state, *reason;
    json_t *stages; /* borrowed; [[project, stage]…] to run although no input has changed; NULL = none */
    const char *of; /* the earlier run whose jobs this run repeats, or NULL */
    const char *as; /* the separate branch that gets the run's outputs (rerun_branch.h), or NULL */
};
/* Logged: creates a run for a new pipeline or at a user's request (runs of a push are created with the
 * commit), and writes a "run" event. */
PL_MUST_CHECK
int pl_tx_run_create(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Writes to the transaction log. Creates the run for branches whose heads changed without a push. The run executes all stages that
 * read one of `branches`, a list of branch names. `ret_run` is the run's id, or "" if no stage reads these
 * branches and no run was created. */
PL_MUST_CHECK
int pl_tx_run_readers(struct pl_tx *tx, const char *project, const char *repo, const json_t *branches, const char *cause,
                      const char *message, char ret_run[PL_ID_HEX + 1], struct pl_err *err);
/* Logged: ends a run, with a "run" event. A run that was stopped without a reason gets that of most of its jobs. */
PL_MUST_CHECK
int pl_tx_run_end(struct pl_tx *tx, void *arg, struct pl_err *err);

/* Returns the JSON of a job, as in the log's record; new reference. */
json_t *pl_job_json(const struct pl_job_args *job);
