/* login_session_tx: transactions on login sessions: browsers that a user logged in with a login link. Bodies
 * for pl_db_run, unlogged: the sessions belong to this machine, and a recovery on another one ends them.
 * Requests are checked against a copy in memory, which the caller keeps
 * (pipelined/api/access/login_sessions.h). */
#pragma once

#include "pipelined/db/tx/access_tx.h"
#include "pipelined/policy/principal.h"

#define PL_LOGIN_SESSIONS_MAX      16384
#define PL_LOGIN_SESSIONS_PER_USER 100
#define PL_LOGIN_SESSION_ID_HEX    PL_TOKEN_ID_HEX /* the id is the first digits of the SHA-256 of the session's cookie */
#define PL_LOGIN_SESSION_AGENT_MAX 200             /* bytes kept of the browser's User-Agent */

struct pl_login_session_args {
    char id[PL_LOGIN_SESSION_ID_HEX + 1];
    struct pl_hash hash;       /* SHA-256 of the cookie */
    struct pl_hash token_hash; /* SHA-256 of the token that the session depends on */
    const char *user, *agent;
    int64_t created_us, expires_us; /* wall clock */
    struct pl_audit audit;          /* entry of the audit log; the session is listed with its peer */
};
/* Adds a session. Removes expired sessions first, then the user's oldest ones beyond
 * PL_LOGIN_SESSIONS_PER_USER and the oldest of all beyond PL_LOGIN_SESSIONS_MAX. */
PL_MUST_CHECK
int pl_tx_login_session_create(struct pl_tx *tx, void *arg, struct pl_err *err);
/* Removes the session `id`. PL_ENOTFOUND. */
PL_MUST_CHECK
int pl_tx_login_session_delete(struct pl_tx *tx, void *arg, struct pl_err *err);
