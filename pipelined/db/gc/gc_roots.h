/* gc_roots: what a project's packs must be kept for (storage/dataset/gc/gc.h), read in one transaction and marked. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "storage/dataset/gc/gc_mark.h"

#define PL_GC_KEPT_MAX (1u << 21) /* entries that `keep` gives, held until all roots are known */

struct pl_retention_dropped;
struct pl_open_commits;

struct pl_gc_roots {
    struct pl_db *db;
    struct pl_open_commits *opens; /* NULL = there are none */
    int (*keep)(void *keeper, const char *project, int (*fn)(void *self, const struct pl_entry *entry, struct pl_err *err),
                void *self, struct pl_err *err); /* as in pl_gc_config */
    void *keeper;
    const char *project;
    const struct pl_retention_dropped *going; /* taken for gone already. May be NULL */
    /* May be NULL: told how many commits are done, of how many. */
    void (*progress)(void *self, uint64_t done, uint64_t all);
    void *self;
};

/* `mark` was created and not begun: it is begun here, when all is known that it has to reach. Blocks, long. The errors of gc_mark.h and of the
 * database. */
PL_MUST_CHECK
int pl_gc_mark_roots(const struct pl_gc_roots *roots, struct pl_gc_mark *mark, struct pl_err *err);
/* What a commit object names; of a mark that has begun. */
struct pl_commit;
PL_MUST_CHECK
int pl_gc_mark_object(struct pl_gc_mark *mark, const struct pl_commit *commit, struct pl_err *err);
/* What results name that a row of table `result` holds (result_rows.h); the same. */
PL_MUST_CHECK
int pl_gc_mark_results(struct pl_gc_mark *mark, const json_t *rows, struct pl_err *err);
