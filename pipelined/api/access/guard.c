/* Checks each request's Host and Origin, finds the principal of its token, proxy header or cookie, and checks
 * the route's verb. Also makes and redeems login links. Refusals are counted by address and by user. */
#include "pipelined/api/access/guard.h"

#include "pipelined/api/access/audit.h"
#include "pipelined/policy/rate_limit.h"
#include "storage/base/clock.h"
#include "storage/base/hash.h"
#include "storage/http/ip_network.h"
#include "storage/system/log_line.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <strings.h>
#include <unistd.h>

#define NAMES_MAX        64
#define AUTHORITY_MAX    300 /* bytes for "host:port" */
#define PUBLIC_PATH_MAX  256 /* bytes for the path of the public URL */
#define COOKIE_NAME_SIZE (sizeof PL_SESSION_COOKIE + 8)

struct login_code {
    struct pl_hash hash;        /* SHA-256 of the login code; memory does not hold the code itself */
    int64_t until_ms;           /* monotonic time when the code expires; 0 = free slot */
    struct pl_hash token;       /* SHA-256 of the token that the new session will be bound to */
    char user[PL_USER_MAX + 1]; /* user who requested the link */
};

struct pl_guard {
    struct pl_hash token; /* SHA-256 of the daemon's token */
    char *names[NAMES_MAX];
    size_t n_names;
    /* the daemon listens on all addresses: accept any IP address in the Host header */
    bool any_address;
    char public_origin[AUTHORITY_MAX];    /* origin of public_url, "https://host:port"; "" = none */
    char public_path[PUBLIC_PATH_MAX];    /* path of public_url without its last slash, "/pl"; "" = none */
    char worker_authority[AUTHORITY_MAX]; /* "host:port" of worker_url; "" = none */
    char *proxy_header;
    struct pl_network proxies[PL_GUARD_PROXIES_MAX];
    size_t n_proxies;
    atomic_uint ports[PL_GUARD_PORTS];
    struct pl_principal *daemon; /* the principal of the daemon's token */
    struct pl_access *access;
    struct pl_login_sessions *sessions;
    int (*worker)(void *self, const char *token, struct pl_principal **ret, struct pl_err *err);
    void *self;
    void (*refused)(void *self, const struct pl_principal *who, const char *peer, const char *target);
    void *refused_self;

    pthread_mutex_t lock; /* guards the fields below */
    struct login_code codes[PL_LOGIN_CODES_MAX];
    struct pl_rate_limit failures;
    struct pl_rate_limit_bucket buckets[PL_GUARD_ADDRESSES];
    struct pl_rate_limit forbidden; /* refusals due to roles, per user */
    struct pl_rate_limit_bucket users[PL_GUARD_ADDRESSES];
};

/* ---- names of this daemon ---- */

/* Splits "host:port", "[::1]:port" or "host"; a missing part becomes "". Returns false for other texts. */
static bool authority_split(const char *text, char host[AUTHORITY_MAX], char port[8])
{
    const char *end = *text == '[' ? strchr(text, ']') : text + strcspn(text, ":"), *colon;

    if (!end || (size_t)(end - text) >= AUTHORITY_MAX - 1)
        return false;
    end += *text == '[';
    colon = end;
    snprintf(host, AUTHORITY_MAX, "%.*s", (int)(end - text), text);
    if (*colon && *colon != ':')
        return false;
    snprintf(port, 8, "%s", *colon ? colon + 1 : "");
    return *host && strlen(port) < 6 && strspn(port, "0123456789") == strlen(port);
}

static int add_name(struct pl_guard *g, const char *name, struct pl_err *err)
{
    if (g->n_names == NAMES_MAX)
        return pl_err_set(err, PL_ELIMIT, "more than %d names of this daemon are configured", NAMES_MAX);
    g->names[g->n_names] = strdup(name);
    if (!g->names[g->n_names])
        return pl_err_nomem(err);
    g->n_names++;
    return 0;
}

