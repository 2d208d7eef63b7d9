/* access_tx: transactions on users, their tokens and S3 keys, and the audit. The caller has checked names, roles
 * and scopes (pipelined/policy/principal.h). The functions are pl_tx_fn bodies for pl_db_run: `arg` is the struct
 * named by the function. */
#pragma once

#include "pipelined/db/writer/db.h"

#define PL_USERS_MAX      16384
#define PL_TOKENS_MAX     65536
#define PL_S3_KEYS_MAX    65536
#define PL_USER_KEYS_MAX  1000 /* most tokens of one user, and most S3 keys of one user */
#define PL_AUDIT_DAYS     366
#define PL_AUDIT_ROWS_MAX 1000000

/* An entry of the audit log: who did what. */
#define PL_AUDIT_PEER_MAX 127
struct pl_audit {
    const char *who, *token;
    /* the client's address; if the client uses the daemon's own token, also the client's local user name */
    char peer[PL_AUDIT_PEER_MAX + 1];
    const char *verb, *target;
};
/* Adds an audit entry inside another transaction, logged or unlogged. If that transaction is rolled back, so
 * is the entry. */
PL_MUST_CHECK
int pl_tx_audit(struct pl_tx *tx, const struct pl_audit *a, struct pl_err *err);
/* Adds an audit entry in a transaction of its own. Unlogged; arg: struct pl_audit. */
PL_MUST_CHECK
int pl_tx_audit_alone(struct pl_tx *tx, void *arg, struct pl_err *err);

struct pl_user_args {
    const char *name;
    json_t *roles;            /* [[scope, role]…]: each is set; the role "none" removes the role on the scope */
    size_t project_roles_max; /* bound on the roles in one project and its repos */
    bool create;              /* true: the user must not exist yet; false: it must exist */
    struct pl_audit audit;
};
/* Creates a user, or changes its roles. PL_EEXISTS, PL_ENOTFOUND, PL_ELIMIT. */
PL_MUST_CHECK
int pl_tx_user_set(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Deletes a user with its tokens and keys. PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_tx_user_delete(struct pl_tx *tx, void *arg, struct pl_err *err);

/* A token or an S3 key: its identifier, its user, and its limits. */
struct pl_credential_args {
    struct pl_hash hash;    /* token: its SHA-256 */
    struct pl_hash old;     /* rotate: the hash of the token to replace */
    const char *access_key; /* S3 key: its access key */
    const void *sealed;     /* S3 key: its secret, encrypted */
    size_t sealed_len;
    const char *user, *name, *role, *scope;
    int64_t expires_us; /* 0 = never expires */
    struct pl_audit audit;
};
/* Creates a token. PL_ENOTFOUND: no such user; PL_EEXISTS; PL_ELIMIT. */
PL_MUST_CHECK
int pl_tx_token_create(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Deletes a token. A token that does not exist is no error. */
PL_MUST_CHECK
int pl_tx_token_delete(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Replaces the token `old` by one with the same name and limits; `hash` and `expires_us` are the new token's.
 * PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_tx_token_rotate(struct pl_tx *tx, void *arg, struct pl_err *err);
PL_MUST_CHECK
int pl_tx_s3_key_create(struct pl_tx *tx, void *arg, struct pl_err *err);
PL_MUST_CHECK
int pl_tx_s3_key_delete(struct pl_tx *tx, void *arg, struct pl_err *err);
