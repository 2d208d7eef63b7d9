/* progress: a progress line on stderr during a long operation, if stderr is a terminal. */
#pragma once

#include "pipelined/cli/support/cli.h"
#include <pthread.h>
#include <stdatomic.h>

struct pl_cli_progress {
    const char *word;              /* word printed before the figures, such as "read" */
    const _Atomic uint64_t *files; /* counters that the operation increases; borrowed */
    const _Atomic uint64_t *bytes;
    pthread_t thread;
    bool running;
    atomic_bool over;
};

/* Starts a thread that prints the progress line, if stderr is a terminal and neither --quiet nor --json was
 * given. `p` must stay at the same address until pl_cli_progress_stop. */
void pl_cli_progress_start(const struct pl_cli *c, struct pl_cli_progress *p, const char *word, const _Atomic uint64_t *files,
                           const _Atomic uint64_t *bytes);
/* Stops the thread and erases the progress line. Does nothing if no thread was started. */
void pl_cli_progress_stop(struct pl_cli_progress *p);
/* True if progress is shown: stderr is a terminal, and neither --quiet nor --json was given. */
bool pl_cli_progress_seen(const struct pl_cli *c);
