/* retry_queue: a list of work for the pool and of database transactions that were refused because a queue was
 * full, or memory short. They are retried after a pause. The caller never waits, because it may run on the
 * loop, and it gets no error when the work is refused. The length of the list is bounded by the number of
 * jobs and requests to which the work belongs. */
#include "pipelined/engine/engine_internal.h"

#include <pthread.h>

#define PAUSE_MS 100

struct pl_later {
    struct pl_later *next;
    struct pl_engine *engine;
    void (*retry)(struct pl_later *l);
    pl_pool_fn work; /* function for the pool; NULL: the entry is a transaction */
    enum pl_tx_class class;
    pl_tx_fn tx; /* the transaction, used together with `class` and `done` */
    pl_tx_done done;
    void *arg;
    const char *project; /* project to which slow work for the pool belongs; lives as long as `arg` */
};

/* ---- the list ---- */

static void arm(void *arg)
{
    struct pl_engine *e = arg;

    if (!pl_timer_active(e->later_timer))
        pl_timer_start(e->later_timer, PAUSE_MS);
}

static void put_off(struct pl_engine *e, const struct pl_later *what)
{
    struct pl_later *l;
    bool first;

    while (!(l = malloc(sizeof *l)))
        usleep(1000);
    *l = *what;
    l->engine = e;
    l->next = NULL;
    pthread_mutex_lock(&e->later_mutex);
    first = !e->later;
    *(first ? &e->later : &e->later_last->next) = l;
    e->later_last = l;
    pthread_mutex_unlock(&e->later_mutex);
    if (first)
        pl_engine_post(e, "engine.later", arm, e);
}

static void retry_all(void *arg)
{
    struct pl_engine *e = arg;
    struct pl_later *list, *next;

    pthread_mutex_lock(&e->later_mutex);
    list = TAKE_PTR(e->later);
    pthread_mutex_unlock(&e->later_mutex);
    for (; list; list = next) { /* work that is refused again returns to the list, in the same order */
        next = list->next;
        list->retry(list);
        free(list);
    }
}

/* ---- the pool ---- */

static void retry_work(struct pl_later *l)
{
    pl_engine_pool(l->engine, l->work, l->arg);
}

static void retry_slow_work(struct pl_later *l)
{
    pl_engine_pool_slow(l->engine, l->project, l->work, l->arg);
}

void pl_engine_pool_slow(struct pl_engine *e, const char *project, pl_pool_fn fn, void *arg)
{
    if (e->failed)
        fn(arg);
    else if (pl_turns_run(e->turns, project, fn, arg, NULL) < 0)
        put_off(e, &(struct pl_later){.retry = retry_slow_work, .project = project, .work = fn, .arg = arg});
}

void pl_engine_pool(struct pl_engine *e, pl_pool_fn fn, void *arg)
{
    if (e->failed)
        fn(arg);
    else if (pl_pool_submit(e->config.pool, fn, arg, NULL) < 0)
        put_off(e, &(struct pl_later){.retry = retry_work, .work = fn, .arg = arg});
}

/* ---- the database ---- */

static void retry_tx(struct pl_later *l)
{
    pl_engine_submit(l->engine, l->class, l->tx, l->done, l->arg);
}

void pl_engine_submit(struct pl_engine *e, enum pl_tx_class class, pl_tx_fn fn, pl_tx_done done, void *arg)
{
    struct pl_err err = {0};
    int r = e->failed ? pl_err_set(&err, PL_ESTOPPING, "the daemon is stopping")
                      : pl_db_submit(e->config.db, class, fn, done, arg, &err);

    if (r == PL_EBUSY || r == PL_ENOMEM)
        put_off(e, &(struct pl_later){.retry = retry_tx, .class = class, .tx = fn, .done = done, .arg = arg});
    else if (r < 0)
        done(arg, r, &err);
}

/* ---- creation and shutdown ---- */

int pl_engine_retry_queue_init(struct pl_engine *e, struct pl_err *err)
{
    int r = pl_turns_create(e->config.pool, &e->turns, err);

    pthread_mutex_init(&e->later_mutex, NULL);
    return r < 0 ? r : pl_timer_create(e->config.loop, "engine.later", retry_all, e, &e->later_timer, err);
}

void pl_engine_retry_queue_flush(struct pl_engine *e)
{
    retry_all(e);
}

void pl_engine_retry_queue_finish(struct pl_engine *e)
{
    pthread_mutex_destroy(&e->later_mutex);
    pl_turns_destroy(e->turns);
    pl_timer_destroy(e->later_timer);
}
