/* api/access: Authenticates and authorizes requests: users, tokens and S3 keys; the guard; the audit log.
 *
 * In:      A request's credentials.
 * Out:     A principal, or a refusal.
 * Uses:    db/{tx, writer}, net/server, policy, storage/{base, http, system}
 * Threads: HTTP threads; reloads on the pool.
 *
 * Headers for other rooms:
 *   audit           the audit log
 *   guard           authenticates and authorizes every request
 *   login_sessions  sessions of browsers that used a login link */

/* access: the directory of users, tokens and S3 keys that the guard and the S3 gateway look credentials up
 * in. It is kept in memory, and read from the database at the start and again after every change, before the
 * request that made the change gets its reply. Each reload revokes the principals of deleted or changed
 * credentials, which also ends the event streams opened with them.
 *
 *   token    "plt_" and 40 hex digits (160 random bits); stored as SHA-256, whose first 12 digits are its id
 *   S3 key   "PL" and 18 characters A–Z 2–7; its secret is 40 such characters, sealed with DIR/master.key
 *            (storage/base/seal.h)
 *
 * Look-ups never block and may be made on any thread. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "pipelined/policy/principal.h"
#include "storage/base/seal.h"

#define PL_TOKEN_START     "plt_"
#define PL_TOKEN_CHARS     44
#define PL_S3_KEY_CHARS    20
#define PL_S3_SECRET_CHARS 40

struct pl_access;

/* Creates the directory and reads it from the database. Copies `master`, the key that seals S3 secrets; `db`
 * must outlive it. Blocks. */
PL_MUST_CHECK
int pl_access_open(struct pl_db *db, const uint8_t master[PL_SEAL_KEY_BYTES], struct pl_access **ret, struct pl_err *err);
struct pl_access *pl_access_close(struct pl_access *a);
/* Reads all users, tokens and S3 keys again; call it after each transaction of access_tx.h. If it fails,
 * every look-up fails with PL_EBUSY until a later reload succeeds, so that deleted credentials do not stay
 * valid; the daemon's own token still works. Blocks: call it on the pool. */
PL_MUST_CHECK
int pl_access_reload(struct pl_access *a, struct pl_err *err);

/* Make credentials and ids. pl_token_make generates a random token that begins with `start` (PL_TOKEN_START,
 * or a text of the same length), and its SHA-256. pl_token_id writes the id of the token with this SHA-256
 * into `out` and returns `out`. pl_s3_key_make generates a random S3 key and its secret. */
void pl_token_make(const char *start, char out[PL_TOKEN_CHARS + 1], struct pl_hash *ret_hash);
char *pl_token_id(const struct pl_hash *hash, char out[PL_TOKEN_ID_HEX + 1]);
void pl_s3_key_make(char access_key[PL_S3_KEY_CHARS + 1], char secret[PL_S3_SECRET_CHARS + 1]);

/* Finds the principal of a token. `ret` is a new reference, owned by the caller. PL_EAUTH: unknown, deleted
 * or expired; PL_EBUSY: the last reload failed. */
PL_MUST_CHECK
int pl_access_token(struct pl_access *a, const char *token, struct pl_principal **ret, struct pl_err *err);
/* Like pl_access_token, but finds the token by its SHA-256. */
PL_MUST_CHECK
int pl_access_token_by_hash(struct pl_access *a, const struct pl_hash *hash, struct pl_principal **ret, struct pl_err *err);
/* Finds a token by its id; gives the token's principal and SHA-256. Login sessions refer to a token by its
 * SHA-256. Ownership and errors as pl_access_token. */
PL_MUST_CHECK
int pl_access_token_by_id(struct pl_access *a, const char *id, struct pl_hash *ret_hash, struct pl_principal **ret,
                          struct pl_err *err);
/* Finds the principal, with all roles, of a user whom a trusted proxy has authenticated (auth.proxy_header).
 * Ownership and errors as pl_access_token. */
PL_MUST_CHECK
int pl_access_user(struct pl_access *a, const char *name, struct pl_principal **ret, struct pl_err *err);
/* Returns true if the S3 key exists and its sealed secret can be decrypted with this master key. */
bool pl_access_s3_key_opens(struct pl_access *a, const char *access_key);
/* Finds the secret that a client signs with when it uses this access key, and the key's principal (a new
 * reference, owned by the caller). PL_EAUTH: unknown, deleted or expired, or the secret was lost with the
 * machine or is sealed with another master key (S3: InvalidAccessKeyId). PL_EBUSY: the last reload failed. */
PL_MUST_CHECK
int pl_access_s3_key(struct pl_access *a, const char *access_key, char ret_secret[PL_S3_SECRET_CHARS + 1],
                     struct pl_principal **ret, struct pl_err *err);
/* Returns true if `who`, a struct pl_principal, may read the repo or pipeline `name` of `project`. With
 * `name` NULL: true if the principal may see the project. With both NULL: true if it may read everything.
 * Used as pl_conn.readable (sql.h), which filters lists. */
bool pl_access_may_read(const void *who, const char *project, const char *name);
