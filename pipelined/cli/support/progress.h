/* progress: a progress line on stderr during a long operation, if stderr is a terminal:
 *
 *   read 3 of 10 files, 1.2 GiB of 4.0 GiB (30 %), 120 MiB/s, 23 s left       the total is known
 *   read 3 files, 1.2 GiB, 120 MiB/s                                          it is not
 *
 * A thread redraws the line every PL_CLI_PROGRESS_EACH_MS. Its text is a pure function of the counters and of a rate that is
 * smoothed over about PL_CLI_PROGRESS_SMOOTH_MS, so that the time left does not jump with each pause. */
#pragma once

#include "pipelined/cli/support/cli.h"
#include <pthread.h>
#include <stdatomic.h>

#define PL_CLI_PROGRESS_FIRST_MS   400 /* operations that end sooner show no line */
#define PL_CLI_PROGRESS_EACH_MS    250
#define PL_CLI_PROGRESS_SMOOTH_MS  5000
#define PL_CLI_PROGRESS_TEXT       256
#define PL_CLI_PROGRESS_LEFT_MAX_S (100 * 3600) /* a longer time left is no more than a guess, and is not shown */

/* ---- the text, without a terminal ---- */

/* How fast bytes come. `{.at_ms = START}` at the start. */
struct pl_cli_progress_rate {
    int64_t at_ms;
    uint64_t bytes; /* the counter at that time */
    double per_s;
    bool begun; /* per_s is known */
};

/* How far an operation is. */
struct pl_cli_progress_state {
    uint64_t files, bytes;
    uint64_t total_files, total_bytes; /* 0 = unknown */
};

/* Takes the counter's value at `now_ms`. A counter that was set back, because the operation began anew, begins a new rate. */
void pl_cli_progress_rate_next(struct pl_cli_progress_rate *rate, int64_t now_ms, uint64_t bytes);
/* Returns the seconds that are left; -1 if they are unknown: without a total, without a rate, or if they would be more than
 * PL_CLI_PROGRESS_LEFT_MAX_S. */
int64_t pl_cli_progress_left_s(const struct pl_cli_progress_state *state, const struct pl_cli_progress_rate *rate);
/* Writes the line, without a line break. Returns `out`. */
char *pl_cli_progress_text(const char *word, const struct pl_cli_progress_state *state, const struct pl_cli_progress_rate *rate,
                           char out[PL_CLI_PROGRESS_TEXT]);

/* ---- the line ---- */

struct pl_cli_progress {
    const char *word;                  /* word printed before the figures, such as "read" */
    const _Atomic uint64_t *files;     /* counters that the operation increases; borrowed. NULL = no files are counted */
    const _Atomic uint64_t *bytes;     /* borrowed */
    uint64_t total_files, total_bytes; /* set them before the start; 0 = unknown */
    pthread_t thread;
    pthread_mutex_t lock; /* guards `over` */
    pthread_cond_t ended;
    bool running, over;
};

/* Starts a thread that prints the progress line, if stderr is a terminal and neither --quiet nor --json was
 * given. `p` is zero but for its totals, and must stay at the same address until pl_cli_progress_stop. */
void pl_cli_progress_start(const struct pl_cli *c, struct pl_cli_progress *p, const char *word, const _Atomic uint64_t *files,
                           const _Atomic uint64_t *bytes);
/* Stops the thread and erases the progress line. Does nothing if no thread was started. */
void pl_cli_progress_stop(struct pl_cli_progress *p);
/* True if progress is shown: stderr is a terminal, and neither --quiet nor --json was given. */
bool pl_cli_progress_seen(const struct pl_cli *c);
