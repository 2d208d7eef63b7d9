/* kube_wait.c: a mutex, a condition variable and a flag. */
#include "pipelined/kube/client/kube_wait.h"

void pl_kube_wake(struct kube_wait *w)
{
    pthread_mutex_lock(&w->lock);
    w->done = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

void pl_kube_await(struct kube_wait *w)
{
    pthread_mutex_lock(&w->lock);
    while (!w->done)
        pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
    pthread_mutex_destroy(&w->lock);
    pthread_cond_destroy(&w->changed);
}
