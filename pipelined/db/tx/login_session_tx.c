/* Writes the rows of table login_session. Each new session makes room for itself, so the table stays bounded
 * without a timer. */
#include "pipelined/db/tx/login_session_tx.h"

int pl_tx_login_session_create(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_login_session_args *a = arg;
    struct pl_conn *c = pl_tx_conn(tx);
    int r = pl_sql_exec(c, err, "DELETE FROM login_session WHERE expires_us <= ?", "i", a->created_us);

    if (r >= 0)
        r = pl_sql_exec(c, err,
                        "DELETE FROM login_session WHERE id IN (SELECT id FROM login_session WHERE user = ?"
                        " ORDER BY created_us DESC, id LIMIT -1 OFFSET ?)",
                        "si", a->user, (int64_t)PL_LOGIN_SESSIONS_PER_USER - 1);
    if (r >= 0)
        r = pl_sql_exec(c, err,
                        "DELETE FROM login_session WHERE id IN (SELECT id FROM login_session ORDER BY created_us DESC, id"
                        " LIMIT -1 OFFSET ?)",
                        "i", (int64_t)PL_LOGIN_SESSIONS_MAX - 1);
    if (r >= 0)
        r = pl_sql_exec(c, err,
                        "INSERT INTO login_session(id, hash, token_hash, user, peer, agent, created_us, expires_us)"
                        " VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                        "shhsssii", a->id, &a->hash, &a->token_hash, a->user, a->audit.peer, a->agent, a->created_us,
                        a->expires_us);
    return r < 0 ? r : pl_tx_audit(tx, &a->audit, err);
}

int pl_tx_login_session_delete(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_login_session_args *a = arg;
    int r = pl_sql_exec(pl_tx_conn(tx), err, "DELETE FROM login_session WHERE id = ?", "s", a->id);

    if (r == 0)
        return pl_err_set(err, PL_ENOTFOUND, "login session %s has ended already", a->id);
    return r < 0 ? r : pl_tx_audit(tx, &a->audit, err);
}
