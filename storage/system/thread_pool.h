/* pool: a fixed number of threads and two bounded queues of work: what is quick, and what may take long. Half of the threads do no slow work,
 * so that quick work never waits for slow work to end. */
#pragma once

#include "storage/base/err.h"

struct pl_pool;
typedef void (*pl_pool_fn)(void *arg);

/* `name` is the threads' name (≤ 15 bytes), `threads` 1..64, `queue_max` the bound of waiting work in each queue. */
PL_MUST_CHECK
int pl_pool_create(const char *name, unsigned threads, size_t queue_max, struct pl_pool **ret, struct pl_err *err);
/* Runs fn(arg) on one of the threads, in order of submission. PL_EBUSY at the bound; never blocks. */
PL_MUST_CHECK
int pl_pool_submit(struct pl_pool *p, pl_pool_fn fn, void *arg, struct pl_err *err);
/* The same for work that may take long: on half of the threads at most, at least one. */
PL_MUST_CHECK
int pl_pool_submit_slow(struct pl_pool *p, pl_pool_fn fn, void *arg, struct pl_err *err);
unsigned pl_pool_slow_threads(const struct pl_pool *p);
/* As submit, but waits for room: for producers that are threads themselves (ingest). */
PL_MUST_CHECK
int pl_pool_submit_wait(struct pl_pool *p, pl_pool_fn fn, void *arg, struct pl_err *err);
/* Until nothing waits and nothing runs. */
void pl_pool_drain(struct pl_pool *p);
/* The same for at most `ms`: false when something is left. For who must do its own part meanwhile, or the work would wait for it. */
bool pl_pool_drain_for(struct pl_pool *p, unsigned ms);
/* Drains, then joins. */
struct pl_pool *pl_pool_destroy(struct pl_pool *p);
/* Online cores, at least 1, at most 64. */
unsigned pl_cores(void);
