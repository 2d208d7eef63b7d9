/* log_stream: makes whole lines of what several datums print at the same time. Pure; fed frame by frame, in order of
 * arrival; one thread.
 *
 *   record := at_us " " datum " " attempt " " state " " text "\n"      (at_us 0 = unknown; datum: 64 hex digits)
 *   state  := "="   a line that ended
 *           | "+"   the end of a datum's output, without a line break; or a part of a line over PL_LOG_STREAM_LINE_MAX bytes
 *           | "~"   the present state of a line that goes on, such as a progress bar; a later record replaces it
 *
 * A record is written when its line ends, so lines of two datums are never mixed. Of a line that is rewritten by "\r" the last
 * state is kept. A line without a line break ends once another datum prints under the same lease, at the latest at the end of
 * the log. Bounds: PL_LOG_STREAM_OPEN_MAX lines that have not ended; at one more, the oldest is written as "+". A record
 * is much longer than a short line: each call ends once `out` has `max` bytes, at most one record later, and the next call
 * goes on. */
#pragma once

#include "storage/base/buf.h"

#define PL_LOG_STREAM_LINE_MAX (64u << 10)
#define PL_LOG_STREAM_OPEN_MAX 1024u

struct pl_log_frame;
struct pl_log_stream;

PL_MUST_CHECK
int pl_log_stream_create(struct pl_log_stream **ret, struct pl_err *err);
struct pl_log_stream *pl_log_stream_destroy(struct pl_log_stream *s);
/* Takes a frame from its byte `*at` on and appends the records of the lines that it ends to `out`. Moves `*at`: to the frame's
 * end if all of it was taken. PL_ENOMEM. */
PL_MUST_CHECK
int pl_log_stream_feed(struct pl_log_stream *s, const struct pl_log_frame *f, uint32_t *at, size_t max, struct pl_buf *out,
                       struct pl_err *err);
/* Appends "~" records of the lines that changed since the last call and have not ended. PL_ENOMEM. */
PL_MUST_CHECK
int pl_log_stream_states(struct pl_log_stream *s, size_t max, struct pl_buf *out, struct pl_err *err);
/* Appends "+" records of all lines that have not ended, in the order in which they began. PL_ENOMEM. */
PL_MUST_CHECK
int pl_log_stream_end(struct pl_log_stream *s, size_t max, struct pl_buf *out, struct pl_err *err);
