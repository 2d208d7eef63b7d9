/* upload_session_tx: sessions of clients that upload or read packs, the packs that a session pins, and how task
 * leases relate to sessions (storage/dataset/gc/gc.h). Bodies for pl_db_run. Unlogged: a session that is lost with
 * a machine has ended, and its client is told so. */
#pragma once

#include "pipelined/db/writer/db.h"

#define PL_UPLOAD_SESSION_LEASE_S 900

struct pl_upload_session_args {
    const char *project;
    const char *kind;            /* "write" or "read" */
    char id[33];                 /* set by open; input of the other functions */
    int64_t lease_us;            /* open, renew: time until the session expires; 0 = PL_UPLOAD_SESSION_LEASE_S */
    const struct pl_hash *packs; /* pin: these packs; packs that are already pinned are no error */
    size_t n;
};

PL_MUST_CHECK
int pl_tx_upload_session_open(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Extends the session for its full lease time from now. PL_ENOTFOUND: it has ended. */
PL_MUST_CHECK
int pl_tx_upload_session_renew(struct pl_tx *tx, void *arg, struct pl_err *err);

/* The lease of a task, and the session of the task's worker. The session pins the packs of which the worker
 * was told. A worker has one session for all its leases; "" = the worker was not told of any packs. */
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
/* Renews the sessions of the given leases. All packs of which a worker was told are pinned while the worker's
 * session lasts. So a renewed lease only delays the removal of packs that were condemned since the previous
 * renewal (gc.h, I3). If the session has ended, its packs are no longer pinned, and the lease is not changed.
 * arg: struct pl_lease_pin_args. */
PL_MUST_CHECK
int pl_tx_lease_renew_pins(struct pl_tx *tx, void *arg, struct pl_err *err);

/* Pins packs: garbage collection keeps them until the session ends. PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_tx_upload_session_pin(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Ends the session now; a session that has ended is no error. */
PL_MUST_CHECK
int pl_tx_upload_session_close(struct pl_tx *tx, void *arg, struct pl_err *err);
