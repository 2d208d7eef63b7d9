/* Looks at the next log key. Objects of this daemon's own epoch are skipped: its writer has just put them. */
#include "pipelined/db/writer/log_watch.h"

#include "storage/base/clock.h"
#include "storage/dataset/log/log.h"
#include "storage/http/cancel.h"

#include <pthread.h>

struct pl_log_watch {
    struct pl_log_watch_config config;
    _Atomic uint64_t seq;
    atomic_bool told, stopping;
    pthread_mutex_t lock;
    pthread_cond_t wake; /* signalled on stop, and to check at once */
    bool soon;           /* under `lock`: the thread must check at once */
    bool doubted;        /* under `lock`: no check that began since `soon` was set has succeeded */
    pthread_t thread;
    bool started;
};

void pl_log_watch_at(struct pl_log_watch *w, uint64_t seq)
{
    uint64_t known = atomic_load(&w->seq);

    while (known < seq && !atomic_compare_exchange_weak(&w->seq, &known, seq))
        ;
}

int pl_log_watch_look(struct pl_log_watch *w, struct pl_err *err)
{
    uint64_t seq = atomic_load(&w->seq);
    struct pl_err why = {0};
    int r = pl_log_owned(w->config.objects, w->config.epoch, &seq, &why);

    if (r == 0)
        pl_log_watch_at(w, seq);
    else if (r == PL_EFENCED && !atomic_exchange(&w->told, true))
        w->config.fenced(w->config.self, &why);
    if (r < 0 && err)
        *err = why;
    return r;
}

void pl_log_watch_look_soon(struct pl_log_watch *w)
{
    pthread_mutex_lock(&w->lock);
    w->soon = w->doubted = true;
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
}

bool pl_log_watch_is_ours(struct pl_log_watch *w)
{
    bool ours;

    pthread_mutex_lock(&w->lock);
    ours = !w->doubted;
    pthread_mutex_unlock(&w->lock);
    return ours;
}

static void *watch_main(void *arg)
{
    struct pl_log_watch *w = arg;

    pthread_setname_np(pthread_self(), "log-watch");
    pl_cancel_by(&w->stopping);
    pthread_mutex_lock(&w->lock);
    while (!atomic_load(&w->stopping)) {
        const int64_t due = pl_clock_mono_ms() + w->config.every_ms;
        const struct timespec until = {.tv_sec = due / 1000, .tv_nsec = due % 1000 * 1000000};
        bool ours;

        if (!w->soon && pthread_cond_timedwait(&w->wake, &w->lock, &until) == 0)
            continue;
        w->soon = false;
        pthread_mutex_unlock(&w->lock);
        ours = pl_log_watch_look(w, NULL) == 0; /* errors of the store are reported by the operations that need it */
        pthread_mutex_lock(&w->lock);
        w->doubted = w->doubted && (!ours || w->soon);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

int pl_log_watch_create(const struct pl_log_watch_config *config, struct pl_log_watch **ret, struct pl_err *err)
{
    struct pl_log_watch *w = calloc(1, sizeof *w);
    pthread_condattr_t monotonic;

    if (!w)
        return pl_err_nomem(err);
    w->config = *config;
    w->seq = config->seq;
    pthread_mutex_init(&w->lock, NULL);
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&w->wake, &monotonic);
    pthread_condattr_destroy(&monotonic);
    w->started = config->every_ms && pthread_create(&w->thread, NULL, watch_main, w) == 0;
    if (config->every_ms && !w->started) {
        pl_log_watch_destroy(w);
        return pl_err_nomem(err);
    }
    *ret = w;
    return 0;
}

void pl_log_watch_stop(struct pl_log_watch *w)
{
    if (!w || !w->started)
        return;
    pthread_mutex_lock(&w->lock);
    atomic_store(&w->stopping, true);
    pthread_cond_signal(&w->wake);
    pthread_mutex_unlock(&w->lock);
    pl_object_wake(w->config.objects);
    pthread_join(w->thread, NULL);
    w->started = false;
}

struct pl_log_watch *pl_log_watch_destroy(struct pl_log_watch *w)
{
    if (!w)
        return NULL;
    pl_log_watch_stop(w);
    pthread_cond_destroy(&w->wake);
    pthread_mutex_destroy(&w->lock);
    free(w);
    return NULL;
}
