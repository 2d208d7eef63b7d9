/* large_file: chunks one large file with several reader threads. Used only in this room.
 *
 *   take the next segment ─▶ read, mark candidates ─▶ wait for its turn ─▶ cut ─▶ pass the tail on ─▶ hash ─┐
 *    ▲                                                (in order of segments)     (at most 256 KiB)          │
 *    └─────────────────────────────────────────────────────────────────────────────────────────────────────┘
 *
 * Only cutting happens in order, and it takes microseconds per segment. Chunk ids are added to the list in
 * order, whatever the order in which helpers finish. A helper waits if it is PL_LARGE_FILE_SEGMENTS_AHEAD
 * segments ahead of the slowest helper. Memory: one buffer per helper, and the chunk ids of
 * PL_LARGE_FILE_SEGMENTS_AHEAD segments. */
#pragma once

#include "storage/dataset/file/file_write.h"

#define PL_LARGE_FILE_SEGMENTS_AHEAD 32u

/* The buffers of one helper, reused for each file. `{0}` is empty. */
struct pl_large_file_buffer {
    uint8_t *bytes; /* [tail of the segment before][segment] */
    uint64_t *bits;
};
PL_MUST_CHECK
int pl_large_file_buffer_init(struct pl_large_file_buffer *b, struct pl_err *err);
void pl_large_file_buffer_finish(struct pl_large_file_buffer *b);

struct pl_large_file_job;

/* Creates a job for a file of `size` bytes, more than PL_CHUNK_MAX_BYTES. `fd` is open for reading; `fd`,
 * `sink` and `stop` must outlive the job. `stop` (may be NULL): true ends the job with PL_ECANCELED. */
PL_MUST_CHECK
int pl_large_file_job_create(int fd, uint64_t size, const struct pl_file_write_sink *sink, const _Atomic bool *stop,
                             struct pl_large_file_job **ret, struct pl_err *err);
/* Works on the file until no segment is left. Any number of threads may call it, each with its own buffer.
 * Errors are returned by pl_large_file_job_finish. */
void pl_large_file_job_help(struct pl_large_file_job *job, struct pl_large_file_buffer *buffer);
/* Returns the entry, or the first error, after all helpers have returned. PL_ECHANGED: the file ended
 * early. */
PL_MUST_CHECK
int pl_large_file_job_finish(struct pl_large_file_job *job, uint8_t kind, struct pl_entry *ret, struct pl_err *err);
struct pl_large_file_job *pl_large_file_job_destroy(struct pl_large_file_job *job);
static inline void pl_large_file_job_destroyp(struct pl_large_file_job **job)
{
    *job = pl_large_file_job_destroy(*job);
}
