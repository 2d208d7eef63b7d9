/* gc_tx: the transactions of garbage collection (storage/dataset/gc/gc.h): steps of packs' states, and who must have ended before the next. */
#pragma once

#include "pipelined/db/writer/db.h"
#include "storage/dataset/gc/gc.h"
#include "storage/store/store.h"

#define PL_GC_TX_PACKS 4096u /* changes in one transaction: 0.9 MiB of log, */
#define PL_GC_TX_US    2000  /* but after so long it ends with what it has: others wait to write */

struct pl_gc_change {
    struct pl_hash pack;
    const char *state; /* PL_PACK_CONDEMNED, … */
    bool done;         /* out: the step was its to take */
    uint64_t bytes;    /* the caller's own */
};
struct pl_gc_tx_args {
    const char *project;
    struct pl_gc_change *changes;
    size_t n;
    int64_t budget_us; /* of this transaction; 0 = none */
    size_t seen;       /* out: so many of them, the first ones, were looked at: at least one, all without a budget */
};
/* Logged. Takes each step that the pack's state allows, and that nobody's pin forbids; what somebody else has moved on meanwhile is left
 * alone. arg: struct pl_gc_tx_args. */
PL_MUST_CHECK
int pl_tx_pack_state(struct pl_tx *tx, void *arg, struct pl_err *err);

/* Packs that something new stands on although they are hidden. `{0}` is none. */
struct pl_pack_set {
    struct pl_map map; /* pack id → itself */
};
PL_MUST_CHECK
int pl_pack_set_add(struct pl_pack_set *set, const struct pl_hash *pack, struct pl_err *err);
void pl_pack_set_finish(struct pl_pack_set *set);
/* Within the logged transaction that writes what stands on them: those that are condemned live again. PL_ERETRY: one is doomed. */
PL_MUST_CHECK
int pl_tx_revive(struct pl_tx *tx, const char *project, const struct pl_pack_set *set, struct pl_err *err);
/* The same as a transaction of its own; nothing is done for an empty set. Blocks. */
PL_MUST_CHECK
int pl_db_revive(struct pl_db *db, const char *project, const struct pl_pack_set *set, struct pl_err *err);

/* The pack's state as the database has it, "" for a live one; `out` holds PL_GC_STATE_BYTES. */
#define PL_GC_STATE_BYTES 16
PL_MUST_CHECK
int pl_pack_state_get(struct pl_conn *c, const char *project, const struct pl_hash *pack, char *out, struct pl_err *err);
/* The same, read by itself. */
PL_MUST_CHECK
int pl_pack_state_read(struct pl_db *db, const char *project, const struct pl_hash *pack, char *out, struct pl_err *err);
/* Where the log was when the oldest session or lease of the project that lasts began, INT64_MAX when there is none: what was condemned by a
 * later object has to wait. */
PL_MUST_CHECK
int pl_pack_state_oldest_reader(struct pl_conn *c, const char *project, int64_t now_us, int64_t *ret, struct pl_err *err);

/* Makes a store that was just opened know the states of its packs, and which were not read back (brought_tx.h); `opened` of pl_project_stores_on_open, self = struct pl_db *. */
PL_MUST_CHECK
int pl_gc_store_opened(void *db, struct pl_store *store, struct pl_err *err);
/* What memory says of a pack becomes what `state` ("" = live) means. */
void pl_pack_state_apply(struct pl_store *store, const struct pl_hash *pack, const char *state);
/* The same for whichever store is open: memory follows the log. For pl_db_config.pack_state. */
struct pl_project_stores;
void pl_pack_state(struct pl_project_stores *stores, const char *project, const struct pl_hash *pack, const char *state);