static int add_names(struct pl_guard *g, const struct pl_guard_config *config, struct pl_err *err)
{
    static const char *const own[] = {"localhost", "127.0.0.1", "[::1]"};
    char host[AUTHORITY_MAX], port[8];
    int r = 0;

    for (size_t i = 0; i < PL_ARRAY_SIZE(own) && r == 0; i++)
        r = add_name(g, own[i], err);
    for (size_t i = 0; config->hosts && config->hosts[i] && r == 0; i++)
        r = add_name(g, config->hosts[i], err);
    if (r < 0 || !authority_split(config->listen, host, port))
        return r; /* the HTTP server reports the malformed listening address */
    g->any_address = pl_streq(host, "0.0.0.0") || pl_streq(host, "[::]");
    if (g->any_address && gethostname(host, sizeof host) < 0)
        return 0;
    /* if the daemon listens on all addresses, `host` is now the machine's name, which api.c uses in the
     * URL */
    return add_name(g, host, err);
}

/* Cuts a URL down to its origin: "https://host/path" → "https://host"; NULL or "" → "". `field` names the
 * setting in errors. */
static int set_origin(const char *field, const char *url, char out[AUTHORITY_MAX], struct pl_err *err)
{
    const char *host = url ? strstr(url, "://") : NULL;
    int len;

    *out = '\0';
    if (!url || !*url)
        return 0;
    if (!host || (strncasecmp(url, "http://", 7) != 0 && strncasecmp(url, "https://", 8) != 0))
        return pl_err_field(err, pl_err_set(err, PL_EINVAL, "%s \"%s\" is not a URL: use http://… or https://…", field, url),
                            field);
    len = (int)(host + 3 - url) + (int)strcspn(host + 3, "/");
    snprintf(out, AUTHORITY_MAX, "%.*s", len, url);
    return 0;
}

/* Keeps the path of the public URL for the session cookie. A path that a cookie cannot have is not kept. */
static void set_public_path(struct pl_guard *g, const char *url)
{
    const char *path = url + strlen(g->public_origin);
    size_t n = strcspn(path, "?#");

    while (n > 0 && path[n - 1] == '/')
        n--;
    for (size_t i = 0; i < n; i++)
        if (path[i] <= ' ' || path[i] >= 0x7f || path[i] == ';' || path[i] == ',')
            return;
    if (n < sizeof g->public_path)
        snprintf(g->public_path, sizeof g->public_path, "%.*s", (int)n, path);
}

static int set_urls(struct pl_guard *g, const struct pl_guard_config *config, struct pl_err *err)
{
    char worker[AUTHORITY_MAX];
    int r = set_origin("public_url", config->public_url, g->public_origin, err);

    r = r < 0 ? r : set_origin("worker_url", config->worker_url, worker, err);
    if (r == 0 && config->public_url)
        set_public_path(g, config->public_url);
    if (r == 0 && *worker)
        snprintf(g->worker_authority, sizeof g->worker_authority, "%s", strstr(worker, "://") + 3);
    return r;
}

/* ---- proxies ---- */

/* Returns true if the network contains a loopback address of this machine or lies within 127.0.0.0/8. */
static bool has_own(const struct pl_network *n)
{
    static const uint8_t four[16] = {[10] = 0xff, [11] = 0xff, [12] = 127, [15] = 1}, six[16] = {[15] = 1};

    return pl_network_has(n, four) || pl_network_has(n, six) || (n->bits >= 104 && memcmp(n->bytes, four, 13) == 0);
}

static void warn_of_own(const struct pl_guard *g)
{
    for (size_t i = 0; i < g->n_proxies; i++)
        if (has_own(&g->proxies[i])) {
            pl_log_warn("api", "auth.proxy_addresses contains addresses of this machine: every program here, even a stage's "
                               "command, can act as any user");
            return;
        }
}

