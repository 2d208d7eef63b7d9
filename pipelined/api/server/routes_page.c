/* Routes that need no token (health checks, the embedded web page, login), and the creation of login
 * links. */
#include "pipelined/api/server/api_context.h"

#include "pipelined/api/server/web_page.h"

#include <stdio.h>
#include <strings.h>

static void get_health(struct pl_api *a, struct pl_http_request *req)
{
    (void)a;
    pl_http_reply_static(req, 200, "text/plain; charset=utf-8", "ok\n", 3);
}

/* Counts the open commits that could not be finished automatically. */
struct stalls {
    size_t n;
    int code; /* error code of the first open commit that was counted */
};

static int add_stall(void *self, struct pl_open_commit *c)
{
    struct stalls *s = self;
    struct pl_open_commit_info info;

    pl_open_commit_info(c, &info);
    if (s->n++ == 0)
        s->code = info.blocked_code;
    return 0;
}

/* Writes "ok", and which parts of the daemon's work are held up: open commits that cannot be finished, although puts
 * are still collected in them; workers that can be neither started nor watched. The text names no repo and no server,
 * because the route needs no token. */
static int ready_text(struct pl_api *a, char out[400])
{
    const struct pl_engine_ops *engine = a->config.engine;
    struct pl_executor_outage outage;
    struct stalls stalls = {0};
    int n = snprintf(out, 400, "ok");

    if (pl_opens_stalled(a->services.opens, add_stall, &stalls) == 0 && stalls.n)
        n += snprintf(out + n, 400 - (size_t)n, ", but %zu open commits cannot be finished: %s", stalls.n,
                      pl_err_info(stalls.code)->name);
    if (engine->outage && engine->outage(a->config.engine_self, &outage))
        n += snprintf(out + n, 400 - (size_t)n, "%s workers can be neither started nor watched: %s", stalls.n ? ", and" : ", but",
                      pl_err_info(outage.code)->name);
    return n + snprintf(out + n, 400 - (size_t)n, n > 2 ? " (pipelinectl status says more)\n" : "\n");
}

/* Replies "ok" while the daemon accepts work, with what is held up. */
static void get_ready(struct pl_api *a, struct pl_http_request *req)
{
    struct pl_err err = {0};
    char text[400];
    int n;

    if (atomic_load(&a->draining)) {
        pl_err_set(&err, PL_ESTOPPING, "the daemon is stopping: it finishes what is running and accepts no more work");
        pl_http_reply_error(req, &err);
    } else {
        n = ready_text(a, text);
        pl_http_reply(req, 200, "text/plain; charset=utf-8", text, (size_t)n);
    }
}

/* ---- the web page ---- */

static void get_place(struct pl_api *a, struct pl_http_request *req)
{
    (void)a;
    pl_web_page_reply_index(req, 200);
}

static void get_ui(struct pl_api *a, struct pl_http_request *req)
{
    (void)a;
    pl_web_page_reply_file(req, pl_http_param(req, "path"));
}

/* ---- login ---- */

#define LOGIN_TO_MAX 2000u /* bytes of a place of the page */

static int make_login_link(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    size_t len = strlen(a->url);
    char code[PL_LOGIN_CODE_HEX + 1];
    int r = pl_guard_login_code(a->services.guard, pl_http_context(req), code, err);

    if (r < 0)
        return r;
    while (len > 0 && a->url[len - 1] == '/')
        len--;
    *ret = json_pack("{s:o, s:i}", "url", json_sprintf("%.*s/login?token=%s", (int)len, a->url, code), "valid_s",
                     PL_LOGIN_CODE_MS / 1000);
    return 201;
}

/* Writes the place after the login, relative to "/login": the page that `to` names if it is one of this daemon ("/runs/…"),
 * else the start page. It is relative, because a proxy may serve the page below another path. */
static void place_after_login(const char *to, char out[LOGIN_TO_MAX + 2])
{
    bool own = to && to[0] == '/' && to[1] != '/' && strlen(to) < LOGIN_TO_MAX;

    for (const char *c = own ? to : ""; *c; c++)
        if (*c <= ' ' || *c >= 0x7f || strchr("\"<>\\^`{|}#", *c))
            own = false;
    snprintf(out, LOGIN_TO_MAX + 2, ".%s", own ? to : "/");
}

