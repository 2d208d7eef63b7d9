/* db/gc: Runs garbage collection for all projects: when, from which roots, in which steps.
 *
 * In:      The database, open commits, a schedule.
 * Out:     Pack states; deleted packs.
 * Uses:    db/{open_commits, retention, tx, writer}, plan, text, storage/{base, store, system, tree_edit},
 *          storage/dataset/{commit, gc}
 * Threads: One thread of its own.
 *
 * Headers for other rooms:
 *   recovery_prune  after recovery: drops restored results and logs whose records are gone
 *   result_codec    format of stored job results
 *
 * Inside:
 *   gc_roots        the records that must be kept
 *   gc_round        one round for one project
 *
 * A collection runs on a schedule, on request, and when the sessions and leases that a condemned pack waited for
 * have ended. The protocol of pack states is in storage/dataset/gc/gc.h. A requested collection begins with a
 * retention pass (pipelined/db/retention/retention.h); a dry run treats what that pass would drop as gone.
 *
 *   idle ──due──▶ for each project: mark ──▶ flush ──▶ revive, doom, condemn ──▶ remove doomed ──▶ copy ──┐
 *    ▲                                  ▲                                                                   │
 *    │                                  └─── again, if the packs just condemned need not wait ──────────────┤
 *    └── every PL_GC_LOOK_MS: have the sessions ended for which condemned packs wait? ──────────────────────┘
 *
 * The thread has a low priority, also for disk syncs (sync_priority.h). One collection runs at a time (I6 of the
 * protocol). Functions may be called from any thread. */
#pragma once

#include "pipelined/db/open_commits/open_commits.h"

#define PL_GC_LOOK_MS   60000
#define PL_GC_GONE_US   (24LL * 3600 * 1000000) /* time until a doomed pack's row is deleted */
#define PL_GC_REPOS_MAX 1000u                   /* repos whose deleted history a dry run lists */

struct pl_gc;

struct pl_gc_config {
    struct pl_db *db;
    struct pl_project_stores *stores;
    struct pl_open_commits *opens; /* NULL = no open commits */
    /* Calls `fn` for each entry whose content must be kept although neither the database nor an open commit
     * refers to the entry, such as the parts of unfinished uploads. NULL = there are no such entries. Called
     * before the open commits are read, because an upload may become part of an open commit. */
    int (*keep)(void *keeper, const char *project, int (*fn)(void *self, const struct pl_entry *entry, struct pl_err *err),
                void *self, struct pl_err *err);
    void *keeper;
    const char *index_dir; /* has a folder for each project that was ever opened, including deleted projects */
    int64_t every_ms;      /* 0 = only on request */
};

/* State and results of a collection, summed over projects. */
struct pl_gc_report {
    bool running, dry_run;
    uint64_t number;                       /* number of this collection, counted from the daemon's start */
    const char *phase;                     /* "keep", "mark", "copy", "remove"; "" when idle */
    char project[64];                      /* the project being collected */
    uint64_t done, all;                    /* progress: commits marked, packs copied or removed */
    uint64_t packs, bytes;                 /* packs that exist */
    uint64_t live_bytes;                   /* bytes of the existing packs that are needed */
    uint64_t freed_packs, freed_bytes;     /* packs removed; dry run: packs not needed */
    uint64_t copied_packs, copied_bytes;   /* live records copied out of mostly dead or small packs; dry run: would be copied */
    uint64_t waiting_packs, waiting_bytes; /* condemned and still waiting for sessions or leases */
    uint64_t commits;                      /* commits dropped by retention rules; dry run: would be */
    uint64_t missing;                      /* records that are referred to and do not exist: fsck names them */
    int64_t started_us, finished_us;
    struct pl_err error; /* code 0: no error */
    json_t *repos;       /* dry run: [{project, repo, commits, bytes}] */
};
void pl_gc_report_finish(struct pl_gc_report *r);

/* Creates the collector. Nothing is collected before pl_gc_start. */
PL_MUST_CHECK
int pl_gc_create(const struct pl_gc_config *config, struct pl_gc **ret, struct pl_err *err);
PL_MUST_CHECK
int pl_gc_start(struct pl_gc *gc, struct pl_err *err);
/* Requests a collection, or joins the one that runs; `ret` is its number. PL_EBUSY: the running one is a dry run
 * and this is not, or the other way round. */
PL_MUST_CHECK
int pl_gc_begin(struct pl_gc *gc, bool dry_run, uint64_t *ret, struct pl_err *err);
/* Stops the running collection soon; the steps that it has completed stay in effect. A requested collection
 * that has not begun ends with PL_ECANCELED. */
void pl_gc_stop(struct pl_gc *gc);
/* Returns a copy of the report on the running or the last collection; free it with pl_gc_report_finish. */
void pl_gc_report(struct pl_gc *gc, struct pl_gc_report *ret);
/* Waits until collections up to that number have ended, or `wait_ms` have passed. Blocks; call it on a pool
 * thread. */
void pl_gc_wait(struct pl_gc *gc, uint64_t number, int64_t wait_ms);
/* Stops the thread and frees the collector. NULL is allowed. */
struct pl_gc *pl_gc_destroy(struct pl_gc *gc);
