/* Routing. Patterns are split into segments once; then the decoded segments of each request's path are
 * compared with the patterns in their order. */
#include "pipelined/net/server/http_internal.h"

#include <stdio.h>

static int segment_compile(const char *text, size_t len, struct http_segment *ret, struct pl_err *err)
{
    size_t from = 0;

    if (len > 1 && text[0] == '{' && text[len - 1] == '}') {
        ret->param = true;
        from = 1;
        len--;
        ret->tail = len > 4 && memcmp(text + len - 3, "...", 3) == 0;
        if (ret->tail)
            len -= 3;
    }
    if (len - from >= sizeof(ret->text))
        return pl_err_set(err, PL_EINVAL, "segment \"%.*s\" is longer than %zu bytes", (int)len, text, sizeof(ret->text) - 1);
    memcpy(ret->text, text + from, len - from);
    return 0;
}

/* Splits a pattern into its segments. */
static int matcher_compile(const struct pl_http_route *route, struct http_matcher *m, struct pl_err *err)
{
    const char *p = route->pattern;
    size_t n_params = 0;
    int r;

    m->route = route;
    if (*p != '/')
        return pl_err_set(err, PL_EINVAL, "does not begin with /");
    while (*p == '/') {
        size_t len = strcspn(++p, "/");

        if (m->n_segments == HTTP_SEGMENTS_MAX || n_params == PL_HTTP_PARAMS_MAX)
            return pl_err_set(err, PL_EINVAL, "has more than %d segments or %d parameters", HTTP_SEGMENTS_MAX,
                              PL_HTTP_PARAMS_MAX - 1);
        r = segment_compile(p, len, &m->segments[m->n_segments], err);
        if (r < 0)
            return r;
        n_params += m->segments[m->n_segments].param;
        p += len;
        if (m->segments[m->n_segments++].tail && *p)
            return pl_err_set(err, PL_EINVAL, "goes on after its tail");
    }
    return 0;
}

int pl_httpd_matchers_compile(const struct pl_http_route *routes, size_t n, struct http_matcher **ret, struct pl_err *err)
{
    struct http_matcher *matchers = calloc(n + 1, sizeof(*matchers));
    int r;

    if (!matchers)
        return pl_err_nomem(err);
    for (size_t i = 0; i < n; i++) {
        r = matcher_compile(&routes[i], &matchers[i], err);
        if (r < 0) {
            free(matchers);
            return pl_err_wrap(err, r, "route %s", routes[i].pattern);
        }
    }
    *ret = matchers;
    return 0;
}

/* Compares a request's path with a pattern and collects the parameters. */
static bool matcher_fits(const struct http_matcher *m, const struct pl_http_request *r, const char **params)
{
    const char *at = r->decoded;
    size_t n = 0;

    for (size_t i = 0; i < m->n_segments; i++, at += strlen(at) + 1) {
        const struct http_segment *s = &m->segments[i];

        if (i == r->n_segments)
            return false;
        if (!s->param && !pl_streq(s->text, at))
            return false;
        if (s->param && !s->tail && !*at)
            return false; /* a parameter must not be empty */
        if (s->param)
            params[n++] = at;
        if (s->tail)
            return true;
    }
    return m->n_segments == r->n_segments;
}

/* Makes one parameter of the rest of the path: replaces the NULs between its segments by slashes. */
static void join_tail(struct pl_http_request *r)
{
    const struct http_matcher *m = r->matcher;
    char *at = r->decoded;

    if (!m->segments[m->n_segments - 1].tail)
        return;
    for (size_t i = 0; i + 1 < r->n_segments; i++) {
        at += strlen(at);
        if (i + 1 >= m->n_segments)
            *at = '/';
        at++;
    }
}

static bool method_fits(const char *of_route, const char *asked)
{
    return pl_streq(of_route, asked) || (pl_streq(of_route, "GET") && pl_streq(asked, "HEAD"));
}

static void add_allowed(char *allow, size_t size, const char *method)
{
    size_t len = strlen(allow);

    if (!strstr(allow, method))
        snprintf(allow + len, size - len, "%s%s%s", len ? ", " : "", method, pl_streq(method, "GET") ? ", HEAD" : "");
}

int pl_httpd_route_find(struct pl_http_server *s, struct pl_http_request *r, char *allow, size_t allow_size, struct pl_err *err)
{
    *allow = 0;
    for (size_t i = 0; i < s->n_matchers; i++) {
        const struct http_matcher *m = &s->matchers[i];
        const char *params[PL_HTTP_PARAMS_MAX] = {0};

        if (!matcher_fits(m, r, params))
            continue;
        if (!method_fits(m->route->method, r->method)) {
            add_allowed(allow, allow_size, m->route->method);
            continue;
        }
        memcpy(r->params, params, sizeof(params));
        r->matcher = m;
        r->route = m->route;
        join_tail(r);
        return 0;
    }
    if (*allow)
        return pl_err_set(err, PL_EINVAL, "%s is not allowed here: %s", r->method, allow);
    return pl_err_set(err, PL_ENOTFOUND, "there is no %s", r->target);
}
