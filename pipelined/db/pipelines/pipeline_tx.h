/* pipeline_tx: transactions on pipelines. A spec becomes a pipeline version, its stages' output repos, the repos it asks for, and a run of
 * the stages that are new or changed and have something to read. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "pipelined/spec/spec.h"

#define PL_PIPELINE_TEXT_MAX (2u << 20) /* bytes of all stages with their defaults: written within the transaction */

/* What belongs to one stage beside the spec; in the order of spec->stages. */
struct pl_stage_code {
    struct pl_hash root;     /* tree of its code folder, zero = none */
    struct pl_hash identity; /* pl_stage_code_identity */
    json_t *git;             /* {head, dirty, path}; borrowed, NULL = none */
};

struct pl_pipeline_args {
    const struct pl_spec *spec;
    const struct pl_stage_code *code;
    struct pl_hash user_spec, effective_spec; /* stored as blobs already */
    const char *filename;
    const struct pl_pack_set *stands_on; /* hidden packs of code and specs, which live again with it; NULL = none */
    bool update;                         /* it may exist */
    bool dry_run;                        /* everything is checked, nothing is kept: returns PL_ECANCELED */
    bool confirmed;                      /* whatever it costs */
    int64_t confirm_above_s;             /* of GPUs: an update that may take more must be confirmed; −1 = none need be */
    json_t *records, *texts;             /* of pl_pipeline_prepare, as what follows */
    int64_t newest_stage;                /* at which it closed no circle; −1 = it does */
    /* out */
    bool changed;
    int64_t version;
    char run[PL_ID_HEX + 1]; /* "" = nothing to run yet */
    int64_t gpu_s;           /* what it may take, as update_price.h says */
    json_t *changes; /* [{stage, change: "new"|"changed"|"unchanged"|"removed", what, again (update_price.h)}]; new reference */
};

/* Makes what the transaction writes of each stage, and what it compares with the stage that stands, and looks for a circle through other pipelines:
 * before the transaction, in which all other writers would wait for that. pl_pipeline_args_finish releases it, and `changes`. PL_ELIMIT: more than
 * PL_PIPELINE_TEXT_MAX. */
PL_MUST_CHECK
int pl_pipeline_prepare(struct pl_pipeline_args *a, struct pl_db *db, struct pl_err *err);
void pl_pipeline_args_finish(struct pl_pipeline_args *a);
/* arg: struct pl_pipeline_args, prepared. Holds the writer for some 50 µs a stage: PL_SPEC_STAGES_MAX. PL_EEXISTS (create of an existing one), PL_EINUSE (a name belongs to another pipeline or to a plain repo),
 * PL_ENOTFOUND (an input repo), PL_EINVAL (a circle through other pipelines), PL_ECONFIRM (above `confirm_above_s`). */
PL_MUST_CHECK
int pl_tx_pipeline_set(struct pl_tx *tx, void *arg, struct pl_err *err);

/* [project, stage] of the stages that are wanted, or read one that runs, and can run: each input has a commit, or comes from a stage of
 * the spec that can. `wanted`: one a stage. Put at the end of the array `ret`. */
PL_MUST_CHECK
int pl_pipeline_stages_to_run(struct pl_tx *tx, const struct pl_spec *spec, const bool *wanted, json_t *ret, struct pl_err *err);

struct pl_pipeline_delete_args {
    const char *project, *name;
    bool keep_repos; /* output repos stay, as plain results */
    bool force;      /* although other pipelines read them */
};

/* PL_ENOTFOUND; PL_EINUSE. */
PL_MUST_CHECK
int pl_tx_pipeline_delete(struct pl_tx *tx, void *arg, struct pl_err *err);
