/* login_sessions: the sessions of browsers that were logged in by a login link.
 *
 *   cookie "pls_" 40 hex, 160 random bits; stored as its SHA-256, whose first 12 digits are the id
 *
 * A session is bound to the token with which its login link was made: the session may do what that token
 * may, and it ends when the token ends. A session also ends after PL_LOGIN_SESSION_DAYS, when it is
 * deleted, and when its user has begun PL_LOGIN_SESSIONS_PER_USER newer ones. The sessions are rows of the
 * database (login_session_tx.h), so they outlive a restart; requests are checked against a copy in memory.
 * Any thread. */
#pragma once

#include "pipelined/api/access/access.h"
#include "pipelined/db/tx/login_session_tx.h"
#include "pipelined/policy/principal.h"

#define PL_LOGIN_SESSION_DAYS        30
#define PL_LOGIN_SESSION_COOKIE_SIZE (PL_TOKEN_CHARS + 1)

struct pl_login_sessions;

/* Reads the sessions from `db`, which must outlive the returned object. Blocks. PL_ENOMEM, PL_EIO. */
PL_MUST_CHECK
int pl_login_sessions_open(struct pl_db *db, struct pl_login_sessions **ret, struct pl_err *err);
/* Frees the object. NULL is allowed; returns NULL. */
struct pl_login_sessions *pl_login_sessions_close(struct pl_login_sessions *s);

/* Begins a session and makes its cookie. Reads the fields token_hash, user, agent and audit of `args` and
 * fills in the others. Blocks. */
PL_MUST_CHECK
int pl_login_sessions_begin(struct pl_login_sessions *s, struct pl_login_session_args *args,
                            char ret_cookie[PL_LOGIN_SESSION_COOKIE_SIZE], struct pl_err *err);
/* Gives the SHA-256 of the token to which the cookie's session is bound. PL_EAUTH: there is no such
 * session, or it has ended. Does not block. */
PL_MUST_CHECK
int pl_login_sessions_token(struct pl_login_sessions *s, const char *cookie, struct pl_hash *ret, struct pl_err *err);
/* Gives the session's own principal, a new reference that the caller owns. `token` is the principal of the
 * session's token. Streams that the session opens end when either of the two principals is revoked.
 * PL_EAUTH as above, PL_ENOMEM. Does not block. */
PL_MUST_CHECK
int pl_login_sessions_principal(struct pl_login_sessions *s, const char *cookie, struct pl_principal *token,
                                struct pl_principal **ret, struct pl_err *err);
/* Ends the session `args->id`, and the streams that it opened. PL_ENOTFOUND: there is no such session.
 * Blocks. */
PL_MUST_CHECK
int pl_login_sessions_end(struct pl_login_sessions *s, struct pl_login_session_args *args, struct pl_err *err);
