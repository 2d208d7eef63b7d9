/* An HTTP client with libcurl. Each call uses a pair of curl handles: an easy handle, and a multi handle of
 * its own, which keeps the connection open and can be woken by another thread. */
#include "pipelined/net/http_client/http_client.h"

#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"
#include "storage/http/curl_library.h"
#include "storage/http/loopback_host.h"
#include "storage/system/io.h"
#include "storage/system/trace.h"
#include <ctype.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <sys/queue.h>
#include <sys/un.h>

#define ERROR_BODY_MAX (64u << 10)  /* most bytes of an error reply's body that are read */
#define BUFFER_BYTES   (256L << 10) /* size of each of curl's two buffers, for sending and receiving */

/* A pair of curl handles. The multi handle keeps the connection open. */
struct line {
    CURL *easy;
    CURLM *multi;
};

struct pl_http_client {
    const struct pl_curl *curl;
    char *shown;       /* URL of the server, as messages show it */
    char *base;        /* URL prefix to which the path of a call is appended */
    char *socket_path; /* path of a unix socket; NULL = use TCP */
    /* what to do if no server answers, and if its name cannot be resolved; borrowed */
    const char *remedy, *name_remedy;
    char *ca;                              /* PEM file with CA certificates; NULL = the certificates of the machine */
    bool local;                            /* the server is this machine, so no proxy is used */
    char *authorization;                   /* header "Authorization: Bearer …"; NULL = none */
    pthread_mutex_t lock;                  /* guards the fields below */
    struct line lines[PL_HTTP_LINES_KEPT]; /* idle pairs of handles */
    size_t n_lines;
    LIST_HEAD(, transfer) interruptible; /* the interruptible calls that are in progress */
};

/* A call that is in progress. */
struct transfer {
    struct pl_http_client *client;
    const struct pl_http_call *call;
    CURL *handle; /* borrowed from a struct line */
    CURLM *multi;
    struct curl_slist *headers;
    struct pl_http_answer answer;
    struct pl_buf error_body;
    uint64_t uploaded; /* for PL_UPLOAD_FD and PL_UPLOAD_READER: number of bytes sent so far */
    curl_off_t moved;  /* bytes of bodies sent and received so far */
    int64_t moved_ms;  /* time at which `moved` last changed */
    bool answered;     /* a header of the reply has arrived */
    bool stalled;
    atomic_bool interrupted;
    LIST_ENTRY(transfer) link; /* entry in the client's list `interruptible` */
    struct pl_err err;         /* error of one of our callbacks, reported instead of curl's error; code 0 = none */
};

/* --- the client --- */

/* For addresses of this machine no proxy is used, whatever the environment variables say. */
bool pl_http_url_is_local(const char *url)
{
    const char *host = strstr(url, "://") + 3, *at = strchr(host, '@');

    return pl_is_loopback_host(at && at < host + strcspn(host, "/") ? at + 1 : host);
}

