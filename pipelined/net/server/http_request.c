/* Parses a request. Path, arguments, headers and cookies are copied from the connection's buffer, because the
 * request may outlive the connection. */
#include "pipelined/net/server/http_internal.h"

#include "storage/base/alloc_failure.h"
#include "storage/base/clock.h"
#include "storage/base/path.h"
#include "storage/http/trace_context.h"
#include "storage/system/log_line.h"
#include <arpa/inet.h>
#include <ctype.h>
#include <stdio.h>
#include <strings.h>

/* --- percent-encoding --- */

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Percent-decodes `n` bytes into `out`, which has space for n + 1. Returns false for a malformed escape, a
 * NUL, or invalid UTF-8. */
static bool percent_decode(const char *in, size_t n, bool plus_is_space, char *out)
{
    size_t len = 0;

    for (size_t i = 0; i < n; i++) {
        int high, low;

        if (in[i] != '%') {
            out[len++] = plus_is_space && in[i] == '+' ? ' ' : in[i];
            continue;
        }
        if (n - i < 3)
            return false;
        high = hex_digit(in[i + 1]);
        low = hex_digit(in[i + 2]);
        if (high < 0 || low < 0 || (high == 0 && low == 0))
            return false;
        out[len++] = (char)(high << 4 | low);
        i += 2;
    }
    out[len] = 0;
    return pl_utf8_ok(out, len);
}

/* --- the request line --- */

struct pl_http_request *pl_httpd_request_create(struct pl_http_server *s, const char *uri)
{
    struct pl_http_request *r = calloc(1, sizeof(*r));
    const char *query = strchr(uri, '?');
    size_t path_len = query ? (size_t)(query - uri) : strlen(uri);

    if (!r)
        return NULL;
    r->target = strndup(uri, path_len);
    r->decoded = malloc(path_len + 2);
    r->query_text = query ? strdup(query + 1) : NULL;
    if (!r->target || !r->decoded || (query && !r->query_text)) {
        free(r->target);
        free(r->decoded);
        free(r->query_text);
        free(r);
        return NULL;
    }
    r->server = s;
    r->fd = -1;
    r->begun_ms = pl_clock_mono_ms();
    atomic_init(&r->refs, 1);
    pthread_mutex_init(&r->lock, NULL);
    return r;
}

void pl_httpd_request_free(struct pl_http_request *r)
{
    if (r->drop_context)
        r->drop_context(r->context);
    pl_httpd_drop_response(r, r->response);
    for (size_t i = 0; i < r->n_reply_headers; i++)
        /* the value follows the name in the same allocation */
        free((void *)(uintptr_t)r->reply_headers[i].name);
    free(r->reply_headers);
    pl_httpd_body_free(r->intake);
    pl_httpd_body_finish(r);
    free(r->target);
    free(r->decoded);
    free(r->query_text);
    free(r->query);
    free(r->header_text);
    free(r->headers);
    pthread_mutex_destroy(&r->lock);
    free(r);
}

/* Splits the path into decoded segments, each followed by a NUL: "/a/b%20c" → "a\0b c\0". */
static int request_read_path(struct pl_http_request *r, struct pl_err *err)
{
    const char *p = r->target;
    char *out = r->decoded;

    if (*p != '/')
        return pl_err_set(err, PL_EINVAL, "the request's target must be a path that begins with /");
    while (*p == '/') {
        size_t len = strcspn(++p, "/");

        if (!percent_decode(p, len, false, out))
            return pl_err_set(err, PL_EINVAL, "the path is not well percent-encoded UTF-8");
        out += strlen(out) + 1;
        r->n_segments++;
        p += len;
    }
    return 0;
}

/* Splits the query into decoded arguments, in place. */
static int request_read_query(struct pl_http_request *r, struct pl_err *err)
{
    char *p = r->query_text;
    size_t n = 1;

    if (!p)
        return 0;
    for (const char *c = p; *c; c++)
        n += *c == '&';
    if (n > HTTP_QUERY_MAX)
        return pl_err_set(err, PL_EINVAL, "the query has %zu arguments: at most %d are accepted", n, HTTP_QUERY_MAX);
    r->query = calloc(n, sizeof(*r->query));
    if (!r->query)
        return pl_err_nomem(err);
    for (char *end; p; p = end) {
        size_t len = strcspn(p, "&");
        char *equals = memchr(p, '=', len), *value = p + len;

        end = p[len] ? p + len + 1 : NULL;
        if (len == 0)
            continue;
        p[len] = 0;
        if (equals) {
            *equals = 0;
            value = equals + 1;
        }
        if (!percent_decode(p, strlen(p), true, p) || !percent_decode(value, strlen(value), true, value))
            return pl_err_set(err, PL_EINVAL, "the query is not well percent-encoded UTF-8");
        r->query[r->n_query++] = (struct pl_http_pair){.name = p, .value = value};
    }
    return 0;
}

