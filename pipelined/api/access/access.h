/* api/access: Who may come in: users, tokens, S3 keys in memory; the guard of each request; the audit log.
 *
 * In:      A request's credentials.
 * Out:     A principal, or a refusal.
 * Uses:    db/{tx, writer}, net/server, policy, storage/{base, system}
 * Threads: HTTP threads; reloads on the pool.
 *
 * Headers for other rooms:
 *   audit   the audit log
 *   guard   authenticates and authorizes every request
 *   login_sessions   the browsers that a login link let in */

/* access: users, tokens and S3 keys as the guard and the gateway ask for them: in memory, read from the database at the start and after
 * every change, before the change is answered. What was deleted or changed is revoked from then on, and so are the streams that it opened.
 *
 *   token "plt_" 40 hex, 160 random bits; known by its SHA-256, named by the first 12 digits of that
 *   S3 key "PL" and 18 of A–Z 2–7; its secret 40 of the same, sealed under DIR/master.key (storage/base/seal.h)
 *
 * Questions never block; any thread. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "pipelined/policy/principal.h"
#include "storage/base/seal.h"

#define PL_TOKEN_START     "plt_"
#define PL_TOKEN_CHARS     44
#define PL_S3_KEY_CHARS    20
#define PL_S3_SECRET_CHARS 40

struct pl_access;

/* `master` is copied. Blocks. */
PL_MUST_CHECK
int pl_access_open(struct pl_db *db, const uint8_t master[PL_SEAL_KEY_BYTES], struct pl_access **ret, struct pl_err *err);
struct pl_access *pl_access_close(struct pl_access *a);
/* Reads everything anew: after a transaction of access_tx.h. When it fails nobody but the daemon's own token is let in until it works:
 * what was deleted must not go on. Blocks: on the pool. */
PL_MUST_CHECK
int pl_access_reload(struct pl_access *a, struct pl_err *err);

/* A new token's or key's text. */
void pl_token_make(char out[PL_TOKEN_CHARS + 1], struct pl_hash *ret_hash);
char *pl_token_id(const struct pl_hash *hash, char out[PL_TOKEN_ID_HEX + 1]);
void pl_s3_key_make(char access_key[PL_S3_KEY_CHARS + 1], char secret[PL_S3_SECRET_CHARS + 1]);

/* Whose it is: a reference for the caller. PL_EAUTH: unknown, deleted or expired; PL_EBUSY: the last reload failed. */
PL_MUST_CHECK
int pl_access_token(struct pl_access *a, const char *token, struct pl_principal **ret, struct pl_err *err);
/* The same by the token's id, with its hash: what cookies are bound to. */
PL_MUST_CHECK
int pl_access_token_by_id(struct pl_access *a, const char *id, struct pl_hash *ret_hash, struct pl_principal **ret,
                          struct pl_err *err);
/* A user whom somebody else has made sure of (auth.proxy_header), with all roles that they have. */
PL_MUST_CHECK
int pl_access_user(struct pl_access *a, const char *name, struct pl_principal **ret, struct pl_err *err);
/* Whether the key's secret is there and opens with this master key; false for one that does not exist. */
bool pl_access_s3_key_opens(struct pl_access *a, const char *access_key);
/* The secret that requests with this access key are signed with, and whose they are. PL_EAUTH: unknown, deleted, expired, or its secret
 * was lost with the machine (S3: InvalidAccessKeyId). */
PL_MUST_CHECK
int pl_access_s3_key(struct pl_access *a, const char *access_key, char ret_secret[PL_S3_SECRET_CHARS + 1],
                     struct pl_principal **ret, struct pl_err *err);
/* True if `who`, a struct pl_principal, may read repo or pipeline `name` of `project`; `name` NULL: see the project; both NULL: read
 * everything. For lists: pl_conn.readable (sql.h). */
bool pl_access_may_read(const void *who, const char *project, const char *name);
