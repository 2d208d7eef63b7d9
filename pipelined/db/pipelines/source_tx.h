/* source_tx: transactions on sources, the git repositories whose specs become pipelines. A source belongs to a project,
 * and sets pipelines of that project only. Its settings are logged; what was last seen of it is not: the next look finds
 * it again. */
#pragma once

#include "pipelined/db/pipelines/pipeline_tx.h"

#define PL_SOURCES_MAX 1000u

struct pl_source_args {
    const char *name, *project;
    /* {git, branch, path, interval, paused}, complete; borrowed. For an update: the fields to change. */
    json_t *spec;
    bool update;
    /* out: the settings after the transaction; new reference */
    json_t *after;
};

/* Creates a source, or changes some of its settings. arg: struct pl_source_args. PL_EEXISTS, PL_ENOTFOUND, PL_ENAME,
 * PL_ELIMIT (PL_SOURCES_MAX). */
PL_MUST_CHECK
int pl_tx_source_set(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Deletes a source. Its pipelines stay, and are set by hand from then on. arg: struct pl_source_args. PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_tx_source_delete(struct pl_tx *tx, void *arg, struct pl_err *err);

/* What a look at a source found. */
struct pl_source_seen {
    const char *name;
    const char *state;          /* "following", "invalid", "unreachable" */
    const char *error;          /* "" = none */
    const char *seen, *applied; /* commits, 40 or 64 hex digits; "" = unchanged */
    json_t *details;            /* {subject, author, at, pipelines, warnings}; borrowed; NULL = unchanged */
};
/* Records the state of a source, unlogged; an event "source" tells of a change. A source that was deleted meanwhile is
 * left alone. arg: struct pl_source_seen. */
PL_MUST_CHECK
int pl_tx_source_seen(struct pl_tx *tx, void *arg, struct pl_err *err);

/* A commit of a source on its way to the pipelines. */
struct pl_source_apply {
    const char *name, *project, *commit; /* the source, its project, and the commit with its full id */
    bool asked;                          /* the look was asked for: a paused source is no error */
    /* one for each spec file, prepared; a pipeline comes after those whose outputs it reads */
    struct pl_pipeline_args **pipelines;
    size_t n;
    bool dry_run; /* returns PL_ECANCELED after all checks */
    /* out: */
    size_t failed; /* index of the pipeline that an error is about; `n` = of none */
    char run[PL_ID_HEX + 1];
    json_t *left; /* names of pipelines that the source had set, and that no file has now; new reference */
};
/* Sets all pipelines of a commit, or none. Those that were detached from the source are left alone (args.skipped). arg: struct pl_source_apply. PL_ECONFLICT: the source was deleted or paused
 * meanwhile; errors of pl_tx_pipeline_set. */
PL_MUST_CHECK
int pl_tx_source_apply(struct pl_tx *tx, void *arg, struct pl_err *err);
