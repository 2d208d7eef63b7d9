/* thread_pool: two ring buffers of work under one mutex. Threads alternate between them when both have
 * work. */
#include "storage/system/thread_pool.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>

#define POOL_MAX_THREADS 64u

struct pool_work {
    pl_pool_fn fn;
    void *arg;
};

enum { QUICK, SLOW };

struct pool_lane {
    struct pool_work *ring;
    size_t head, waiting;
};

struct pl_pool {
    pthread_mutex_t lock;
    pthread_cond_t work; /* signalled when work was added, or the pool is ending */
    pthread_cond_t room; /* signalled when a queue has room */
    pthread_cond_t idle; /* signalled when no work waits or runs */
    struct pool_lane lanes[2];
    size_t queue_max, running, slow_running, slow_max;
    bool slow_next; /* the item that was started last was quick work, so slow work is next */
    bool ending;
    unsigned threads;
    char name[16];
    pthread_t ids[POOL_MAX_THREADS];
};

/* Returns the queue from which a thread takes its next item; NULL if it must wait. Alternates between the
 * two queues if both have work; returns the queue of slow work only if fewer than slow_max threads run slow
 * work. */
static struct pool_lane *pool_lane(struct pl_pool *p)
{
    struct pool_lane *quick = &p->lanes[QUICK], *slow = &p->lanes[SLOW];

    if (slow->waiting > 0 && p->slow_running < p->slow_max && (p->slow_next || quick->waiting == 0))
        return slow;
    return quick->waiting > 0 ? quick : NULL;
}

static size_t pool_waiting(const struct pl_pool *p)
{
    return p->lanes[QUICK].waiting + p->lanes[SLOW].waiting;
}

