/* metrics_file: follows metrics.jsonl in the output folder while the command writes it. Returns complete
 * lines of at most PL_METRICS_LINE_MAX bytes, at most PL_METRICS_RATE per second on average, with bursts of
 * PL_METRICS_BURST. Lines beyond that are not returned; the file itself is output like any other and keeps
 * them all. A command that writes no metrics.jsonl but a metrics.json has that as its one line. One thread. */
#pragma once

#include "storage/base/buf.h"

#define PL_METRICS_FILE     "metrics.jsonl"
#define PL_METRICS_RESULT   "metrics.json" /* in the place of the file: read once, when the command has ended */
#define PL_METRICS_LINE_MAX 1024u
#define PL_METRICS_TEXT_MAX 65536u /* most bytes of metrics.json; a larger one is not read */
#define PL_METRICS_RATE     10
#define PL_METRICS_BURST    100
#define PL_METRICS_POLL_MS  250

struct pl_metrics {
    int dirfd;       /* descriptor of the output folder; borrowed */
    uint64_t offset; /* bytes of the file read so far */
    /* inode of the file that is followed; a file with another inode is read from its start */
    ino_t inode;
    /* bytes of the incomplete last line; if more than PL_METRICS_LINE_MAX, the line is left out */
    size_t line_len;
    char line[PL_METRICS_LINE_MAX + 1];
    uint64_t lines;       /* number of lines returned so far */
    int64_t milli_tokens; /* lines that may be returned now, × 1000 */
    /* monotonic time at which milli_tokens was last increased */
    int64_t refilled_ms;
};

/* Begins following the file of a new command. `now_ms`: monotonic time. */
void pl_metrics_start(struct pl_metrics *m, int dirfd, int64_t now_ms);
/* Reads what was written since the last call and appends complete lines, each with its newline, to `out`.
 * `end`: the command has ended, so a last line without a newline counts too. If the file is missing, or is a
 * link or FIFO, nothing is appended. */
void pl_metrics_poll(struct pl_metrics *m, int64_t now_ms, bool end, struct pl_buf *out);
