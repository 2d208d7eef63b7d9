/* pool_turns: slow work of one owner runs in turns: `each` pieces of it at the same time, PL_TURNS_WAITING more wait, and further ones are
 * refused. An owner is a name: the user of a request, or the project of a plan.
 *
 *   run ──fewer than `each` run──▶ the pool's slow queue ──▶ fn ──▶ done: the owner's next piece
 *    └──`each` run──▶ waits, at most PL_TURNS_WAITING ─────┘
 *
 * `each` is half of the threads for slow work, at least one: so one owner cannot keep the work of other
 * owners from running. Any thread. */
#pragma once

#include "storage/system/thread_pool.h"

#define PL_TURNS_WAITING 64

struct pl_turns;

PL_MUST_CHECK
int pl_turns_create(struct pl_pool *pool, struct pl_turns **ret, struct pl_err *err);
/* Waits until all work has run, and frees the object. Must not be called on a thread of the pool. NULL is
 * allowed; returns NULL. */
struct pl_turns *pl_turns_destroy(struct pl_turns *t);

/* Calls fn(arg) on the pool when it is the turn of `owner`, whose name is copied. PL_EBUSY: too much work of this owner waits, or the pool
 * is full; PL_ENOMEM. Does not block. */
PL_MUST_CHECK
int pl_turns_run(struct pl_turns *t, const char *owner, pl_pool_fn fn, void *arg, struct pl_err *err);