/* True for a request of a browser, whose user wants the page rather than JSON. */
static bool wants_page(const struct pl_http_request *req)
{
    const char *accept = pl_http_header(req, "Accept");

    return accept && strstr(accept, "text/html");
}

/* Without a token, the form of the page; with one, redeems a login link and redirects. A browser whose link does not count
 * any more gets the form, too, which says so. */
static void login(struct pl_api *a, struct pl_http_request *req)
{
    const char *code = pl_http_query(req, "token");
    char value[PL_LOGIN_SESSION_COOKIE_SIZE], cookie[PL_SET_COOKIE_SIZE], place[LOGIN_TO_MAX + 2];
    bool secure = strncasecmp(a->url, "https:", 6) == 0;
    struct pl_err err = {0};

    if (!code && wants_page(req)) {
        pl_web_page_reply_index(req, 200);
        return;
    }
    pl_http_reply_header(req, "Cache-Control", "no-store");
    pl_http_reply_header(req, "Referrer-Policy", "no-referrer");
    if (pl_streq(pl_http_method(req), "HEAD")) { /* a preview by HEAD must not use up the code */
        pl_http_reply(req, 200, NULL, NULL, 0);
        return;
    }
    if (pl_guard_login(a->services.guard, req, code ? code : "", value, &err) < 0) {
        if (wants_page(req))
            pl_web_page_reply_index(req, 401);
        else
            pl_http_reply_error(req, &err);
        return;
    }
    pl_guard_set_cookie(a->services.guard, req, value, PL_LOGIN_SESSION_DAYS * 86400, secure, cookie);
    place_after_login(pl_http_query(req, "to"), place);
    pl_http_reply_header(req, "Set-Cookie", cookie);
    pl_http_reply_header(req, "Location", place);
    pl_http_reply(req, 303, NULL, NULL, 0);
}

#define PLACE(pattern_)                                                                                                          \
    {                                                                                                                            \
        "GET", pattern_, .raw = get_place, .verb = PL_VERB_OPEN,                                                                 \
                         .summary = "Returns the web page, which shows what the path names.", .reply = "text/html"               \
    }

static const struct pl_api_route routes[] = {
    {"GET", "/healthz", .raw = get_health, .on_loop = true, .verb = PL_VERB_OPEN,
     .summary = "Returns \"ok\" while the daemon responds.", .reply = "text/plain"},
    {"GET", "/readyz", .raw = get_ready, .on_loop = true, .verb = PL_VERB_OPEN,
     .summary =
         "Returns \"ok\" while the daemon accepts work, and what is degraded: the store, the cluster; 503 when it is stopping.",
     .reply = "text/plain"},
    PLACE("/"),
    PLACE("/runs"),
    PLACE("/runs/{path...}"),
    PLACE("/jobs/{path...}"),
    PLACE("/data"),
    PLACE("/data/{path...}"),
    PLACE("/diff/{path...}"),
    PLACE("/why/{path...}"),
    PLACE("/pipelines"),
    PLACE("/pipelines/{path...}"),
    PLACE("/check"),
    PLACE("/gpus"),
    PLACE("/metrics/{path...}"),
    {"GET", "/ui/{path...}", .raw = get_ui, .verb = PL_VERB_OPEN, .summary = "Returns a file of the web page.",
     .reply = "text/html"},
    {"GET", "/login", .raw = login, .verb = PL_VERB_OPEN,
     .summary = "Redeems a login link: sets the session cookie and redirects to the page, to its place `to` if that is given. "
                "Without a token, returns the form to browsers.",
     .query = "token to"},
    {"POST", "/api/v1/login-links", make_login_link, .verb = PL_VERB_LIST,
     .summary = "Creates a link that logs a browser in, once, within five minutes.", .reply = "LoginLink"},
};
static const struct pl_api_schema schemas[] = {
    {"LoginLink", "url:string valid_s:integer"},
};
PL_API_TABLE(page, routes, schemas);
