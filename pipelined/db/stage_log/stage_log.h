/* db/stage_log: Keeps what stages print, in order of arrival.
 *
 * In:      Pieces with datum, attempt, fence and offset; losses of workers.
 * Out:     Log text from any cursor on, followed as it grows.
 * Uses:    db/writer, storage/{base, pack, store, system}
 * Threads: Any thread; seals packs on the pool.
 *
 * Headers for other rooms:
 *   log_view     any lines of a log, and a search in it
 *   log_lines    lines as log_view returns them
 *   log_search   what to search for
 *   log_stream   whole lines of several datums, with datum and time
 *
 * Inside:
 *   stage_log_internal  what the files of this room share
 *   log_sealed   sealed segments, and those in memory that are read now
 *   log_segment  the bytes of a segment, and how far each datum's output has come in it
 *
 * Pieces arrive with the datum, the attempt, the fence of the lease, and their offset in what was printed under that
 * lease: a datum whose worker was lost runs again with the same attempt and a higher fence. Its log has the output of
 * both workers, with a line between them that says why the first lease ended. Each job has one growing
 * file in DIR/logs, in which the pieces are frames in order of arrival (log_segment.h). The file is cut into segments of at most
 * PL_STAGE_LOG_SEGMENT_BYTES; a segment that is full, or whose job ends, is sealed: it becomes a compressed blob
 * in a pack. Readers read by job, filter by datum, and may follow a live job. Thread-safe. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "storage/store/project_stores.h"

#define PL_STAGE_LOG_SEGMENT_BYTES (4u << 20)
#define PL_STAGE_LOG_DATUM_BYTES   (64u << 20) /* most output of one datum; what exceeds it is dropped */

struct pl_stage_logs;

PL_MUST_CHECK
int pl_stage_logs_open(const char *dir, struct pl_db *db, struct pl_project_stores *stores, struct pl_stage_logs **ret,
                       struct pl_err *err);
struct pl_stage_logs *pl_stage_logs_close(struct pl_stage_logs *l);

/* The source of a piece: an attempt at a datum, under a lease (fence ≥ 1). */
struct pl_stage_log_source {
    struct pl_hash datum;
    uint32_t attempt;
    uint64_t fence;
};
/* Appends a piece from a worker. `offset` counts within the source: a piece that is sent twice is stored once. A
 * piece of an older lease than the last one of that attempt is dropped. PL_ETOOBIG: a piece larger than a
 * segment. Blocks on disk: on the pool. */
PL_MUST_CHECK
int pl_stage_logs_append(struct pl_stage_logs *l, const char *project, int64_t job, const struct pl_stage_log_source *source,
                         uint64_t offset, const void *bytes, size_t n, struct pl_err *err);
/* Appends the line "worker lost: WHY" to what this datum (NULL: each datum) printed under this lease, as far as that
 * output is in the newest two segments. Blocks on disk: on the pool. */
PL_MUST_CHECK
int pl_stage_logs_lost(struct pl_stage_logs *l, const char *project, int64_t job, uint64_t fence, const struct pl_hash *datum,
                       const char *why, struct pl_err *err);
/* Seals the open segment of a job that has ended. Blocks. */
PL_MUST_CHECK
int pl_stage_logs_seal(struct pl_stage_logs *l, const char *project, int64_t job, struct pl_err *err);

/* A position in a job's log: `{0}` is the start. */
struct pl_stage_log_cursor {
    uint64_t segment, offset;
    uint32_t taken; /* bytes of the frame at `offset` that were read as lines already */
};
struct pl_log_stream;
/* Appends about `max` bytes of text after `cursor` to `out` and moves the cursor. 0 bytes: no more text for now.
 * `datum` NULL: all datums. `lines` NULL: the text as it came, in which lines of datums that run at the same time may be
 * mixed; otherwise records of whole lines (log_stream.h). */
PL_MUST_CHECK
int pl_stage_logs_read(struct pl_stage_logs *l, const char *project, int64_t job, const struct pl_hash *datum,
                       struct pl_stage_log_cursor *cursor, size_t max, struct pl_log_stream *lines, struct pl_buf *out,
                       struct pl_err *err);
/* Calls `wake(arg)` on any thread when output of the job arrives or the job's log is sealed, until
 * pl_stage_logs_unwatch. `wake` must not block. */
PL_MUST_CHECK
int pl_stage_logs_watch(struct pl_stage_logs *l, int64_t job, void (*wake)(void *arg), void *arg, struct pl_err *err);
void pl_stage_logs_unwatch(struct pl_stage_logs *l, void *arg);