static int take_url(struct pl_http_client *c, const char *url, struct pl_err *err)
{
    const bool un = strncmp(url, "unix:/", 6) == 0;
    size_t len = strlen(url);

    if (!un && strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
        return pl_err_set(err, PL_EINVAL, "\"%s\" is not the address of a server: give http://HOST:PORT, https://… or unix:/PATH",
                          url);
    if (un && len - 5 >= sizeof(((struct sockaddr_un *)NULL)->sun_path))
        return pl_err_set(err, PL_EINVAL, "\"%s\" is not the address of a server: the path of a socket has at most %zu bytes",
                          url, sizeof(((struct sockaddr_un *)NULL)->sun_path) - 1);
    while (len && url[len - 1] == '/')
        len--;
    c->shown = strdup(url);
    c->base = un ? strdup("http://localhost") : strndup(url, len);
    c->socket_path = un ? strdup(url + 5) : NULL;
    c->local = un || pl_http_url_is_local(url);
    return c->shown && c->base && (!un || c->socket_path) ? 0 : pl_err_nomem(err);
}

static int client_init(struct pl_http_client *c, const char *base_url, const char *token, struct pl_err *err)
{
    int r = take_url(c, base_url, err);

    if (r < 0)
        return r;
    if (token && asprintf(&c->authorization, "Authorization: Bearer %s", token) < 0) {
        c->authorization = NULL;
        return pl_err_nomem(err);
    }
    c->curl = pl_curl_library();
    return c->curl ? 0
                   : pl_err_set(err, PL_EUNAVAILABLE,
                                "%s needs libcurl, which is not installed on this machine: apt-get install libcurl3-gnutls",
                                base_url);
}

int pl_http_client_create(const char *base_url, const char *token, struct pl_http_client **ret, struct pl_err *err)
{
    struct pl_http_client *c = calloc(1, sizeof(*c));
    int r;

    if (!c)
        return pl_err_nomem(err);
    c->remedy = "start pipelined, or set --server";
    c->name_remedy = "check the address in --server, PIPELINED_URL or the login context, and this machine's DNS";
    pthread_mutex_init(&c->lock, NULL);
    LIST_INIT(&c->interruptible);
    r = client_init(c, base_url, token, err);
    if (r < 0) {
        pl_http_client_destroy(c);
        return r;
    }
    *ret = c;
    return 0;
}

int pl_http_client_set_ca(struct pl_http_client *c, const char *file, struct pl_err *err)
{
    char *copy = strdup(file);

    if (!copy)
        return pl_err_nomem(err);
    free(c->ca);
    c->ca = copy;
    return 0;
}

void pl_http_client_set_remedy(struct pl_http_client *c, const char *remedy)
{
    c->remedy = c->name_remedy = remedy;
}

const char *pl_http_client_ca(const struct pl_http_client *c)
{
    return c->ca;
}

static void line_close(const struct pl_http_client *c, struct line line)
{
    if (line.easy)
        c->curl->easy_cleanup(line.easy);
    if (line.multi)
        c->curl->multi_cleanup(line.multi);
}

struct pl_http_client *pl_http_client_destroy(struct pl_http_client *c)
{
    if (!c)
        return NULL;
    for (size_t i = 0; i < c->n_lines; i++)
        line_close(c, c->lines[i]);
    pthread_mutex_destroy(&c->lock);
    free(c->shown);
    free(c->base);
    free(c->socket_path);
    free(c->ca);
    free(c->authorization);
    free(c);
    return NULL;
}

const char *pl_http_client_url(const struct pl_http_client *c)
{
    return c->shown;
}

/* Takes an idle pair of handles, or makes a new one. Both handles are NULL if memory runs out. */
static struct line borrow(struct pl_http_client *c)
{
    struct line line = {0};

    pthread_mutex_lock(&c->lock);
    if (c->n_lines)
        line = c->lines[--c->n_lines];
    pthread_mutex_unlock(&c->lock);
    if (line.easy)
        return line;
    line = (struct line){.easy = c->curl->easy_init(), .multi = c->curl->multi_init()};
    if (line.easy && line.multi)
        return line;
    line_close(c, line);
    return (struct line){0};
}

static void give_back(struct pl_http_client *c, struct line line)
{
    c->curl->easy_reset(line.easy);
    pthread_mutex_lock(&c->lock);
    if (c->n_lines < PL_HTTP_LINES_KEPT) {
        c->lines[c->n_lines++] = line;
        line = (struct line){0};
    }
    pthread_mutex_unlock(&c->lock);
    line_close(c, line);
}

/* --- callbacks of curl --- */

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

    t->answered = true;
    copy_header(line, n * size, "Content-Type", t->answer.content_type, sizeof(t->answer.content_type));
    copy_header(line, n * size, "ETag", t->answer.etag, sizeof(t->answer.etag));
    copy_header(line, n * size, "Content-Range", t->answer.content_range, sizeof(t->answer.content_range));
    copy_header(line, n * size, "Content-Length", t->answer.content_length, sizeof(t->answer.content_length));
    return n * size;
}

static unsigned status_of(const struct transfer *t)
{
    long status = 0;

    t->client->curl->easy_getinfo(t->handle, CURLINFO_RESPONSE_CODE, &status);
    return (unsigned)status;
}

