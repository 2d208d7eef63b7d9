/* run_waiters: requests that get their reply when a run ends. Each is checked when it is added, and again
 * whenever an event concerns a run; in between it uses no thread and makes no query.
 *
 *   add ──▶ looking (pool) ──not ended──▶ waiting ──wake, or timeout──▶ looking ──▶ … ──ended──▶ replied
 *
 * Any thread, unless said otherwise. */
#pragma once

#include "pipelined/net/loop/loop.h"
#include "pipelined/net/server/http_server.h"
#include "storage/system/thread_pool.h"

struct pl_run_waits;

/* Checks the request's run: 1 = it has ended, 0 = it has not, both with the reply in `ret`; negative = the
 * reply is `err`. Called on the pool. */
typedef int (*pl_run_waiters_fn)(void *self, struct pl_http_request *req, json_t **ret, struct pl_err *err);

PL_MUST_CHECK
int pl_run_waiters_create(struct pl_loop *loop, struct pl_pool *pool, pl_run_waiters_fn look, void *self,
                          struct pl_run_waits **ret, struct pl_err *err);
/* Replies to `req` when its run has ended, or after `timeout_ms` with the run's state then. Call it on the
 * pool: the first check runs in this call. */
void pl_run_waiters_add(struct pl_run_waits *w, struct pl_http_request *req, uint64_t timeout_ms);
/* Checks all waiting requests again. Call it when a run has changed. */
void pl_run_waiters_wake(struct pl_run_waits *w);
/* Replies to all waiting requests with the present state, and at once to those added later. After this call
 * the loop must run one more iteration, or be destroyed. */
void pl_run_waiters_stop(struct pl_run_waits *w);
/* Frees the object. Call it after stop, when pool and loop have finished their work for it. NULL is allowed;
 * returns NULL. */
struct pl_run_waits *pl_run_waiters_destroy(struct pl_run_waits *w);
