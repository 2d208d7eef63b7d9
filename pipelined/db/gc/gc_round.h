/* gc_round: one round of garbage collection over one project: a mark and the steps that follow from it (gc.h). */
#pragma once

#include "pipelined/db/gc/gc.h"
#include "storage/dataset/gc/gc_copy.h"

/* entries of `removed`, some 16 MiB; when full it is emptied, and packs are removed once more */
#define PL_GC_REMOVED_MAX (1u << 18)
#define PL_GC_REMOVED     ((void *)(uintptr_t)1)

/* Callbacks of a round. Each may be NULL. */
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
    int64_t budget_us; /* time per transaction (pack_state_tx.h); 0 = no limit */
    /* in, out: pl_store_moment when a pack was last condemned, 0 = not since the daemon's start */
    uint64_t condemned_at;
    const struct pl_retention_dropped *going; /* pl_gc_foresee: rows treated as dropped; may be NULL */
    /* Doomed packs whose rows still exist: for one that this daemon doomed the bytes of its object until it is
     * removed, then PL_GC_REMOVED. Packs doomed before the daemon's start are removed again. */
    struct pl_map *removed;
    struct pl_gc_report sums; /* out: the round adds to it */
    bool again;               /* out: condemned packs need wait for nothing: another round dooms or revives them */
    bool waiting;             /* out: a pack is condemned */
};

/* Runs a round. Blocks for long. Steps taken before an error stand. PL_ECANCELED; the errors of gc_roots.h,
 * gc_copy.h, of the database and the store. */
PL_MUST_CHECK
int pl_gc_collect(struct pl_gc_round *g, struct pl_err *err);
/* Dry run: marks, and reports what would be freed and which repos' deleted history it was. Changes nothing. */
PL_MUST_CHECK
int pl_gc_foresee(struct pl_gc_round *g, struct pl_err *err);
