/* Routes that need no token (health checks, the embedded web page, login), and the creation of login
 * links. */
#include "pipelined/api/server/api_context.h"

#include "pl_web.h"

#include <stdio.h>
#include <strings.h>

#define PAGE_CSP                                                                                                                 \
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self' data:; form-action 'none';"     \
    " base-uri 'none'; frame-ancestors 'none'"

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

static const struct pl_embedded_file *find_page(const char *name)
{
    for (size_t i = 0; i < pl_web_files_count; i++)
        if (pl_streq(pl_web_files[i].name, name))
            return &pl_web_files[i];
    return NULL;
}

/* Replies with an embedded file, or with 304 if the client's copy is current. */
static void reply_page(struct pl_http_request *req, const char *name)
{
    const struct pl_embedded_file *file = find_page(name);
    const char *known = pl_http_header(req, "If-None-Match");
    struct pl_err err = {0};

    if (!file) {
        if (pl_web_files_count == 0)
            pl_err_set(&err, PL_EUNAVAILABLE, "this daemon was built without its web page; the API is under /api/v1/");
        else
            pl_err_set(&err, PL_ENOTFOUND, "the web page has no file \"%.100s\"", name);
        pl_http_reply_error(req, &err);
        return;
    }
    pl_http_reply_header(req, "Content-Security-Policy", PAGE_CSP);
    pl_http_reply_header(req, "Referrer-Policy", "no-referrer");
    pl_http_reply_header(req, "Cache-Control", "no-cache");
    pl_http_reply_header(req, "ETag", file->etag);
    if (known && strstr(known, file->etag))
        pl_http_reply(req, 304, NULL, NULL, 0);
    else
        pl_http_reply_static(req, 200, file->type, file->data, file->size);
}

static void get_index(struct pl_api *a, struct pl_http_request *req)
{
    (void)a;
    reply_page(req, "index.html");
}

static void get_ui(struct pl_api *a, struct pl_http_request *req)
{
    const char *name = pl_http_param(req, "path");

    (void)a;
    reply_page(req, *name ? name : "index.html");
}

/* ---- login ---- */

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

/* Redeems a login link and redirects to the page. The redirect is relative, because a proxy may serve the
 * page below another path. */
static void login(struct pl_api *a, struct pl_http_request *req)
{
    const char *code = pl_http_query(req, "token");
    char value[PL_LOGIN_SESSION_COOKIE_SIZE], cookie[PL_LOGIN_SESSION_COOKIE_SIZE + 128];
    bool secure = strncasecmp(a->url, "https:", 6) == 0;
    struct pl_err err = {0};

    pl_http_reply_header(req, "Cache-Control", "no-store");
    pl_http_reply_header(req, "Referrer-Policy", "no-referrer");
    if (pl_streq(pl_http_method(req), "HEAD")) { /* a preview by HEAD must not use up the code */
        pl_http_reply(req, 200, NULL, NULL, 0);
        return;
    }
    if (pl_guard_login(a->services.guard, req, code ? code : "", value, &err) < 0) {
        pl_http_reply_error(req, &err);
        return;
    }
    snprintf(cookie, sizeof cookie, PL_SESSION_COOKIE "=%s; Path=/; Max-Age=%d; HttpOnly; SameSite=Strict%s", value,
             PL_LOGIN_SESSION_DAYS * 86400, secure ? "; Secure" : "");
    pl_http_reply_header(req, "Set-Cookie", cookie);
    pl_http_reply_header(req, "Location", "./");
    pl_http_reply(req, 303, NULL, NULL, 0);
}

static const struct pl_api_route routes[] = {
    {"GET", "/healthz", .raw = get_health, .on_loop = true, .verb = PL_VERB_OPEN,
     .summary = "Returns \"ok\" while the daemon responds.", .reply = "text/plain"},
    {"GET", "/readyz", .raw = get_ready, .on_loop = true, .verb = PL_VERB_OPEN,
     .summary =
         "Returns \"ok\" while the daemon accepts work, and what is degraded: the store, the cluster; 503 when it is stopping.",
     .reply = "text/plain"},
    {"GET", "/", .raw = get_index, .verb = PL_VERB_OPEN, .summary = "Returns the web page.", .reply = "text/html"},
    {"GET", "/ui", .raw = get_index, .verb = PL_VERB_OPEN, .summary = "Returns the web page.", .reply = "text/html"},
    {"GET", "/ui/{path...}", .raw = get_ui, .verb = PL_VERB_OPEN, .summary = "Returns a file of the web page.",
     .reply = "text/html"},
    {"GET", "/login", .raw = login, .verb = PL_VERB_OPEN,
     .summary = "Redeems a login link: sets the session cookie and redirects to the page.", .query = "token"},
    {"POST", "/api/v1/login-links", make_login_link, .verb = PL_VERB_LIST,
     .summary = "Creates a link that logs a browser in, once, within five minutes.", .reply = "LoginLink"},
};
static const struct pl_api_schema schemas[] = {
    {"LoginLink", "url:string valid_s:integer"},
};
PL_API_TABLE(page, routes, schemas);
