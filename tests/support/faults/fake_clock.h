/* clock_ahead: the clocks of this program are ahead by what the test says, so that what is waited for for minutes comes at once.
 * Included once in a program: it takes the C library's place. */
#pragma once

#include <stdatomic.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static atomic_int_fast64_t clock_ahead_ms, clock_wall_ahead_ms; /* below 0: it was set back */

int clock_gettime(clockid_t which, struct timespec *ret)
{
    const int64_t ahead_ms = which == CLOCK_MONOTONIC  ? atomic_load(&clock_ahead_ms)
                             : which == CLOCK_REALTIME ? atomic_load(&clock_wall_ahead_ms)
                                                       : 0;
    const int r = (int)syscall(SYS_clock_gettime, which, ret);

    ret->tv_sec += ahead_ms / 1000;
    return r;
}
