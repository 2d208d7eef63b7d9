/* audit: records changes to objects and permissions, logins, and refused requests. Refusals and S3 puts are
 * written in the background, after their request, and rate-limited per user, so that one user's requests do
 * not push other users' entries out of the log. */
#pragma once

#include "pipelined/db/tx/access_tx.h"
#include "pipelined/db/writer/db.h"
#include "pipelined/net/server/http_server.h"
#include "pipelined/policy/principal.h"
#include "storage/system/thread_pool.h"

/* Rate limit of entries that may be frequent: a burst, and a number per minute after it. It applies to the
 * refusals of one user (or of one address, if the user is unknown) and to the puts of one user into one
 * bucket. */
#define PL_API_TOLD_OF           256
#define PL_API_TELLINGS          20
#define PL_API_TELLINGS_A_MINUTE 6

struct pl_audit_log;

/* Creates the audit log. `db` and `pool` must outlive it. PL_ENOMEM. */
PL_MUST_CHECK
int pl_audit_log_create(struct pl_db *db, struct pl_pool *pool, struct pl_audit_log **ret, struct pl_err *err);
/* Frees the audit log. Call it only when the pool runs no jobs any more. NULL is allowed; returns NULL. */
struct pl_audit_log *pl_audit_log_destroy(struct pl_audit_log *l);

/* Writes an audit entry: principal `who` did `verb` to `target`. If the entry cannot be written, this is
 * logged and the caller gets no error. Blocks. */
void pl_audit_write(struct pl_audit_log *l, const struct pl_http_request *req, const struct pl_principal *who, const char *verb,
                    const char *target);
/* Queues an audit entry: a request of principal `who` (NULL = unknown user) for `target` was refused.
 * `log` is a struct pl_audit_log, so that the function can be pl_guard_config.refused. Any thread, does
 * not block. */
void pl_audit_write_refused(void *log, const struct pl_principal *who, const char *peer, const char *target);
/* Prepares the audit entry of an S3 put. Returns NULL without memory, or if the rate limit is reached.
 * pl_api_audit_put_done queues the entry if the put succeeded (`taken`), and frees it; NULL is allowed. The
 * request and `who` may be freed before pl_api_audit_put_done is called. */
struct pl_api_telling *pl_api_audit_put(struct pl_audit_log *l, const struct pl_http_request *req, const struct pl_principal *who,
                                        const char *bucket, const char *target);
void pl_api_audit_put_done(struct pl_api_telling *t, bool taken);
/* Makes the audit entry that a transaction of access_tx.h stores together with its change. `verb` and
 * `target` are borrowed. */
struct pl_audit pl_api_audit_entry(const struct pl_http_request *req, const struct pl_principal *who, const char *verb,
                                   const char *target);