/* Parses auth.proxy_addresses, if a proxy header is configured. */
static int set_proxies(struct pl_guard *g, const char *header, const char *addresses, struct pl_err *err)
{
    _cleanup_free_ char *text = strdup(addresses ? addresses : "");
    char *save = NULL;

    if (!header || !*header)
        return 0;
    g->proxy_header = strdup(header);
    if (!text || !g->proxy_header)
        return pl_err_nomem(err);
    for (char *one = strtok_r(text, ", ", &save); one; one = strtok_r(NULL, ", ", &save)) {
        if (g->n_proxies == PL_GUARD_PROXIES_MAX)
            return pl_err_set(err, PL_ELIMIT, "auth.proxy_addresses has more than %d entries: use networks such as 10.0.0.0/24",
                              PL_GUARD_PROXIES_MAX);
        if (!pl_network_parse(one, &g->proxies[g->n_proxies++]))
            return pl_err_field(
                err, pl_err_set(err, PL_EINVAL, "auth.proxy_addresses: \"%s\" is neither an address nor a network", one),
                "auth.proxy_addresses");
    }
    if (g->n_proxies == 0)
        return pl_err_field(err,
                            pl_err_set(err, PL_EINVAL,
                                       "auth.proxy_header is set without auth.proxy_addresses: list the proxy's addresses, or "
                                       "any client could set the header"),
                            "auth.proxy_addresses");
    warn_of_own(g);
    return 0;
}

static bool is_proxy(const struct pl_guard *g, const char *peer)
{
    uint8_t address[16];

    if (!pl_address_parse(peer, address))
        return false;
    for (size_t i = 0; i < g->n_proxies; i++)
        if (pl_network_has(&g->proxies[i], address))
            return true;
    return false;
}

int pl_guard_create(const struct pl_guard_config *config, struct pl_guard **ret, struct pl_err *err)
{
    struct pl_guard *g = calloc(1, sizeof *g);
    int r;

    if (!g)
        return pl_err_nomem(err);
    pthread_mutex_init(&g->lock, NULL);
    pl_hash_sha256(config->token, strlen(config->token), &g->token);
    g->worker = config->worker;
    g->access = config->access;
    g->sessions = config->sessions;
    g->self = config->self;
    g->refused = config->refused;
    g->refused_self = config->refused_self;
    g->failures = (struct pl_rate_limit){
        .buckets = g->buckets, .n = PL_GUARD_ADDRESSES, .burst = PL_GUARD_FAILURES, .leak_a_minute = PL_GUARD_FAILURES_A_MINUTE};
    g->forbidden = g->failures;
    g->forbidden.buckets = g->users;
    r = add_names(g, config, err);
    r = r < 0 ? r : pl_principal_daemon(&g->daemon, err);
    r = r < 0 ? r : set_urls(g, config, err);
    r = r < 0 ? r : set_proxies(g, config->proxy_header, config->proxy_addresses, err);
    if (r < 0) {
        pl_guard_destroy(g);
        return r;
    }
    *ret = g;
    return 0;
}

struct pl_guard *pl_guard_destroy(struct pl_guard *g)
{
    if (!g)
        return NULL;
    for (size_t i = 0; i < g->n_names; i++)
        free(g->names[i]);
    free(g->proxy_header);
    pl_principal_unref(g->daemon);
    pthread_mutex_destroy(&g->lock);
    free(g);
    return NULL;
}

void pl_guard_add_port(struct pl_guard *g, unsigned port)
{
    unsigned none = 0;

    for (size_t i = 0; i < PL_GUARD_PORTS && !atomic_compare_exchange_strong(&g->ports[i], &none, port); i++)
        none = 0;
}

static bool port_ours(const struct pl_guard *g, const char *text)
{
    unsigned long port = strtoul(text, NULL, 10);

    for (size_t i = 0; i < PL_GUARD_PORTS; i++)
        if (port && port == atomic_load(&g->ports[i]))
            return true;
    return false;
}

