#include "http_client.h"

#include "storage/base/io.h"
#include <ctype.h>
#include <curl/curl.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>

#define ERROR_BODY_MAX (64u << 10)

struct pl_http_client {
    char *url;    /* without a last slash */
    char *shown;  /* what messages say */
    char *socket; /* of unix:, else NULL */
    char *authorization;
    pthread_mutex_t lock;
    CURL *handles[PL_HTTP_HANDLES_KEPT];
    size_t n_handles;
};

/* One call under way. */
struct transfer {
    struct pl_http_client *client;
    const struct pl_http_call *call;
    CURL *curl;
    struct curl_slist *headers;
    uint64_t uploaded;
    struct pl_buf error_body;
    struct pl_http_answer answer;
    struct pl_err err; /* of a callback */
};

/* --- the client --- */

static void curl_init(void)
{
    curl_global_init(CURL_GLOBAL_DEFAULT);
}

static int client_set_url(struct pl_http_client *c, const char *base_url, struct pl_err *err)
{
    size_t len = strlen(base_url);

    if (strncmp(base_url, "unix:/", 6) == 0) {
        c->socket = strdup(base_url + 5);
        c->url = strdup("http://localhost");
    } else if (strncmp(base_url, "http://", 7) == 0 || strncmp(base_url, "https://", 8) == 0) {
        while (len && base_url[len - 1] == '/')
            len--;
        c->url = strndup(base_url, len);
    } else {
        return pl_err_set(err, PL_EINVAL, "\"%s\" is no server: http://HOST:PORT, https://… or unix:/PATH", base_url);
    }
    c->shown = strdup(base_url);
    return c->url && c->shown && (c->socket || *c->url) ? 0 : pl_err_nomem(err);
}

int pl_http_client_create(const char *base_url, const char *token, struct pl_http_client **ret, struct pl_err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct pl_http_client *c = calloc(1, sizeof(*c));
    int r;

    if (!c)
        return pl_err_nomem(err);
    pthread_once(&once, curl_init);
    pthread_mutex_init(&c->lock, NULL);
    r = client_set_url(c, base_url, err);
    if (r == 0 && token && asprintf(&c->authorization, "Authorization: Bearer %s", token) < 0) {
        c->authorization = NULL;
        r = pl_err_nomem(err);
    }
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
    for (size_t i = 0; i < c->n_handles; i++)
        curl_easy_cleanup(c->handles[i]);
    pthread_mutex_destroy(&c->lock);
    free(c->url);
    free(c->shown);
    free(c->socket);
    free(c->authorization);
    free(c);
    return NULL;
}

const char *pl_http_client_url(const struct pl_http_client *c)
{
    return c->shown;
}

static CURL *client_borrow(struct pl_http_client *c)
{
    CURL *curl = NULL;

    pthread_mutex_lock(&c->lock);
    if (c->n_handles)
        curl = c->handles[--c->n_handles];
    pthread_mutex_unlock(&c->lock);
    return curl ? curl : curl_easy_init();
}

static void client_give_back(struct pl_http_client *c, CURL *curl)
{
    if (!curl)
        return;
    curl_easy_reset(curl); /* keeps its connections */
    pthread_mutex_lock(&c->lock);
    if (c->n_handles < PL_HTTP_HANDLES_KEPT) {
        c->handles[c->n_handles++] = curl;
        curl = NULL;
    }
    pthread_mutex_unlock(&c->lock);
    if (curl)
        curl_easy_cleanup(curl);
}

/* --- curl's callbacks --- */

static void copy_header(const char *line, size_t n, const char *name, char *out, size_t size)
{
    size_t len = strlen(name);

    if (n <= len || strncasecmp(line, name, len) != 0 || line[len] != ':')
        return;
    for (line += len + 1, n -= len + 1; n && isspace((unsigned char)*line); line++)
        n--;
    while (n && isspace((unsigned char)line[n - 1]))
        n--;
    snprintf(out, size, "%.*s", (int)n, line);
}

static size_t on_header(char *line, size_t size, size_t n, void *arg)
{
    struct transfer *t = arg;

    n *= size;
    copy_header(line, n, "Content-Type", t->answer.content_type, sizeof(t->answer.content_type));
    copy_header(line, n, "ETag", t->answer.etag, sizeof(t->answer.etag));
    copy_header(line, n, "Content-Range", t->answer.content_range, sizeof(t->answer.content_range));
    return n;
}

static size_t on_body(char *data, size_t size, size_t n, void *arg)
{
    struct transfer *t = arg;
    long status = 0;
    int r = 0;

    n *= size;
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
    if (status >= 400) {
        size_t take = PL_MIN(n, ERROR_BODY_MAX - t->error_body.len); /* enough to say what is wrong */

        r = pl_buf_add(&t->error_body, data, take, &t->err);
    } else if (t->call->write) {
        r = t->call->write(t->call->write_self, data, n, &t->err);
    } else if (t->call->out) {
        r = pl_buf_add(t->call->out, data, n, &t->err);
    }
    if (r < 0 && !t->err.code)
        pl_err_set(&t->err, r, "the answer was not taken");
    return r < 0 ? CURL_WRITEFUNC_ERROR : n;
}

