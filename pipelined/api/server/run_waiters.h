/* run_waits: requests that are answered when a run ends. Each is looked at once when it comes, and again whenever something has
 * happened to a run; between that it costs no thread and no query.
 *
 *   add ──▶ looking (pool) ──not yet──▶ waiting ──wake, or its time is over──▶ looking ──▶ … ──done──▶ answered
 *
 * Any thread, unless said otherwise. */
#pragma once

#include "pipelined/net/loop/loop.h"
#include "pipelined/net/server/http_server.h"
#include "storage/system/thread_pool.h"

struct pl_run_waits;

/* How it stands: 1 = it has ended, 0 = not yet, both with the answer; negative: the error is the answer. On the pool. */
typedef int (*pl_run_waiters_fn)(void *self, struct pl_http_request *req, json_t **ret, struct pl_err *err);

PL_MUST_CHECK
int pl_run_waiters_create(struct pl_loop *loop, struct pl_pool *pool, pl_run_waiters_fn look, void *self,
                          struct pl_run_waits **ret, struct pl_err *err);
/* Answers `req` when its run has ended, or after `timeout_ms` as it is then. On the pool. */
void pl_run_waiters_add(struct pl_run_waits *w, struct pl_http_request *req, uint64_t timeout_ms);
/* Something has happened to a run. */
void pl_run_waiters_wake(struct pl_run_waits *w);
/* All are answered as it is now, also those that are added later. The loop shall turn once more, or be destroyed. */
void pl_run_waiters_stop(struct pl_run_waits *w);
/* After stop, when pool and loop do nothing for it any more. NULL is fine. */
struct pl_run_waits *pl_run_waiters_destroy(struct pl_run_waits *w);
