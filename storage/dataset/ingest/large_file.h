/* segment: one large file hashed by several readers at once. Internal to storage/dataset.
 *
 *   a helper takes the next segment ─ reads it, marks candidates ─ waits for its turn ─ cuts ─ passes the uncut tail on ─ hashes ─┐
 *        ▲                                                          (in order of segments)        (at most 256 KiB)             │
 *        └──────────────────────────────────────────────────────────────────────────────────────────────────────────────────────┘
 *
 * Only cutting is in order, and it costs microseconds a segment. Chunk ids reach the list in order whoever finishes first; a helper
 * that is PL_LARGE_FILE_SEGMENTS_AHEAD segments ahead of the slowest waits. Memory: a buffer a helper, PL_LARGE_FILE_SEGMENTS_AHEAD lists of ids. */
#pragma once

#include "storage/dataset/file/file_write.h"

#define PL_LARGE_FILE_SEGMENTS_AHEAD 32u

/* One helper's memory; used for one file after another. `{0}` is empty. */
struct pl_large_file_buffer {
    uint8_t *bytes; /* [tail of the segment before][segment] */
    uint64_t *bits;
};
PL_MUST_CHECK
int pl_large_file_buffer_init(struct pl_large_file_buffer *b, struct pl_err *err);
void pl_large_file_buffer_finish(struct pl_large_file_buffer *b);

struct pl_large_file_job;

/* `fd` is open for reading at least `size` bytes, more than PL_CHUNK_MAX_BYTES; it, `sink` and `stop` outlive the job. `stop` (may be
 * NULL): true ends the job with PL_ECANCELED. */
PL_MUST_CHECK
int pl_large_file_job_create(int fd, uint64_t size, const struct pl_file_write_sink *sink, const _Atomic bool *stop,
                             struct pl_large_file_job **ret, struct pl_err *err);
/* Works on the file until no segment is left to take. Any number of threads, each with its own buffer. Errors are the job's: they
 * come from finish. */
void pl_large_file_job_help(struct pl_large_file_job *job, struct pl_large_file_buffer *buffer);
/* When all helpers have returned: the entry, or the first error; PL_ECHANGED when the file ended early. */
PL_MUST_CHECK
int pl_large_file_job_finish(struct pl_large_file_job *job, uint8_t kind, struct pl_entry *ret, struct pl_err *err);
struct pl_large_file_job *pl_large_file_job_destroy(struct pl_large_file_job *job);
static inline void pl_large_file_job_destroyp(struct pl_large_file_job **job)
{
    *job = pl_large_file_job_destroy(*job);
}