static size_t on_upload(char *out, size_t size, size_t n, void *arg)
{
    struct transfer *t = arg;
    const struct pl_http_call *call = t->call;
    uint64_t left = call->len - t->uploaded;
    ssize_t got = 0;

    n *= size;
    if (call->upload == PL_UPLOAD_READER) {
        got = call->read(call->read_self, out, n, &t->err);
        if (got < 0 && !t->err.code)
            pl_err_set(&t->err, (int)got, "nothing more to send");
    } else {
        n = PL_MIN(n, left);
        if (call->upload == PL_UPLOAD_BYTES)
            memcpy(out, (const char *)call->bytes + t->uploaded, n);
        else if (n && pl_io_pread(call->fd, out, n, call->offset + t->uploaded, "upload", &t->err) < 0)
            return CURL_READFUNC_ABORT;
        got = (ssize_t)n;
    }
    if (got < 0)
        return CURL_READFUNC_ABORT;
    t->uploaded += (uint64_t)got;
    return (size_t)got;
}

/* curl starts over when a kept-alive connection turns out to be closed. */
static int on_seek(void *arg, curl_off_t offset, int origin)
{
    struct transfer *t = arg;

    if (origin != SEEK_SET || t->call->upload == PL_UPLOAD_READER)
        return CURL_SEEKFUNC_CANTSEEK;
    t->uploaded = (uint64_t)offset;
    return CURL_SEEKFUNC_OK;
}

static int on_progress(void *arg, curl_off_t down_total, curl_off_t down, curl_off_t up_total, curl_off_t up)
{
    struct transfer *t = arg;

    (void)down_total, (void)down, (void)up_total, (void)up;
    return t->call->cancel && atomic_load(t->call->cancel);
}

/* --- one call --- */

static int transfer_add_header(struct transfer *t, const char *line, struct pl_err *err)
{
    struct curl_slist *more = curl_slist_append(t->headers, line);

    if (!more)
        return pl_err_nomem(err);
    t->headers = more;
    return 0;
}

static int transfer_headers(struct transfer *t, struct pl_err *err)
{
    const struct pl_http_call *call = t->call;
    char type[128];
    int r = transfer_add_header(t, "Expect:", err); /* no round trip before a body */

    if (r == 0 && t->client->authorization)
        r = transfer_add_header(t, t->client->authorization, err);
    if (r == 0 && call->upload != PL_UPLOAD_NONE) {
        snprintf(type, sizeof(type), "Content-Type: %s", call->content_type ? call->content_type : "application/octet-stream");
        r = transfer_add_header(t, type, err);
    }
    if (r == 0 && call->upload == PL_UPLOAD_READER && call->len == UINT64_MAX)
        r = transfer_add_header(t, "Transfer-Encoding: chunked", err);
    for (size_t i = 0; r == 0 && call->headers && call->headers[i]; i++)
        r = transfer_add_header(t, call->headers[i], err);
    return r;
}

static void transfer_set_upload(struct transfer *t)
{
    const struct pl_http_call *call = t->call;

    if (pl_streq(call->method, "HEAD"))
        curl_easy_setopt(t->curl, CURLOPT_NOBODY, 1L);
    if (call->upload == PL_UPLOAD_NONE) {
        if (pl_streq(call->method, "POST") || pl_streq(call->method, "PUT")) { /* with Content-Length: 0 */
            curl_easy_setopt(t->curl, CURLOPT_POST, 1L);
            curl_easy_setopt(t->curl, CURLOPT_POSTFIELDS, "");
            curl_easy_setopt(t->curl, CURLOPT_POSTFIELDSIZE, 0L);
        }
        curl_easy_setopt(t->curl, CURLOPT_CUSTOMREQUEST, call->method);
        return;
    }
    curl_easy_setopt(t->curl, CURLOPT_UPLOAD, 1L);
    curl_easy_setopt(t->curl, CURLOPT_CUSTOMREQUEST, call->method);
    if (call->len != UINT64_MAX)
        curl_easy_setopt(t->curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)call->len);
    curl_easy_setopt(t->curl, CURLOPT_READFUNCTION, on_upload);
    curl_easy_setopt(t->curl, CURLOPT_READDATA, t);
    curl_easy_setopt(t->curl, CURLOPT_SEEKFUNCTION, on_seek);
    curl_easy_setopt(t->curl, CURLOPT_SEEKDATA, t);
    curl_easy_setopt(t->curl, CURLOPT_UPLOAD_BUFFERSIZE, 262144L);
}

