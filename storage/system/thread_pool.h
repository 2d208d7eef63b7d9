/* thread_pool: a fixed number of threads with two bounded queues, for quick work and for slow work. At most
 * half of the threads (but at least one) run slow work, so that with two or more threads quick work never
 * waits for slow work to end. */
#pragma once

#include "storage/base/err.h"

struct pl_pool;
typedef void (*pl_pool_fn)(void *arg);

/* Creates a pool. `name` is the threads' name (at most 15 bytes), `threads` is 1 to 64, `queue_max` is the
 * maximum number of waiting items in each queue. PL_EINVAL, PL_ENOMEM, PL_EIO. */
PL_MUST_CHECK
int pl_pool_create(const char *name, unsigned threads, size_t queue_max, struct pl_pool **ret, struct pl_err *err);
/* Runs fn(arg) on one of the threads; items start in the order of submission. PL_EBUSY if the queue is full;
 * never blocks. */
PL_MUST_CHECK
int pl_pool_submit(struct pl_pool *p, pl_pool_fn fn, void *arg, struct pl_err *err);
/* Submits slow work, which runs on at most pl_pool_slow_threads threads. PL_EBUSY if the queue is full; never
 * blocks. */
PL_MUST_CHECK
int pl_pool_submit_slow(struct pl_pool *p, pl_pool_fn fn, void *arg, struct pl_err *err);
/* Returns how many threads may run slow work at the same time. */
unsigned pl_pool_slow_threads(const struct pl_pool *p);
/* Submits quick work, and waits while the queue is full. For callers that have their own thread, such as
 * ingest; not for threads of the pool. */
PL_MUST_CHECK
int pl_pool_submit_wait(struct pl_pool *p, pl_pool_fn fn, void *arg, struct pl_err *err);
/* Waits until no work waits or runs. */
void pl_pool_drain(struct pl_pool *p);
/* Waits like pl_pool_drain, but at most `ms` milliseconds; returns false if work is left. For a caller that
 * must do something between two waits because work in the pool depends on it. */
bool pl_pool_drain_for(struct pl_pool *p, unsigned ms);
/* Completes all submitted work, ends the threads and frees the pool. NULL is allowed. Returns NULL. */
struct pl_pool *pl_pool_destroy(struct pl_pool *p);
/* Returns the number of CPUs that this process may use, 1 to 64. */
unsigned pl_cores(void);
