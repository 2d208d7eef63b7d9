/* log_segment: the bytes of one segment of a stage's log, and a record of how much of each datum's output the
 * segment has. Does no I/O.
 *
 *   segment := "PLSL", u8 version, frames
 *   frame   := datum 32 | u32 attempt | u64 fence | u64 at_us | u64 offset | u32 length | the bytes        (little-endian)
 *
 * `fence` is the fence of the lease under which the bytes were printed; `offset` counts within (datum, attempt,
 * fence), and `at_us` is when the daemon received them (µs since 1970). A frame with offset PL_LOG_LINE_OFFSET is a line of
 * the daemon that says why the lease ended. Older versions are only read: in version 2 a frame has no at_us, in version 1
 * it has no fence either. The first frame is empty; its "datum" identifies the job to which the
 * segment belongs. */
#pragma once

#include "storage/base/buf.h"
#include "storage/base/hash.h"
#include "storage/base/map.h"

#define PL_LOG_SEGMENT_MAGIC_BYTES 5u  /* with the version */
#define PL_LOG_FRAME_BYTES         64u /* of a frame's head in the version that is written */
#define PL_LOG_SEGMENT_START_BYTES (PL_LOG_SEGMENT_MAGIC_BYTES + PL_LOG_FRAME_BYTES) /* a segment without output */
#define PL_LOG_LINE_OFFSET         UINT64_MAX

struct pl_log_frame {
    struct pl_hash datum;
    uint32_t attempt;
    uint64_t fence; /* 0 = unknown, because the segment has version 1 */
    int64_t at_us;  /* 0 = unknown, because the segment has version 1 or 2 */
    uint64_t offset;
    const uint8_t *bytes; /* borrowed */
    uint32_t len;
};

/* How much of one attempt's output a segment has. */
struct pl_log_progress {
    uint64_t fence; /* of the newest lease that printed something; 0 = unknown */
    uint64_t end;   /* bytes received under that lease */
    bool over;      /* a line that says why the lease ended follows the output */
    bool mid_line;  /* the last byte is no line break */
};

/* Writes the start of a segment that belongs to the job `owner`. */
void pl_log_segment_start(const struct pl_hash *owner, uint8_t out[PL_LOG_SEGMENT_START_BYTES]);
/* True if the bytes are the start of a segment of the job `owner`, in a version that can be read. */
bool pl_log_segment_is_of(const void *bytes, size_t n, const struct pl_hash *owner);
/* Returns the bytes of a frame's head in this segment; 0 if these are not the first bytes of a segment. */
size_t pl_log_segment_head_bytes(const void *bytes, size_t n);

void pl_log_frame_head(const struct pl_log_frame *f, uint8_t out[PL_LOG_FRAME_BYTES]);
/* Reads the next frame, whose head has `head_bytes`. False at the end, or at a frame that a crash cut off. */
bool pl_log_frame_next(struct pl_cursor *c, size_t head_bytes, struct pl_log_frame *ret);

/* A map of progress: key (datum, attempt) → struct pl_log_progress, which the map owns. */
#define PL_LOG_PROGRESS_KEY 36u
struct pl_log_progress *pl_log_progress_of(const struct pl_map *map, const struct pl_hash *datum, uint32_t attempt);
/* Records a frame. `before`: the progress of an earlier segment, which continues; NULL = none. PL_ENOMEM. */
PL_MUST_CHECK
int pl_log_progress_note(struct pl_map *map, const struct pl_log_frame *f, const struct pl_log_progress *before,
                         struct pl_err *err);
/* Records all whole frames of a segment. `*ret_size`: end of the last one. PL_ENOMEM. */
PL_MUST_CHECK
int pl_log_progress_load(struct pl_map *map, const struct pl_buf *segment, uint64_t *ret_size, struct pl_err *err);
/* Reads datum and attempt of a key of the map. */
void pl_log_progress_key(const uint8_t key[PL_LOG_PROGRESS_KEY], struct pl_hash *ret_datum, uint32_t *ret_attempt);
