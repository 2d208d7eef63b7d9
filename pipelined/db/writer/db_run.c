/* db_run: submits a transaction for a thread that waits for its result. */
#include "pipelined/db/writer/db.h"

#include "storage/system/lock_order.h"

#include <pthread.h>

struct waiter {
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    pl_tx_fn fn;
    void *arg;
    bool done;
    int result;
    struct pl_err err;
};

static int waiter_run(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct waiter *w = arg;

    return w->fn(tx, w->arg, err);
}

static void waiter_done(void *arg, int r, const struct pl_err *err)
{
    struct waiter *w = arg;

    pthread_mutex_lock(&w->mutex);
    w->result = r;
    w->err = *err;
    w->done = true;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->mutex);
}

int pl_db_run(struct pl_db *db, enum pl_tx_class class, pl_tx_fn fn, void *arg, struct pl_err *err)
{
    struct waiter w = {.mutex = PTHREAD_MUTEX_INITIALIZER, .cond = PTHREAD_COND_INITIALIZER, .fn = fn, .arg = arg};
    int r = pl_db_submit(db, class, waiter_run, waiter_done, &w, err);

    if (r < 0)
        return r;
    pl_lock_order_take(PL_LOCK_DB_WRITER);
    pl_lock_order_give(PL_LOCK_DB_WRITER);
    pthread_mutex_lock(&w.mutex);
    while (!w.done)
        pthread_cond_wait(&w.cond, &w.mutex);
    pthread_mutex_unlock(&w.mutex);
    if (w.result < 0 && err)
        *err = w.err;
    return w.result;
}
