/* request_turns: costly requests of one principal run in turns: `each` of them at the same time,
 * PL_TURNS_WAITING more wait, and further ones are refused.
 *
 *   run ──fewer than `each` run──▶ the pool's slow queue ──▶ fn ──▶ done: the principal's next one
 *    └──`each` run──▶ waits, at most PL_TURNS_WAITING ─────┘
 *
 * One principal therefore occupies at most half of the threads for slow work. Any thread. */
#pragma once

#include "pipelined/net/server/http_server.h"
#include "storage/base/effort.h"
#include "storage/system/thread_pool.h"

#define PL_TURNS_WAITING 64
/* Limits of one request's work on data that others may have uploaded: steps, and milliseconds. */
#define PL_TURNS_STEPS_MAX ((uint64_t)1 << 26)
#define PL_TURNS_WORK_MS   60000

struct pl_turns;

PL_MUST_CHECK
int pl_turns_create(struct pl_pool *pool, struct pl_turns **ret, struct pl_err *err);
/* Frees the object. Call it when nothing runs or waits any more. NULL is allowed; returns NULL. */
struct pl_turns *pl_turns_destroy(struct pl_turns *t);

/* Calls fn(arg) on the pool when it is the turn of the principal `who`. PL_EBUSY: too many requests of this
 * principal wait, or the pool is full; PL_ENOMEM. */
PL_MUST_CHECK
int pl_turns_run(struct pl_turns *t, const char *who, pl_pool_fn fn, void *arg, struct pl_err *err);

/* Makes the limits of a request's work, starting now: steps, time, and the end when its client disconnects.
 * Valid as long as the request. */
struct pl_effort pl_turns_effort(const struct pl_http_request *req);
