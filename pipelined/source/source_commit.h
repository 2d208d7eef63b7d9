/* source_commit: the specs at one commit of a source, as drafts of pipelines that one transaction sets. */
#pragma once

#include "pipelined/db/pipelines/pipeline_draft.h"
#include "pipelined/db/pipelines/source_tx.h"
#include "pipelined/source/git_child.h"
#include "pipelined/source/source_address.h"

#define PL_SOURCE_FILES_MAX 1000u       /* spec files of a source */
#define PL_SOURCE_BYTES_MAX (32u << 20) /* of all spec files of a source */
#define PL_CODE_FILES_MAX   10000u      /* as for code folders given by hand */
#define PL_CODE_BYTES_MAX   (256u << 20)

/* A commit of a source. The first part is set by the caller, and borrowed. */
struct pl_source_commit {
    const struct pl_pipeline_host *host;
    const struct pl_source_addresses *addresses; /* which repositories may be inputs */
    struct pl_git_child *git;
    const char *source, *project, *url, *branch, *path; /* the source's settings */
    int64_t created_us;                                 /* of the source */
    const char *id;                                     /* the commit */
    const char *author, *message;
    int64_t at_s;
    bool dry_run; /* store nothing but code folders */
    bool asked;   /* the look was asked for, so that a paused source is no error */

    struct pl_source_draft *drafts; /* in the order in which they must be set */
    size_t n, cap;                  /* drafts, and room for them */
    uint64_t bytes;                 /* of all specs, as drafts */
    json_t *warnings;               /* texts */
    json_t *errors;                 /* texts: all mistakes of the first spec that has some */
    /* the same, with the text around them: {"path", "line", "column", "field", "text"} and what pl_text_excerpt returns.
     * Readers of the project may see them, as they may see its specs. */
    json_t *problems;
    struct pl_store_hold hold; /* garbage collection keeps what is stored until the transaction refers to it */
};

/* Reads the spec files, checks all of them, stores code folders and specs, and prepares the transaction. On an error
 * nothing is set; the message names the file and, where there is one, line and column. PL_ENOTFOUND: no file matches
 * `path`. PL_EINVAL: two files set the same pipeline, pipelines read each other in a circle, a spec belongs to another
 * project. Errors of pl_pipeline_draft_…, of git_child, and of reading files. */
PL_MUST_CHECK
int pl_source_commit_read(struct pl_source_commit *c, struct pl_err *err);
/* Sets all pipelines in one transaction, and tells the engine; with dry_run it only finds out what would change. `ret`:
 * what was done, with `left` and `run`; the caller releases ret->left. Errors of pl_tx_source_apply name the file. */
PL_MUST_CHECK
int pl_source_commit_apply(struct pl_source_commit *c, struct pl_source_apply *ret, struct pl_err *err);
/* After a dry run, returns what applying would do, [{"pipeline", "path", "change", "stages"}], a new reference. */
json_t *pl_source_commit_changes(struct pl_source_commit *c);
/* After applying, counts the pipelines that the commit sets, those of them that changed or are new, and those that were started again. */
void pl_source_commit_count(const struct pl_source_commit *c, size_t *ret_set, size_t *ret_changed, size_t *ret_started);
/* After applying, says what was done with a pipeline of done->left; a text, a new reference. */
json_t *pl_source_commit_left(const struct pl_source_apply *done, const char *name);
/* After applying, returns the names of the pipelines that the commit sets, a new reference. */
json_t *pl_source_commit_names(const struct pl_source_commit *c);
void pl_source_commit_finish(struct pl_source_commit *c);
