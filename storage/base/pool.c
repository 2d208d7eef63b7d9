#include "pool.h"

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

struct pl_pool {
    pthread_mutex_t lock;
    pthread_cond_t work;     /* something waits, or it ends */
    pthread_cond_t room;     /* the queue has room */
    pthread_cond_t idle;     /* nothing waits and nothing runs */
    struct pool_work *queue; /* a ring */
    size_t queue_max, head, waiting, running;
    bool ending;
    unsigned threads;
    char name[16];
    pthread_t ids[POOL_MAX_THREADS];
};

static void *pool_run(void *arg)
{
    struct pl_pool *p = arg;

    pthread_setname_np(pthread_self(), p->name);
    pthread_mutex_lock(&p->lock);
    for (;;) {
        struct pool_work w;

        while (p->waiting == 0 && !p->ending)
            pthread_cond_wait(&p->work, &p->lock);
        if (p->waiting == 0)
            break;
        w = p->queue[p->head];
        p->head = (p->head + 1) % p->queue_max;
        p->waiting--;
        p->running++;
        pthread_cond_signal(&p->room);
        pthread_mutex_unlock(&p->lock);
        w.fn(w.arg);
        pthread_mutex_lock(&p->lock);
        p->running--;
        if (p->waiting == 0 && p->running == 0)
            pthread_cond_broadcast(&p->idle);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* Signals belong to the program's own threads: the pool's block them all. */
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
    return r == 0 ? 0 : pl_err_errno(err, r, "start thread %u of pool %s", p->threads + 1, p->name);
}

int pl_pool_create(const char *name, unsigned threads, size_t queue_max, struct pl_pool **ret, struct pl_err *err)
{
    struct pl_pool *p;
    int r;

    if (threads < 1 || threads > POOL_MAX_THREADS || queue_max < 1)
        return pl_err_set(err, PL_EINVAL, "a pool has 1 to %u threads and room for at least one piece of work", POOL_MAX_THREADS);
    p = calloc(1, sizeof(*p));
    if (p == NULL)
        return pl_err_nomem(err);
    p->queue = calloc(queue_max, sizeof(*p->queue));
    if (p->queue == NULL) {
        free(p);
        return pl_err_nomem(err);
    }
    p->queue_max = queue_max;
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

/* Call with the lock held and room in the queue. */
static void pool_push(struct pl_pool *p, pl_pool_fn fn, void *arg)
{
    p->queue[(p->head + p->waiting) % p->queue_max] = (struct pool_work){fn, arg};
    p->waiting++;
    pthread_cond_signal(&p->work);
}

int pl_pool_submit(struct pl_pool *p, pl_pool_fn fn, void *arg, struct pl_err *err)
{
    bool full;

    pthread_mutex_lock(&p->lock);
    full = p->waiting == p->queue_max;
    if (!full)
        pool_push(p, fn, arg);
    pthread_mutex_unlock(&p->lock);
    return full ? pl_err_set(err, PL_EBUSY, "the queue of pool %s is at its bound of %zu", p->name, p->queue_max) : 0;
}

int pl_pool_submit_wait(struct pl_pool *p, pl_pool_fn fn, void *arg, struct pl_err *err)
{
    (void)err;
    pthread_mutex_lock(&p->lock);
    while (p->waiting == p->queue_max)
        pthread_cond_wait(&p->room, &p->lock);
    pool_push(p, fn, arg);
    pthread_mutex_unlock(&p->lock);
    return 0;
}

void pl_pool_drain(struct pl_pool *p)
{
    pthread_mutex_lock(&p->lock);
    while (p->waiting > 0 || p->running > 0)
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
    while (r == 0 && (p->waiting > 0 || p->running > 0))
        r = pthread_cond_timedwait(&p->idle, &p->lock, &until);
    idle = p->waiting == 0 && p->running == 0;
    pthread_mutex_unlock(&p->lock);
    return idle;
}

struct pl_pool *pl_pool_destroy(struct pl_pool *p)
{
    if (p == NULL)
        return NULL;
    pthread_mutex_lock(&p->lock);
    p->ending = true; /* the threads still empty the queue first */
    pthread_cond_broadcast(&p->work);
    pthread_mutex_unlock(&p->lock);
    for (unsigned i = 0; i < p->threads; i++)
        pthread_join(p->ids[i], NULL);
    pthread_cond_destroy(&p->idle);
    pthread_cond_destroy(&p->room);
    pthread_cond_destroy(&p->work);
    pthread_mutex_destroy(&p->lock);
    free(p->queue);
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
