/* log_lines: counts the lines of a log's text, and cuts a range of them out. Pure; fed piece by piece, in order.
 *
 *   text ──▶ pl_log_lines_feed ──▶ lines `first` to `first` + `most` - 1, each bounded
 *
 * A line ends with "\n"; lines count from 1. A line that is rewritten by "\r", as by a progress bar, keeps only its last
 * state, and of that at most PL_LOG_LINE_MAX bytes: the first ones. Bounds: PL_LOG_LINES_MAX lines, and their bytes. */
#pragma once

#include "storage/base/buf.h"

#define PL_LOG_LINE_MAX  16384u
#define PL_LOG_LINES_MAX 2000u

/* One line, in `pl_log_lines.text`. */
struct pl_log_line {
    uint64_t number;
    uint64_t bytes; /* of the whole line as it was printed, without its "\n" */
    size_t at;
    uint32_t len;
    bool cut;  /* its last state has more bytes than are kept */
    bool open; /* its "\n" has not come yet */
};

/* What is wanted, and how far it has come. Set `first`, `most`, `max_bytes` and `number`; the rest is zero. */
struct pl_log_lines {
    uint64_t first;   /* number of the first line that is wanted */
    size_t most;      /* lines, at most PL_LOG_LINES_MAX */
    size_t max_bytes; /* of text: once it is reached no further line is begun */
    uint64_t number;  /* of the line that the next byte belongs to; 1 at the start of the log */
    struct pl_buf text;
    struct pl_log_line *list; /* PL_LOG_LINES_MAX entries at most; owned */
    size_t n, room;
    bool in_line; /* list[n - 1] is still open */
    bool rewind;  /* a "\r" came: the next byte that is no "\n" begins the line anew */
};

void pl_log_lines_finish(struct pl_log_lines *l);
/* Takes the next piece of text. Returns 1 if it wants more, 0 when it has all that is wanted, or PL_ENOMEM. */
PL_MUST_CHECK
int pl_log_lines_feed(struct pl_log_lines *l, const void *bytes, size_t n, struct pl_err *err);
/* True if it is in a line of which it keeps nothing more: text without a line break would change nothing but its
 * number of bytes. */
bool pl_log_lines_skips(const struct pl_log_lines *l);
/* Drops lines from the front until at most `max_bytes` of text are left, but for the last line. */
void pl_log_lines_keep_last(struct pl_log_lines *l, size_t max_bytes);
/* Number of "\n" in the bytes. */
uint64_t pl_log_lines_count(const void *bytes, size_t n);