/* --- headers --- */

struct header_pass {
    struct pl_http_request *r;
    size_t n, bytes;
    bool malformed;
    const char *last; /* end of the last header line so far */
    char *out;        /* where to copy the headers; NULL: only check and count them */
};

/* True if the text is a token as defined by RFC 9110. */
static bool token_ok(const char *s, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!isalnum((unsigned char)s[i]) && !strchr("!#$%&'*+-.^_`|~", s[i]))
            return false;
    return n > 0;
}

/* True if the line ended with CR LF. libmicrohttpd 0.9.75 also accepts LF alone. It overwrites each byte of the
 * line's end with a NUL, so that CR LF leaves two NULs. */
static bool line_ok(const char *end)
{
    return MHD_VERSION >= 0x01000000 || (end[0] == '\0' && end[1] == '\0');
}

/* True if the head ends with CR LF (of the last header line) and CR LF (of the empty line): then it ends exactly 4
 * bytes after `end`, the end of the last header line's text. `end` and `method` point into the same buffer. */
static bool head_ok(struct MHD_Connection *connection, const char *method, const char *end)
{
    const union MHD_ConnectionInfo *size = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);

    return MHD_VERSION >= 0x01000000 || (size && end + strlen("\r\n\r\n") == method + size->header_size);
}

/* True if the header is well formed. libmicrohttpd 0.9.75 has two faults here. It appends a folded line to the
 * header's *name* and leaves the value where it was, so that the value does not follow the name. It also accepts
 * names with spaces ("Host : a"). With either, a client could hide a Content-Length from a proxy. */
static bool header_ok(const char *name, size_t name_len, const char *value, size_t value_len)
{
    if (!token_ok(name, name_len) || memchr(value ? value : "", '\r', value_len))
        return false;
#if MHD_VERSION < 0x01000000
    if (value) {
        uintptr_t at = (uintptr_t)name + name_len + 1;

        if ((uintptr_t)value < at || (uintptr_t)value - at > PL_HTTP_HEADER_BYTES_MAX)
            return false;
        for (const char *c = name + name_len + 1; c < value; c++)
            if (*c != ' ' && *c != '\t')
                return false;
        return line_ok(value + value_len);
    }
#endif
    return true;
}

/* Called for each header, in two passes: the first checks and counts the headers, the second copies them. */
static enum MHD_Result on_header(void *arg, enum MHD_ValueKind kind, const char *name, size_t name_len, const char *value,
                                 size_t value_len)
{
    struct header_pass *pass = arg;

    (void)kind;
    if (!pass->out) {
        pass->malformed |= !header_ok(name, name_len, value, value_len);
        pass->last = value && value + value_len > pass->last ? value + value_len : pass->last;
        pass->n++;
        pass->bytes += name_len + value_len + 2;
        return MHD_YES;
    }
    pass->r->headers[pass->r->n_headers++] = (struct pl_http_pair){.name = pass->out, .value = pass->out + name_len + 1};
    memcpy(pass->out, name, name_len);
    pass->out[name_len] = 0;
    pass->out += name_len + 1;
    if (value_len)
        memcpy(pass->out, value, value_len);
    pass->out[value_len] = 0;
    pass->out += value_len + 1;
    return MHD_YES;
}

static size_t header_count(const struct pl_http_request *r, const char *name)
{
    size_t n = 0;

    for (size_t i = 0; i < r->n_headers; i++)
        n += strcasecmp(r->headers[i].name, name) == 0;
    return n;
}

/* Reads the length of the body from the headers. Refuses a request whose end two parsers could see in
 * different places. */
