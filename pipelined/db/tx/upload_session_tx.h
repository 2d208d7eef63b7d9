/* session_tx: sessions of those who bring or read packs, the packs that they pin, and how leases stand to them (storage/dataset/gc/gc.h). Bodies for pl_db_run; none is
 * logged: a session that is lost with a machine has ended, and whoever had it is told so. */
#pragma once

#include "pipelined/db/writer/db.h"

#define PL_UPLOAD_SESSION_LEASE_S 900

struct pl_upload_session_args {
    const char *project;
    const char *kind;            /* "write" or "read" */
    char id[33];                 /* out of open; else in */
    int64_t lease_us;            /* open, renew: 0 = PL_UPLOAD_SESSION_LEASE_S */
    const struct pl_hash *packs; /* pin: these; what is pinned already is fine */
    size_t n;
};

PL_MUST_CHECK
int pl_tx_upload_session_open(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Its lease begins anew. PL_ENOTFOUND: it has ended. */
PL_MUST_CHECK
int pl_tx_upload_session_renew(struct pl_tx *tx, void *arg, struct pl_err *err);

/* What the holder of a task's lease was told for it, it was told in this session, and in no other; "" = nothing yet. */
struct pl_lease_pin {
    uint64_t task, fence;
    char session[33];
};
struct pl_lease_pin_args {
    const char *project;
    const struct pl_lease_pin *leases;
    size_t n; /* ≤ PL_LEASE_PINS_MAX */
};
#define PL_LEASE_PINS_MAX 16u
/* What a task's worker was told is pinned as long as its session lasts: so the sessions are renewed, and the leases hold up only what was
 * condemned since the last time that this was said (gc.h, I3). A lease whose session has ended stays as it is: what it was told is no
 * longer pinned. arg: struct pl_lease_pin_args. */
PL_MUST_CHECK
int pl_tx_lease_renew_pins(struct pl_tx *tx, void *arg, struct pl_err *err);

/* No pack of these is taken away until the session ends. PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_tx_upload_session_pin(struct pl_tx *tx, void *arg, struct pl_err *err);
/* It ends now; one that has ended is fine. */
PL_MUST_CHECK
int pl_tx_upload_session_close(struct pl_tx *tx, void *arg, struct pl_err *err);
