/* The thread that redraws the progress line, and the line's text. */
#include "pipelined/cli/support/progress.h"

#include "storage/base/clock.h"
#include "storage/base/path.h"
#include <stdio.h>
#include <sys/ioctl.h>
#include <time.h>

/* ---- the text ---- */

void pl_cli_progress_rate_next(struct pl_cli_progress_rate *rate, int64_t now_ms, uint64_t bytes)
{
    int64_t ms = now_ms - rate->at_ms;
    double now, weight;

    if (bytes < rate->bytes) {
        *rate = (struct pl_cli_progress_rate){.at_ms = now_ms, .bytes = bytes};
        return;
    }
    if (ms <= 0)
        return;
    now = (double)(bytes - rate->bytes) * 1000 / (double)ms;
    /* the longer ago the last look is, the less the old rate says */
    weight = rate->begun ? (double)ms / (double)(ms + PL_CLI_PROGRESS_SMOOTH_MS) : 1;
    rate->per_s += (now - rate->per_s) * weight;
    rate->begun = true;
    rate->at_ms = now_ms;
    rate->bytes = bytes;
}

int64_t pl_cli_progress_left_s(const struct pl_cli_progress_state *state, const struct pl_cli_progress_rate *rate)
{
    double left_s;

    if (state->total_bytes == 0 || !rate->begun || rate->per_s < 1 || state->bytes >= state->total_bytes)
        return -1;
    left_s = (double)(state->total_bytes - state->bytes) / rate->per_s;
    return left_s > PL_CLI_PROGRESS_LEFT_MAX_S ? -1 : (int64_t)left_s + 1;
}

char *pl_cli_progress_text(const char *word, const struct pl_cli_progress_state *state, const struct pl_cli_progress_rate *rate,
                           char out[PL_CLI_PROGRESS_TEXT])
{
    const uint64_t total = state->total_bytes, bytes = total ? PL_MIN(state->bytes, total) : state->bytes;
    int64_t left_s = pl_cli_progress_left_s(state, rate);
    char of_files[32] = "", of_bytes[64] = "", text[32];
    int n;

    if (total) {
        unsigned percent = (unsigned)((double)bytes / (double)total * 100);

        snprintf(of_files, sizeof of_files, " of %llu", (unsigned long long)state->total_files);
        snprintf(of_bytes, sizeof of_bytes, " of %s (%u %%)", pl_size_text(total, text), percent);
    }
    n = snprintf(out, PL_CLI_PROGRESS_TEXT, "%s ", word);
    if (state->total_files != 1 && (state->files || state->total_files))
        n += snprintf(out + n, PL_CLI_PROGRESS_TEXT - (size_t)n, "%llu%s files, ", (unsigned long long)state->files, of_files);
    n += snprintf(out + n, PL_CLI_PROGRESS_TEXT - (size_t)n, "%s%s", pl_size_text(bytes, text), of_bytes);
    if (rate->begun)
        n += snprintf(out + n, PL_CLI_PROGRESS_TEXT - (size_t)n, ", %s/s", pl_size_text((uint64_t)rate->per_s, text));
    if (left_s >= 0)
        snprintf(out + n, PL_CLI_PROGRESS_TEXT - (size_t)n, ", %s left", pl_duration_text(left_s * 1000, text));
    return out;
}

/* ---- the line ---- */

bool pl_cli_progress_seen(const struct pl_cli *c)
{
    return !c->quiet && !c->json && isatty(STDERR_FILENO);
}

/* Waits until `at_ms` or the end of the operation. Returns false at the end. */
static bool wait_until(struct pl_cli_progress *p, int64_t at_ms)
{
    struct timespec at = {.tv_sec = at_ms / 1000, .tv_nsec = at_ms % 1000 * 1000000};
    bool over;

    pthread_mutex_lock(&p->lock);
    while (!p->over && pthread_cond_clockwait(&p->ended, &p->lock, CLOCK_MONOTONIC, &at) == 0)
        ;
    over = p->over;
    pthread_mutex_unlock(&p->lock);
    return !over;
}

static void draw(const char *text)
{
    struct winsize size;
    int width = ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 1 ? size.ws_col - 1 : PL_CLI_PROGRESS_TEXT;

    /* a line that wraps could not be erased */
    fprintf(stderr, "\r\033[K%.*s", width, text);
    fflush(stderr);
}

static void *show(void *arg)
{
    struct pl_cli_progress *p = arg;
    struct pl_cli_progress_rate rate = {.at_ms = pl_clock_mono_ms(), .bytes = atomic_load(p->bytes)};
    int64_t at_ms = rate.at_ms + PL_CLI_PROGRESS_FIRST_MS;
    char text[PL_CLI_PROGRESS_TEXT];
    bool shown = false;

    for (; wait_until(p, at_ms); at_ms = pl_clock_mono_ms() + PL_CLI_PROGRESS_EACH_MS) {
        struct pl_cli_progress_state state = {.files = p->files ? atomic_load(p->files) : 0,
                                              .bytes = atomic_load(p->bytes),
                                              .total_files = p->total_files,
                                              .total_bytes = p->total_bytes};

        pl_cli_progress_rate_next(&rate, pl_clock_mono_ms(), state.bytes);
        draw(pl_cli_progress_text(p->word, &state, &rate, text));
        shown = true;
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
    p->over = false;
    if (!pl_cli_progress_seen(c))
        return;
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->ended, NULL);
    p->running = pthread_create(&p->thread, NULL, show, p) == 0;
}

void pl_cli_progress_stop(struct pl_cli_progress *p)
{
    if (!p->running)
        return;
    pthread_mutex_lock(&p->lock);
    p->over = true;
    pthread_cond_signal(&p->ended);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    pthread_mutex_destroy(&p->lock);
    pthread_cond_destroy(&p->ended);
    p->running = false;
}
