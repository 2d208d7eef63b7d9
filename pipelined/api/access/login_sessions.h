/* login_sessions: the browsers that a login link let in.
 *
 *   cookie "pls_" 40 hex, 160 random bits; known by its SHA-256, named by the first 12 digits of that
 *
 * A session stands on the token that its link was made with: its principal may do what that token may, and ends with it. It also ends after
 * PL_LOGIN_SESSION_DAYS, when it is deleted, and when its user has begun PL_LOGIN_SESSIONS_PER_USER newer ones. Rows lie in the database
 * (login_session_tx.h), so sessions outlive a restart; a copy in memory answers each request. Any thread. */
#pragma once

#include "pipelined/api/access/access.h"
#include "pipelined/db/tx/login_session_tx.h"
#include "pipelined/policy/principal.h"

#define PL_LOGIN_SESSION_DAYS        30
#define PL_LOGIN_SESSION_COOKIE_SIZE (PL_TOKEN_CHARS + 1)

struct pl_login_sessions;

/* Reads the sessions of the database, which must outlive the result. Blocks. PL_ENOMEM, PL_EIO. */
PL_MUST_CHECK
int pl_login_sessions_open(struct pl_db *db, struct pl_login_sessions **ret, struct pl_err *err);
/* NULL is fine; returns NULL. */
struct pl_login_sessions *pl_login_sessions_close(struct pl_login_sessions *s);

/* Begins a session and makes its cookie. Of `args`, token_hash, user, agent and audit are read; the rest is filled in. Blocks. */
PL_MUST_CHECK
int pl_login_sessions_begin(struct pl_login_sessions *s, struct pl_login_session_args *args,
                            char ret_cookie[PL_LOGIN_SESSION_COOKIE_SIZE], struct pl_err *err);
/* The SHA-256 of the token that the cookie's session stands on. PL_EAUTH: no such session, or it has ended. Does not block. */
PL_MUST_CHECK
int pl_login_sessions_token(struct pl_login_sessions *s, const char *cookie, struct pl_hash *ret, struct pl_err *err);
/* The session's own principal, a reference for the caller. `token` is the principal of its token. What the session opens ends when either
 * of the two is revoked. PL_EAUTH as above, PL_ENOMEM. Does not block. */
PL_MUST_CHECK
int pl_login_sessions_principal(struct pl_login_sessions *s, const char *cookie, struct pl_principal *token,
                                struct pl_principal **ret, struct pl_err *err);
/* Ends the session `args->id`, and the streams that it opened. PL_ENOTFOUND. Blocks. */
PL_MUST_CHECK
int pl_login_sessions_end(struct pl_login_sessions *s, struct pl_login_session_args *args, struct pl_err *err);
