/* Transactions on tables session, pin and lease. A session delays the removal of packs that are condemned
 * after log position opened_seq of the session. */
#include "pipelined/db/tx/upload_session_tx.h"

static int64_t lease_end(const struct pl_tx *tx, const struct pl_upload_session_args *a)
{
    return pl_tx_now_us(tx) + (a->lease_us ? a->lease_us : PL_UPLOAD_SESSION_LEASE_S * 1000000LL);
}

int pl_tx_upload_session_open(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_upload_session_args *a = arg;
    uint8_t id[16];
    int r = pl_sql_exec(pl_tx_conn(tx), err, "DELETE FROM session WHERE lease_us < ?", "i", pl_tx_now_us(tx));

    if (r < 0)
        return r;
    pl_random_bytes(id, sizeof id);
    pl_hex_encode(id, sizeof id, a->id);
    r = pl_sql_exec(pl_tx_conn(tx), err,
                    "INSERT INTO session(id, project, kind, opened_seq, renewed_seq, lease_us)"
                    " SELECT ?, ?, ?, s, s, ? FROM (SELECT CAST(value AS INTEGER) AS s FROM meta WHERE key = 'log_seq')",
                    "sssi", a->id, a->project, a->kind, lease_end(tx, a));
    return r < 0 ? r : 0;
}

static int ended(const struct pl_upload_session_args *a, struct pl_err *err)
{
    return pl_err_set(err, PL_ENOTFOUND, "session %s has ended", a->id);
}

int pl_tx_upload_session_renew(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_upload_session_args *a = arg;
    /* Advance opened_seq to the log position of the previous renewal. Packs of which the client was told
     * before that renewal are pinned by now, because no response takes as long as the time between two
     * renewals. */
    int r = pl_sql_exec(pl_tx_conn(tx), err,
                        "UPDATE session SET opened_seq = renewed_seq,"
                        " renewed_seq = (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'log_seq'), lease_us = ?1"
                        " WHERE id = ?2 AND project = ?3 AND lease_us >= ?4",
                        "issi", lease_end(tx, a), a->id, a->project, pl_tx_now_us(tx));

    return r == 0 ? ended(a, err) : PL_MIN(r, 0);
}

/* Says whether no pack that the session pins is condemned. If a pack was pinned after it was condemned, the
 * next mark revives it, but only if the session still exists then. Until that mark, the lease must keep its
 * old log position. */
static int all_live(struct pl_tx *tx, const struct pl_upload_session_args *a, bool *ret, struct pl_err *err)
{
    int64_t condemned = 0;
    int r = pl_sql_int(pl_tx_conn(tx), err, &condemned,
                       "SELECT EXISTS (SELECT 1 FROM pin n CROSS JOIN pack_state p ON p.project = ?2 AND p.pack = n.pack"
                       " WHERE n.session = ?1)",
                       "ss", a->id, a->project);

    *ret = !condemned;
    return r;
}

/* Renews the session of lease number `i`, unless an earlier lease of the list has the same session: a second
 * renewal would move opened_seq to the present. */
static int renew_told(struct pl_tx *tx, const struct pl_lease_pin_args *a, size_t i, bool *lasts, struct pl_err *err)
{
    struct pl_upload_session_args session = {.project = a->project};
    int r;

    lasts[i] = true;
    if (!*a->leases[i].session)
        return 0;
    for (size_t k = 0; k < i; k++)
        if (pl_streq(a->leases[k].session, a->leases[i].session)) {
            lasts[i] = lasts[k];
            return 0;
        }
    memcpy(session.id, a->leases[i].session, sizeof session.id);
    r = pl_tx_upload_session_renew(tx, &session, err);
    lasts[i] = r == 0;
    return r == PL_ENOTFOUND ? 0 : r < 0 ? r : all_live(tx, &session, &lasts[i], err);
}

int pl_tx_lease_renew_pins(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    const struct pl_lease_pin_args *a = arg;
    bool lasts[PL_LEASE_PINS_MAX];
    int r = 0;

    for (size_t i = 0; i < a->n && r >= 0; i++) {
        r = renew_told(tx, a, i, lasts, err);
        if (r == 0 && lasts[i])
            r = pl_sql_exec(pl_tx_conn(tx), err,
                            "UPDATE lease SET seq = max(seq, renewed_seq),"
                            " renewed_seq = (SELECT CAST(value AS INTEGER) FROM meta WHERE key = 'log_seq')"
                            " WHERE task = ? AND fence = ?",
                            "ii", (int64_t)a->leases[i].task, (int64_t)a->leases[i].fence);
    }
    return PL_MIN(r, 0);
}

int pl_tx_upload_session_pin(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_upload_session_args *a = arg;
    int64_t is_there = 0;
    int r =
        pl_sql_int(pl_tx_conn(tx), err, &is_there, "SELECT count(*) FROM session WHERE id = ? AND project = ? AND lease_us >= ?",
                   "ssi", a->id, a->project, pl_tx_now_us(tx));

    if (r == 0 && !is_there)
        return ended(a, err);
    for (size_t i = 0; i < a->n && r >= 0; i++)
        r = pl_sql_exec(pl_tx_conn(tx), err, "INSERT OR IGNORE INTO pin(session, pack) VALUES (?, ?)", "sb", a->id, a->packs[i].b,
                        (size_t)PL_HASH_BYTES);
    return PL_MIN(r, 0);
}

int pl_tx_upload_session_close(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_upload_session_args *a = arg;
    int r = pl_sql_exec(pl_tx_conn(tx), err, "DELETE FROM session WHERE id = ? AND project = ?", "ss", a->id, a->project);

    return PL_MIN(r, 0);
}
