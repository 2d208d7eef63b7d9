/* gc_roots: marks everything that a project must keep (storage/dataset/gc/gc.h), as read in one transaction. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "storage/dataset/gc/gc_mark.h"

/* maximum number of entries that `keep` may report; they are held in memory until all roots are known */
#define PL_GC_KEPT_MAX (1u << 21)

struct pl_retention_dropped;
struct pl_open_commits;

struct pl_gc_roots {
    struct pl_db *db;
    struct pl_open_commits *opens; /* NULL = no open commits */
    int (*keep)(void *keeper, const char *project, int (*fn)(void *self, const struct pl_entry *entry, struct pl_err *err),
                void *self, struct pl_err *err); /* as in pl_gc_config */
    void *keeper;
    const char *project;
    const struct pl_retention_dropped *going; /* rows treated as if retention rules had dropped them; may be NULL */
    /* May be NULL. Called with the number of marked commits and their total. */
    void (*progress)(void *self, uint64_t done, uint64_t all);
    void *self;
};

/* Marks all roots of the project. The caller creates `mark`; the function begins it once all roots are known.
 * Blocks for long. The errors of gc_mark.h and of the database. */
PL_MUST_CHECK
int pl_gc_mark_roots(const struct pl_gc_roots *roots, struct pl_gc_mark *mark, struct pl_err *err);
/* Marks what a commit object refers to. Call it after the mark has begun. */
struct pl_commit;
PL_MUST_CHECK
int pl_gc_mark_object(struct pl_gc_mark *mark, const struct pl_commit *commit, struct pl_err *err);
/* Marks what the results in a row of table `result` refer to (result_codec.h). Call it after the mark has
 * begun. */
PL_MUST_CHECK
int pl_gc_mark_results(struct pl_gc_mark *mark, const json_t *rows, struct pl_err *err);