/* Returns true for an IP address in digits, which DNS rebinding cannot redirect. */
static bool is_literal(const char *host)
{
    char inner[AUTHORITY_MAX];
    struct in6_addr address;
    size_t len = strlen(host);

    if (*host != '[')
        return inet_pton(AF_INET, host, &address) == 1;
    snprintf(inner, sizeof inner, "%.*s", (int)len - 2, host + 1);
    return inet_pton(AF_INET6, inner, &address) == 1;
}

static bool host_public(const struct pl_guard *g, const char *header)
{
    const char *public_host = strstr(g->public_origin, "://");

    return public_host && strcasecmp(header, public_host + 3) == 0;
}

static bool host_ours(const struct pl_guard *g, const char *header)
{
    char host[AUTHORITY_MAX], port[8];

    if (host_public(g, header))
        return true;
    if (*g->worker_authority && strcasecmp(header, g->worker_authority) == 0)
        return true;
    if (!authority_split(header, host, port))
        return false;
    if (*port && !port_ours(g, port))
        return false;
    for (size_t i = 0; i < g->n_names; i++)
        if (strcasecmp(g->names[i], host) == 0)
            return true;
    return g->any_address && is_literal(host);
}

/* Returns true if the page that sends the request has the origin of the request's Host header or of the
 * public URL. Over TLS an http: origin is refused, because anyone on the network path can forge such a
 * page; an https: origin over plain HTTP is accepted, because a proxy may have ended TLS. */
static bool origin_ours(const struct pl_guard *g, const struct pl_http_request *req, const char *origin, const char *host)
{
    const char *authority = strstr(origin, "://");

    if (*g->public_origin && strcasecmp(origin, g->public_origin) == 0)
        return true;
    if (pl_http_tls(req) && strncasecmp(origin, "https:", 6) != 0)
        return false;
    return authority && strcasecmp(authority + 3, host) == 0;
}

static bool only_reads(const struct pl_http_request *req)
{
    return pl_streq(pl_http_method(req), "GET") || pl_streq(pl_http_method(req), "HEAD");
}

/* Makes the error for a Host header that does not name this daemon. The name of a Service is such a header if
 * worker_url has another name. */
static int foreign_host(const struct pl_guard *g, const char *header, struct pl_err *err)
{
    char host[AUTHORITY_MAX], port[8];

    if (!header || !authority_split(header, host, port))
        return pl_err_set(err, PL_EHOST, "\"%.200s\" is not a name of this daemon", header ? header : "");
    if (*port && !port_ours(g, port))
        return pl_err_set(
            err, PL_EHOST,
            "\"%.200s\" is not an address of this daemon, which does not listen on port %s: if a proxy or a Service "
            "does, set public_url or worker_url to its URL",
            header, port);
    return pl_err_set(err, PL_EHOST, "\"%.200s\" is not a name of this daemon: if it leads here, add %.200s to the setting hosts",
                      header, host);
}

static int check_names(const struct pl_guard *g, const struct pl_http_request *req, struct pl_err *err)
{
    const char *host = pl_http_header(req, "Host"), *origin = pl_http_header(req, "Origin");

    if (!host || !host_ours(g, host))
        return foreign_host(g, host, err);
    if (origin && !only_reads(req) && !origin_ours(g, req, origin, host))
        return pl_err_set(err, PL_EORIGIN, "web pages of origin %.200s may not change anything here", origin);
    return 0;
}

/* ---- rate limit of refusals ---- */

/* Maps an address to the counter key of the machine behind it: the whole IPv4 address, the /64 network of an
 * IPv6 address, or the hash of any other text. */
static uint64_t address_key(const char *peer)
{
    uint8_t bytes[16] = {0};
    uint64_t key = 0;

    if (inet_pton(AF_INET, peer, bytes) != 1 && inet_pton(AF_INET6, peer, bytes) != 1)
        return pl_xxh64(peer, strlen(peer), 0);
    if (strncasecmp(peer, "::ffff:", 7) == 0) /* IPv4 mapped into IPv6 */
        memcpy(bytes, bytes + 12, 4);
    memcpy(&key, bytes, sizeof key);
    return key;
}

