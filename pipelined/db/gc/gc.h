/* db/gc: Runs garbage collection for all projects: when, from which roots, in which steps.
 *
 * In:      The database, open commits, a schedule.
 * Out:     Pack states; deleted packs.
 * Uses:    db/{open_commits, retention, tx, writer}, plan, storage/{base, store, system, tree_edit},
 *          storage/dataset/{commit, gc}
 * Threads: One thread of its own.
 *
 * Headers for other rooms:
 *   recovery_prune  after recovery: drops restored results and logs whose records are gone
 *   result_codec    format of stored job results
 *
 * Inside:
 *   gc_roots        the records that must be kept
 *   gc_round        one round for one project */

/* gc: collects the garbage of all projects: by the clock, when asked, and what it condemned as soon as nobody is left who may need it. The
 * protocol: storage/dataset/gc/gc.h.
 *
 * One that is asked for begins with what the repos' rules drop (keep_pass.h), and a dry run takes it for gone.
 *
 *   idle ──asked, or due──▶ for each project: mark ──▶ flush ──▶ verdict: revive, doom, copy, condemn ──▶ remove ──┐
 *    ▲                                          ▲                                                                │
 *    │                                          └────────── again at once when nobody must be waited for ────────┤
 *    └── looks every PL_GC_LOOK_MS whether those who were there have ended, while something is condemned ─────────┘
 *
 * One thread of its own, of low priority and patient (patience.h), so that one collection runs at a time (I6). Functions may be called from any thread. */
#pragma once

#include "pipelined/db/open_commits/open_commits.h"

#define PL_GC_LOOK_MS   60000
#define PL_GC_GONE_US   (24LL * 3600 * 1000000) /* a doomed pack's row goes so long after it was doomed */
#define PL_GC_REPOS_MAX 1000u                   /* repos of which a dry run tells what their deleted history takes */

struct pl_gc;

struct pl_gc_config {
    struct pl_db *db;
    struct pl_project_stores *stores;
    struct pl_open_commits *opens; /* NULL = there are none */
    /* What else of a project must stay: calls `fn` for each. NULL = nothing. Asked before the open commits, into which it may go. */
    int (*keep)(void *keeper, const char *project, int (*fn)(void *self, const struct pl_entry *entry, struct pl_err *err),
                void *self, struct pl_err *err);
    void *keeper;
    const char *index_dir; /* has a folder for each project that was ever opened: deleted ones, too */
    int64_t every_ms;      /* 0 = only when asked */
};

/* What a collection does, or has done. Sums over projects. */
struct pl_gc_report {
    bool running, dry_run;
    uint64_t number;                   /* collections begun by now */
    const char *phase;                 /* "keep", "mark", "copy", "remove"; "" when it does not run */
    char project[64];                  /* that is under way */
    uint64_t done, all;                /* commits marked, packs copied or removed */
    uint64_t packs, bytes;             /* there were */
    uint64_t live_bytes;               /* of these that something needs */
    uint64_t freed_packs, freed_bytes; /* removed; of a dry run: that nothing needs */
    uint64_t copied_packs,
        copied_bytes; /* of little use, or small: what was needed of them was copied; of a dry run: that would be */
    uint64_t waiting_packs, waiting_bytes; /* condemned, and somebody is there who may need them */
    uint64_t commits;                      /* that rules of retention took away; of a dry run: would */
    uint64_t missing;                      /* records that are named and not there: fsck tells of which */
    int64_t started_us, finished_us;
    struct pl_err error; /* code 0: none */
    json_t *repos;       /* of a dry run: [{project, repo, commits, bytes}] */
};
void pl_gc_report_finish(struct pl_gc_report *r);

/* Nothing is collected before it is started. */
PL_MUST_CHECK
int pl_gc_create(const struct pl_gc_config *config, struct pl_gc **ret, struct pl_err *err);
PL_MUST_CHECK
int pl_gc_start(struct pl_gc *gc, struct pl_err *err);
/* Begins one, unless one runs: then that one goes on (PL_EBUSY when it is a dry run and this is none, or the other way round). `ret` is its
 * number. */
PL_MUST_CHECK
int pl_gc_begin(struct pl_gc *gc, bool dry_run, uint64_t *ret, struct pl_err *err);
/* The one that runs ends soon; what it has done stands. One that was asked for and has not begun is over, with PL_ECANCELED. */
void pl_gc_stop(struct pl_gc *gc);
/* A copy of what is known of the last one, or the one that runs. */
void pl_gc_report(struct pl_gc *gc, struct pl_gc_report *ret);
/* Returns when no collection with that number, or an earlier one, runs, or after `wait_ms`. Blocks: on the pool. */
void pl_gc_wait(struct pl_gc *gc, uint64_t number, int64_t wait_ms);
/* Stops and frees. NULL is fine. */
struct pl_gc *pl_gc_destroy(struct pl_gc *gc);
