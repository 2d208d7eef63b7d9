/* kube_wait: private to the room: lets a thread wait for an asynchronous operation of the I/O thread. */
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

/* Wakes the waiting thread. On the I/O thread, which must not use `w` afterwards. */
void pl_kube_wake(struct kube_wait *w);
/* Blocks until pl_kube_wake, and destroys the lock. */
void pl_kube_await(struct kube_wait *w);
