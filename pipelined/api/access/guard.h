/* guard: authenticates and authorizes every request. The Host header must name this daemon (421). A page of
 * another origin may only read (403). The token comes as Bearer or in the cookie that a login link has set;
 * it selects a principal (principal.h), which becomes the request's context and must be allowed the route's
 * verb on the project and repo of the path.
 *
 *   POST /login-links (token) ──▶ code, 5 min, once ──GET /login?token=CODE──▶ cookie pl_session (login_sessions.h)
 *
 * Browsers send a host's cookies to every port of it, and to every path below the cookie's. Several daemons may share a
 * host: the cookie's name therefore ends in the port of the Host header, if it names one ("pl_session_4650"), and its path
 * is that of the public URL, if the request came by it.
 *
 * A proxy that authenticates users by other means may name the user in a header, if the configuration lists
 * the proxy's address.
 *
 * Secrets are compared in constant time. Only pl_guard_login blocks. Any thread. */
#pragma once

#include "pipelined/api/access/access.h"
#include "pipelined/api/access/login_sessions.h"
#include "pipelined/net/server/http_server.h"

#define PL_GUARD_PORTS       2
#define PL_GUARD_PROXIES_MAX 32
#define PL_LOGIN_CODES_MAX   64
#define PL_LOGIN_CODE_MS     (5 * 60 * 1000)
#define PL_LOGIN_CODE_HEX    32
#define PL_SESSION_COOKIE    "pl_session"
#define PL_SET_COOKIE_SIZE   512 /* of the header Set-Cookie; a longer path of the public URL is not used */
/* Rate limit of refused requests per address (pipelined/policy/rate_limit.h). At an address over the limit,
 * requests with wrong tokens get PL_EBUSY; requests with a valid token always pass. */
#define PL_GUARD_FAILURES          200
#define PL_GUARD_FAILURES_A_MINUTE 300
#define PL_GUARD_ADDRESSES         1024 /* addresses whose refusals are counted at the same time */

struct pl_guard;

struct pl_guard_config {
    const char *token;
    /* listening address, as in pl_api_config; if its port is 0, pl_guard_add_port adds the port that was
     * chosen */
    const char *listen;
    const char *const *hosts; /* further names of this daemon; NULL-terminated; may be NULL */
    const char *public_url;   /* the Host header may also name this URL's host and port; "" = none */
    const char *worker_url;   /* the Host header may also name this URL's host and port; "" or NULL = none */
    /* Name of the header in which a proxy names the user. It counts for requests that carry no token and
     * come from one of `proxy_addresses` ("10.0.0.7, fd00::/8"). "" or NULL = no proxy. */
    const char *proxy_header, *proxy_addresses;
    struct pl_access *access; /* users and their tokens; may be NULL */
    struct pl_login_sessions *sessions;
    /* finds a worker's principal: pl_engine_ops.worker */
    int (*worker)(void *self, const char *token, struct pl_principal **ret, struct pl_err *err);
    void *self;
    /* Called when a request of a known principal is refused, and when an address has too many refusals (`who`
     * is NULL). Must not block. May be NULL. */
    void (*refused)(void *self, const struct pl_principal *who, const char *peer, const char *target);
    void *refused_self;
};

/* Creates a guard; copies the texts. PL_EINVAL: a malformed URL or proxy address, or a proxy header without
 * addresses. */
PL_MUST_CHECK
int pl_guard_create(const struct pl_guard_config *config, struct pl_guard **ret, struct pl_err *err);
struct pl_guard *pl_guard_destroy(struct pl_guard *g);
/* Adds a port on which the daemon listens, at most PL_GUARD_PORTS. Until then only Host headers without a
 * port are accepted. */
void pl_guard_add_port(struct pl_guard *g, unsigned port);

/* Checks a request; for pl_http_options.guard, where `guard` is the struct pl_guard. On success the request's
 * context is its struct pl_principal (NULL for PL_VERB_OPEN). PL_EHOST, PL_EORIGIN, PL_EAUTH, PL_EFORBIDDEN,
 * PL_EBUSY. */
PL_MUST_CHECK
int pl_guard_check(struct pl_http_request *req, const struct pl_http_route *route, void *guard, struct pl_err *err);

/* Checks a request a second time, for example after its body was received: refuses it if the token was
 * deleted or the user lost the role since the first check. Does nothing if the principal is still valid. */
PL_MUST_CHECK
int pl_guard_check_again(struct pl_http_request *req, void *guard, struct pl_err *err);

/* Counts a refused request of an address. `code` is the error with which the request was refused; `err` has
 * its message. Returns `code`, or PL_EBUSY with another message if the address is over the limit. The S3
 * gateway counts requests with invalid signatures this way too. */
int pl_guard_refuse(struct pl_guard *g, const char *peer, int code, struct pl_err *err);
/* Counts a request that was refused because of the roles of `who`. The limit per user is the same as per
 * address; it never affects requests that the roles allow. A refusal that names a field (a spec that sets
 * a forbidden part of the pod) is not counted. Returns `code` or PL_EBUSY. */
int pl_guard_forbid(struct pl_guard *g, const struct pl_principal *who, int code, struct pl_err *err);

/* Makes a code for one login as `who`. The session is bound to the token of the request and ends with it. At
 * PL_LOGIN_CODES_MAX codes, the oldest code of the user with the most codes is dropped. PL_EINVAL: the
 * request had no token. */
PL_MUST_CHECK
int pl_guard_login_code(struct pl_guard *g, const struct pl_principal *who, char out[PL_LOGIN_CODE_HEX + 1], struct pl_err *err);
/* Uses up a login code, begins a session (login_sessions.h), makes its cookie and writes the audit entry.
 * Blocks. PL_EAUTH: the code is unknown, used or too old, or its token was deleted or has expired. */
PL_MUST_CHECK
int pl_guard_login(struct pl_guard *g, const struct pl_http_request *req, const char *code,
                   char ret_cookie[PL_LOGIN_SESSION_COOKIE_SIZE], struct pl_err *err);

/* Writes the header Set-Cookie for a session that lasts `seconds`; "" and 0 end it. `secure`: only over https. */
void pl_guard_set_cookie(const struct pl_guard *g, const struct pl_http_request *req, const char *value, int seconds, bool secure,
                         char out[PL_SET_COOKIE_SIZE]);
