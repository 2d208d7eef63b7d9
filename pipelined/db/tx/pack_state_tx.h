/* pack_state_tx: transactions of garbage collection (storage/dataset/gc/gc.h): they change the states of
 * packs and find out which sessions and leases must end before the next change. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "storage/dataset/gc/gc.h"
#include "storage/store/store.h"

#define PL_GC_TX_PACKS 4096u /* changes in one transaction: 0.9 MiB of log */
/* a transaction ends after this time with what it has done, so that other writers need not wait */
#define PL_GC_TX_US 2000

struct pl_gc_change {
    struct pl_hash pack;
    const char *state; /* the next state: PL_PACK_CONDEMNED, … */
    bool done;         /* out: the state was changed */
    uint64_t bytes;    /* for the caller's use */
};
struct pl_gc_tx_args {
    const char *project;
    struct pl_gc_change *changes;
    size_t n;
    int64_t budget_us; /* time for this transaction; 0 = no limit */
    /* out: number of leading elements of `changes` that were examined: at least one, and all if there is no
     * time limit */
    size_t seen;
};
/* Logged. Makes each change that the pack's present state allows, unless a session pins the pack. A pack
 * whose state changed in the meantime is left alone. arg: struct pl_gc_tx_args. */
PL_MUST_CHECK
int pl_tx_pack_state(struct pl_tx *tx, void *arg, struct pl_err *err);

/* A set of hidden packs to which something new refers. `{0}` is empty. */
struct pl_pack_set {
    struct pl_map map; /* pack id → the set (any non-NULL value) */
};
PL_MUST_CHECK
int pl_pack_set_add(struct pl_pack_set *set, const struct pl_hash *pack, struct pl_err *err);
void pl_pack_set_finish(struct pl_pack_set *set);
/* Revives the condemned packs of the set; called in the logged transaction that writes the new references to
 * them. PL_ERETRY: a pack of the set is doomed. */
PL_MUST_CHECK
int pl_tx_revive(struct pl_tx *tx, const char *project, const struct pl_pack_set *set, struct pl_err *err);
/* Does pl_tx_revive in a transaction of its own; does nothing for an empty set. Blocks. */
PL_MUST_CHECK
int pl_db_revive(struct pl_db *db, const char *project, const struct pl_pack_set *set, struct pl_err *err);

/* Reads the pack's state from the database, "" for a live pack; `out` holds PL_GC_STATE_BYTES. */
#define PL_GC_STATE_BYTES 16
PL_MUST_CHECK
int pl_pack_state_get(struct pl_conn *c, const char *project, const struct pl_hash *pack, char *out, struct pl_err *err);
/* Like pl_pack_state_get, with a connection borrowed from `db`. */
PL_MUST_CHECK
int pl_pack_state_read(struct pl_db *db, const char *project, const struct pl_hash *pack, char *out, struct pl_err *err);
/* Returns the log position at which the oldest unexpired session or lease of the project began, INT64_MAX if
 * there is none. A pack that was condemned by a later log object must wait. */
PL_MUST_CHECK
int pl_pack_state_oldest_reader(struct pl_conn *c, const char *project, int64_t now_us, int64_t *ret, struct pl_err *err);

/* Tells a newly opened store the states of its packs and which packs have not been read back (direct_upload_tx.h).
 * Callback `opened` of pl_project_stores_on_open, with self = struct pl_db *. */
PL_MUST_CHECK
int pl_gc_store_opened(void *db, struct pl_store *store, struct pl_err *err);
/* Sets the pack's state ("" = live) in the index that the open store has in memory. */
void pl_pack_state_apply(struct pl_store *store, const struct pl_hash *pack, const char *state);
/* Like pl_pack_state_apply, for the project's store if it is open. Called by pl_db_config.pack_state. */
struct pl_project_stores;
void pl_pack_state(struct pl_project_stores *stores, const char *project, const struct pl_hash *pack, const char *state);
