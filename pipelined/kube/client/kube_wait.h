/* kube_wait: private to the client: a thread waits for what the I/O thread does. */
#pragma once

#include <pthread.h>
#include <stdbool.h>

struct kube_wait {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
};
#define PL_KUBE_WAIT                                                                                                             \
    {                                                                                                                            \
        PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false                                                               \
    }

/* It is done. The I/O thread; the last that it does with it. */
void pl_kube_wake(struct kube_wait *w);
/* Blocks until then; the thing can go after that. */
void pl_kube_await(struct kube_wait *w);
