/* source_tx: transactions on sources, the git repositories whose specs become pipelines. A source belongs to a project,
 * and sets pipelines of that project only. Its settings are logged; what was last seen of it is not: the next look finds
 * it again. */
#pragma once

#include "pipelined/db/pipelines/pipeline_tx.h"

#define PL_SOURCES_MAX 1000u

struct pl_source_args {
    const char *name, *project;
    /* {git, branch, path, interval, prune, paused, …}, complete; borrowed. For an update: the fields to change. */
    json_t *spec;
    bool update;
    bool force; /* delete it even if git inputs have its files */
    /* out: the settings after the transaction; new reference */
    json_t *after;
};

/* Creates a source, or changes some of its settings. arg: struct pl_source_args. PL_EEXISTS, PL_ENOTFOUND, PL_ENAME,
 * PL_ELIMIT (PL_SOURCES_MAX). */
PL_MUST_CHECK
int pl_tx_source_set(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Deletes a source. Its pipelines stay, and are set by hand from then on. arg: struct pl_source_args. PL_ENOTFOUND; PL_EINUSE:
 * git inputs of pipelines name it, and `force` is not set. */
PL_MUST_CHECK
int pl_tx_source_delete(struct pl_tx *tx, void *arg, struct pl_err *err);

/* What a look at a source found. */
struct pl_source_seen {
    const char *name;
    int64_t created_us;         /* of the source: an earlier one of the same name is another */
    const char *state;          /* "following", "invalid", "unreachable" */
    const char *error;          /* "" = none */
    const char *seen, *applied; /* commits, 40 or 64 hex digits; "" = unchanged */
    /* {subject, author, at, pipelines?, warnings, errors?, posted?}; borrowed; NULL = unchanged. `pipelines` stays if it is not given,
     * like `previews` and `preview_warning`, which pl_tx_source_told sets. */
    json_t *details;
};
/* Records the state of a source, unlogged; an event "source" tells of a change. A source that was deleted meanwhile is
 * left alone. arg: struct pl_source_seen. */
PL_MUST_CHECK
int pl_tx_source_seen(struct pl_tx *tx, void *arg, struct pl_err *err);

/* What a look at the repository of a repo that follows git found. */
struct pl_repo_seen {
    const char *project, *repo;
    int64_t id;             /* row id of the repo */
    const char *state;      /* "following", "invalid", "unreachable" */
    const char *error;      /* "" = none */
    const char *seen;       /* the commit at the tip, 40 or 64 hex digits; "" = unchanged */
    const json_t *warnings; /* texts; NULL = unchanged */
};
/* Records the state of a repo, unlogged; an event "repo" tells of a change. A repo that was deleted meanwhile is left alone.
 * arg: struct pl_repo_seen. */
PL_MUST_CHECK
int pl_tx_repo_seen(struct pl_tx *tx, void *arg, struct pl_err *err);

/* What a source told the server of its repository, or would tell it. */
struct pl_source_told {
    const char *name;
    json_t *
        posted; /* the note of the status of the commit at the branch's tip (forge/status_poster.h); borrowed; NULL = unchanged */
    json_t *previews;    /* of other branches (source/source_preview.h); borrowed; NULL = unchanged */
    const char *warning; /* with `previews`: why branches lack one, "" = none */
};
/* Records it, unlogged. A source that was deleted meanwhile is left alone. arg: struct pl_source_told. */
PL_MUST_CHECK
int pl_tx_source_told(struct pl_tx *tx, void *arg, struct pl_err *err);

/* What a commit does with pipelines of the source that are in no file any more. */
enum pl_source_prune {
    PL_PRUNE_OFF,    /* leave them as they are */
    PL_PRUNE_STOP,   /* stop them; they start when their file comes back */
    PL_PRUNE_DELETE, /* delete them with their outputs */
};
/* Returns "off", "stop" or "delete". */
const char *pl_source_prune_name(enum pl_source_prune prune);

/* A commit of a source on its way to the pipelines. */
struct pl_source_apply {
    const char *name, *project, *commit; /* the source, its project, and the commit with its full id */
    int64_t created_us;                  /* of the source */
    const char *git, *branch, *path;     /* its settings when the commit was read */
    bool asked;                          /* the look was asked for: a paused source is no error */
    /* one for each spec file, prepared; a pipeline comes after those whose outputs it reads */
    struct pl_pipeline_args **pipelines;
    size_t n;
    bool dry_run; /* returns PL_ECANCELED after all checks */
    /* out: */
    bool outdated; /* the source changed meanwhile */
    size_t failed; /* index of the pipeline that an error is about; `n` = of none */
    char run[PL_ID_HEX + 1];
    json_t *left;               /* names of pipelines that the source had set, and that no file has now; new reference */
    enum pl_source_prune prune; /* what was done with them */
    json_t *pruned; /* names of those that were stopped or deleted: not of those that were stopped before; new reference */
};
void pl_source_apply_finish(struct pl_source_apply *a);
/* Sets all pipelines of a commit, or none, and does with those that no file has any more what the source's setting `prune`
 * says. Those that were detached from the source are left alone (args.skipped). arg: struct pl_source_apply. PL_ECONFLICT
 * with `outdated`: the source was deleted, paused or given other settings meanwhile; PL_EINUSE: a pipeline of another source, or set by hand, reads the outputs of
 * one to delete; errors of pl_tx_pipeline_set. */
PL_MUST_CHECK
int pl_tx_source_apply(struct pl_tx *tx, void *arg, struct pl_err *err);
