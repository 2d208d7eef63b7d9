/* gc_collect: one round of garbage collection over one project: a mark and what follows from it (gc.h). */
#pragma once

#include "pipelined/db/gc/gc.h"
#include "storage/dataset/gc/gc_copy.h"

#define PL_GC_REMOVED_MAX (1u << 18) /* in `removed`, some 16 MiB: beyond it all is forgotten, and removed once more */
#define PL_GC_REMOVED     ((void *)(uintptr_t)1)

/* What is told of a round, and asked in it. Any of the functions may be NULL. */
struct pl_gc_watch {
    bool (*stop)(void *self);
    void (*note)(void *self, const char *phase, uint64_t done, uint64_t all);
    void *self;
};

struct pl_gc_round {
    struct pl_db *db;
    struct pl_project_stores *stores;
    struct pl_open_commits *opens;
    int (*keep)(void *keeper, const char *project, int (*fn)(void *self, const struct pl_entry *entry, struct pl_err *err),
                void *self, struct pl_err *err); /* as in pl_gc_config */
    void *keeper;
    const char *project;
    struct pl_gc_watch watch;
    bool may_doom;
    int64_t budget_us;     /* of each transaction (gc_tx.h); 0 = none */
    uint64_t condemned_at; /* in, out: pl_store_moment when something was last condemned, 0 = not in this daemon's life */
    const struct pl_retention_dropped *going; /* of pl_gc_foresee: as if it were gone. May be NULL */
    /* Doomed packs whose rows are there still: of those doomed by this daemon what its object takes until it is removed, then PL_GC_REMOVED.
     * Those doomed before it was started are removed again. */
    struct pl_map *removed;
    struct pl_gc_report sums; /* out: added to */
    bool
        again; /* out: something is condemned that nobody has to be waited for: another round dooms it, or finds that it is needed */
    bool waiting; /* out: something is condemned */
};

/* Blocks, long. What was done stands when it fails. PL_ECANCELED; the errors of gc_roots.h, gc_copy.h, of the database and the store. */
PL_MUST_CHECK
int pl_gc_collect(struct pl_gc_round *g, struct pl_err *err);
/* Only a mark: what would go, and whose history it was. Changes nothing. */
PL_MUST_CHECK
int pl_gc_foresee(struct pl_gc_round *g, struct pl_err *err);
