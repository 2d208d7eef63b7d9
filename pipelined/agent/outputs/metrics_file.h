/* metrics: follows metrics.jsonl in the output folder while the command writes it: whole lines of at most PL_METRICS_LINE_MAX bytes, at most
 * PL_METRICS_RATE a second on average (a burst of PL_METRICS_BURST). What is over that is left out here; the file itself is output
 * like any other and keeps all of it. One thread. */
#pragma once

#include "storage/base/buf.h"

#define PL_METRICS_FILE     "metrics.jsonl"
#define PL_METRICS_LINE_MAX 1024u
#define PL_METRICS_RATE     10
#define PL_METRICS_BURST    100
#define PL_METRICS_POLL_MS  250

struct pl_metrics {
    int dirfd;       /* the output folder; the caller's */
    uint64_t offset; /* of the file, read so far */
    ino_t inode;     /* of the file read; another one starts anew */
    size_t line_len; /* bytes of the line not finished yet; more than the maximum = left out */
    char line[PL_METRICS_LINE_MAX + 1];
    uint64_t lines;       /* sent so far */
    int64_t milli_tokens; /* lines that may be sent now, × 1000 */
    int64_t refilled_ms;
};

/* For a new command. */
void pl_metrics_start(struct pl_metrics *m, int dirfd, int64_t now_ms);
/* Reads what has come since and appends the lines to send, each with its newline, to `out`. `end`: the command is over, so a last
 * line without a newline counts. An absent file, a link or a FIFO in its place: nothing. */
void pl_metrics_poll(struct pl_metrics *m, int64_t now_ms, bool end, struct pl_buf *out);