static int request_read_framing(struct pl_http_request *r, struct pl_err *err)
{
    const char *length = pl_http_header(r, "Content-Length"), *coding = pl_http_header(r, "Transfer-Encoding");
    const char *expect = pl_http_header(r, "Expect");

    if (length && coding)
        return pl_err_set(err, PL_EPROTO, "the request has both Content-Length and Transfer-Encoding: send only one");
    if (header_count(r, "Content-Length") > 1 || header_count(r, "Transfer-Encoding") > 1 || header_count(r, "Host") > 1)
        return pl_err_set(err, PL_EPROTO, "Content-Length, Transfer-Encoding and Host may be given only once");
    if (coding && strcasecmp(coding, "chunked") != 0)
        return pl_err_set(err, PL_EPROTO, "Transfer-Encoding \"%s\" is not supported: use chunked", coding);
    r->length = 0;
    if (coding)
        r->length = -1;
    if (length) {
        char *end;

        errno = 0;
        r->length = strtoll(length, &end, 10);
        if (errno || *end || !isdigit((unsigned char)*length))
            return pl_err_set(err, PL_EPROTO, "Content-Length \"%s\" is not a length", length);
    }
    r->expects_continue = expect && strcasecmp(expect, "100-continue") == 0;
    return 0;
}

static void request_read_peer(struct pl_http_request *r)
{
    const union MHD_ConnectionInfo *info = MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
    const union MHD_ConnectionInfo *fd = MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_CONNECTION_FD);

    r->fd = fd ? fd->connect_fd : -1;
    if (r->server->tls) {
        const union MHD_ConnectionInfo *tls = MHD_get_connection_info(r->connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);

        r->tls = tls ? tls->tls_session : NULL;
    }
    if (!info || !info->client_addr)
        return;
    if (info->client_addr->sa_family == AF_INET)
        inet_ntop(AF_INET, &((const struct sockaddr_in *)(const void *)info->client_addr)->sin_addr, r->peer, sizeof(r->peer));
    else if (info->client_addr->sa_family == AF_INET6)
        inet_ntop(AF_INET6, &((const struct sockaddr_in6 *)(const void *)info->client_addr)->sin6_addr, r->peer, sizeof(r->peer));
}

int pl_httpd_request_read(struct pl_http_request *r, const char *method, const char *version, struct pl_err *err)
{
    struct header_pass pass = {.r = r, .malformed = !line_ok(version + strlen(version)), .last = version + strlen(version)};
    int e;

    request_read_peer(r);
    snprintf(r->method, sizeof(r->method), "%s", method); /* a longer method matches no route */
    MHD_get_connection_values_n(r->connection, MHD_HEADER_KIND, on_header, &pass);
    r->headers = calloc(pass.n + 1, sizeof(*r->headers));
    r->header_text = malloc(pass.bytes + 1);
    if (!r->headers || !r->header_text)
        return pl_err_nomem(err);
    pass.out = r->header_text;
    MHD_get_connection_values_n(r->connection, MHD_HEADER_KIND, on_header, &pass);
    if (pass.malformed || !head_ok(r->connection, method, pass.last))
        return pl_err_set(err, PL_EPROTO,
                          "a header's name is not a token, its value is folded over lines, or a line does not end with CR LF");
    e = request_read_framing(r, err);
    if (e == 0)
        e = request_read_path(r, err);
    if (e == 0)
        e = request_read_query(r, err);
    return e;
}

/* --- accessors for handlers --- */

const char *pl_http_method(const struct pl_http_request *r)
{
    return r->method;
}

const char *pl_http_path(const struct pl_http_request *r)
{
    return r->target;
}

const char *pl_http_param(const struct pl_http_request *r, const char *name)
{
    size_t n = 0;

    for (size_t i = 0; i < r->matcher->n_segments; i++) {
        if (!r->matcher->segments[i].param)
            continue;
        if (pl_streq(r->matcher->segments[i].text, name))
            return r->params[n];
        n++;
    }
    abort(); /* a programming error: the handler asks for a parameter that its route does not have */
}

const struct pl_http_pair *pl_http_headers(const struct pl_http_request *r, size_t *ret_n)
{
    *ret_n = r->n_headers;
    return r->headers;
}

const struct pl_http_pair *pl_http_queries(const struct pl_http_request *r, size_t *ret_n)
{
    *ret_n = r->n_query;
    return r->query;
}

const char *pl_http_query_at(const struct pl_http_request *r, const char *name, size_t i)
{
    for (size_t k = 0; k < r->n_query; k++)
        if (pl_streq(r->query[k].name, name) && i-- == 0)
            return r->query[k].value;
    return NULL;
}

