/* worker_tokens: a table of the known workers and their principals (policy/principal.h), for the threads that
 * check tokens. A worker is known from its start, or from its restoration after a start of the daemon, until
 * it is gone. Thread-safe; no call blocks. */
#pragma once

#include "pipelined/policy/principal.h"

struct pl_worker_doors;

PL_MUST_CHECK
int pl_worker_tokens_create(struct pl_worker_doors **ret, struct pl_err *err);
struct pl_worker_doors *pl_worker_tokens_destroy(struct pl_worker_doors *d);
/* Called after a start of the daemon when all workers that still run have been added: from now on an unknown
 * worker counts as gone. */
void pl_worker_tokens_settle(struct pl_worker_doors *d);
/* Adds a worker of this stage that was started or restored. `reads`: the other projects of which the stage reads
 * repos, names that each end with NUL, `len` bytes in all. */
PL_MUST_CHECK
int pl_worker_tokens_add(struct pl_worker_doors *d, uint64_t worker, uint64_t version, const char *project, const char *stage,
                         const char *reads, size_t len, struct pl_err *err);
/* Removes the worker from the table and revokes its principals. */
void pl_worker_tokens_remove(struct pl_worker_doors *d, uint64_t worker);
#define PL_INCARNATION_BYTES 64
/* Exchanges the worker's first token for one of this incarnation (one start of the worker). The same
 * incarnation may repeat the exchange any number of times. PL_EFORBIDDEN: another incarnation has exchanged
 * the token. */
PL_MUST_CHECK
int pl_worker_tokens_exchange(struct pl_worker_doors *d, uint64_t worker, const char *incarnation, struct pl_err *err);
/* Finds the principal of a worker's token; `ret` is a new reference. A worker that is gone gets a principal
 * without a project. `incarnation`: the incarnation that the token names; NULL = the worker's first token,
 * which has its own principal. After an exchange, the first token can only repeat the exchange, since the
 * answer may have been lost or the daemon restarted; once the new token was used, the first one is refused.
 * PL_EAUTH: the token is no longer valid; PL_EBUSY: pl_worker_tokens_settle was not called yet. */
PL_MUST_CHECK
int pl_worker_tokens_find(struct pl_worker_doors *d, uint64_t worker, const char *incarnation, struct pl_principal **ret,
                          struct pl_err *err);
