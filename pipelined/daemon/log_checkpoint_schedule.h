/* log_checkpoint_schedule: decides when to write a checkpoint of the log: after `every` log objects, or
 * after a day if there is at least one log object. The pool writes one checkpoint at a time. A failed
 * checkpoint is retried after `every` / 10 more log objects, or after a day. Stopping the schedule cancels a
 * checkpoint that is being written.
 *
 *        objects since the last ≥ every,  or 24 h and ≥ 1
 *   idle ──────────────────────────────────────────────▶ writing ──▶ idle
 *
 * Log objects that arrive while a checkpoint is written count for the next one. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "pipelined/net/loop/loop.h"
#include "storage/system/thread_pool.h"

#define PL_LOG_CKPT_HOURS 24

struct pl_log_ckpt;

struct pl_log_ckpt_config {
    struct pl_db *db; /* the database; `db`, `loop` and `pool` must outlive the schedule */
    struct pl_loop *loop;
    struct pl_pool *pool;
    /* the folder DIR/cache; scratch files lie in its subfolder ckpt, which pl_log_ckpt_create empties */
    const char *dir;
    uint64_t every; /* number of log objects after which a checkpoint is due; at least 1 */
};

/* Creates the schedule. Reads from the store which checkpoints exist. Errors of the store. */
PL_MUST_CHECK
int pl_log_ckpt_create(const struct pl_log_ckpt_config *config, struct pl_log_ckpt **ret, struct pl_err *err);
/* Reports that log object number `seq` has been written; used as pl_db_config.logged. Any thread; NULL is
 * allowed. */
void pl_log_ckpt_logged(struct pl_log_ckpt *c, uint64_t seq);
/* Cancels a checkpoint that is being written, as soon as possible, and starts no further one. Any thread;
 * NULL is allowed. */
void pl_log_ckpt_stop(struct pl_log_ckpt *c);
/* Frees the schedule. Call it after the pool has drained and the database has stopped. NULL is allowed. */
struct pl_log_ckpt *pl_log_ckpt_destroy(struct pl_log_ckpt *c);