static size_t on_body(char *data, size_t size, size_t n, void *arg)
{
    struct transfer *t = arg;
    const struct pl_http_call *call = t->call;
    int r = 0;

    n *= size;
    if (status_of(t) >= 400) /* keep only as much as the error's message needs */
        r = pl_buf_add(&t->error_body, data, PL_MIN(n, ERROR_BODY_MAX - t->error_body.len), &t->err);
    else if (call->write)
        r = call->write(call->write_self, data, n, &t->err);
    else if (call->out)
        r = pl_buf_add(call->out, data, n, &t->err);
    if (r < 0 && !t->err.code)
        pl_err_set(&t->err, r, "the answer could not be processed");
    return r < 0 ? CURL_WRITEFUNC_ERROR : n;
}

static ssize_t next_bytes(struct transfer *t, char *out, size_t n)
{
    const struct pl_http_call *call = t->call;
    ssize_t got;

    if (call->upload == PL_UPLOAD_READER) {
        got = call->read(call->read_self, out, n, &t->err);
        if (got < 0 && !t->err.code)
            pl_err_set(&t->err, (int)got, "the body to send could not be read");
        return got;
    }
    n = PL_MIN(n, call->len - t->uploaded);
    if (n && pl_io_pread(call->fd, out, n, call->offset + t->uploaded, "upload", &t->err) < 0)
        return t->err.code;
    return (ssize_t)n;
}

static size_t on_upload(char *out, size_t size, size_t n, void *arg)
{
    struct transfer *t = arg;
    ssize_t got = next_bytes(t, out, n * size);

    /* without an error, curl would wait for the missing bytes forever */
    if (got == 0 && t->call->len != UINT64_MAX && t->uploaded < t->call->len)
        got = pl_err_set(&t->err, PL_EIO, "the body ended after %llu of %llu bytes", (unsigned long long)t->uploaded,
                         (unsigned long long)t->call->len);
    if (got < 0)
        return CURL_READFUNC_ABORT;
    t->uploaded += (uint64_t)got;
    return (size_t)got;
}

/* Moves back to an earlier position of the body: curl sends the request again if a kept connection turns out
 * to be closed. */
static int on_seek(void *arg, curl_off_t offset, int origin)
{
    struct transfer *t = arg;

    if (origin != SEEK_SET || t->call->upload == PL_UPLOAD_READER)
        return CURL_SEEKFUNC_CANTSEEK;
    t->uploaded = (uint64_t)offset;
    return CURL_SEEKFUNC_OK;
}

/* Checks for stalls and cancellation; curl calls it at least once a second. curl's own low-speed limit is not
 * used, because it would treat a transfer as stalled that sends a few bytes now and then. */
static int on_progress(void *arg, curl_off_t down_total, curl_off_t down, curl_off_t up_total, curl_off_t up)
{
    struct transfer *t = arg;
    const int64_t now_ms = pl_clock_mono_ms();

    (void)down_total, (void)up_total;
    if (down + up != t->moved) {
        t->moved = down + up;
        t->moved_ms = now_ms;
    }
    t->stalled = !t->call->may_stall && now_ms - t->moved_ms >= PL_HTTP_STALL_S * 1000;
    return t->stalled || (t->call->cancel && atomic_load(t->call->cancel));
}

/* --- one request --- */

static int add_header(struct transfer *t, const char *line, struct pl_err *err)
{
    struct curl_slist *more = t->client->curl->slist_append(t->headers, line);

    if (!more)
        return pl_err_nomem(err);
    t->headers = more;
    return 0;
}

static int add_headers(struct transfer *t, struct pl_err *err)
{
    const struct pl_http_call *call = t->call;
    char type[128];
    int r = add_header(t, "Expect:", err); /* send the body without waiting for 100-continue */

    if (r == 0 && t->client->authorization)
        r = add_header(t, t->client->authorization, err);
    snprintf(type, sizeof(type), "Content-Type:");
    if (call->upload != PL_UPLOAD_NONE)
        snprintf(type, sizeof(type), "Content-Type: %s", call->content_type ? call->content_type : "application/octet-stream");
    if (r == 0)
        r = add_header(t, type, err);
    if (r == 0 && call->upload == PL_UPLOAD_READER && call->len == UINT64_MAX)
        r = add_header(t, "Transfer-Encoding: chunked", err);
    for (size_t i = 0; r == 0 && call->headers && call->headers[i]; i++)
        r = add_header(t, call->headers[i], err);
    return r;
}

