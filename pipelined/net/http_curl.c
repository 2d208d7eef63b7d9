#include "http_exchange.h"

#include <curl/curl.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>

/*  X(member, symbol) */
#define CURL_SYMBOLS(X)                                                                                                          \
    X(global_init, curl_global_init)                                                                                             \
    X(easy_init, curl_easy_init)                                                                                                 \
    X(easy_cleanup, curl_easy_cleanup)                                                                                           \
    X(easy_reset, curl_easy_reset)                                                                                               \
    X(easy_setopt, curl_easy_setopt)                                                                                             \
    X(easy_getinfo, curl_easy_getinfo)                                                                                           \
    X(easy_perform, curl_easy_perform)                                                                                           \
    X(easy_strerror, curl_easy_strerror)                                                                                         \
    X(slist_append, curl_slist_append)                                                                                           \
    X(slist_free_all, curl_slist_free_all)

/* curl.h's type-checking macros are in the way of pointers to the functions. */
#undef curl_easy_setopt
#undef curl_easy_getinfo
#define CURL_MEMBER(member, symbol) __typeof__(symbol) *member;
static struct {
    CURL_SYMBOLS(CURL_MEMBER)
} curl;
#undef CURL_MEMBER
static bool curl_there;

struct pl_http_curl {
    char *url; /* without a last slash */
    pthread_mutex_t lock;
    CURL *handles[PL_HTTP_HANDLES_KEPT];
    size_t n_handles;
};

/* One call under way. */
struct transfer {
    struct pl_exchange *x;
    CURL *curl;
    struct curl_slist *headers;
};

/* ---- the library ---- */

static bool load_symbol(void *library, void *member, const char *name)
{
    void *found = dlsym(library, name);

    memcpy(member, &found, sizeof found);
    return found != NULL;
}

static void load_curl(void)
{
    static const char *const names[] = {"libcurl-gnutls.so.4", "libcurl.so.4", "libcurl-nss.so.4"};
    void *library = NULL;

    for (size_t i = 0; i < PL_ARRAY_SIZE(names) && !library; i++)
        library = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
    curl_there = library != NULL;
#define CURL_LOAD(member, symbol) curl_there = curl_there && load_symbol(library, &curl.member, #symbol);
    CURL_SYMBOLS(CURL_LOAD)
#undef CURL_LOAD
    if (curl_there)
        curl_there = curl.global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
}

/* ---- handles ---- */

int pl_http_curl_create(const char *url, struct pl_http_curl **ret, struct pl_err *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    size_t len = strlen(url);
    struct pl_http_curl *c;

    if (strncmp(url, "http://", 7) != 0 && strncmp(url, "https://", 8) != 0)
        return pl_err_set(err, PL_EINVAL, "\"%s\" is no server: http://HOST:PORT, https://… or unix:/PATH", url);
    pthread_once(&once, load_curl);
    if (!curl_there)
        return pl_err_set(err, PL_EUNAVAILABLE, "%s wants libcurl, which is not on this machine: apt-get install libcurl3-gnutls",
                          url);
    c = calloc(1, sizeof *c);
    if (!c)
        return pl_err_nomem(err);
    pthread_mutex_init(&c->lock, NULL);
    while (len && url[len - 1] == '/')
        len--;
    c->url = strndup(url, len);
    if (!c->url) {
        pl_http_curl_destroy(c);
        return pl_err_nomem(err);
    }
    *ret = c;
    return 0;
}

struct pl_http_curl *pl_http_curl_destroy(struct pl_http_curl *c)
{
    if (!c)
        return NULL;
    for (size_t i = 0; i < c->n_handles; i++)
        curl.easy_cleanup(c->handles[i]);
    pthread_mutex_destroy(&c->lock);
    free(c->url);
    free(c);
    return NULL;
}

static CURL *borrow(struct pl_http_curl *c)
{
    CURL *handle = NULL;

    pthread_mutex_lock(&c->lock);
    if (c->n_handles)
        handle = c->handles[--c->n_handles];
    pthread_mutex_unlock(&c->lock);
    return handle ? handle : curl.easy_init();
}

static void give_back(struct pl_http_curl *c, CURL *handle)
{
    curl.easy_reset(handle); /* keeps its connections */
    pthread_mutex_lock(&c->lock);
    if (c->n_handles < PL_HTTP_HANDLES_KEPT) {
        c->handles[c->n_handles++] = handle;
        handle = NULL;
    }
    pthread_mutex_unlock(&c->lock);
    if (handle)
        curl.easy_cleanup(handle);
}

