/* db/stage_log: Keeps what stages print, in order of arrival.
 *
 * In:      Pieces with datum, attempt and offset.
 * Out:     Log text from any place on, followed as it grows.
 * Uses:    db/writer, storage/{pack, store, system}
 * Threads: Any thread; seals packs on the pool. */

/* stage_log: what stages print. Pieces arrive with the datum, the attempt and their offset in that attempt's output; they are kept in
 * order of arrival as frames in one growing file a job in DIR/logs, cut into segments of at most PL_STAGE_LOG_SEGMENT_BYTES that become
 * blobs in packs (compressed there) when full and when the job ends. Read by job, filtered by datum, followed live. Thread-safe. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "storage/store/project_stores.h"

#define PL_STAGE_LOG_SEGMENT_BYTES (4u << 20)
#define PL_STAGE_LOG_DATUM_BYTES   (64u << 20) /* a datum's output past it is cut, with a notice */

struct pl_stage_logs;

PL_MUST_CHECK
int pl_stage_logs_open(const char *dir, struct pl_db *db, struct pl_project_stores *stores, struct pl_stage_logs **ret,
                       struct pl_err *err);
struct pl_stage_logs *pl_stage_logs_close(struct pl_stage_logs *l);

/* Appends what a worker sent. `offset` counts within (datum, attempt): a piece sent twice is kept once. Blocks on disk: on the pool. */
PL_MUST_CHECK
int pl_stage_logs_append(struct pl_stage_logs *l, const char *project, int64_t job, const char *worker,
                         const struct pl_hash *datum, unsigned attempt, uint64_t offset, const void *bytes, size_t n,
                         struct pl_err *err);
/* The job has ended: its open segments are sealed into packs. Blocks. */
PL_MUST_CHECK
int pl_stage_logs_seal(struct pl_stage_logs *l, const char *project, int64_t job, struct pl_err *err);

/* A place in a job's log: `{0}` is the start. */
struct pl_stage_log_cursor {
    uint64_t segment, offset;
};
/* Up to `max` bytes (about) after `cursor` into `out`, lines prefixed by nothing; moves the cursor. 0 bytes: nothing more now.
 * `datum` NULL: all. */
PL_MUST_CHECK
int pl_stage_logs_read(struct pl_stage_logs *l, const char *project, int64_t job, const struct pl_hash *datum,
                       struct pl_stage_log_cursor *cursor, size_t max, struct pl_buf *out, struct pl_err *err);
/* Calls `wake(arg)` (any thread) after bytes of the job arrive or it is sealed, until unwatch. */
PL_MUST_CHECK
int pl_stage_logs_watch(struct pl_stage_logs *l, int64_t job, void (*wake)(void *arg), void *arg, struct pl_err *err);
void pl_stage_logs_unwatch(struct pl_stage_logs *l, void *arg);
