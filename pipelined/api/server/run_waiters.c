/* Keeps a list of waiting requests. Checks run on the pool, one at a time for each request. A wake-up during
 * a check makes the check run again. One timer on the loop serves the timeouts, and repeats checks that could
 * not be queued because the pool was full. */
#include "pipelined/api/server/run_waiters.h"

#include "storage/base/clock.h"
#include "storage/system/log_line.h"

#include <pthread.h>

#define BUSY_MS 20 /* milliseconds until a check is queued again if the pool was full */

struct wait {
    struct wait *next, *prev;
    struct pl_run_waits *all;
    struct pl_http_request *req;
    int64_t until_ms;
    bool looking; /* a check runs on the pool, or is queued */
    bool again;   /* check once more: a wake-up came during the check, or the pool was full */
};

struct pl_run_waits {
    struct pl_loop *loop;
    struct pl_pool *pool;
    pl_run_waiters_fn look;
    void *self;
    struct pl_timer *timer; /* for the next timeout or retry; created, used and destroyed on the loop */
    struct pl_loop_work arm;
    pthread_mutex_t lock; /* guards the fields below */
    struct wait *first;
    bool stopping;
};

static void look(void *arg);

/* Queues a check of `w`. The caller holds the lock. */
static void look_soon(struct wait *w)
{
    if (w->looking) {
        w->again = true;
        return;
    }
    w->looking = pl_pool_submit(w->all->pool, look, w, NULL) == 0;
    w->again = !w->looking;
}

/* Removes `w` from the list. The caller holds the lock. */
static void unlink_wait(struct wait *w)
{
    if (w->prev)
        w->prev->next = w->next;
    else
        w->all->first = w->next;
    if (w->next)
        w->next->prev = w->prev;
}

/* Ends a check with result `r`. Returns true if `w` goes back to waiting. Returns false with `*ret_over` set
 * if `w` must get its reply now; `w` is then unlinked. Returns false without `*ret_over` if the check must
 * run again. */
static bool look_ended(struct wait *w, int r, bool *ret_over)
{
    struct pl_run_waits *all = w->all;
    bool waits;

    pthread_mutex_lock(&all->lock);
    *ret_over = r != 0 || all->stopping || pl_clock_mono_ms() >= w->until_ms || pl_http_request_gone(w->req);
    if (*ret_over)
        unlink_wait(w);
    waits = !*ret_over && !w->again;
    w->looking = !waits;
    w->again = false;
    pthread_mutex_unlock(&all->lock);
    return waits;
}

/* Checks a request until it can get its reply or goes back to waiting. */
static void look(void *arg)
{
    struct wait *w = arg;

    for (;;) {
        struct pl_err err = {0};
        json_t *answer = NULL;
        bool over;
        int r = w->all->look(w->all->self, w->req, &answer, &err);

        if (look_ended(w, r, &over)) {
            json_decref(answer);
            return; /* `w` may be freed already by another check */
        }
        if (!over) {
            json_decref(answer);
            continue;
        }
        if (r < 0)
            pl_http_reply_error(w->req, &err);
        else
            pl_http_reply_json(w->req, 200, answer);
        free(w);
        return;
    }
}

static void on_time(void *arg);

static void set_timer(struct pl_run_waits *all, int64_t in_ms)
{
    struct pl_err err = {0};

    if (!all->timer && pl_timer_create(all->loop, "run_waits.time", on_time, all, &all->timer, &err) < 0)
        pl_log_error("api", "requests that wait for a run will not time out: %s", err.msg);
    if (all->timer)
        pl_timer_start(all->timer, (uint64_t)in_ms);
}

/* Sets the timer for the earliest timeout or retry. On the loop. */
static void arm(void *arg)
{
    struct pl_run_waits *all = arg;
    int64_t now = pl_clock_mono_ms(), at = INT64_MAX;
    bool stopping;

    pthread_mutex_lock(&all->lock);
    stopping = all->stopping;
    for (struct wait *w = all->first; w; w = w->next)
        if (!w->looking)
            at = PL_MIN(at, w->again ? now + BUSY_MS : w->until_ms);
    pthread_mutex_unlock(&all->lock);
    if (stopping)
        all->timer = pl_timer_destroy(all->timer);
    else if (at != INT64_MAX)
        set_timer(all, PL_MAX(at - now, 1));
}

static void on_time(void *arg)
{
    struct pl_run_waits *all = arg;
    int64_t now = pl_clock_mono_ms();

    pthread_mutex_lock(&all->lock);
    for (struct wait *w = all->first; w; w = w->next)
        if (!w->looking && (w->again || w->until_ms <= now))
            look_soon(w);
    pthread_mutex_unlock(&all->lock);
    arm(all);
}

int pl_run_waiters_create(struct pl_loop *loop, struct pl_pool *pool, pl_run_waiters_fn look_fn, void *self,
                          struct pl_run_waits **ret, struct pl_err *err)
{
    struct pl_run_waits *all = calloc(1, sizeof *all);

    if (!all)
        return pl_err_nomem(err);
    *all = (struct pl_run_waits){.loop = loop, .pool = pool, .look = look_fn, .self = self};
    pthread_mutex_init(&all->lock, NULL);
    *ret = all;
    return 0;
}

void pl_run_waiters_add(struct pl_run_waits *all, struct pl_http_request *req, uint64_t timeout_ms)
{
    struct wait *w = calloc(1, sizeof *w);
    struct pl_err err = {0};

    if (!w) {
        pl_err_nomem(&err);
        pl_http_reply_error(req, &err);
        return;
    }
    *w = (struct wait){.all = all, .req = req, .until_ms = pl_clock_mono_ms() + (int64_t)timeout_ms, .looking = true};
    pthread_mutex_lock(&all->lock);
    w->next = all->first;
    if (w->next)
        w->next->prev = w;
    all->first = w;
    pthread_mutex_unlock(&all->lock);
    look(w); /* `w` is already in the list, so a wake-up during this check is not missed */
    pl_loop_post_work(all->loop, &all->arm, "run_waits.arm", arm, all);
}

void pl_run_waiters_wake(struct pl_run_waits *all)
{
    bool refused = false;

    pthread_mutex_lock(&all->lock);
    for (struct wait *w = all->first; w; w = w->next) {
        look_soon(w);
        refused |= !w->looking;
    }
    pthread_mutex_unlock(&all->lock);
    if (refused)
        pl_loop_post_work(all->loop, &all->arm, "run_waits.arm", arm, all);
}

void pl_run_waiters_stop(struct pl_run_waits *all)
{
    pthread_mutex_lock(&all->lock);
    all->stopping = true;
    pthread_mutex_unlock(&all->lock);
    pl_run_waiters_wake(all);
    pl_loop_post_work(all->loop, &all->arm, "run_waits.arm", arm, all);
}

struct pl_run_waits *pl_run_waiters_destroy(struct pl_run_waits *all)
{
    if (!all)
        return NULL;
    while (all->first) {
        struct wait *w = all->first;

        unlink_wait(w);
        free(w);
    }
    pthread_mutex_destroy(&all->lock);
    free(all);
    return NULL;
}
