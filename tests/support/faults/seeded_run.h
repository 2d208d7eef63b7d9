/* seeded: random bytes, the wall clock and the clock since boot of this program follow from what the test says, so that a run repeats to the
 * byte. Included once in a program: it takes the C library's place. Threads that draw at the same time have what they draw in any order. */
#pragma once

#include "storage/base/hash.h"

#include <pthread.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static struct {
    pthread_mutex_t lock;
    uint64_t rng;
    int64_t wall_us;
} seeded = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Long ago: no file is older than it may be. */
static inline void seeded_begin(uint64_t seed)
{
    pthread_mutex_lock(&seeded.lock);
    seeded.rng = seed;
    seeded.wall_us = 1600000000LL * 1000000;
    pthread_mutex_unlock(&seeded.lock);
}

/* The clocks stand still but for this. */
static inline void seeded_wait_us(int64_t us)
{
    pthread_mutex_lock(&seeded.lock);
    seeded.wall_us += us;
    pthread_mutex_unlock(&seeded.lock);
}

ssize_t getrandom(void *out, size_t n, unsigned flags)
{
    uint8_t *p = out;

    (void)flags;
    pthread_mutex_lock(&seeded.lock);
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t)pl_splitmix64(&seeded.rng);
    pthread_mutex_unlock(&seeded.lock);
    return (ssize_t)n;
}

int clock_gettime(clockid_t which, struct timespec *ret)
{
    if (which != CLOCK_REALTIME && which != CLOCK_BOOTTIME)
        return (int)syscall(SYS_clock_gettime, which, ret);
    pthread_mutex_lock(&seeded.lock);
    *ret = (struct timespec){.tv_sec = seeded.wall_us / 1000000, .tv_nsec = seeded.wall_us % 1000000 * 1000};
    pthread_mutex_unlock(&seeded.lock);
    return 0;
}
