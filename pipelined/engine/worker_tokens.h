/* worker_doors: which workers there are, for the threads that look at tokens: each with its principal (api/principal.h). A worker has one
 * from its start, or from its being found again after the daemon's, until it is gone. Thread-safe; nothing blocks. */
#pragma once

#include "pipelined/policy/principal.h"

struct pl_worker_doors;

PL_MUST_CHECK
int pl_worker_tokens_create(struct pl_worker_doors **ret, struct pl_err *err);
struct pl_worker_doors *pl_worker_tokens_destroy(struct pl_worker_doors *d);
/* All workers that a start found again have theirs: whoever has none now is gone. */
void pl_worker_tokens_settle(struct pl_worker_doors *d);
PL_MUST_CHECK
int pl_worker_tokens_add(struct pl_worker_doors *d, uint64_t worker, uint64_t version, const char *project, const char *stage,
                         struct pl_err *err);
/* Its principal is revoked. */
void pl_worker_tokens_remove(struct pl_worker_doors *d, uint64_t worker);
#define PL_INCARNATION_BYTES 64
/* The worker's first token is exchanged by that start of it; by the same start again as often as it likes. PL_EFORBIDDEN: another start has done so. */
PL_MUST_CHECK
int pl_worker_tokens_exchange(struct pl_worker_doors *d, uint64_t worker, const char *incarnation, struct pl_err *err);
/* Its principal, a reference for the caller; of one that is gone, one without project. `incarnation`: of the token that it came with; NULL = the first
 * one, whose principal is another: once it was exchanged it may only ask for that again (an answer is lost now and then, and a daemon restarted),
 * and when the other was used nothing at all. PL_EAUTH: the token is good no more; PL_EBUSY before they are settled. */
PL_MUST_CHECK
int pl_worker_tokens_find(struct pl_worker_doors *d, uint64_t worker, const char *incarnation, struct pl_principal **ret,
                          struct pl_err *err);