/* Sets the method and the body of the request. */
static void set_upload(struct transfer *t)
{
    const struct pl_http_call *call = t->call;
    __typeof__(curl_easy_setopt) *const set = t->client->curl->easy_setopt;
    const bool bytes = call->upload == PL_UPLOAD_BYTES;

    if (pl_streq(call->method, "HEAD")) {
        set(t->handle, CURLOPT_NOBODY, 1L);
    } else if (bytes || (call->upload == PL_UPLOAD_NONE && (pl_streq(call->method, "POST") || pl_streq(call->method, "PUT")))) {
        /* a small body is sent together with the headers; a request without a body gets Content-Length: 0 */
        set(t->handle, CURLOPT_POSTFIELDS, bytes && call->len ? call->bytes : "");
        set(t->handle, CURLOPT_POSTFIELDSIZE_LARGE, bytes ? (curl_off_t)call->len : (curl_off_t)0);
    } else if (call->upload != PL_UPLOAD_NONE) {
        set(t->handle, CURLOPT_UPLOAD, 1L);
        if (call->len != UINT64_MAX)
            set(t->handle, CURLOPT_INFILESIZE_LARGE, (curl_off_t)call->len);
        set(t->handle, CURLOPT_READFUNCTION, on_upload);
        set(t->handle, CURLOPT_READDATA, t);
        set(t->handle, CURLOPT_SEEKFUNCTION, on_seek);
        set(t->handle, CURLOPT_SEEKDATA, t);
    }
    set(t->handle, CURLOPT_UPLOAD_BUFFERSIZE, BUFFER_BYTES);
    set(t->handle, CURLOPT_CUSTOMREQUEST, call->method);
}