/* ---- callbacks ---- */

static size_t on_header(char *line, size_t size, size_t n, void *arg)
{
    pl_exchange_header(((struct transfer *)arg)->x, line, n * size);
    return n * size;
}

static size_t on_body(char *data, size_t size, size_t n, void *arg)
{
    struct transfer *t = arg;
    long status = 0;

    curl.easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
    t->x->answer.status = (unsigned)status;
    return pl_exchange_body(t->x, data, n * size) < 0 ? CURL_WRITEFUNC_ERROR : n * size;
}

static size_t on_upload(char *out, size_t size, size_t n, void *arg)
{
    ssize_t got = pl_exchange_upload(((struct transfer *)arg)->x, out, n * size);

    return got < 0 ? CURL_READFUNC_ABORT : (size_t)got;
}

/* curl starts over when a kept-alive connection turns out to be closed. */
static int on_seek(void *arg, curl_off_t offset, int origin)
{
    struct transfer *t = arg;

    if (origin != SEEK_SET || t->x->call->upload == PL_UPLOAD_READER)
        return CURL_SEEKFUNC_CANTSEEK;
    t->x->uploaded = (uint64_t)offset;
    return CURL_SEEKFUNC_OK;
}

static int on_progress(void *arg, curl_off_t down_total, curl_off_t down, curl_off_t up_total, curl_off_t up)
{
    const struct pl_http_call *call = ((struct transfer *)arg)->x->call;

    (void)down_total, (void)down, (void)up_total, (void)up;
    return call->cancel && atomic_load(call->cancel);
}

/* ---- one call ---- */

static int add_header(struct transfer *t, const char *line, struct pl_err *err)
{
    struct curl_slist *more = curl.slist_append(t->headers, line);

    if (!more)
        return pl_err_nomem(err);
    t->headers = more;
    return 0;
}

static int add_headers(struct transfer *t, struct pl_err *err)
{
    const struct pl_http_call *call = t->x->call;
    char type[128];
    int r = add_header(t, "Expect:", err); /* no round trip before a body */

    if (r == 0 && t->x->authorization)
        r = add_header(t, t->x->authorization, err);
    if (r == 0 && call->upload != PL_UPLOAD_NONE) {
        snprintf(type, sizeof(type), "Content-Type: %s", call->content_type ? call->content_type : "application/octet-stream");
        r = add_header(t, type, err);
    }
    if (r == 0 && call->upload == PL_UPLOAD_READER && call->len == UINT64_MAX)
        r = add_header(t, "Transfer-Encoding: chunked", err);
    for (size_t i = 0; r == 0 && call->headers && call->headers[i]; i++)
        r = add_header(t, call->headers[i], err);
    return r;
}

static void set_upload(struct transfer *t)
{
    const struct pl_http_call *call = t->x->call;

    if (pl_streq(call->method, "HEAD"))
        curl.easy_setopt(t->curl, CURLOPT_NOBODY, 1L);
    if (call->upload == PL_UPLOAD_NONE) {
        if (pl_streq(call->method, "POST") || pl_streq(call->method, "PUT")) { /* with Content-Length: 0 */
            curl.easy_setopt(t->curl, CURLOPT_POST, 1L);
            curl.easy_setopt(t->curl, CURLOPT_POSTFIELDS, "");
            curl.easy_setopt(t->curl, CURLOPT_POSTFIELDSIZE, 0L);
        }
        curl.easy_setopt(t->curl, CURLOPT_CUSTOMREQUEST, call->method);
        return;
    }
    curl.easy_setopt(t->curl, CURLOPT_UPLOAD, 1L);
    curl.easy_setopt(t->curl, CURLOPT_CUSTOMREQUEST, call->method);
    if (call->len != UINT64_MAX)
        curl.easy_setopt(t->curl, CURLOPT_INFILESIZE_LARGE, (curl_off_t)call->len);
    curl.easy_setopt(t->curl, CURLOPT_READFUNCTION, on_upload);
    curl.easy_setopt(t->curl, CURLOPT_READDATA, t);
    curl.easy_setopt(t->curl, CURLOPT_SEEKFUNCTION, on_seek);
    curl.easy_setopt(t->curl, CURLOPT_SEEKDATA, t);
    curl.easy_setopt(t->curl, CURLOPT_UPLOAD_BUFFERSIZE, 262144L);
}

