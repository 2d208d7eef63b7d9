/* Transactions on table brought_pack, which lists the packs that are expected, unread or quarantined. Packs
 * that were read back have no row. */
#include "pipelined/db/tx/direct_upload_tx.h"

#include "pipelined/db/tx/pack_state_tx.h"

#include <stdio.h>

static const char *const states[] = {"expected", "unread", "quarantined"};

static int note(struct pl_tx *tx, const struct pl_direct_upload *b, enum pl_direct_upload_state state, struct pl_err *err)
{
    int r =
        pl_sql_exec(pl_tx_conn(tx), err,
                    "INSERT INTO brought_pack(project, pack, session, writer, bytes, at_us, state) VALUES (?, ?, ?, ?, ?, ?, ?)"
                    " ON CONFLICT DO UPDATE SET state = excluded.state, session = excluded.session, writer = excluded.writer,"
                    " bytes = excluded.bytes, at_us = excluded.at_us, why = ''"
                    " WHERE state = 'quarantined' OR (state = 'expected' AND excluded.state = 'unread')",
                    "shssiis", b->project, &b->pack, b->session, b->writer, (int64_t)b->bytes, pl_tx_now_us(tx), states[state]);

    return PL_MIN(r, 0);
}

int pl_tx_direct_upload_expect(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    return note(tx, arg, PL_BROUGHT_EXPECTED, err);
}

int pl_tx_direct_upload_add(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    return note(tx, arg, PL_BROUGHT_UNREAD, err);
}

int pl_tx_brought_add_many(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    const struct pl_brought_many *many = arg;
    int r = 0;

    for (size_t i = 0; i < many->n && r == 0; i++)
        r = note(tx, &many->packs[i], PL_BROUGHT_UNREAD, err);
    return r;
}

int pl_brought_is_forgotten(struct pl_conn *c, bool *ret, struct pl_err *err)
{
    int64_t is = 0;
    int r = pl_sql_int(c, err, &is, "SELECT EXISTS (SELECT 1 FROM meta WHERE key = 'unread')", "");

    *ret = is != 0;
    return r;
}

int pl_tx_brought_remembered(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    (void)arg;
    return PL_MIN(pl_sql_exec(pl_tx_conn(tx), err, "DELETE FROM meta WHERE key = 'unread'", ""), 0);
}

int pl_tx_direct_upload_settle(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    const struct pl_direct_upload *b = arg;
    int r =
        pl_sql_exec(pl_tx_conn(tx), err, "DELETE FROM brought_pack WHERE project = ? AND pack = ?", "sh", b->project, &b->pack);

    return PL_MIN(r, 0);
}

int pl_tx_direct_upload_forget(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    int r = pl_sql_exec(pl_tx_conn(tx), err, "DELETE FROM brought_pack WHERE state = 'expected' AND at_us < ?", "i",
                        pl_tx_now_us(tx) - PL_DIRECT_UPLOAD_EXPECT_S * 1000000LL);

    (void)arg;
    return PL_MIN(r, 0);
}

/* Emits a record that repeats the pack's present state. Its only purpose is the write to the log, which fails
 * if another daemon owns the log by now. */
static int fence(struct pl_tx *tx, const struct pl_direct_upload *b, struct pl_err *err)
{
    char hex[PL_HASH_HEX + 1], state[PL_GC_STATE_BYTES];
    int r = pl_pack_state_get(pl_tx_conn(tx), b->project, &b->pack, state, err);

    return r < 0 ? r
                 : pl_tx_emit(tx, PL_RECORD_PACK_STATE,
                              json_pack("{s:s, s:s, s:s, s:I}", "project", b->project, "pack", pl_hash_hex(&b->pack, hex),
                                        "state", *state ? state : PL_PACK_REVIVED, "at", (json_int_t)pl_tx_now_us(tx)),
                              err);
}

int pl_tx_direct_upload_quarantine(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    const struct pl_direct_upload_mismatch *lie = arg;
    int r = fence(tx, lie->pack, err);

    r = r < 0 ? r
              : pl_sql_exec(pl_tx_conn(tx), err,
                            "UPDATE brought_pack SET state = 'quarantined', why = ? WHERE project = ? AND pack = ?", "ssh",
                            lie->why, lie->pack->project, &lie->pack->pack);

    if (r < 0 || !lie->told)
        return PL_MIN(r, 0);
    return pl_tx_event(tx, "pack.quarantined", json_incref(lie->told), err);
}

int pl_direct_upload_is_noted(struct pl_conn *c, const char *project, const struct pl_hash *pack, struct pl_err *err)
{
    int64_t n = 0;
    int r = pl_sql_int(c, err, &n, "SELECT count(*) FROM brought_pack WHERE project = ? AND pack = ?", "sh", project, pack);

    return r < 0 ? r : n > 0;
}

int pl_direct_upload_list(struct pl_conn *c, enum pl_direct_upload_state state,
                          int (*visit)(void *self, const struct pl_direct_upload *b, struct pl_err *err), void *self,
                          struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows,
                         "SELECT project, pack, session, writer, bytes FROM brought_pack WHERE state = ? ORDER BY at_us, pack",
                         "s", states[state]);

    while (r == 0 && (r = pl_sql_next(c, &rows, err)) > 0) {
        struct pl_direct_upload b = {.pack = pl_col_hash(&rows, 1), .bytes = (uint64_t)pl_col_int(&rows, 4)};

        snprintf(b.project, sizeof b.project, "%s", pl_col_text(&rows, 0));
        snprintf(b.session, sizeof b.session, "%s", pl_col_text(&rows, 2));
        snprintf(b.writer, sizeof b.writer, "%s", pl_col_text(&rows, 3));
        r = visit(self, &b, err);
    }
    return r;
}
