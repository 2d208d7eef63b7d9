/* guard: who may come in. Every request: the Host must be one of ours (421), a foreign Origin may only read (403), then its token, as
 * Bearer, or as the cookie that a login link gave, makes it a principal's (principal.h), which becomes the request's context and must
 * be one who may do the route's verb where the path says.
 *
 *   POST /login-links (token) ──▶ code, 5 min, once ──GET /login?token=CODE──▶ cookie pl_session (login_sessions.h)
 *
 * A proxy that lets people in by other means may name them in a header, where the configuration says which addresses it has.
 *
 * Comparisons take the same time whatever is wrong. Nothing here blocks but pl_guard_login. Any thread. */
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
/* Refusals of one address (pipelined/policy/rate_limit.h) after which further wrong tokens are turned away with PL_EBUSY; right ones always pass. */
#define PL_GUARD_FAILURES          200
#define PL_GUARD_FAILURES_A_MINUTE 300
#define PL_GUARD_ADDRESSES         1024 /* counted at a time */

struct pl_guard;

struct pl_guard_config {
    const char *token;
    const char *listen;       /* as in pl_api_config; its port 0 stands for pl_guard_set_port's */
    const char *const *hosts; /* NULL-terminated; may be NULL */
    const char *public_url;   /* its host and port are ours too; "" = none */
    const char *worker_url;   /* its host and port, too; "" or NULL = none */
    /* A request without a token whose peer is one of `proxy_addresses` ("10.0.0.7, fd00::/8") is that of the user whom this header names.
     * "" or NULL = none. */
    const char *proxy_header, *proxy_addresses;
    struct pl_access *access; /* users and their tokens; may be NULL */
    struct pl_login_sessions *sessions;
    int (*worker)(void *self, const char *token, struct pl_principal **ret, struct pl_err *err); /* pl_engine_ops.worker */
    void *self;
    /* Told of what is refused to somebody known, and of an address that fails too often (`who` NULL). Must not block. May be NULL. */
    void (*refused)(void *self, const struct pl_principal *who, const char *peer, const char *target);
    void *refused_self;
};

/* Texts are copied. PL_EINVAL for a URL that is none, for a header without addresses, for addresses that are none. */
PL_MUST_CHECK
int pl_guard_create(const struct pl_guard_config *config, struct pl_guard **ret, struct pl_err *err);
struct pl_guard *pl_guard_destroy(struct pl_guard *g);
/* A port that was got, of PL_GUARD_PORTS. Before that only Hosts without port are known. */
void pl_guard_add_port(struct pl_guard *g, unsigned port);

/* pl_http_options.guard; `guard` is the struct pl_guard. PL_EHOST, PL_EORIGIN, PL_EAUTH, PL_EFORBIDDEN, PL_EBUSY. The context is a
 * struct pl_principal from here on; NULL for PL_VERB_OPEN. */
PL_MUST_CHECK
int pl_guard_check(struct pl_http_request *req, const struct pl_http_route *route, void *guard, struct pl_err *err);

/* The same once more where time has gone by since, as while a body came: whose token was deleted, or who lost the role, is refused. Whoever
 * still stands is not looked up. */
PL_MUST_CHECK
int pl_guard_check_again(struct pl_http_request *req, void *guard, struct pl_err *err);

/* Counts a refusal with code `code`, whose message `err` has: returns the code, or PL_EBUSY (with another message) when the address had too
 * many of them. Also for the gateway's signatures. */
int pl_guard_refuse(struct pl_guard *g, const char *peer, int code, struct pl_err *err);
/* Counts a refusal that the roles of `who` caused, by user: the same limit, and allowed requests pass meanwhile. A refusal that names a field
 * (a spec that asks for a forbidden part of the pod) is not counted. */
int pl_guard_forbid(struct pl_guard *g, const struct pl_principal *who, int code, struct pl_err *err);

/* A code for one login, as `who`: the session stands on the token that they came with, and ends with it. When there are too
 * many the oldest goes of whoever has most. PL_EINVAL: they came without a token. */
PL_MUST_CHECK
int pl_guard_login_code(struct pl_guard *g, const struct pl_principal *who, char out[PL_LOGIN_CODE_HEX + 1], struct pl_err *err);
/* Spends the code and begins a session, whose cookie it makes; the audit gets an entry. Blocks. PL_EAUTH: the code is unknown, used or too old,
 * or its token has ended; PL_EIO. */
PL_MUST_CHECK
int pl_guard_login(struct pl_guard *g, const struct pl_http_request *req, const char *code,
                   char ret_cookie[PL_LOGIN_SESSION_COOKIE_SIZE], struct pl_err *err);
