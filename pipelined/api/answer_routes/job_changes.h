/* job_changes: what changed in a stage's inputs, code and spec between two of its jobs. */
#pragma once

#include "pipelined/api/server/api_context.h"

#include "pipelined/text/glob.h"

#define PL_JOB_CHANGES_MAX 100000u /* most changed files of one input that are counted */
#define PL_JOB_NAMED       3u      /* most changed files that are named, of each input and of the code */

/* The changed files of one tree, counted. */
struct pl_file_changes {
    uint64_t added, changed, removed;
    bool more;                          /* there are more than PL_JOB_CHANGES_MAX */
    char folder[PL_PATH_MAX_BYTES + 2]; /* all of them are below it: "lisbon/b7/"; "" = they have no folder in common */
    json_t *named;                      /* array with the first PL_JOB_NAMED paths; the caller owns it */
};

/* Which files of a tree count. */
struct pl_file_filter {
    struct pl_glob *glob;      /* matches; NULL = the whole tree is one match */
    struct pl_glob_set *files; /* files within a match; NULL = all */
};

/* True if the filter takes the file: a match of `glob` is the file or a folder above it, and `files` takes it. */
bool pl_file_filter_takes(const struct pl_file_filter *filter, const char *path, size_t len);
/* Counts the files that `filter` takes and that differ between two trees. The caller releases ret->named, also after
 * an error. PL_ELIMIT, PL_ETIMEOUT, PL_ECANCELED: `effort` is used up; errors of the store. */
PL_MUST_CHECK
int pl_file_changes_count(const struct pl_node_source *source, const struct pl_hash *before, const struct pl_hash *after,
                          const struct pl_file_filter *filter, struct pl_effort *effort, struct pl_file_changes *ret,
                          struct pl_err *err);

static inline uint64_t pl_file_changes_sum(const struct pl_file_changes *c)
{
    return c->added + c->changed + c->removed;
}
/* Appends to `out`, as part of a sentence, what changed: "3,120 files are new below photos:/lisbon", "2 files new, 1 changed
 * below photos:/", "1 file is gone: photos:/a.jpg". Nothing changed: appends nothing. PL_ENOMEM. */
PL_MUST_CHECK
int pl_file_changes_text(const struct pl_file_changes *c, const char *repo, struct pl_buf *out, struct pl_err *err);
