/* log_checkpoint_schedule: when to write a log checkpoint: after a number of log objects, or a day with at least
 * one. One at a time, on the pool; a failed one is retried after a tenth of that number, or after a day. Stopping
 * cancels the one in progress.
 *
 *        objects since the last ≥ every,  or 24 h and ≥ 1
 *   idle ──────────────────────────────────────────────▶ writing ──▶ idle
 *
 * Objects logged during the writing count for the next one. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "pipelined/net/loop/loop.h"
#include "storage/system/thread_pool.h"

#define PL_LOG_CKPT_HOURS 24

struct pl_log_ckpt;

struct pl_log_ckpt_config {
    struct pl_db *db; /* must outlive the schedule, like loop and pool */
    struct pl_loop *loop;
    struct pl_pool *pool;
    const char *dir; /* DIR/cache: its folder ckpt is for scratch files; create empties it */
    uint64_t every;  /* log objects; at least 1 */
};

/* Creates the schedule; asks the store for its checkpoints. Errors of the store. */
PL_MUST_CHECK
int pl_log_ckpt_create(const struct pl_log_ckpt_config *config, struct pl_log_ckpt **ret, struct pl_err *err);
/* Reports that the log has reached `seq`: for pl_db_config.logged. Any thread; NULL is allowed. */
void pl_log_ckpt_logged(struct pl_log_ckpt *c, uint64_t seq);
/* Cancels the checkpoint in progress as soon as possible; none is started any more. Any thread; NULL is allowed. */
void pl_log_ckpt_stop(struct pl_log_ckpt *c);
/* Frees after the pool has drained and the database has stopped. NULL is allowed. */
struct pl_log_ckpt *pl_log_ckpt_destroy(struct pl_log_ckpt *c);
