/* progress: a line on a terminal's stderr while something long goes on; nothing anywhere else. */
#pragma once

#include "pipelined/cli/support/cli.h"
#include <pthread.h>
#include <stdatomic.h>

struct pl_cli_progress {
    const char *word;              /* "read" */
    const _Atomic uint64_t *files; /* counted up by whoever works */
    const _Atomic uint64_t *bytes;
    pthread_t thread;
    bool running;
    atomic_bool over;
};

/* Begins when stderr is a terminal and neither --quiet nor --json was given. `p` stays where it is until the end. */
void pl_cli_progress_start(const struct pl_cli *c, struct pl_cli_progress *p, const char *word, const _Atomic uint64_t *files,
                           const _Atomic uint64_t *bytes);
/* Takes the line away. Also without a start. */
void pl_cli_progress_stop(struct pl_cli_progress *p);
/* Whether there is anybody to see it. */
bool pl_cli_progress_seen(const struct pl_cli *c);