int pl_guard_refuse(struct pl_guard *g, const char *peer, int code, struct pl_err *err)
{
    enum pl_rate_limit_verdict verdict;

    pthread_mutex_lock(&g->lock);
    verdict = pl_rate_limit_hit(&g->failures, address_key(peer), pl_clock_mono_ms());
    pthread_mutex_unlock(&g->lock);
    if (verdict == PL_RATE_FIRST) {
        pl_log_warn("api", "more than %d requests with wrong or missing tokens from %s", PL_GUARD_FAILURES, peer);
        if (g->refused)
            g->refused(g->refused_self, NULL, peer, "requests with wrong or missing tokens");
    }
    return verdict == PL_RATE_UNDER
               ? code
               : pl_err_set(err, PL_EBUSY, "too many requests with a wrong or missing token: try again later");
}

int pl_guard_forbid(struct pl_guard *g, const struct pl_principal *who, int code, struct pl_err *err)
{
    enum pl_rate_limit_verdict verdict;

    /* `err` names a field of the request: its content is invalid, and no role would allow it */
    if (*err->field)
        return code;
    pthread_mutex_lock(&g->lock);
    verdict = pl_rate_limit_hit(&g->forbidden, pl_xxh64(who->name, strlen(who->name), 0), pl_clock_mono_ms());
    pthread_mutex_unlock(&g->lock);
    if (verdict == PL_RATE_FIRST)
        pl_log_warn("api", "more than %d requests by %s that their roles do not allow", PL_GUARD_FAILURES, who->name);
    return verdict == PL_RATE_UNDER
               ? code
               : pl_err_set(err, PL_EBUSY, "too many requests by %s that their roles do not allow: try again later", who->name);
}

static int refuse(struct pl_guard *g, const struct pl_http_request *req, const char *why, struct pl_err *err)
{
    return pl_guard_refuse(g, pl_http_peer(req), pl_err_set(err, PL_EAUTH, "%s", why), err);
}

/* ---- tokens ---- */

static bool is_token(const struct pl_guard *g, const char *text)
{
    struct pl_hash given;

    pl_hash_sha256(text, strlen(text), &given);
    return pl_secret_eq(given.b, g->token.b, PL_HASH_BYTES);
}

/* Returns the bearer token, or NULL. */
static const char *bearer_of(const struct pl_http_request *req)
{
    const char *header = pl_http_header(req, "Authorization");

    if (!header || strncasecmp(header, "Bearer ", 7) != 0)
        return NULL;
    return header + 7 + strspn(header + 7, " ");
}

