/* turns: costly requests, those of each principal by turns: so many at once, so many more wait, and the next is told to come later.
 *
 *   run ──fewer than `each` of theirs──▶ the pool's slow queue ──▶ fn ──▶ over: the next of theirs
 *    └──as many──▶ waits, PL_TURNS_WAITING of theirs at most ───┘
 *
 * So one principal keeps half of the threads that do slow work at most, and none of the others. Any thread. */
#pragma once

#include "pipelined/net/server/http_server.h"
#include "storage/base/effort.h"
#include "storage/system/thread_pool.h"

#define PL_TURNS_WAITING 64
/* What one request may cost at most: steps over what others brought, and time. */
#define PL_TURNS_STEPS_MAX ((uint64_t)1 << 26)
#define PL_TURNS_WORK_MS   60000

struct pl_turns;

PL_MUST_CHECK
int pl_turns_create(struct pl_pool *pool, struct pl_turns **ret, struct pl_err *err);
/* Nothing runs or waits any more. NULL is fine. */
struct pl_turns *pl_turns_destroy(struct pl_turns *t);

/* Calls fn(arg) when it is the turn of `who`, on the pool. PL_EBUSY: too many of theirs wait, or the pool has no room; PL_ENOMEM. */
PL_MUST_CHECK
int pl_turns_run(struct pl_turns *t, const char *who, pl_pool_fn fn, void *arg, struct pl_err *err);

/* What the request may cost from now on: so many steps, so long, and no more once its client has gone. As long as the request. */
struct pl_effort pl_turns_effort(const struct pl_http_request *req);
