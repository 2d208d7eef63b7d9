/* A thread and the one pack that it puts. One lock and one condition variable guard the pointer to that
 * pack. */
#include "storage/pack/pack_uploader.h"

#include <signal.h>
#include <stddef.h>

void pl_pack_uploader_init(struct pl_pack_uploader *p, void (*put)(void *self, struct pl_pack_writer *w), void *self)
{
    *p = (struct pl_pack_uploader){.put = put, .self = self};
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->change, NULL);
}

void pl_pack_uploader_finish(struct pl_pack_uploader *p)
{
    pthread_mutex_lock(&p->lock);
    p->ending = true;
    pthread_cond_broadcast(&p->change);
    pthread_mutex_unlock(&p->lock);
    if (p->started)
        pthread_join(p->thread, NULL);
    pthread_cond_destroy(&p->change);
    pthread_mutex_destroy(&p->lock);
}

static void *putter_run(void *arg)
{
    struct pl_pack_uploader *p = arg;

    pthread_mutex_lock(&p->lock);
    for (;;) {
        while (p->pack == NULL && !p->ending)
            pthread_cond_wait(&p->change, &p->lock);
        if (p->pack == NULL)
            break;
        pthread_mutex_unlock(&p->lock);
        p->put(p->self, p->pack);
        pthread_mutex_lock(&p->lock);
        p->pack = NULL;
        pthread_cond_broadcast(&p->change);
    }
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* Starts the thread if it was not started yet. With the lock held. The thread blocks all signals, so that the
 * program's own threads receive them. */
static bool putter_start(struct pl_pack_uploader *p)
{
    sigset_t all, old;

    if (p->started)
        return true;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &old);
    p->started = pthread_create(&p->thread, NULL, putter_run, p) == 0;
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    return p->started;
}

bool pl_pack_uploader_submit(struct pl_pack_uploader *p, struct pl_pack_writer *w)
{
    bool taken;

    pthread_mutex_lock(&p->lock);
    taken = p->pack == NULL && putter_start(p);
    if (taken) {
        p->pack = w;
        pthread_cond_broadcast(&p->change);
    }
    pthread_mutex_unlock(&p->lock);
    return taken;
}

void pl_pack_uploader_wait(struct pl_pack_uploader *p)
{
    pthread_mutex_lock(&p->lock);
    while (p->pack != NULL)
        pthread_cond_wait(&p->change, &p->lock);
    pthread_mutex_unlock(&p->lock);
}
