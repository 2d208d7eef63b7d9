#include "http_client.h"

#include "http_exchange.h"
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

struct pl_http_client {
    char *shown; /* what messages say */
    char *authorization;
    struct pl_http_wire *wire; /* this, */
    struct pl_http_curl *curl; /* or this */
};

/* --- the client --- */

static int client_init(struct pl_http_client *c, const char *base_url, const char *token, struct pl_err *err)
{
    int r;

    c->shown = strdup(base_url);
    if (!c->shown)
        return pl_err_nomem(err);
    if (token && asprintf(&c->authorization, "Authorization: Bearer %s", token) < 0) {
        c->authorization = NULL;
        return pl_err_nomem(err);
    }
    r = pl_http_wire_create(base_url, &c->wire, err);
    return r == 0 ? pl_http_curl_create(base_url, &c->curl, err) : PL_MIN(r, 0);
}

int pl_http_client_create(const char *base_url, const char *token, struct pl_http_client **ret, struct pl_err *err)
{
    struct pl_http_client *c = calloc(1, sizeof(*c));
    int r = c ? client_init(c, base_url, token, err) : pl_err_nomem(err);

    if (r < 0) {
        pl_http_client_destroy(c);
        return r;
    }
    *ret = c;
    return 0;
}

struct pl_http_client *pl_http_client_destroy(struct pl_http_client *c)
{
    if (!c)
        return NULL;
    pl_http_wire_destroy(c->wire);
    pl_http_curl_destroy(c->curl);
    free(c->shown);
    free(c->authorization);
    free(c);
    return NULL;
}

const char *pl_http_client_url(const struct pl_http_client *c)
{
    return c->shown;
}

/* --- one call --- */

/* The code that fits an answer which is not our JSON (a proxy's, libmicrohttpd's). */
static int code_of_status(unsigned status)
{
    size_t n;
    const struct pl_err_info *table = pl_err_table(&n);

    switch (status) {
    case 404:
        return PL_ENOTFOUND;
    case 502:
    case 503:
        return PL_ENET;
    default:
        break;
    }
    for (size_t i = 0; i < n; i++)
        if ((unsigned)table[i].http_status == status)
            return table[i].code;
    return status >= 500 ? PL_EINTERNAL : PL_EPROTO;
}

static int refused(const struct pl_exchange *x, struct pl_err *err)
{
    const char *code = NULL, *message = NULL, *field = NULL, *hint = NULL;
    json_t *body = json_loadb((const char *)x->error_body.data, x->error_body.len, 0, NULL);
    const struct pl_err_info *info = NULL;
    int r;

    if (body && json_unpack(body, "{s:{s:s, s:s, s?s, s?s}}", "error", "code", &code, "message", &message, "field", &field,
                            "hint", &hint) == 0)
        info = pl_err_info_by_name(code);
    r = info ? info->code : code_of_status(x->answer.status);
    if (message)
        pl_err_set(err, r, "%s", message);
    else
        pl_err_set(err, r, "%s %s: %s answers with status %u", x->call->method, x->call->path, x->shown, x->answer.status);
    if (field)
        pl_err_field(err, r, field);
    if (hint && (!info || !pl_streq(hint, info->remedy)))
        pl_err_hint(err, r, "%s", hint);
    json_decref(body);
    return r;
}

int pl_http_client_call(struct pl_http_client *c, const struct pl_http_call *call, struct pl_http_answer *answer,
                        struct pl_err *err)
{
    struct pl_exchange x = {
        .call = call, .authorization = c->authorization, .shown = c->shown, .error_body = {.max = PL_HTTP_ERROR_BODY_MAX}};
    int r = c->wire ? pl_http_wire_run(c->wire, &x, err) : pl_http_curl_run(c->curl, &x, err);

    if (r < 0 && x.err.code && err)
        *err = x.err;
    if (r == 0 && x.answer.status >= 400)
        r = refused(&x, err);
    pl_buf_finish(&x.error_body);
    if (answer)
        *answer = x.answer;
    return r;
}

int pl_http_client_json(struct pl_http_client *c, const char *method, const char *path, const json_t *body, json_t **ret,
                        struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    struct pl_http_call call = {.method = method, .path = path, .out = &out};
    char *text = NULL;
    json_error_t e;
    int r;

    if (body) {
        text = json_dumps(body, JSON_COMPACT | JSON_ENCODE_ANY);
        if (!text)
            return pl_err_nomem(err);
        call.upload = PL_UPLOAD_BYTES;
        call.content_type = "application/json";
        call.bytes = text;
        call.len = strlen(text);
    }
    r = pl_http_client_call(c, &call, NULL, err);
    free(text);
    if (r < 0 || !ret)
        return r;
    *ret = out.len ? json_loadb((const char *)out.data, out.len, JSON_DECODE_ANY, &e) : json_null();
    return *ret ? 0
                : pl_err_set(err, PL_EPROTO, "%s %s: %s answers with something that is no JSON: %s", method, path, c->shown,
                             e.text);
}

int pl_http_client_get(struct pl_http_client *c, const char *path, struct pl_buf *out, struct pl_err *err)
{
    struct pl_http_call call = {.method = "GET", .path = path, .out = out};

    return pl_http_client_call(c, &call, NULL, err);
}

/* --- paths --- */

int pl_http_escape(struct pl_buf *out, const char *text, bool keep_slash, struct pl_err *err)
{
    int r = 0;

    for (; *text && r == 0; text++) {
        unsigned char c = (unsigned char)*text;

        if (isalnum(c) || strchr("-._~", c) || (keep_slash && c == '/'))
            r = pl_buf_add_u8(out, c, err);
        else
            r = pl_buf_addf(out, err, "%%%02X", c);
    }
    return r;
}

char *pl_http_path_make(const char *fmt, ...)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    va_list args;
    int r = 0;

    va_start(args, fmt);
    for (; *fmt && r == 0; fmt++) {
        if (*fmt != '%') {
            r = pl_buf_add_u8(&out, (uint8_t)*fmt, NULL);
            continue;
        }
        switch (*++fmt) {
        case 's':
        case 'p':
            r = pl_http_escape(&out, va_arg(args, const char *), *fmt == 'p', NULL);
            break;
        case 'u':
            r = pl_buf_addf(&out, NULL, "%llu", (unsigned long long)va_arg(args, uint64_t));
            break;
        default:
            abort(); /* a format of ours that is none */
        }
    }
    va_end(args);
    return r < 0 ? NULL : pl_buf_take_str(&out);
}