const char *pl_http_query(const struct pl_http_request *r, const char *name)
{
    return pl_http_query_at(r, name, 0);
}

int pl_http_query_u64(const struct pl_http_request *r, const char *name, uint64_t fallback, uint64_t max, uint64_t *ret,
                      struct pl_err *err)
{
    const char *text = pl_http_query(r, name);
    uint64_t value = fallback;
    char *end;

    if (text) {
        errno = 0;
        value = strtoull(text, &end, 10);
        if (errno || *end || !isdigit((unsigned char)*text) || value > max) {
            pl_err_set(err, PL_EINVAL, "\"%s\" is not a number from 0 to %llu", text, (unsigned long long)max);
            return pl_err_field(err, PL_EINVAL, name);
        }
    }
    *ret = value;
    return 0;
}

bool pl_http_query_flag(const struct pl_http_request *r, const char *name)
{
    const char *text = pl_http_query(r, name);

    return text && !pl_streq(text, "0") && !pl_streq(text, "false");
}

const char *pl_http_header(const struct pl_http_request *r, const char *name)
{
    for (size_t i = 0; i < r->n_headers; i++)
        if (strcasecmp(r->headers[i].name, name) == 0)
            return r->headers[i].value;
    return NULL;
}

bool pl_http_cookie(const struct pl_http_request *r, const char *name, char *out, size_t size)
{
    const char *p = pl_http_header(r, "Cookie");
    size_t name_len = strlen(name);

    while (p && *p) {
        size_t len;

        p += strspn(p, " ;");
        len = strcspn(p, ";");
        if (len > name_len && p[name_len] == '=' && memcmp(p, name, name_len) == 0) {
            if (len - name_len - 1 >= size)
                return false;
            memcpy(out, p + name_len + 1, len - name_len - 1);
            out[len - name_len - 1] = 0;
            return true;
        }
        p += len;
    }
    return false;
}

const char *pl_http_peer(const struct pl_http_request *r)
{
    return r->peer;
}

bool pl_http_tls(const struct pl_http_request *r)
{
    return r->server->tls;
}

uint64_t pl_httpd_number(struct pl_http_server *s)
{
    static atomic_uint_fast64_t newest;

    atomic_fetch_add(&s->requests, 1);
    return atomic_fetch_add(&newest, 1) + 1;
}

void pl_http_request_enter(const struct pl_http_request *r)
{
    (void)pl_alloc_failure_take();
    (void)pl_log_request(r->id);
    pl_trace_context_set(pl_http_header(r, "traceparent"));
}

void pl_http_request_leave(void)
{
    (void)pl_log_request(0);
    pl_trace_context_set(NULL);
}

uint64_t pl_http_request_id(const struct pl_http_request *r)
{
    return r->id;
}

const struct pl_http_route *pl_http_request_route(const struct pl_http_request *r)
{
    return r->route;
}

void pl_http_set_context(struct pl_http_request *r, void *context, void (*drop)(void *))
{
    if (r->drop_context)
        r->drop_context(r->context);
    r->context = context;
    r->drop_context = drop;
}

void *pl_http_context(const struct pl_http_request *r)
{
    return r->context;
}

const struct pl_buf *pl_http_body(const struct pl_http_request *r)
{
    return &r->body;
}

int64_t pl_http_body_length(const struct pl_http_request *r)
{
    return r->length;
}

int pl_http_body_json(const struct pl_http_request *r, json_t **ret, struct pl_err *err)
{
    json_error_t e;
    json_t *value;

    /* if parsing fails, errno tells whether memory ran out: malloc sets it, jansson does not report it */
    errno = 0;
    value = r->body.len ? json_loadb((const char *)r->body.data, r->body.len, JSON_REJECT_DUPLICATES, &e) : json_object();
    if (!value && r->body.len && errno != ENOMEM)
        return pl_err_set(err, PL_EINVAL, "the body is not JSON: line %d, column %d: %s", e.line, e.column, e.text);
    if (!value)
        return pl_err_nomem(err);
    *ret = value;
    return 0;
}

bool pl_http_request_gone(const struct pl_http_request *r)
{
    /* without const, because taking the lock modifies the request */
    struct pl_http_request *shared = (struct pl_http_request *)(uintptr_t)r;
    bool gone;

    pthread_mutex_lock(&shared->lock);
    gone = r->gone;
    pthread_mutex_unlock(&shared->lock);
    return gone;
}
