/* Changes the states of packs (table pack_state) through log records, revives packs, and updates the states
 * that the store has in memory. */
#include "pipelined/db/tx/pack_state_tx.h"

#include "storage/base/clock.h"
#include "storage/store/project_stores.h"

#include <stdio.h>

/* ---- states ---- */

int pl_pack_state_get(struct pl_conn *c, const char *project, const struct pl_hash *pack, char *out, struct pl_err *err)
{
    _cleanup_free_ char *state = NULL;
    int r = pl_sql_text(c, err, &state, "SELECT state FROM pack_state WHERE project = ? AND pack = ?", "sb", project, pack->b,
                        (size_t)PL_HASH_BYTES);

    if (r < 0 && r != PL_ENOTFOUND)
        return r;
    snprintf(out, PL_GC_STATE_BYTES, "%s", r == 0 ? state : "");
    return 0;
}

static int emit(struct pl_tx *tx, const char *project, const struct pl_hash *pack, const char *state, struct pl_err *err)
{
    char hex[PL_HASH_HEX + 1];

    return pl_tx_emit(tx, PL_RECORD_PACK_STATE,
                      json_pack("{s:s, s:s, s:s, s:I}", "project", project, "pack", pl_hash_hex(pack, hex), "state", state, "at",
                                (json_int_t)pl_tx_now_us(tx)),
                      err);
}

static bool may_follow(const char *now, const char *next)
{
    if (pl_streq(next, PL_PACK_CONDEMNED))
        return !*now;
    return pl_streq(now, pl_streq(next, PL_PACK_GONE) ? PL_PACK_DOOMED : PL_PACK_CONDEMNED);
}

/* Clears change->done if a session pins the pack: then the pack keeps its state. This check is needed because
 * the pin may have been written after the mark read the pins. */
static int check_pins(struct pl_tx *tx, const char *project, struct pl_gc_change *change, struct pl_err *err)
{
    int64_t pins = 0;
    int r = pl_sql_int(pl_tx_conn(tx), err, &pins,
                       "SELECT EXISTS (SELECT 1 FROM pin p CROSS JOIN session s ON s.id = p.session"
                       " WHERE p.pack = ? AND s.project = ? AND s.lease_us >= ?)",
                       "bsi", change->pack.b, (size_t)PL_HASH_BYTES, project, pl_tx_now_us(tx));

    change->done = change->done && !pins;
    return r;
}

int pl_tx_pack_state(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_gc_tx_args *a = arg;
    int64_t began_us = pl_clock_mono_us();
    int r = 0;

    for (a->seen = 0; a->seen < a->n && r == 0; a->seen++) {
        struct pl_gc_change *c = &a->changes[a->seen];
        char now[PL_GC_STATE_BYTES];

        if (a->seen > 0 && a->budget_us && pl_clock_mono_us() - began_us >= a->budget_us)
            break;
        r = pl_pack_state_get(pl_tx_conn(tx), a->project, &c->pack, now, err);
        c->done = r == 0 && may_follow(now, c->state);
        if (c->done && !pl_streq(c->state, PL_PACK_REVIVED))
            r = check_pins(tx, a->project, c, err);
        if (r == 0 && c->done)
            r = emit(tx, a->project, &c->pack, c->state, err);
    }
    return r;
}

int pl_pack_state_read(struct pl_db *db, const char *project, const struct pl_hash *pack, char *out, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(db);

    return pl_pack_state_get(rd.conn, project, pack, out, err);
}

/* ---- revival of packs that are referred to again ---- */

int pl_pack_set_add(struct pl_pack_set *set, const struct pl_hash *pack, struct pl_err *err)
{
    return pl_map_put(&set->map, pack->b, PL_HASH_BYTES, set, NULL, err);
}

void pl_pack_set_finish(struct pl_pack_set *set)
{
    pl_map_finish(&set->map, NULL);
}

