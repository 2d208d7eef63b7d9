/* access_tx: transactions on users, their tokens and S3 keys, and the audit. Names, roles and scopes were checked by whoever calls
 * (api/principal.h). pl_tx_fn bodies for pl_db_run: `arg` is the struct named by the function. */
#pragma once

#include "pipelined/db/writer/db.h"

#define PL_USERS_MAX      16384
#define PL_TOKENS_MAX     65536
#define PL_S3_KEYS_MAX    65536
#define PL_USER_KEYS_MAX  1000 /* tokens of one user; S3 keys as well */
#define PL_AUDIT_DAYS     366
#define PL_AUDIT_ROWS_MAX 1000000

/* Whoever did it, for the audit. */
#define PL_AUDIT_PEER_MAX 127
struct pl_audit {
    const char *who, *token;
    char peer[PL_AUDIT_PEER_MAX + 1]; /* the address; of the daemon's token also the user of this machine who has it */
    const char *verb, *target;
};
/* Inside a transaction of either class: what is rolled back is not in the audit. */
PL_MUST_CHECK
int pl_tx_audit(struct pl_tx *tx, const struct pl_audit *a, struct pl_err *err);
/* Alone, unlogged; arg: struct pl_audit. */
PL_MUST_CHECK
int pl_tx_audit_alone(struct pl_tx *tx, void *arg, struct pl_err *err);

struct pl_user_args {
    const char *name;
    json_t *roles;            /* [[scope, role]…]: each is set; the role "none" takes away what is there */
    size_t project_roles_max; /* in one project and its repos */
    bool create;              /* it must not be there; else it must */
    struct pl_audit audit;
};
/* PL_EEXISTS, PL_ENOTFOUND, PL_ELIMIT. */
PL_MUST_CHECK
int pl_tx_user_set(struct pl_tx *tx, void *arg, struct pl_err *err);
/* With tokens and keys. PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_tx_user_delete(struct pl_tx *tx, void *arg, struct pl_err *err);

/* A token or an S3 key: what it is known by, whose it is, and what it is limited to. */
struct pl_credential_args {
    struct pl_hash hash;    /* TOKEN: its SHA-256 */
    struct pl_hash old;     /* to rotate: that of the one before */
    const char *access_key; /* S3 KEY, */
    const void *sealed;     /* and its secret, sealed */
    size_t sealed_len;
    const char *user, *name, *role, *scope;
    int64_t expires_us; /* 0 = never */
    struct pl_audit audit;
};
/* PL_ENOTFOUND: there is no such user; PL_EEXISTS; PL_ELIMIT. */
PL_MUST_CHECK
int pl_tx_token_create(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Deleting what is not there any more is no error. */
PL_MUST_CHECK
int pl_tx_token_delete(struct pl_tx *tx, void *arg, struct pl_err *err);
/* The token `old` goes and another, with the same name, limit and end but those of `hash` and `expires_us`, takes its place. PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_tx_token_rotate(struct pl_tx *tx, void *arg, struct pl_err *err);
PL_MUST_CHECK
int pl_tx_s3_key_create(struct pl_tx *tx, void *arg, struct pl_err *err);
PL_MUST_CHECK
int pl_tx_s3_key_delete(struct pl_tx *tx, void *arg, struct pl_err *err);
