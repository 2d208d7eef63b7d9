/* session_tx: sessions of those who bring or read packs, and the packs that they pin (storage/dataset/gc.h). Bodies for pl_db_run; none is
 * logged: a session that is lost with a machine has ended, and whoever had it is told so. */
#pragma once

#include "pipelined/db/db.h"

#define PL_SESSION_LEASE_S 900

struct pl_session_args {
    const char *project;
    const char *kind;            /* "write" or "read" */
    char id[33];                 /* out of open; else in */
    int64_t lease_us;            /* open, renew: 0 = PL_SESSION_LEASE_S */
    const struct pl_hash *packs; /* pin: these; what is pinned already is fine */
    size_t n;
};

PL_MUST_CHECK
int pl_tx_session_open(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Its lease begins anew. PL_ENOTFOUND: it has ended. */
PL_MUST_CHECK
int pl_tx_session_renew(struct pl_tx *tx, void *arg, struct pl_err *err);
/* No pack of these is taken away until the session ends. PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_tx_session_pin(struct pl_tx *tx, void *arg, struct pl_err *err);
/* It ends now; one that has ended is fine. */
PL_MUST_CHECK
int pl_tx_session_close(struct pl_tx *tx, void *arg, struct pl_err *err);