/* Sets all options of one request. easy_reset has cleared the options of the previous one. */
static void set_options(struct transfer *t, const char *url)
{
    const struct pl_http_client *c = t->client;
    __typeof__(curl_easy_setopt) *const set = c->curl->easy_setopt;

    set(t->handle, CURLOPT_URL, url);
    set(t->handle, CURLOPT_NOSIGNAL, 1L);
    set(t->handle, CURLOPT_PROTOCOLS_STR, "http,https");
    set(t->handle, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    set(t->handle, CURLOPT_PATH_AS_IS, 1L);
    if (c->local)
        set(t->handle, CURLOPT_PROXY, "");
    if (c->ca)
        set(t->handle, CURLOPT_CAINFO, c->ca);
    if (c->socket_path)
        set(t->handle, CURLOPT_UNIX_SOCKET_PATH, c->socket_path);
    set(t->handle, CURLOPT_HTTPHEADER, t->headers);
    set(t->handle, CURLOPT_USERAGENT, "pipelined/1");
    set(t->handle, CURLOPT_CONNECTTIMEOUT_MS, (long)PL_HTTP_CONNECT_MS);
    set(t->handle, CURLOPT_TIMEOUT_MS, (long)t->call->timeout_ms);
    set(t->handle, CURLOPT_TCP_NODELAY, 1L);
    set(t->handle, CURLOPT_TCP_KEEPALIVE, 1L);
    set(t->handle, CURLOPT_BUFFERSIZE, BUFFER_BYTES);
    set(t->handle, CURLOPT_WRITEFUNCTION, on_body);
    set(t->handle, CURLOPT_WRITEDATA, t);
    set(t->handle, CURLOPT_HEADERFUNCTION, on_header);
    set(t->handle, CURLOPT_HEADERDATA, t);
    set(t->handle, CURLOPT_NOPROGRESS, 0L);
    set(t->handle, CURLOPT_XFERINFOFUNCTION, on_progress);
    set(t->handle, CURLOPT_XFERINFODATA, t);
    set_upload(t);
}

/* Maps curl's error to one of our error codes, with a message. */
static int failed(const struct transfer *t, CURLcode code, struct pl_err *err)
{
    const char *method = t->call->method, *path = t->call->path, *shown = t->client->shown;

    if (t->stalled)
        code = CURLE_OPERATION_TIMEDOUT;
    switch ((int)code) {
    case CURLE_ABORTED_BY_CALLBACK:
        return pl_err_set(err, PL_ECANCELED, "%s %s was canceled", method, path);
    case CURLE_OPERATION_TIMEDOUT:
        return pl_err_set(err, PL_ETIMEOUT, "%s %s: no answer from %s in time", method, path, shown);
    case CURLE_COULDNT_CONNECT:
        return pl_err_set(err, PL_ENET, "no server at %s: %s", shown, t->client->remedy);
    case CURLE_COULDNT_RESOLVE_HOST:
        return pl_err_set(err, PL_ENET, "no server at %s: its name cannot be resolved: %s", shown, t->client->name_remedy);
    case CURLE_PEER_FAILED_VERIFICATION:
        pl_err_set(err, PL_ETLS, "the certificate of %s is not trusted here, or is for another host", shown);
        return pl_err_hint(err, PL_ETLS, "Give the file of its CA certificate: --ca FILE, or PIPELINED_CA.");
    case CURLE_SSL_CONNECT_ERROR:
        pl_err_set(err, PL_ENET, "%s %s at %s: the server there does not speak TLS, or none of the TLS versions of this program",
                   method, path, shown);
        return pl_err_hint(err, PL_ENET, "If it is plain HTTP, write http:// instead of https://.");
    case CURLE_SSL_CACERT_BADFILE:
        return pl_err_set(err, PL_ETLS, "%s holds no certificates in PEM", t->client->ca ? t->client->ca : "the machine's list");
    case CURLE_UNSUPPORTED_PROTOCOL: /* the server's reply is HTTP/0.9, or not HTTP at all */
        return pl_err_set(err, PL_ENET, "%s %s at %s: the server there does not speak HTTP", method, path, shown);
    case CURLE_URL_MALFORMAT:
        return pl_err_set(err, PL_EINVAL, "%s%s is not a valid address", shown, path);
    case CURLE_OUT_OF_MEMORY:
        return pl_err_nomem(err);
    default:
        return pl_err_set(err, PL_ENET, "%s %s at %s: %s", method, path, shown, t->client->curl->easy_strerror(code));
    }
}

/* True if the request may be sent a second time: the server closed a kept connection before any reply, and
 * the body can be read again. */
static bool may_start_over(const struct transfer *t, CURLcode code)
{
    long connects = 1;

    if (t->answered || t->err.code || (code != CURLE_SEND_ERROR && code != CURLE_RECV_ERROR && code != CURLE_GOT_NOTHING))
        return false;
    t->client->curl->easy_getinfo(t->handle, CURLINFO_NUM_CONNECTS, &connects);
    return connects == 0 && (t->call->upload != PL_UPLOAD_READER || t->uploaded == 0);
}

/* Runs the transfer like curl_easy_perform, except that another thread can wake and end it. */
static CURLcode exchange(struct transfer *t)
{
    const struct pl_curl *curl = t->client->curl;
    CURLcode code = CURLE_OK;
    bool over = false;

    if (curl->multi_add_handle(t->multi, t->handle) != CURLM_OK)
        return CURLE_OUT_OF_MEMORY;
    while (!over) {
        const CURLMsg *m;
        int n;

        if (curl->multi_perform(t->multi, &n) != CURLM_OK) {
            over = true;
            code = CURLE_OUT_OF_MEMORY;
        }
        while ((m = curl->multi_info_read(t->multi, &n)) != NULL) {
            over = m->msg == CURLMSG_DONE;
            code = m->data.result;
        }
        if (!over && atomic_load(&t->interrupted)) {
            over = true;
            code = CURLE_ABORTED_BY_CALLBACK;
        }
        if (!over)
            (void)curl->multi_poll(t->multi, NULL, 0, 1000, NULL);
    }
    curl->multi_remove_handle(t->multi, t->handle);
    return code;
}

/* Sends the request, repeats it once on a new connection if may_start_over allows that, and maps errors. */
static int perform(struct transfer *t, struct pl_err *err)
{
    _cleanup_free_ char *url = NULL;
    CURLcode code;
    int r = add_headers(t, err);

    if (r == 0 && asprintf(&url, "%s%s", t->client->base, t->call->path) < 0) {
        url = NULL;
        r = pl_err_nomem(err);
    }
    if (r < 0)
        return r;
    set_options(t, url);
    t->moved_ms = pl_clock_mono_ms();
    code = exchange(t);
    if (may_start_over(t, code)) {
        t->uploaded = 0;
        t->client->curl->easy_setopt(t->handle, CURLOPT_FRESH_CONNECT, 1L);
        code = exchange(t);
    }
    t->answer.status = status_of(t);
    /* If the server refuses an upload, the connection may break after the refusal was read: then report the
     * refusal. */
    if (code == CURLE_OK || (t->answer.status >= 400 && t->error_body.len && !t->err.code))
        return 0;
    if (t->err.code && err)
        *err = t->err;
    return t->err.code ? t->err.code : failed(t, code, err);
}

/* --- one call --- */

/* Returns the code for an error reply that is not JSON of the daemon: it may come from a proxy or from
 * libmicrohttpd. */
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

/* Sets the error that an error reply describes. */
static int refused(const struct transfer *t, struct pl_err *err)
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

int pl_http_client_call(struct pl_http_client *c, const struct pl_http_call *call, struct pl_http_answer *answer,
                        struct pl_err *err)
{
    const struct line line = borrow(c);
    struct transfer t = {
        .client = c, .call = call, .handle = line.easy, .multi = line.multi, .error_body = {.max = ERROR_BODY_MAX}};
    int r;

    if (!line.easy)
        return pl_err_nomem(err);
    if (call->interruptible) {
        pthread_mutex_lock(&c->lock);
        LIST_INSERT_HEAD(&c->interruptible, &t, link);
        pthread_mutex_unlock(&c->lock);
    }
    r = perform(&t, err);
    if (call->interruptible) {
        pthread_mutex_lock(&c->lock);
        LIST_REMOVE(&t, link);
        pthread_mutex_unlock(&c->lock);
    }
    give_back(c, line);
    c->curl->slist_free_all(t.headers);
    pl_trace("net/http_client", "%s %s: %d, status %d", call->method, call->path, r, (int)t.answer.status);
    if (r == 0 && t.answer.status >= 400)
        r = refused(&t, err);
    pl_buf_finish(&t.error_body);
    if (answer)
        *answer = t.answer;
    return r;
}

void pl_http_client_interrupt(struct pl_http_client *c)
{
    struct transfer *t;

    pthread_mutex_lock(&c->lock);
    LIST_FOREACH(t, &c->interruptible, link)
    {
        atomic_store(&t->interrupted, true);
        (void)c->curl->multi_wakeup(t->multi);
    }
    pthread_mutex_unlock(&c->lock);
}

/* Makes the request of `call`, whose body and reply are JSON. The caller sets method and path. */
static int exchange_json(struct pl_http_client *c, struct pl_http_call call, const json_t *body, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    char *text = NULL;
    json_error_t e;
    int r;

    if (body) {
        text = pl_json_text(body, JSON_COMPACT | JSON_ENCODE_ANY);
        if (!text)
            return pl_err_nomem(err);
        call.upload = PL_UPLOAD_BYTES;
        call.content_type = "application/json";
        call.bytes = text;
        call.len = strlen(text);
    }
    call.out = &out;
    r = pl_http_client_call(c, &call, NULL, err);
    free(text);
    if (r < 0 || !ret)
        return r;
    *ret = out.len ? json_loadb((const char *)out.data, out.len, JSON_DECODE_ANY, &e) : json_null();
    return *ret ? 0
                : pl_err_set(err, PL_EPROTO, "%s %s: the answer of %s is not JSON: %s", call.method, call.path, c->shown, e.text);
}

int pl_http_client_json(struct pl_http_client *c, const char *method, const char *path, const json_t *body, json_t **ret,
                        struct pl_err *err)
{
    return exchange_json(c, (struct pl_http_call){.method = method, .path = path}, body, ret, err);
}

int pl_http_client_json_interruptible(struct pl_http_client *c, const char *method, const char *path, const json_t *body,
                                      atomic_bool *cancel, json_t **ret, struct pl_err *err)
{
    return exchange_json(c, (struct pl_http_call){.method = method, .path = path, .cancel = cancel, .interruptible = true}, body,
                         ret, err);
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
            abort(); /* an unknown format is a programming error */
        }
    }
    va_end(args);
    return r < 0 ? NULL : pl_buf_take_str(&out);
}