static void set_options(struct transfer *t, const char *url)
{
    const struct pl_http_call *call = t->x->call;
    CURL *c = t->curl;

    curl.easy_setopt(c, CURLOPT_URL, url);
    curl.easy_setopt(c, CURLOPT_NOSIGNAL, 1L);
    curl.easy_setopt(c, CURLOPT_PROTOCOLS_STR, "http,https");
    curl.easy_setopt(c, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl.easy_setopt(c, CURLOPT_NOPROXY, "localhost,127.0.0.1,::1");
    curl.easy_setopt(c, CURLOPT_PATH_AS_IS, 1L);
    curl.easy_setopt(c, CURLOPT_HTTPHEADER, t->headers);
    curl.easy_setopt(c, CURLOPT_USERAGENT, "pipelined/1");
    curl.easy_setopt(c, CURLOPT_CONNECTTIMEOUT_MS, (long)PL_HTTP_CONNECT_MS);
    curl.easy_setopt(c, CURLOPT_TIMEOUT_MS, (long)call->timeout_ms);
    if (!call->may_stall) {
        curl.easy_setopt(c, CURLOPT_LOW_SPEED_LIMIT, 1L);
        curl.easy_setopt(c, CURLOPT_LOW_SPEED_TIME, (long)PL_HTTP_STALL_S);
    }
    curl.easy_setopt(c, CURLOPT_TCP_KEEPALIVE, 1L);
    curl.easy_setopt(c, CURLOPT_BUFFERSIZE, 262144L);
    curl.easy_setopt(c, CURLOPT_WRITEFUNCTION, on_body);
    curl.easy_setopt(c, CURLOPT_WRITEDATA, t);
    curl.easy_setopt(c, CURLOPT_HEADERFUNCTION, on_header);
    curl.easy_setopt(c, CURLOPT_HEADERDATA, t);
    if (call->cancel) {
        curl.easy_setopt(c, CURLOPT_NOPROGRESS, 0L);
        curl.easy_setopt(c, CURLOPT_XFERINFOFUNCTION, on_progress);
        curl.easy_setopt(c, CURLOPT_XFERINFODATA, t);
    }
    set_upload(t);
}

/* What curl says, as one of our codes. */
static int failed(const struct transfer *t, CURLcode code, struct pl_err *err)
{
    if (t->x->err.code)
        return t->x->err.code;
    switch ((int)code) {
    case CURLE_ABORTED_BY_CALLBACK:
        return pl_exchange_given_up(t->x, err);
    case CURLE_OPERATION_TIMEDOUT:
        return pl_exchange_late(t->x, err);
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
        return pl_exchange_no_server(t->x, err);
    case CURLE_OUT_OF_MEMORY:
        return pl_err_nomem(err);
    default:
        return pl_exchange_broken(t->x, curl.easy_strerror(code), err);
    }
}

static int perform(struct transfer *t, const char *base, struct pl_err *err)
{
    _cleanup_free_ char *url = NULL;
    long status = 0;
    CURLcode code;
    int r;

    if (asprintf(&url, "%s%s", base, t->x->call->path) < 0) {
        url = NULL;
        return pl_err_nomem(err);
    }
    r = add_headers(t, err);
    if (r < 0)
        return r;
    set_options(t, url);
    code = curl.easy_perform(t->curl);
    curl.easy_getinfo(t->curl, CURLINFO_RESPONSE_CODE, &status);
    t->x->answer.status = (unsigned)status;
    /* A refused upload may end in a broken connection after the refusal has been read: the refusal is the news. */
    if (status >= 400 && (code == CURLE_OK || t->x->error_body.len) && !t->x->err.code)
        return 0;
    return code == CURLE_OK ? 0 : failed(t, code, err);
}

int pl_http_curl_run(struct pl_http_curl *c, struct pl_exchange *x, struct pl_err *err)
{
    struct transfer t = {.x = x, .curl = borrow(c)};
    int r;

    if (!t.curl)
        return pl_err_nomem(err);
    r = perform(&t, c->url, err);
    give_back(c, t.curl);
    curl.slist_free_all(t.headers);
    return r;
}
