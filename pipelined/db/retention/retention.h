/* db/retention: Drops commits, attempts and logs that the repos' rules no longer keep.
 *
 * In:      Rules and the database.
 * Out:     Log records of what was dropped.
 * Uses:    db/writer, policy, storage/{base, system}
 * Threads: Storage pool.
 *
 * Inside:
 *   retention_input  loads the commits and references that the rules need */

/* keep_pass: what the repos' rules drop (core/keep.h), found and dropped. Commits go as logged records, so that a recovered daemon has
 * dropped the same; attempts, metrics and logs are this machine's and go from it. What is dropped is the garbage collector's from then on.
 *
 *   read: a decision over one state of the database ──▶ drop: PL_RETENTION_BATCH at a time, the newest first      a batch that something has
 *     ▲                                                    │ come to stand on since is not dropped:
 *     └────────────────────────────────────────────────────┘ the decision is made anew
 *
 * The newest first: what is dropped half has nothing left that was made from what is gone. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "pipelined/policy/retention_rule.h"

#define PL_RETENTION_BATCH      256   /* commits of one transaction, or jobs */
#define PL_RETENTION_TRIES      8     /* decisions, when others are faster; what is left goes with the next pass */
#define PL_RETENTION_LISTED_MAX 1000u /* commits that a report names */

#define PL_RETENTION_GOING_MAX  (1u << 20) /* of each kind that a dry run hands on: beyond it nothing is foreseen */

#define PL_RETENTION_GONE_OLD   "older than the repo keeps" /* why of a commit that a rule of its repo dropped (commit_gone) */

/* What a dry run would drop: rows of commit_, and of jobs whose results and logs go. `{0}` is nothing. */
struct pl_retention_dropped {
    struct pl_map commits, results, logs; /* the row's id (int64_t) → something */
};
void pl_retention_dropped_finish(struct pl_retention_dropped *g);

struct pl_retention_run {
    struct pl_db *db;
    bool dry_run;
    const char *project, *repo; /* only of that one; NULL = of all, and of stages that are no more */
    bool (*stop)(void *self);   /* asked between transactions; may be NULL */
    void *self;
    /* Out: {"repos": [{"project", "repo", "keep", "kept", "held", "commits", "results", "logs"}…], "commits": [{"project", "repo",
     * "commit", "branch", "created_us", "files", "bytes", "why"}…], "more": whether not all commits are listed, "deleted": {"results",
     * "logs"}: of how many jobs of stages that are no more}. Repos of which nothing is dropped are there when they have a rule. `held`:
     * commits that their rule would drop and something else keeps. */
    json_t *report;
    uint64_t commits;                   /* out: that it dropped, or would */
    struct pl_retention_dropped *going; /* a dry run's: added to. May be NULL */
};

/* Blocks, for as long as it takes: on the pool. PL_ENOTFOUND (the repo); PL_ELIMIT: more than PL_RETENTION_COMMITS_MAX commits, or another bound
 * of keep.h; PL_EBUSY: others were faster PL_RETENTION_TRIES times; PL_ECONFIRM: the clock is doubted (clock_trust.h; not of a dry run); PL_ECANCELED: stopped. What was dropped by then is dropped. `report` is the
 * caller's. */
PL_MUST_CHECK
int pl_retention_run(struct pl_retention_run *pass, struct pl_err *err);
/* A pass over everything, as the daemon makes them by itself: what was dropped, and that it failed, stands in the daemon's log. */
void pl_retention_run_all(struct pl_retention_run *pass);

/* Whether the job's log, or its attempts, were dropped: PL_ENOTFOUND says so, 0 when not. */
enum pl_retention_repo_result { PL_KEEP_LOGS, PL_KEEP_RESULTS };
PL_MUST_CHECK
int pl_retention_check_job(struct pl_conn *c, int64_t job, enum pl_retention_repo_result what, struct pl_err *err);
