/* timed_cond: an attribute at the start, and the time of the end for each wait. */
#include "storage/system/timed_cond.h"

#include <time.h>

void pl_timed_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t monotonic;

    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

void pl_timed_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t ms)
{
    struct timespec until;

    if (ms == INT64_MAX) {
        pthread_cond_wait(cond, lock);
        return;
    }
    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += (time_t)(ms / 1000);
    until.tv_nsec += (long)(ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    (void)pthread_cond_timedwait(cond, lock, &until);
}