static bool starts(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static int bearer_principal(struct pl_guard *g, const struct pl_http_request *req, const char *bearer, struct pl_principal **ret,
                            struct pl_err *err)
{
    int r;

    if (is_token(g, bearer)) {
        *ret = pl_principal_ref(g->daemon);
        return 0;
    }
    if (g->access && starts(bearer, PL_TOKEN_START))
        r = pl_access_token(g->access, bearer, ret, err);
    else if (g->worker && starts(bearer, PL_WORKER_TOKEN_START))
        r = g->worker(g->self, bearer, ret, err);
    else
        r = pl_err_set(err, PL_EAUTH, "the token does not belong to this daemon");
    return r == PL_EAUTH ? pl_guard_refuse(g, pl_http_peer(req), r, err) : r;
}

/* ---- login sessions ---- */

/* Finds the principal of the token to which a login session is bound, by the SHA-256 of the token.
 * PL_EAUTH: the token was deleted or has expired. */
static int token_principal(struct pl_guard *g, const struct pl_hash *hash, struct pl_principal **ret, struct pl_err *err)
{
    int r;

    if (pl_secret_eq(hash->b, g->token.b, PL_HASH_BYTES)) {
        *ret = pl_principal_ref(g->daemon);
        return 0;
    }
    r = g->access ? pl_access_token_by_hash(g->access, hash, ret, err) : PL_EAUTH;
    return r == PL_EAUTH
               ? pl_err_set(err, r,
                            "the token of this login session was deleted or has expired: run pipelinectl open to log in again")
               : r;
}

/* Writes the name of the session cookie for the address by which a request came. */
static void cookie_name(const struct pl_http_request *req, char out[COOKIE_NAME_SIZE])
{
    const char *host_header = pl_http_header(req, "Host");
    char host[AUTHORITY_MAX], port[8];

    if (host_header && authority_split(host_header, host, port) && *port)
        snprintf(out, COOKIE_NAME_SIZE, PL_SESSION_COOKIE "_%s", port);
    else
        snprintf(out, COOKIE_NAME_SIZE, PL_SESSION_COOKIE);
}

void pl_guard_set_cookie(const struct pl_guard *g, const struct pl_http_request *req, const char *value, int seconds, bool secure,
                         char out[PL_SET_COOKIE_SIZE])
{
    const char *host = pl_http_header(req, "Host");
    const char *path = host && *g->public_path && host_public(g, host) ? g->public_path : "/";
    char name[COOKIE_NAME_SIZE];

    cookie_name(req, name);
    snprintf(out, PL_SET_COOKIE_SIZE, "%s=%s; Path=%s; Max-Age=%d; HttpOnly; SameSite=Strict%s", name, value, path, seconds,
             secure ? "; Secure" : "");
}

static int cookie_principal(struct pl_guard *g, const struct pl_http_request *req, const char *cookie, struct pl_principal **ret,
                            struct pl_err *err)
{
    _cleanup_(pl_principal_unrefp) struct pl_principal *token = NULL;
    struct pl_hash hash;
    int r = pl_login_sessions_token(g->sessions, cookie, &hash, err);

    if (r == 0)
        r = token_principal(g, &hash, &token, err);
    if (r == 0)
        r = pl_login_sessions_principal(g->sessions, cookie, token, ret, err);
    return r == PL_EAUTH ? pl_guard_refuse(g, pl_http_peer(req), r, err) : r;
}

/* ---- users named by a proxy ---- */

/* Returns true if the header occurs more than once. The client may then have sent one of the headers through
 * the proxy, and the guard cannot tell which header the proxy has set. */
static bool is_repeated(const struct pl_http_request *req, const char *name)
{
    size_t n, found = 0;
    const struct pl_http_pair *headers = pl_http_headers(req, &n);

    for (size_t i = 0; i < n; i++)
        found += strcasecmp(headers[i].name, name) == 0;
    return found > 1;
}

static int proxied_principal(struct pl_guard *g, const struct pl_http_request *req, const char *name, struct pl_principal **ret,
                             struct pl_err *err)
{
    int r;

    if (is_repeated(req, g->proxy_header))
        return refuse(g, req,
                      "the header that names the user occurs more than once: the proxy must remove it from the requests that it "
                      "receives",
                      err);
    r = pl_access_user(g->access, name, ret, err);

    return r == PL_EAUTH ? pl_guard_refuse(g, pl_http_peer(req), r, err) : r;
}

static int find_principal(struct pl_guard *g, const struct pl_http_request *req, struct pl_principal **ret, struct pl_err *err)
{
    char cookie[128] = {0}, name[COOKIE_NAME_SIZE];
    const char *bearer = bearer_of(req), *named = g->proxy_header ? pl_http_header(req, g->proxy_header) : NULL;
    bool proxy = named && is_proxy(g, pl_http_peer(req));

    if (bearer)
        return bearer_principal(g, req, bearer, ret, err);
    if (proxy && g->access)
        return proxied_principal(g, req, named, ret, err);
    cookie_name(req, name);
    if (pl_http_cookie(req, name, cookie, sizeof cookie))
        return cookie_principal(g, req, cookie, ret, err);
    return refuse(g, req,
                  named ? "the request carries no token, and its address is not that of a proxy that may name a user"
                        : "the request carries no token",
                  err);
}

/* ---- permissions ---- */

static const char *param_of(const struct pl_http_request *req, const struct pl_http_route *route, const char *name)
{
    char braced[24];

    snprintf(braced, sizeof braced, "{%s}", name);
    return strstr(route->pattern, braced) ? pl_http_param(req, name) : NULL;
}

/* Checks the verb on the project and repo in the request's path; a stage is checked as the repo that it
 * writes. If the project or repo is named in the body or query instead (PL_ACCESS_ASKS), the handler checks
 * the verb later. Such a request is refused here only if the later check cannot succeed: the token is a
 * worker's and never allows the verb, or, with PL_ACCESS_SOMEWHERE, the principal has the verb's role
 * nowhere. */
static int check_verb(const struct pl_http_request *req, const struct pl_http_route *route, const struct pl_principal *p,
                      struct pl_err *err)
{
    const char *project = param_of(req, route, "project"), *repo = param_of(req, route, "repo");
    enum pl_verb verb = PL_ACCESS_VERB(route->access);
    const struct pl_permission_rule *rule = pl_permission_rule(verb);

    if ((route->access & PL_ACCESS_SOMEWHERE) && p->kind != PL_PRINCIPAL_WORKER && !pl_principal_has(p, rule->least))
        return pl_err_set(err, PL_EFORBIDDEN, "\"%s\" needs the role %s, which %s does not have anywhere", rule->name,
                          pl_role_name(rule->least), p->name);
    if ((route->access & PL_ACCESS_ASKS) && !(p->kind == PL_PRINCIPAL_WORKER && rule->worker == PL_WORKER_NEVER))
        return 0;
    return pl_principal_check(p, verb, project, repo ? repo : param_of(req, route, "stage"), err);
}

static void drop_principal(void *context)
{
    pl_principal_unref(context);
}

int pl_guard_check(struct pl_http_request *req, const struct pl_http_route *route, void *guard, struct pl_err *err)
{
    struct pl_guard *g = guard;
    struct pl_principal *p;
    char target[512];
    int r = check_names(g, req, err);
    if (r < 0 || (route && PL_ACCESS_VERB(route->access) == PL_VERB_OPEN))
        return r;
    r = find_principal(g, req, &p, err);
    if (r < 0)
        return r;
    pl_http_set_context(req, p, drop_principal);
    r = route ? check_verb(req, route, p, err) : 0;
    if (r < 0 && g->refused) {
        snprintf(target, sizeof target, "%s %.480s", pl_http_method(req), pl_http_path(req));
        g->refused(g->refused_self, p, pl_http_peer(req), target);
    }
    return r == PL_EFORBIDDEN ? pl_guard_forbid(g, p, r, err) : r;
}

int pl_guard_check_again(struct pl_http_request *req, void *guard, struct pl_err *err)
{
    const struct pl_principal *p = pl_http_context(req);

    return !p || pl_principal_stands(p, pl_clock_wall_us()) ? 0 : pl_guard_check(req, pl_http_request_route(req), guard, err);
}

/* ---- login links ---- */

/* Returns a free slot for a login code; if there is none, the slot of the oldest code of the user who has
 * the most codes. The caller holds the lock. */
static struct login_code *code_place(struct pl_guard *g, int64_t now)
{
    struct login_code *found = NULL;
    size_t most = 0;

    for (size_t i = 0; i < PL_LOGIN_CODES_MAX; i++) {
        struct login_code *c = &g->codes[i];
        size_t n = 0;

        if (c->until_ms <= now)
            return c;
        for (size_t k = 0; k < PL_LOGIN_CODES_MAX; k++)
            n += pl_streq(g->codes[k].user, c->user);
        if (n > most || (n == most && c->until_ms < found->until_ms)) {
            most = n;
            found = c;
        }
    }
    return found;
}

int pl_guard_login_code(struct pl_guard *g, const struct pl_principal *who, char out[PL_LOGIN_CODE_HEX + 1], struct pl_err *err)
{
    uint8_t random[PL_LOGIN_CODE_HEX / 2];
    int64_t now = pl_clock_mono_ms();
    struct login_code code = {.until_ms = now + PL_LOGIN_CODE_MS, .token = g->token};
    _cleanup_(pl_principal_unrefp) struct pl_principal *token = NULL;
    int r;

    if (who->kind != PL_PRINCIPAL_DAEMON && !*who->token)
        return pl_err_hint(err,
                           pl_err_set(err, PL_EINVAL, "a login link needs a token, but the request of %s has none", who->name),
                           "Users whom a proxy authenticates need no login link: open the page through the proxy.");
    if (who->kind != PL_PRINCIPAL_DAEMON) {
        r = pl_access_token_by_id(g->access, who->token, &code.token, &token, err);
        if (r < 0)
            return r;
    }
    snprintf(code.user, sizeof code.user, "%s", who->name);
    pl_random_bytes(random, sizeof random);
    pl_hex_encode(random, sizeof random, out);
    pl_hash_sha256(out, PL_LOGIN_CODE_HEX, &code.hash);
    pthread_mutex_lock(&g->lock);
    *code_place(g, now) = code;
    pthread_mutex_unlock(&g->lock);
    return 0;
}

/* Consumes the login code. Returns false if it is unknown, was used already, or is too old. */
static bool spend(struct pl_guard *g, const char *code, struct pl_hash *ret_token)
{
    int64_t now = pl_clock_mono_ms();
    struct pl_hash given;
    bool ok = false;

    pl_hash_sha256(code, strlen(code), &given);
    pthread_mutex_lock(&g->lock);
    for (size_t i = 0; i < PL_LOGIN_CODES_MAX; i++) {
        struct login_code *c = &g->codes[i];

        if (c->until_ms <= now || !pl_secret_eq(c->hash.b, given.b, PL_HASH_BYTES))
            continue;
        c->until_ms = 0;
        *ret_token = c->token;
        ok = true;
    }
    pthread_mutex_unlock(&g->lock);
    return ok;
}

/* Copies the browser's name for lists: printable ASCII, cut at PL_LOGIN_SESSION_AGENT_MAX. */
static void copy_agent(const char *text, char out[PL_LOGIN_SESSION_AGENT_MAX + 1])
{
    size_t n = text ? strnlen(text, PL_LOGIN_SESSION_AGENT_MAX) : 0;

    for (size_t i = 0; i < n; i++)
        out[i] = text[i] >= ' ' && text[i] <= '~' ? text[i] : '?';
    out[n] = '\0';
}

int pl_guard_login(struct pl_guard *g, const struct pl_http_request *req, const char *code,
                   char ret_cookie[PL_LOGIN_SESSION_COOKIE_SIZE], struct pl_err *err)
{
    _cleanup_(pl_principal_unrefp) struct pl_principal *who = NULL;
    char agent[PL_LOGIN_SESSION_AGENT_MAX + 1];
    struct pl_login_session_args session = {.agent = agent};
    int r;

    if (!spend(g, code, &session.token_hash)) {
        if (g->refused)
            g->refused(g->refused_self, NULL, pl_http_peer(req), "login by a link");
        r = refuse(g, req, "this login link was used already, or is older than five minutes", err);
        return r == PL_EAUTH ? pl_err_hint(err, r, "Run pipelinectl open to get a new link.") : r;
    }
    r = token_principal(g, &session.token_hash, &who, err);
    if (r < 0)
        return r;
    copy_agent(pl_http_header(req, "User-Agent"), agent);
    session.user = who->name;
    session.audit = pl_api_audit_entry(req, who, "login", "by a link");
    return pl_login_sessions_begin(g->sessions, &session, ret_cookie, err);
}
