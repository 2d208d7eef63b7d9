/* audit: what changes what there is and who may, who logged in, and what was refused to whom. Refusals and puts by S3 are written behind the
 * request that they are of, and no more of one user than PL_API_TELLINGS at once: what others did must not be pushed out by them. */
#pragma once

#include "pipelined/db/tx/access_tx.h"
#include "pipelined/db/writer/db.h"
#include "pipelined/net/server/http_server.h"
#include "pipelined/policy/principal.h"
#include "storage/system/thread_pool.h"

/* Of what may come often the audit tells so many at once, and so many a minute: refusals of one user, or of one address of nobody known;
 * puts of one user into one bucket. */
#define PL_API_TOLD_OF           256
#define PL_API_TELLINGS          20
#define PL_API_TELLINGS_A_MINUTE 6

struct pl_audit_log;

/* `db` and `pool` outlive it. PL_ENOMEM. */
PL_MUST_CHECK
int pl_audit_log_create(struct pl_db *db, struct pl_pool *pool, struct pl_audit_log **ret, struct pl_err *err);
/* When the pool does nothing any more. NULL is fine. */
struct pl_audit_log *pl_audit_log_destroy(struct pl_audit_log *l);

/* Writes that `who` has done `verb` to `target` into the audit. Blocks. */
void pl_audit_write(struct pl_audit_log *l, const struct pl_http_request *req, const struct pl_principal *who, const char *verb,
                    const char *target);
/* Writes, soon, that `target` was refused to `who` (NULL: nobody known). `log` is the struct pl_audit_log (pl_guard_config.refused). Any
 * thread. */
void pl_audit_write_refused(void *log, const struct pl_principal *who, const char *peer, const char *target);
/* What the audit will say of a put by S3 (NULL: no more of these now), and the end of it: written, soon, if the put was `taken`. The
 * request and `who` may be gone by then. */
struct pl_api_telling *pl_api_audit_put(struct pl_audit_log *l, const struct pl_http_request *req, const struct pl_principal *who,
                                        const char *bucket, const char *target);
void pl_api_audit_put_done(struct pl_api_telling *t, bool taken);
/* For a transaction that writes it itself (access_tx.h). `verb` and `target` stay the caller's. */
struct pl_audit pl_api_audit_entry(const struct pl_http_request *req, const struct pl_principal *who, const char *verb,
                                   const char *target);