/* Thread function: runs work until the pool ends and its queues are empty. */
static void *pool_run(void *arg)
{
    struct pl_pool *p = arg;

    pthread_setname_np(pthread_self(), p->name);
    pthread_mutex_lock(&p->lock);
    for (;;) {
        struct pool_lane *lane;
        struct pool_work w;
        bool is_slow;

        while ((lane = pool_lane(p)) == NULL && !(p->ending && pool_waiting(p) == 0))
            pthread_cond_wait(&p->work, &p->lock);
        if (lane == NULL)
            break;
        w = lane->ring[lane->head];
        lane->head = (lane->head + 1) % p->queue_max;
        lane->waiting--;
        is_slow = lane == &p->lanes[SLOW];
        p->slow_next = !is_slow;
        p->slow_running += is_slow;
        p->running++;
        pthread_cond_signal(&p->room);
        pthread_mutex_unlock(&p->lock);
        w.fn(w.arg);
        pthread_mutex_lock(&p->lock);
        p->running--;
        p->slow_running -= is_slow;
        if (p->ending)
            pthread_cond_broadcast(&p->work); /* slow work may be waiting until fewer threads run slow work */
        if (pool_waiting(p) == 0 && p->running == 0)
            pthread_cond_broadcast(&p->idle);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* Starts the threads with all signals blocked: signals are for the program's own threads. */
static int pool_start_threads(struct pl_pool *p, unsigned threads, struct pl_err *err)
{
    sigset_t all, old;
    int r = 0;

    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    while (p->threads < threads && r == 0) {
        r = pthread_create(&p->ids[p->threads], NULL, pool_run, p);
        if (r == 0)
            p->threads++;
    }
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return r == 0 ? 0 : pl_err_errno(err, r, "cannot start thread %u of pool %s", p->threads + 1, p->name);
}

int pl_pool_create(const char *name, unsigned threads, size_t queue_max, struct pl_pool **ret, struct pl_err *err)
{
    struct pl_pool *p;
    int r;

    if (threads < 1 || threads > POOL_MAX_THREADS || queue_max < 1)
        return pl_err_set(err, PL_EINVAL, "a pool needs 1 to %u threads and a queue for at least one item", POOL_MAX_THREADS);
    p = calloc(1, sizeof(*p));
    if (p == NULL)
        return pl_err_nomem(err);
    for (unsigned i = 0; i < PL_ARRAY_SIZE(p->lanes); i++)
        p->lanes[i].ring = calloc(queue_max, sizeof(*p->lanes[i].ring));
    if (p->lanes[QUICK].ring == NULL || p->lanes[SLOW].ring == NULL) {
        free(p->lanes[QUICK].ring);
        free(p->lanes[SLOW].ring);
        free(p);
        return pl_err_nomem(err);
    }
    p->queue_max = queue_max;
    p->slow_max = PL_MAX(1u, threads / 2);
    (void)snprintf(p->name, sizeof(p->name), "%s", name);
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->work, NULL);
    pthread_cond_init(&p->room, NULL);
    pthread_cond_init(&p->idle, NULL);
    r = pool_start_threads(p, threads, err);
    if (r < 0) {
        pl_pool_destroy(p);
        return r;
    }
    *ret = p;
    return 0;
}

/* The caller holds the lock and has checked that the queue has room. */
static void pool_push(struct pl_pool *p, struct pool_lane *lane, pl_pool_fn fn, void *arg)
{
    lane->ring[(lane->head + lane->waiting) % p->queue_max] = (struct pool_work){fn, arg};
    lane->waiting++;
    pthread_cond_signal(&p->work);
}

static int pool_submit(struct pl_pool *p, struct pool_lane *lane, pl_pool_fn fn, void *arg, struct pl_err *err)
{
    bool full;

    pthread_mutex_lock(&p->lock);
    full = lane->waiting == p->queue_max;
    if (!full)
        pool_push(p, lane, fn, arg);
    pthread_mutex_unlock(&p->lock);
    return full ? pl_err_set(err, PL_EBUSY, "the queue of pool %s is full: %zu items wait; try again", p->name, p->queue_max) : 0;
}

int pl_pool_submit(struct pl_pool *p, pl_pool_fn fn, void *arg, struct pl_err *err)
{
    return pool_submit(p, &p->lanes[QUICK], fn, arg, err);
}

int pl_pool_submit_slow(struct pl_pool *p, pl_pool_fn fn, void *arg, struct pl_err *err)
{
    return pool_submit(p, &p->lanes[SLOW], fn, arg, err);
}

unsigned pl_pool_slow_threads(const struct pl_pool *p)
{
    return (unsigned)p->slow_max;
}

int pl_pool_submit_wait(struct pl_pool *p, pl_pool_fn fn, void *arg, struct pl_err *err)
{
    struct pool_lane *lane = &p->lanes[QUICK];

    (void)err;
    pthread_mutex_lock(&p->lock);
    while (lane->waiting == p->queue_max)
        pthread_cond_wait(&p->room, &p->lock);
    pool_push(p, lane, fn, arg);
    pthread_mutex_unlock(&p->lock);
    return 0;
}

void pl_pool_drain(struct pl_pool *p)
{
    pthread_mutex_lock(&p->lock);
    while (pool_waiting(p) > 0 || p->running > 0)
        pthread_cond_wait(&p->idle, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

bool pl_pool_drain_for(struct pl_pool *p, unsigned ms)
{
    struct timespec until;
    bool idle;
    int r = 0;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += ms / 1000;
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&p->lock);
    while (r == 0 && (pool_waiting(p) > 0 || p->running > 0))
        r = pthread_cond_timedwait(&p->idle, &p->lock, &until);
    idle = pool_waiting(p) == 0 && p->running == 0;
    pthread_mutex_unlock(&p->lock);
    return idle;
}

struct pl_pool *pl_pool_destroy(struct pl_pool *p)
{
    if (p == NULL)
        return NULL;
    pthread_mutex_lock(&p->lock);
    p->ending = true; /* the threads first complete all waiting work */
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (unsigned i = 0; i < p->threads; i++)
        pthread_join(p->ids[i], NULL);
    pthread_cond_destroy(&p->idle);
    pthread_cond_destroy(&p->room);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->lock);
    free(p->lanes[QUICK].ring);
    free(p->lanes[SLOW].ring);
    free(p);
    return NULL;
}

unsigned pl_cores(void)
{
    cpu_set_t set;
    int n = 0;

    if (sched_getaffinity(0, sizeof(set), &set) == 0)
        n = CPU_COUNT(&set);
    if (n < 1)
        n = (int)sysconf(_SC_NPROCESSORS_ONLN);
    return (unsigned)PL_MIN(PL_MAX(n, 1), 64);
}
