/* pipeline_tx: transactions on pipelines. A spec becomes a pipeline version, with the output repos of its
 * stages, the repos that the spec declares, and a run of the stages that are new or changed and have inputs
 * to read. */
#pragma once

#include "pipelined/db/tx/repo_tx.h"
#include "pipelined/db/writer/db.h"
#include "pipelined/spec/spec.h"

/* most bytes of the specs of all stages, with defaults, that one transaction writes */
#define PL_PIPELINE_TEXT_MAX (2u << 20)

/* Data about one stage that is not in the spec. Arrays of it have the order of spec->stages. */
struct pl_stage_code {
    struct pl_hash root;     /* root of its code folder's tree; zero = none */
    struct pl_hash identity; /* from pl_stage_code_identity */
    json_t *git;             /* {head, dirty, path} of the code folder; borrowed, NULL = none */
};

/* Pipelines that one transaction sets, whose stages run together. Zero it before the first. */
struct pl_pipeline_batch {
    char run[PL_ID_HEX + 1]; /* id of the run that all new versions start */
    json_t *stages;          /* [project, stage] of all stages to run; new reference */
};

struct pl_pipeline_args {
    const struct pl_spec *spec;
    const struct pl_stage_code *code;
    /* blobs, stored before, with the spec as the user wrote it and with the spec after defaults */
    struct pl_hash user_spec, effective_spec;
    const char *filename;
    /* condemned packs that contain the code or the specs; the transaction revives them; NULL = none */
    const struct pl_pack_set *stands_on;
    /* The git commit that the spec comes from: {source, url, branch, commit, path, author, message, at}; borrowed.
     * NULL = it is set by hand, which a pipeline that follows a source refuses unless `detach`: from then on that source
     * leaves it alone. */
    json_t *origin;
    const char *by;   /* who sets it by hand; "" or NULL = not known */
    json_t *defaults; /* fields that the defaults outside of the spec set (pl_spec_default_paths); borrowed, NULL = not known */
    bool detach;
    /* Set together with others: the caller creates the run. NULL = the transaction creates it. */
    struct pl_pipeline_batch *batch;
    bool update;             /* the pipeline may exist */
    bool dry_run;            /* check everything but change nothing: returns PL_ECANCELED */
    bool confirmed;          /* the user has confirmed the cost */
    int64_t confirm_above_s; /* GPU seconds above which an update must be confirmed; −1 = never */
    json_t *records, *texts; /* set by pl_pipeline_prepare, like newest_stage */
    /* highest row id of a stage at the time when no cycle was found; −1 = a cycle was found */
    int64_t newest_stage;
    /* out: */
    bool skipped; /* it was detached from the source, and nothing was done */
    bool changed;
    bool follows;        /* a repo that follows a git repository was created */
    bool stopped;        /* the pipeline is stopped, and stays so: the new version does not run */
    bool restarted;      /* its source had stopped it, and it runs again */
    json_t *kept_origin; /* {"detached": source} of a pipeline that is set by hand; NULL = none; new reference */
    int64_t version;
    char run[PL_ID_HEX + 1]; /* id of the run; "" = no stage can run yet */
    int64_t gpu_s;           /* estimated GPU seconds (update_cost.h) */
    /* [{stage, change: "new"|"changed"|"unchanged"|"removed", what, again}]; `what` and `again` are described
     * in update_cost.h; new reference */
    json_t *changes;
};

/* Prepares the transaction: makes the records that it writes and the texts that it compares, and looks for a
 * cycle through other pipelines. This is done before the transaction, because other writers would have to
 * wait. Release with pl_pipeline_args_finish, which also releases `changes`. PL_ELIMIT: the stages exceed
 * PL_PIPELINE_TEXT_MAX. Blocks until a connection is free; call it on a pool thread. */
PL_MUST_CHECK
int pl_pipeline_prepare(struct pl_pipeline_args *a, struct pl_db *db, struct pl_err *err);
void pl_pipeline_args_finish(struct pl_pipeline_args *a);
/* Creates or updates the pipeline. arg: struct pl_pipeline_args, prepared. Occupies the writer thread for
 * about 50 µs per stage (at most PL_SPEC_STAGES_MAX stages). PL_EEXISTS: create, but the pipeline exists;
 * PL_EINUSE: a name belongs to another pipeline or to an input repo, or the pipeline to a source; PL_ENOTFOUND: an input repo does not
 * exist; PL_EINVAL: a cycle through other pipelines; PL_ECONFIRM: the cost is above `confirm_above_s`. */
PL_MUST_CHECK
int pl_tx_pipeline_set(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Creates the run of a batch, if it has stages to run. `message` is shown with it. Call it after the last
 * pl_tx_pipeline_set of the batch. */
PL_MUST_CHECK
int pl_pipeline_batch_run(struct pl_tx *tx, struct pl_pipeline_batch *batch, const char *message, struct pl_err *err);

/* Appends [project, stage] to the array `ret` for each stage to run. A stage is to run if it can run, and it
 * is wanted or reads another stage that is to run. A stage can run if each of its inputs has a commit or
 * comes from a stage of the spec that is to run. `wanted` has one entry per stage. */
PL_MUST_CHECK
int pl_pipeline_stages_to_run(struct pl_tx *tx, const struct pl_spec *spec, const bool *wanted, json_t *ret, struct pl_err *err);

struct pl_pipeline_delete_args {
    const char *project, *name;
    bool keep_repos;            /* keep the output repos with their data, as input repos (pl_repo_row.kept) */
    bool force;                 /* delete even if other pipelines read the output repos */
    bool by_source;             /* its source deletes it, because its file is gone */
    bool dry_run;               /* do all, then return PL_ECANCELED, which undoes it */
    struct pl_told told;        /* who gets the refusal */
    struct pl_delete_loss loss; /* out: what goes with its output repos */
    json_t *outputs;            /* an array to which the names of its output repos are added; borrowed, NULL = none */
};

/* Deletes the pipeline. arg: struct pl_pipeline_delete_args. PL_ENOTFOUND: no such pipeline; PL_EINUSE:
 * another pipeline reads an output repo, or a file of the pipeline's source sets it. */
PL_MUST_CHECK
int pl_tx_pipeline_delete(struct pl_tx *tx, void *arg, struct pl_err *err);
