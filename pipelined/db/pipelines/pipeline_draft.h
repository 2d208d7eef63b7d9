/* pipeline_draft: a spec on its way to a pipeline version.
 *
 *   text ──parse──▶ spec ──code──▶ tree roots ──ready──▶ args for pl_tx_pipeline_set ──▶ transaction
 *
 * Nothing is visible before the transaction. One thread at a time; every step blocks: call them on a pool thread or
 * a thread of your own. */
#pragma once

#include "pipelined/db/pipelines/pipeline_tx.h"
#include "pipelined/db/tx/pack_state_tx.h"
#include "pipelined/policy/principal.h"
#include "pipelined/policy/project_secret.h"
#include "storage/base/effort.h"
#include "storage/store/store.h"

struct pl_project_stores;

/* What the steps need of the daemon; the same for all drafts. */
struct pl_pipeline_host {
    struct pl_db *db;
    struct pl_project_stores *stores;
    bool local;      /* stages run as processes of this machine */
    bool no_sandbox; /* they run without a sandbox */
    int64_t confirm_above_s;
    /* as in pl_engine_ops (engine.h), with `engine` as `self` */
    int (*check_stages)(void *self, const struct pl_spec *spec, bool strict, json_t *warnings, struct pl_err *err);
    void (*pipelines_changed)(void *self, const char *run);
    void (*run_created)(void *self, const char *run);
    int (*secrets)(void *self, const struct pl_secret_op *op, json_t **ret, struct pl_err *err);
    void *engine;
};

/* Zero it; set the first part; finish it. */
struct pl_pipeline_draft {
    const struct pl_pipeline_host *host;
    const struct pl_principal *who; /* must be allowed to define stages in the project and to read their inputs */
    const char *text, *filename;    /* the spec, with its NUL; the name in messages */
    /* {"project/repo": pipeline}: repos that drafts of the same transaction make; NULL = none. `pipeline`: the name of this
     * one, whose own repos do not count. */
    const json_t *beside;
    const char *pipeline;
    struct pl_effort effort; /* limit of the work that checking the code folders may cause */

    struct pl_spec *spec;
    struct pl_spec_errors problems;
    struct pl_stage_code *code;
    json_t *default_paths; /* pl_spec_default_paths of the defaults that the spec was parsed with */
    json_t *warnings;      /* list of texts, from the spec parser and the cluster */
    struct pl_pipeline_args args;
    struct pl_store_hold hold;
    /* packs that garbage collection has condemned (gc.h), but that the code folders need */
    struct pl_pack_set hidden;
};

/* Parses the spec with the defaults of its project; `project` is that of specs that name none, NULL = "default".
 * PL_EINVAL and other errors of pl_spec_parse, with file, line and column; PL_EFORBIDDEN; PL_ENOTFOUND: no such project. */
PL_MUST_CHECK
int pl_pipeline_draft_parse(struct pl_pipeline_draft *d, const char *project, struct pl_err *err);
/* Takes the tree roots of the stages' code folders, {STAGE: {"root", "git"?}}, which are in the project's store;
 * borrowed. NULL = no stage has one. PL_EINVAL; errors of pl_reachability_check_tree. */
PL_MUST_CHECK
int pl_pipeline_draft_code(struct pl_pipeline_draft *d, json_t *code, struct pl_err *err);
/* Asks the executor whether it can run the stages (`strict`: a doubt is an error), stores the spec, unless
 * args.dry_run is set, and completes d->args, whose fields of choice (update, dry_run, confirmed, origin, batch) the
 * caller sets before. */
PL_MUST_CHECK
int pl_pipeline_draft_ready(struct pl_pipeline_draft *d, bool strict, struct pl_err *err);
/* After the transaction, or its dry run: replaces the tree roots in args.changes ("code", see update_cost.h) by names of
 * the files that differ, "files": {"changed": [NAME…], "count"}. */
PL_MUST_CHECK
int pl_pipeline_draft_name_files(struct pl_pipeline_draft *d, struct pl_err *err);
/* Replaces the tree roots in the entry of a stage, "code": [before, after] in hex, by the names of the files that differ,
 * "files" as above; after an error the entry has neither. Errors of reading the trees. */
PL_MUST_CHECK
int pl_pipeline_name_changed_files(struct pl_project_stores *stores, const char *project, json_t *entry, struct pl_err *err);
void pl_pipeline_draft_finish(struct pl_pipeline_draft *d);