static void transfer_set(struct transfer *t, const char *url)
{
    const struct pl_http_call *call = t->call;
    CURL *c = t->curl;

    curl_easy_setopt(c, CURLOPT_URL, url);
    curl_easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(c, CURLOPT_NOPROXY, "localhost,127.0.0.1,::1");
    curl_easy_setopt(c, CURLOPT_PATH_AS_IS, 1L);
    curl_easy_setopt(c, CURLOPT_HTTPHEADER, t->headers);
    curl_easy_setopt(c, CURLOPT_USERAGENT, "pipelined/1");
    curl_easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)PL_HTTP_CONNECT_MS);
    curl_easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)call->timeout_ms);
    if (!call->may_stall) {
        curl_easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
        curl_easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)PL_HTTP_STALL_S);
    }
    curl_easy_setopt(c, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(c, CURLOPT_BUFFERSIZE, 262144L);
    curl_easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl_easy_setopt(c, CURLOPT_WRITEDATA, t);
    curl_easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl_easy_setopt(c, CURLOPT_HEADERDATA, t);
    if (call->cancel) {
        curl_easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
        curl_easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
        curl_easy_setopt(c, CURLOPT_XFERINFODATA, t);
    }
    if (t->client->socket)
        curl_easy_setopt(c, CURLOPT_UNIX_SOCKET_PATH, t->client->socket);
    transfer_set_upload(t);
}

/* What curl says, as one of our codes. */
static int transfer_failed(struct transfer *t, CURLcode code, struct pl_err *err)
{
    const char *url = t->client->shown;

    if (t->err.code) { /* a callback knows better */
        if (err)
            *err = t->err;
        return t->err.code;
    }
    switch ((int)code) {
    case CURLE_ABORTED_BY_CALLBACK:
        return pl_err_set(err, PL_ECANCELED, "%s %s was given up", t->call->method, t->call->path);
    case CURLE_OPERATION_TIMEDOUT:
        return pl_err_set(err, PL_ETIMEOUT, "%s %s: no answer from %s in time", t->call->method, t->call->path, url);
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
        return pl_err_set(err, PL_ENET, "no server at %s: start pipelined, or set --server", url);
    case CURLE_OUT_OF_MEMORY:
        return pl_err_nomem(err);
    default:
        return pl_err_set(err, PL_ENET, "%s %s at %s: %s", t->call->method, t->call->path, url, curl_easy_strerror(code));
    }
}

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

static int transfer_refused(struct transfer *t, struct pl_err *err)
{
    const char *code = NULL, *message = NULL, *field = NULL, *hint = NULL;
    json_t *body = json_loadb((const char *)t->error_body.data, t->error_body.len, 0, NULL);
    const struct pl_err_info *info = NULL;
    int r;

    if (body && json_unpack(body, "{s:{s:s, s:s, s?s, s?s}}", "error", "code", &code, "message", &message, "field", &field,
                            "hint", &hint) == 0)
        info = pl_err_info_by_name(code);
    r = info ? info->code : code_of_status(t->answer.status);
    if (message)
        pl_err_set(err, r, "%s", message);
    else
        pl_err_set(err, r, "%s %s: %s answers with status %u", t->call->method, t->call->path, t->client->shown,
                   t->answer.status);
    if (field)
        pl_err_field(err, r, field);
    if (hint && (!info || !pl_streq(hint, info->remedy)))
        pl_err_hint(err, r, "%s", hint);
    json_decref(body);
    return r;
}

static int transfer_run(struct transfer *t, struct pl_err *err)
{
    _cleanup_free_ char *url = NULL;
    long status = 0;
    CURLcode code;
    int r;

    if (asprintf(&url, "%s%s", t->client->url, t->call->path) < 0) {
        url = NULL;
        return pl_err_nomem(err);
    }
    r = transfer_headers(t, err);
    if (r < 0)
        return r;
    transfer_set(t, url);
    code = curl_easy_perform(t->curl);
    curl_easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
    t->answer.status = (unsigned)status;
    /* A refused upload may end in a broken connection after the refusal has been read: the refusal is the news. */
    if (status >= 400 && (code == CURLE_OK || t->error_body.len) && !t->err.code)
        return transfer_refused(t, err);
    return code == CURLE_OK ? 0 : transfer_failed(t, code, err);
}

int pl_http_client_call(struct pl_http_client *c, const struct pl_http_call *call, struct pl_http_answer *answer,
                        struct pl_err *err)
{
    struct transfer t = {.client = c, .call = call, .curl = client_borrow(c)};
    int r;

    if (!t.curl)
        return pl_err_nomem(err);
    t.error_body.max = ERROR_BODY_MAX;
    r = transfer_run(&t, err);
    client_give_back(c, t.curl);
    curl_slist_free_all(t.headers);
    pl_buf_finish(&t.error_body);
    if (answer)
        *answer = t.answer;
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
