/* engine_call: runs a function on the loop for a thread that waits for it. */
#include "pipelined/engine/engine_internal.h"

#include <pthread.h>

struct waited {
    pl_loop_fn fn;
    void *arg;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool done;
};

static void run(void *arg)
{
    struct waited *w = arg;

    w->fn(w->arg);
    pthread_mutex_lock(&w->mutex);
    w->done = true;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->mutex);
}

int pl_engine_call(struct pl_engine *e, pl_loop_fn fn, void *arg, struct pl_err *err)
{
    struct waited w = {.fn = fn, .arg = arg};

    if (e->hung_up) /* the loop may have stopped, so the call would never run */
        return pl_err_set(err, PL_ESTOPPING, "the daemon is stopping");
    pthread_mutex_init(&w.mutex, NULL);
    pthread_cond_init(&w.cond, NULL);
    pl_engine_post(e, "engine.call", run, &w);
    pthread_mutex_lock(&w.mutex);
    while (!w.done)
        pthread_cond_wait(&w.cond, &w.mutex);
    pthread_mutex_unlock(&w.mutex);
    pthread_mutex_destroy(&w.mutex);
    pthread_cond_destroy(&w.cond);
    return 0;
}
