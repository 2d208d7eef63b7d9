/* stage_log_internal: what the files of this room share. */
#pragma once

#include "pipelined/db/stage_log/stage_log.h"

/* Loads the bytes of one segment. `*ret_head`: bytes of a frame's head. Returns 1 if the segment is sealed, 0 if it is the
 * open one, PL_ENOTFOUND if there is none. */
PL_MUST_CHECK
int pl_stage_log_load(struct pl_stage_logs *l, const char *project, int64_t job, uint64_t segment, struct pl_buf *ret,
                      size_t *ret_head, struct pl_err *err);
/* Returns the database of the logs. */
struct pl_db *pl_stage_log_db(const struct pl_stage_logs *l);
/* Makes the JSON text of log_segment.entries for a segment (log_view.c); the caller frees it. PL_ENOMEM. */
PL_MUST_CHECK
int pl_stage_log_entries(const struct pl_buf *segment, char **ret, struct pl_err *err);
/* What is read of frames, and where it goes. */
struct pl_log_reading {
    const struct pl_hash *datum; /* NULL = of all datums */
    struct pl_log_stream *lines; /* NULL = text as it came */
    struct pl_stage_log_cursor *cursor;
    struct pl_buf *out;
    size_t max; /* length of `out` from which on no further frame is read */
};
/* Appends the frames after the cursor to the output and moves the cursor. The `n` bytes start at byte `base` of the log
 * segment, whose frames have heads of `head_bytes` (log_stream.c). PL_ENOMEM. */
PL_MUST_CHECK
int pl_log_take_frames(const uint8_t *bytes, size_t n, uint64_t base, size_t head_bytes, const struct pl_log_reading *to,
                       struct pl_err *err);