static int revive_one(struct pl_tx *tx, const char *project, const struct pl_hash *pack, struct pl_err *err)
{
    char now[PL_GC_STATE_BYTES], hex[PL_HASH_HEX + 1];
    int r = pl_pack_state_get(pl_tx_conn(tx), project, pack, now, err);

    if (r < 0 || !*now) /* another transaction has revived it */
        return r;
    if (pl_streq(now, PL_PACK_CONDEMNED))
        return emit(tx, project, pack, PL_PACK_REVIVED, err);
    return pl_err_set(err, PL_ERETRY, "pack %s, which held some of the data, is being removed: send the data again",
                      pl_hash_hex(pack, hex));
}

int pl_tx_revive(struct pl_tx *tx, const char *project, const struct pl_pack_set *set, struct pl_err *err)
{
    const struct pl_map_slot *slot;
    size_t i = 0;
    int r = 0;

    while (r == 0 && (slot = pl_map_next(&set->map, &i))) {
        struct pl_hash pack;

        memcpy(pack.b, slot->key, PL_HASH_BYTES);
        r = revive_one(tx, project, &pack, err);
    }
    return r;
}

struct reviving {
    const char *project;
    const struct pl_pack_set *set;
};

static int revive_tx(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct reviving *v = arg;

    return pl_tx_revive(tx, v->project, v->set, err);
}

int pl_db_revive(struct pl_db *db, const char *project, const struct pl_pack_set *set, struct pl_err *err)
{
    struct reviving v = {.project = project, .set = set};

    return set->map.len ? pl_db_run(db, PL_TX_LOGGED, revive_tx, &v, err) : 0;
}

/* ---- sessions and leases that must have ended ---- */

int pl_pack_state_oldest_reader(struct pl_conn *c, const char *project, int64_t now_us, int64_t *ret, struct pl_err *err)
{
    return pl_sql_int(c, err, ret,
                      "SELECT coalesce(min(seq), 9223372036854775807) FROM (SELECT opened_seq AS seq FROM session"
                      " WHERE project = ?1 AND lease_us >= ?2"
                      " UNION ALL SELECT l.seq FROM lease l JOIN job j ON j.id = l.job WHERE j.project = ?1 OR EXISTS"
                      " (SELECT 1 FROM json_each(j.inputs) i WHERE json_extract(i.value, '$.project') = ?1))",
                      "si", project, now_us);
}

/* ---- states in the index that the open store has in memory ---- */

void pl_pack_state_apply(struct pl_store *store, const struct pl_hash *pack, const char *state)
{
    if (pl_streq(state, PL_PACK_CONDEMNED))
        pl_store_set_seen(store, pack, PL_PACK_HIDDEN);
    else if (pl_streq(state, PL_PACK_DOOMED))
        pl_store_drop_pack(store, pack);
    else if (!*state || pl_streq(state, PL_PACK_REVIVED))
        pl_store_set_seen(store, pack, PL_PACK_SHOWN);
}

static int follow_states(struct pl_conn *c, struct pl_store *store, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows, "SELECT pack, state FROM pack_state WHERE project = ?", "s", pl_store_project(store));

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0) {
        struct pl_hash pack = pl_col_hash(&rows, 0);

        pl_pack_state_apply(store, &pack, pl_col_text(&rows, 1));
    }
    return r;
}

/* Marks all uploads that are expected, unread or quarantined as unread in the store. */
static int doubt_brought(struct pl_conn *c, struct pl_store *store, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows, "SELECT pack FROM brought_pack WHERE project = ?", "s", pl_store_project(store));

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0) {
        struct pl_hash pack = pl_col_hash(&rows, 0);

        pl_store_set_unread(store, &pack, true);
    }
    return r;
}

static int tell_store(struct pl_tx *tx, void *store, struct pl_err *err)
{
    int r = follow_states(pl_tx_conn(tx), store, err);

    return r < 0 ? r : doubt_brought(pl_tx_conn(tx), store, err);
}

/* Reads and sets the states on the writer thread. That thread also calls pl_pack_state, so the store gets all
 * states in the order of the log. */
int pl_gc_store_opened(void *db, struct pl_store *store, struct pl_err *err)
{
    return pl_db_run(db, PL_TX_UNLOGGED, tell_store, store, err);
}

void pl_pack_state(struct pl_project_stores *stores, const char *project, const struct pl_hash *pack, const char *state)
{
    struct pl_store *store = pl_project_stores_peek(stores, project);

    if (store)
        pl_pack_state_apply(store, pack, state);
}
