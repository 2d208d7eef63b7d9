/* gc_round: one round of garbage collection over one project: a mark, and the changes of pack states that
 * follow from it (gc.h). */
#pragma once

#include "pipelined/db/gc/gc.h"
#include "storage/dataset/gc/gc_copy.h"

/* maximum number of entries of the map `removed`, about 16 MiB. A full map is emptied; then requests are sent
 * again to remove packs that were removed already */
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
    int64_t budget_us; /* time limit of each transaction (pack_state_tx.h); 0 = none */
    /* in and out: value of pl_store_moment when a pack was last condemned; 0 = none since the daemon's start */
    uint64_t condemned_at;
    /* pl_gc_foresee: rows treated as if retention rules had dropped them; may be NULL */
    const struct pl_retention_dropped *going;
    /* Doomed packs whose rows still exist. The value of a pack that this daemon doomed is the size of its
     * object in bytes until it is removed, then PL_GC_REMOVED. Packs doomed before the daemon's start are
     * removed again. */
    struct pl_map *removed;
    struct pl_gc_report sums; /* out: the round adds to it */
    bool again;               /* out: nothing delays the condemned packs: another round can doom or revive them now */
    bool waiting;             /* out: a pack is condemned */
};

/* Runs a round. Blocks for long. The changes made before an error stay in effect. PL_ECANCELED; the errors of
 * gc_roots.h, gc_copy.h, of the database and the store. */
PL_MUST_CHECK
int pl_gc_collect(struct pl_gc_round *g, struct pl_err *err);
/* Dry run: marks, and reports which packs would be freed and the deleted history of which repos they hold.
 * Changes nothing. */
PL_MUST_CHECK
int pl_gc_foresee(struct pl_gc_round *g, struct pl_err *err);
