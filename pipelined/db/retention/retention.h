/* db/retention: Drops commits, attempts and logs that the repos' rules no longer keep.
 *
 * In:      Rules and the database.
 * Out:     Log records of what was dropped.
 * Uses:    db/writer, policy, text, storage/{base, system}
 * Threads: Storage pool.
 *
 * Inside:
 *   retention_input  loads the commits and references that the rules need
 *
 * A pass reads one state of the database, decides with the rules (pipelined/policy/retention_rule.h), and drops.
 * Commits are dropped by log records, so that a recovered daemon has dropped the same ones; attempts, metrics and
 * logs are local to this machine and are dropped without the log. Garbage collection then removes the data.
 *
 *   read and decide ──▶ drop commits, PL_RETENTION_BATCH per transaction, newest first ──▶ drop results and logs
 *     ▲                   │
 *     └───────────────────┘ a commit of the batch has come into use: read and decide again
 *
 * Newest first: if the pass is interrupted, no remaining commit was made from a dropped one. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "pipelined/policy/retention_rule.h"

#define PL_RETENTION_BATCH 256 /* commits, or jobs, per transaction */
/* attempts of a pass, which starts over if the database changes meanwhile. If the last attempt fails too, the
 * rest is left to the next pass */
#define PL_RETENTION_TRIES      8
#define PL_RETENTION_LISTED_MAX 1000u /* commits named in a report */

/* most rows of each kind that a dry run lists in pl_retention_dropped; any others are treated as kept */
#define PL_RETENTION_GOING_MAX (1u << 20)

/* reason (commit_gone.why) for a commit that its repo's rule dropped */
#define PL_RETENTION_GONE_OLD "older than the repo keeps"

/* Rows that a dry run would drop: commits, and jobs whose results or logs would be dropped. `{0}` is empty. */
struct pl_retention_dropped {
    struct pl_map commits, results, logs; /* row id (int64_t) → any non-NULL value */
};
void pl_retention_dropped_finish(struct pl_retention_dropped *g);

struct pl_retention_run {
    struct pl_db *db;
    bool dry_run;
    const char *project, *repo; /* only this project or repo; NULL = all, and stages that no longer exist */
    bool (*stop)(void *self);   /* polled between transactions; may be NULL */
    void *self;
    /* out: {"repos": [{"project", "repo", "keep", "kept", "held", "commits", "results", "logs"}…], "commits":
     * [{"project", "repo", "commit", "branch", "created_us", "files", "bytes", "why"}…], "more": true if the
     * list of commits is cut off, "deleted": {"results", "logs"}: number of jobs of deleted stages whose
     * results or logs were dropped}. `repos` includes each repo that has a rule. `held` is the number of
     * commits that the repo's rule would drop but that are kept because they are in use. */
    json_t *report;
    uint64_t commits;                   /* out: number of commits dropped, or that a dry run would drop */
    struct pl_retention_dropped *going; /* a dry run adds the rows to it; may be NULL */
};

/* Runs one pass. Blocks for long; call it on a pool thread. PL_ENOTFOUND: no such repo; PL_ELIMIT: more than
 * PL_RETENTION_COMMITS_MAX commits, or another bound of retention_rule.h; PL_EBUSY: the database changed
 * during each of PL_RETENTION_TRIES attempts; PL_ECONFIRM: the clock is doubted (clock_trust.h; not for a dry
 * run); PL_ECANCELED: stopped. Transactions before the error stay in effect. The caller owns `report`. */
PL_MUST_CHECK
int pl_retention_run(struct pl_retention_run *pass, struct pl_err *err);
/* Runs a pass over everything, and reports drops and errors in the daemon's log. */
void pl_retention_run_all(struct pl_retention_run *pass);

/* Returns PL_ENOTFOUND with the reason if the job's log, or its attempts, were dropped; else 0. */
enum pl_retention_repo_result { PL_KEEP_LOGS, PL_KEEP_RESULTS };
PL_MUST_CHECK
int pl_retention_check_job(struct pl_conn *c, int64_t job, enum pl_retention_repo_result what, struct pl_err *err);
