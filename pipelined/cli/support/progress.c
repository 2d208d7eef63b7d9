/* The thread that redraws the progress line. */
#include "pipelined/cli/support/progress.h"

#include "storage/base/clock.h"
#include "storage/base/path.h"
#include <stdio.h>

#define FIRST_MS 400
#define EACH_MS  100

bool pl_cli_progress_seen(const struct pl_cli *c)
{
    return !c->quiet && !c->json && isatty(STDERR_FILENO);
}

static void *show(void *arg)
{
    struct pl_cli_progress *p = arg;
    int64_t began = pl_clock_mono_ms();
    bool shown = false;
    char size[32], speed[32];

    while (!atomic_load(&p->over)) {
        int64_t ms = pl_clock_mono_ms() - began;
        uint64_t bytes = atomic_load(p->bytes);

        if (ms >= FIRST_MS) {
            fprintf(stderr, "\r\033[K%s %llu files, %s, %s/s", p->word, (unsigned long long)atomic_load(p->files),
                    pl_size_text(bytes, size), pl_size_text(bytes * 1000 / (uint64_t)ms, speed));
            shown = true;
        }
        usleep(EACH_MS * 1000);
    }
    if (shown)
        fputs("\r\033[K", stderr);
    return NULL;
}

void pl_cli_progress_start(const struct pl_cli *c, struct pl_cli_progress *p, const char *word, const _Atomic uint64_t *files,
                           const _Atomic uint64_t *bytes)
{
    p->word = word;
    p->files = files;
    p->bytes = bytes;
    atomic_store(&p->over, false);
    p->running = pl_cli_progress_seen(c) && pthread_create(&p->thread, NULL, show, p) == 0;
}

void pl_cli_progress_stop(struct pl_cli_progress *p)
{
    if (!p->running)
        return;
    atomic_store(&p->over, true);
    pthread_join(p->thread, NULL);
    p->running = false;
}
