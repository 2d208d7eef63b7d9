/* timed_cond: condition variables whose waits have limits on the monotonic clock, which no change of the wall clock shortens or
 * lengthens. Any thread. */
#pragma once

#include "storage/base/base.h"

#include <pthread.h>

/* Initialises a condition variable; pthread_cond_timedwait on it takes times of CLOCK_MONOTONIC. */
void pl_timed_cond_init(pthread_cond_t *cond);
/* Waits until the condition variable is signalled, or for `ms` milliseconds; INT64_MAX = without limit. As always it may
 * also end without either: the caller looks at what it waits for. */
void pl_timed_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t ms);
