/* log_ckpt: when a checkpoint of the log is made: after so many log objects, or a day with at least one. One at a time, on the pool; one
 * that fails is tried again after a tenth of that, or with the day. Stopping gives up one that is under way.
 *
 *        objects since the last ≥ every,  or 24 h and ≥ 1
 *   idle ──────────────────────────────────────────────▶ writing ──▶ idle         what was logged meanwhile counts for the next one */
#pragma once

#include "pipelined/db/writer/db.h"
#include "pipelined/net/loop/loop.h"
#include "storage/system/thread_pool.h"

#define PL_LOG_CKPT_HOURS 24

struct pl_log_ckpt;

struct pl_log_ckpt_config {
    struct pl_db *db; /* outlives what is made here, as loop and pool do */
    struct pl_loop *loop;
    struct pl_pool *pool;
    const char *dir; /* DIR/cache: its folder ckpt is for scratch files: emptied when this is created */
    uint64_t every;  /* log objects; at least 1 */
};

/* Asks the store what there is. PL_EIO and the like. */
PL_MUST_CHECK
int pl_log_ckpt_create(const struct pl_log_ckpt_config *config, struct pl_log_ckpt **ret, struct pl_err *err);
/* The log has come to `seq`: pl_db_config.logged. Any thread; NULL is fine. */
void pl_log_ckpt_logged(struct pl_log_ckpt *c, uint64_t seq);
/* What is under way is given up as soon as it can be; nothing new begins. Any thread; NULL is fine. */
void pl_log_ckpt_stop(struct pl_log_ckpt *c);
/* After the pool has drained and the database has stopped. NULL is fine. */
struct pl_log_ckpt *pl_log_ckpt_destroy(struct pl_log_ckpt *c);
