/* http_io: one thread runs curl_multi. Other threads add exchanges and timers to two lists, which a mutex
 * guards, and wake the thread. Everything else belongs to that thread. An exchange runs on one of
 * `connections` reusable handles. */
#include "storage/http/http_io.h"

#include "storage/base/clock.h"
#include "storage/http/curl_library.h"
#include "storage/http/http_response_head.h"

#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/socket.h>

/* seconds that a kept connection may be idle; libcurl's default */
#define IDLE_S 118L
/* file in which Debian's libcurl looks for CA certificates */
#define SYSTEM_BUNDLE "/etc/ssl/certs/ca-certificates.crt"

/* A curl handle and the progress of the exchange that runs on it. */
struct pl_http_run {
    struct pl_http_io *io;
    struct pl_http_exchange *x;
    CURL *handle;
    struct curl_slist *headers, *connect_to;
    char error[CURL_ERROR_SIZE];
    int iov; /* position in the request body: vector and offset of the next byte */
    size_t iov_at;
    int64_t began_ms, moved_ms;
    int64_t body_left;
};

struct queue {
    struct pl_http_exchange *first, **end;
    size_t n;
};

struct pl_http_io {
    const struct pl_curl *curl;
    char *ca;
    /* no_proxy: as in the configuration; has_bundle: SYSTEM_BUNDLE, one file with the system's CA
     * certificates, exists */
    bool no_proxy, has_bundle;
    unsigned connections;
    long buffer_bytes;
    int (*may_connect)(const void *self, const struct sockaddr *address, struct pl_err *err);
    const void *connect_self;
    CURLM *multi;
    pthread_t thread;
    pthread_mutex_t lock;
    bool ending, ended;               /* guarded by `lock` */
    bool started;                     /* the thread was started */
    struct pl_http_exchange *arrived; /* new exchanges, newest first; guarded by `lock` */
    struct pl_http_timer *armed;      /* new timers, newest first; guarded by `lock` */
    /* The fields below belong to the I/O thread. */
    struct queue waiting;
    struct pl_http_run runs[PL_HTTP_IO_CONNECTIONS_MAX];
    unsigned n_running;
    /* For the exchange that was ended last because nothing was received: the time of its last received byte,
     * or PL_HTTP_IO_DOUBT_MS before the timeout if that is later; 0 = no exchange has timed out. Kept
     * connections that have been idle since before that time are not reused. */
    int64_t silent_ms;
    int sockets[2 * PL_HTTP_IO_CONNECTIONS_MAX]; /* open sockets */
    unsigned n_sockets;
    struct pl_http_timer *timers; /* sorted by due time */
};

/* ---- callbacks of curl ---- */

static void moved(struct pl_http_run *run)
{
    run->moved_ms = pl_clock_mono_ms();
}

static curl_socket_t on_open(void *arg, curlsocktype purpose, struct curl_sockaddr *a)
{
    struct pl_http_run *run = arg;
    struct pl_http_io *io = run->io;
    int fd;

    (void)purpose;
    if (io->may_connect != NULL && io->may_connect(io->connect_self, &a->addr, &run->x->err) < 0)
        return CURL_SOCKET_BAD;
    fd = socket(a->family, a->socktype | SOCK_CLOEXEC, a->protocol);
    if (fd >= 0 && io->n_sockets < PL_ARRAY_SIZE(io->sockets))
        io->sockets[io->n_sockets++] = fd;
    return fd >= 0 ? fd : CURL_SOCKET_BAD;
}

static int on_close(void *arg, curl_socket_t fd)
{
    struct pl_http_io *io = arg;

    for (unsigned i = 0; i < io->n_sockets; i++)
        if (io->sockets[i] == fd)
            io->sockets[i] = io->sockets[--io->n_sockets];
    return close(fd);
}

/* Acknowledges received data immediately. Servers that send a response's head and body separately (radosgw)
 * send the body only after the head is acknowledged, which Linux delays by 40 ms when requests and responses
 * alternate; that would limit reads of a log of many small objects. All sockets are acknowledged, because
 * libcurl does not tell which one a request uses. */
static void acknowledge(const struct pl_http_io *io)
{
    for (unsigned i = 0; i < io->n_sockets; i++)
        (void)setsockopt(io->sockets[i], IPPROTO_TCP, TCP_QUICKACK, &(int){1}, sizeof(int));
}

static unsigned status_of(const struct pl_http_run *run)
{
    long status = 0;

    run->io->curl->easy_getinfo(run->handle, CURLINFO_RESPONSE_CODE, &status);
    return (unsigned)status;
}

static size_t on_header(char *line, size_t size, size_t count, void *arg)
{
    struct pl_http_run *run = arg;
    struct pl_http_exchange *x = run->x;
    const size_t n = size * count;

    moved(run);
    if (n > 5 && memcmp(line, "HTTP/", 5) == 0) {
        pl_http_response_head_forget(x); /* discard the headers of an earlier 100 response */
        acknowledge(run->io);
    } else if (n > 0 && *line == '\r') {
        if (x->begins != NULL && status_of(run) / 100 == 2)
            x->begins(x->write_self);
    } else {
        pl_http_response_head_read(x, line, n);
    }
    return n;
}

static size_t on_body(char *data, size_t size, size_t count, void *arg)
{
    struct pl_http_run *run = arg;
    struct pl_http_exchange *x = run->x;
    const unsigned status = status_of(run);
    const size_t n = size * count;
    int r = 0;

    moved(run);
    if (status / 100 != 2)
        r = pl_buf_add(&x->problem, data, PL_MIN(n, PL_HTTP_IO_ERROR_BYTES - x->problem.len), &x->err);
    else if (x->write != NULL)
        r = x->write(x->write_self, data, n, &x->err);
    else if (x->out != NULL)
        r = pl_buf_add(x->out, data, n, &x->err);
    if (r < 0 && x->err.code == 0)
        (void)pl_err_set(&x->err, r, "the response could not be processed");
    return r < 0 ? CURL_WRITEFUNC_ERROR : n;
}

/* Copies the next part of the request body to curl's buffer. */
static size_t on_upload(char *out, size_t size, size_t count, void *arg)
{
    struct pl_http_run *run = arg;
    const struct pl_http_exchange *x = run->x;
    size_t room = size * count, done = 0;

    moved(run);
    while (room > 0 && run->iov < x->n_body) {
        const struct iovec *v = &x->body[run->iov];
        const size_t n = PL_MIN(room, v->iov_len - run->iov_at);

        if (n > 0)
            memcpy(out + done, (const char *)v->iov_base + run->iov_at, n);
        done += n;
        room -= n;
        run->iov_at += n;
        if (run->iov_at == v->iov_len) {
            run->iov++;
            run->iov_at = 0;
        }
    }
    run->body_left -= (int64_t)done;
    if (run->body_left <= 0)
        run->x->sent = true;
    return done;
}

static int64_t body_bytes(const struct pl_http_exchange *x)
{
    int64_t n = 0;

    for (int i = 0; i < x->n_body; i++)
        n += (int64_t)x->body[i].iov_len;
    return n;
}

/* Called by curl when it must send the body again, because a kept connection turned out to be closed. */
static int on_seek(void *arg, curl_off_t offset, int origin)
{
    struct pl_http_run *run = arg;

    if (origin != SEEK_SET || offset != 0)
        return CURL_SEEKFUNC_CANTSEEK;
    run->x->resent |= run->x->sent;
    run->body_left = body_bytes(run->x);
    run->iov = 0;
    run->iov_at = 0;
    return CURL_SEEKFUNC_OK;
}

/* ---- running exchanges ---- */

static bool add_header(struct pl_http_run *run, const char *line)
{
    struct curl_slist *more = run->io->curl->slist_append(run->headers, line);

    if (more != NULL)
        run->headers = more;
    return more != NULL;
}

static bool set_headers(struct pl_http_run *run)
{
    /* Disable the headers that curl would add by itself, so that only the caller's headers are sent, and curl
     * does not wait for a response 100 Continue. */
    bool ok = add_header(run, "Expect:") && add_header(run, "Accept:") && add_header(run, "Content-Type:");

    for (const char *const *h = run->x->headers; ok && h != NULL && *h != NULL; h++)
        ok = add_header(run, *h);
    if (ok && run->x->route != NULL && run->x->route->connect_to != NULL) {
        run->connect_to = run->io->curl->slist_append(NULL, run->x->route->connect_to);
        ok = run->connect_to != NULL;
    }
    return ok;
}

/* Applies the route's settings to the handle; they override those of the configuration. */
static void set_route(const struct pl_http_run *run, const struct pl_http_io_route *route)
{
    __typeof__(curl_easy_setopt) *const set = run->io->curl->easy_setopt;
    CURL *h = run->handle;

    if (route->ca != NULL) {
        set(h, CURLOPT_CAINFO, route->ca);
        set(h, CURLOPT_CAPATH, NULL);
    }
    if (route->cert != NULL) {
        set(h, CURLOPT_SSLCERT, route->cert);
        set(h, CURLOPT_SSLKEY, route->key);
    }
    if (run->connect_to != NULL)
        set(h, CURLOPT_CONNECT_TO, run->connect_to);
    if (route->proxy != NULL)
        set(h, CURLOPT_PROXY, route->proxy);
    if (route->insecure) {
        set(h, CURLOPT_SSL_VERIFYPEER, 0L);
        set(h, CURLOPT_SSL_VERIFYHOST, 0L);
    }
    if (route->keepalive_s > 0) {
        set(h, CURLOPT_TCP_KEEPALIVE, 1L);
        set(h, CURLOPT_TCP_KEEPIDLE, route->keepalive_s);
        set(h, CURLOPT_TCP_KEEPINTVL, route->keepalive_s);
    }
}

/* Limits how long a kept connection may have been idle and still be reused, in whole seconds; see
 * PL_HTTP_IO_DOUBT_MS. */
static void set_trust(const struct pl_http_run *run)
{
    const long idle_s = run->io->silent_ms > 0 ? (long)((run->began_ms - run->io->silent_ms) / 1000) - 1 : IDLE_S;

    run->io->curl->easy_setopt(run->handle, CURLOPT_FRESH_CONNECT, (long)(idle_s < 1));
    run->io->curl->easy_setopt(run->handle, CURLOPT_MAXAGE_CONN, PL_MIN(PL_MAX(idle_s, 1L), IDLE_S));
}

/* Configures the handle for the exchange: limits, callbacks, certificates, proxy, method and body. */
static void set_options(struct pl_http_run *run)
{
    const struct pl_http_exchange *x = run->x;
    const struct pl_http_io *io = run->io;
    __typeof__(curl_easy_setopt) *const set = io->curl->easy_setopt;
    CURL *h = run->handle;

    set(h, CURLOPT_URL, x->url);
    set(h, CURLOPT_NOSIGNAL, 1L);
    set(h, CURLOPT_PROTOCOLS_STR, "http,https");
    set(h, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    set(h, CURLOPT_PATH_AS_IS, 1L);
    set_trust(run);
    set(h, CURLOPT_HTTPHEADER, run->headers);
    set(h, CURLOPT_ERRORBUFFER, run->error);
    set(h, CURLOPT_CONNECTTIMEOUT_MS, (long)PL_HTTP_IO_CONNECT_MS);
    set(h, CURLOPT_BUFFERSIZE, io->buffer_bytes);
    set(h, CURLOPT_UPLOAD_BUFFERSIZE, io->buffer_bytes);
    set(h, CURLOPT_HEADERFUNCTION, on_header);
    set(h, CURLOPT_HEADERDATA, run);
    set(h, CURLOPT_WRITEFUNCTION, on_body);
    set(h, CURLOPT_WRITEDATA, run);
    set(h, CURLOPT_PRIVATE, run);
    set(h, CURLOPT_OPENSOCKETFUNCTION, on_open);
    set(h, CURLOPT_OPENSOCKETDATA, run);
    set(h, CURLOPT_CLOSESOCKETFUNCTION, on_close);
    set(h, CURLOPT_CLOSESOCKETDATA, run->io);
    if (io->ca != NULL)
        set(h, CURLOPT_CAINFO, io->ca);
    if (io->ca != NULL || io->has_bundle)
        /* otherwise GnuTLS would read every file of the CA folder for each connection */
        set(h, CURLOPT_CAPATH, NULL);
    if (io->no_proxy)
        set(h, CURLOPT_PROXY, "");
    if (x->route != NULL)
        set_route(run, x->route);
    if (pl_streq(x->method, "HEAD")) {
        set(h, CURLOPT_NOBODY, 1L);
        return;
    }
    if (x->has_body) {
        set(h, CURLOPT_UPLOAD, 1L);
        set(h, CURLOPT_INFILESIZE_LARGE, (curl_off_t)run->body_left);
        set(h, CURLOPT_READFUNCTION, on_upload);
        set(h, CURLOPT_READDATA, run);
        set(h, CURLOPT_SEEKFUNCTION, on_seek);
        set(h, CURLOPT_SEEKDATA, run);
    }
    set(h, CURLOPT_CUSTOMREQUEST, x->method);
}

static void finish(struct pl_http_exchange *x)
{
    x->run_ = NULL;
    x->done(x);
}

static void fail(struct pl_http_exchange *x, int code, const char *why)
{
    x->status = 0;
    (void)pl_err_set(&x->err, code, "%s", why);
    finish(x);
}

/* Detaches the handle from its exchange and keeps it for another one. Its connection stays open in the multi
 * handle. */
static void run_release(struct pl_http_run *run)
{
    const struct pl_curl *curl = run->io->curl;

    curl->multi_remove_handle(run->io->multi, run->handle);
    curl->slist_free_all(run->headers);
    curl->slist_free_all(run->connect_to);
    curl->easy_reset(run->handle);
    run->headers = run->connect_to = NULL;
    run->x = NULL;
    run->io->n_running--;
}

/* Starts an exchange on a free handle; the caller has checked that there is one. */
static void start(struct pl_http_io *io, struct pl_http_exchange *x)
{
    struct pl_http_run *run = NULL;

    for (unsigned i = 0; i < io->connections && run == NULL; i++)
        run = io->runs[i].x == NULL ? &io->runs[i] : NULL;
    run->io = io;
    if (run->handle == NULL)
        run->handle = io->curl->easy_init();
    if (run->handle == NULL) {
        fail(x, PL_ENOMEM, "out of memory");
        return;
    }
    run->x = x;
    x->run_ = run;
    io->n_running++;
    run->iov = 0;
    run->iov_at = 0;
    run->error[0] = '\0';
    run->body_left = body_bytes(x);
    run->began_ms = run->moved_ms = pl_clock_mono_ms();
    x->err.code = 0;
    x->sent = x->resent = false;
    pl_buf_clear(&x->problem);
    pl_http_response_head_forget(x);
    if (!set_headers(run)) {
        run_release(run);
        fail(x, PL_ENOMEM, "out of memory");
        return;
    }
    set_options(run);
    if (io->curl->multi_add_handle(io->multi, run->handle) != CURLM_OK) {
        run_release(run);
        fail(x, PL_ENOMEM, "libcurl accepts no more requests");
    }
}

static int code_of(CURLcode c)
{
    switch (c) {
    case CURLE_OPERATION_TIMEDOUT:
        return PL_ETIMEOUT;
    case CURLE_OUT_OF_MEMORY:
        return PL_ENOMEM;
    case CURLE_URL_MALFORMAT:
    case CURLE_UNSUPPORTED_PROTOCOL:
        return PL_EINVAL;
    case CURLE_WEIRD_SERVER_REPLY:
        return PL_EPROTO;
    case CURLE_SSL_CACERT_BADFILE:
    case CURLE_PEER_FAILED_VERIFICATION:
    case CURLE_SSL_ISSUER_ERROR:
        return PL_EUNAVAILABLE; /* a retry would not help */
    default:
        return PL_ENET;
    }
}

/* Returns true if the server may have received the whole request. A request without a body counts as sent
 * once its headers were written, because curl reports nothing after that. */
static bool was_sent(const struct pl_http_run *run)
{
    long bytes = 0;

    run->io->curl->easy_getinfo(run->handle, CURLINFO_REQUEST_SIZE, &bytes);
    return bytes > 0 && (!run->x->has_body || run->body_left <= 0);
}

static void ended(struct pl_http_run *run, CURLcode result)
{
    struct pl_http_exchange *x = run->x;
    const char *why = run->error[0] != '\0' ? run->error : run->io->curl->easy_strerror(result);

    x->status = status_of(run);
    x->sent = x->sent || was_sent(run);
    if (result == CURLE_OK) {
        x->err.code = 0; /* an address that was forbidden did not matter: another one was allowed */
    } else {
        x->status = 0;
        if (x->err.code == 0) /* otherwise a callback has set a better error */
            (void)pl_err_set(&x->err, code_of(result), "%s", why);
    }
    run_release(run);
    finish(x);
}

/* Ends a running exchange with an error. */
static void cut(struct pl_http_run *run, int code, const char *why)
{
    struct pl_http_exchange *x = run->x;

    x->sent = x->sent || was_sent(run);
    if (code == PL_ETIMEOUT)
        run->io->silent_ms = PL_MAX(run->moved_ms, pl_clock_mono_ms() - PL_HTTP_IO_DOUBT_MS);
    run_release(run);
    x->err.code = 0;
    fail(x, code, why);
}

/* Ends exchanges that were cancelled or exceeded a time limit, and lowers *due_ms to the next time limit. */
static void check_patience(struct pl_http_io *io, int64_t now_ms, int64_t *due_ms)
{
    for (unsigned i = 0; i < io->connections; i++) {
        struct pl_http_run *run = &io->runs[i];
        const struct pl_http_exchange *x = run->x;
        const int64_t whole = x != NULL && x->timeout_ms > 0 ? run->began_ms + x->timeout_ms : INT64_MAX;
        const int64_t still = x != NULL && x->stall_ms > 0 ? run->moved_ms + x->stall_ms : INT64_MAX;

        if (x != NULL && x->cancel != NULL && atomic_load(x->cancel))
            cut(run, PL_ECANCELED, "the request was canceled");
        else if (PL_MIN(whole, still) <= now_ms)
            cut(run, PL_ETIMEOUT,
                whole <= now_ms ? "the request took longer than allowed" : "no data was transferred for too long");
        else
            *due_ms = PL_MIN(*due_ms, PL_MIN(whole, still));
    }
}

/* ---- the I/O thread ---- */

static void add_timer(struct pl_http_io *io, struct pl_http_timer *t)
{
    struct pl_http_timer **at = &io->timers;

    while (*at != NULL && (*at)->due_ms <= t->due_ms)
        at = &(*at)->next_;
    t->next_ = *at;
    *at = t;
}

static void run_timers(struct pl_http_io *io, int64_t now_ms, bool all)
{
    while (io->timers != NULL && (all || io->timers->due_ms <= now_ms)) {
        struct pl_http_timer *t = io->timers;

        io->timers = t->next_;
        t->fn(t);
    }
}

static void wait_for_place(struct pl_http_io *io, struct pl_http_exchange *x)
{
    x->next_ = NULL;
    if (io->waiting.n == PL_HTTP_IO_WAITING_MAX) {
        fail(x, PL_EBUSY, "too many requests wait for a connection");
        return;
    }
    *(io->waiting.first != NULL ? io->waiting.end : &io->waiting.first) = x;
    io->waiting.end = &x->next_;
    io->waiting.n++;
}

static struct pl_http_exchange *take_waiting(struct pl_http_io *io)
{
    struct pl_http_exchange *x = io->waiting.first;

    if (x != NULL) {
        io->waiting.first = x->next_;
        io->waiting.n--;
    }
    return x;
}

/* Moves the exchanges (in the order of submission) and timers that other threads have added to the I/O
 * thread's own lists. Returns true if the thread must end. */
static bool take_arrived(struct pl_http_io *io)
{
    struct pl_http_exchange *arrived, *in_order = NULL;
    struct pl_http_timer *armed;
    bool ending;

    pthread_mutex_lock(&io->lock);
    arrived = io->arrived;
    armed = io->armed;
    io->arrived = NULL;
    io->armed = NULL;
    ending = io->ending;
    pthread_mutex_unlock(&io->lock);
    while (arrived != NULL) {
        struct pl_http_exchange *x = arrived;

        arrived = x->next_;
        x->next_ = in_order;
        in_order = x;
    }
    while (armed != NULL) {
        struct pl_http_timer *t = armed;

        armed = t->next_;
        add_timer(io, t);
    }
    while (in_order != NULL) {
        struct pl_http_exchange *x = in_order;

        in_order = x->next_;
        wait_for_place(io, x);
    }
    return ending;
}

static void take_ended(struct pl_http_io *io)
{
    CURLMsg *m;
    int left;

    while ((m = io->curl->multi_info_read(io->multi, &left)) != NULL) {
        char *run = NULL;
        const CURLcode result = m->data.result;

        if (m->msg != CURLMSG_DONE)
            continue;
        io->curl->easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &run);
        ended((struct pl_http_run *)(void *)run, result);
    }
}

static void cancel_all(struct pl_http_io *io)
{
    struct pl_http_exchange *x;

    for (unsigned i = 0; i < io->connections; i++)
        if (io->runs[i].x != NULL)
            cut(&io->runs[i], PL_ECANCELED, "the request was canceled");
    while ((x = take_waiting(io)) != NULL)
        fail(x, PL_ECANCELED, "the request was canceled");
    run_timers(io, 0, true);
}

/* Returns true if no exchange or timer is left to end; no new ones are accepted afterwards. */
static bool is_over(struct pl_http_io *io)
{
    pthread_mutex_lock(&io->lock);
    io->ended = io->arrived == NULL && io->armed == NULL && io->waiting.n == 0 && io->timers == NULL;
    pthread_mutex_unlock(&io->lock);
    return io->ended;
}

/* Runs timers and exchanges until the object is stopped, then cancels what is left. */
static void *io_thread(void *arg)
{
    struct pl_http_io *io = arg;
    int running;

    while (!take_arrived(io)) {
        int64_t now_ms = pl_clock_mono_ms(), due_ms = now_ms + 60000;

        run_timers(io, now_ms, false);
        while (io->n_running < io->connections && io->waiting.n > 0)
            start(io, take_waiting(io));
        (void)io->curl->multi_perform(io->multi, &running);
        take_ended(io);
        now_ms = pl_clock_mono_ms();
        check_patience(io, now_ms, &due_ms);
        if (io->timers != NULL)
            due_ms = PL_MIN(due_ms, io->timers->due_ms);
        if (io->waiting.n > 0 && io->n_running < io->connections)
            continue;
        (void)io->curl->multi_poll(io->multi, NULL, 0, (int)PL_MAX(due_ms - now_ms, (int64_t)0), NULL);
    }
    do {
        (void)take_arrived(io);
        cancel_all(io);
    } while (!is_over(io));
    return NULL;
}

/* ---- public functions ---- */

/* Loads libcurl and starts the thread. */
static int io_init(struct pl_http_io *io, const struct pl_http_io_config *config, struct pl_err *err)
{
    sigset_t all, old;
    int failed;

    io->curl = pl_curl_library();
    if (io->curl == NULL)
        return pl_err_set(err, PL_EUNAVAILABLE, "this needs libcurl, which is not installed: apt-get install libcurl3-gnutls");
    io->connections = PL_MAX(1u, PL_MIN(config->connections, PL_HTTP_IO_CONNECTIONS_MAX));
    io->buffer_bytes = config->buffer_bytes > 0 ? config->buffer_bytes : PL_HTTP_IO_BUFFER_BYTES;
    io->no_proxy = config->no_proxy;
    io->may_connect = config->may_connect;
    io->connect_self = config->connect_self;
    io->has_bundle = access(SYSTEM_BUNDLE, R_OK) == 0;
    io->ca = config->ca != NULL ? strdup(config->ca) : NULL;
    io->multi = io->curl->multi_init();
    if (io->multi == NULL || (config->ca != NULL && io->ca == NULL))
        return pl_err_nomem(err);
    io->curl->multi_setopt(io->multi, CURLMOPT_MAXCONNECTS, (long)io->connections);
    sigfillset(&all);
    /* the new thread blocks all signals, so that the program's own threads receive them */
    pthread_sigmask(SIG_SETMASK, &all, &old);
    failed = pthread_create(&io->thread, NULL, io_thread, io);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    if (failed != 0)
        return pl_err_errno(err, failed, "cannot start the I/O thread");
    io->started = true;
    (void)pthread_setname_np(io->thread, "pl-http-io");
    return 0;
}

static void io_free(struct pl_http_io *io)
{
    for (unsigned i = 0; i < PL_HTTP_IO_CONNECTIONS_MAX; i++)
        if (io->runs[i].handle != NULL)
            io->curl->easy_cleanup(io->runs[i].handle);
    if (io->multi != NULL)
        io->curl->multi_cleanup(io->multi);
    pthread_mutex_destroy(&io->lock);
    free(io->ca);
    free(io);
}

int pl_http_io_create(const struct pl_http_io_config *config, struct pl_http_io **ret, struct pl_err *err)
{
    struct pl_http_io *io = calloc(1, sizeof(*io));
    int r;

    if (io == NULL)
        return pl_err_nomem(err);
    pthread_mutex_init(&io->lock, NULL);
    r = io_init(io, config, err);
    if (r < 0) {
        io_free(io);
        return r;
    }
    *ret = io;
    return 0;
}

void pl_http_io_stop(struct pl_http_io *io)
{
    if (!io->started)
        return;
    pthread_mutex_lock(&io->lock);
    io->ending = true;
    pthread_mutex_unlock(&io->lock);
    io->curl->multi_wakeup(io->multi);
    pthread_join(io->thread, NULL);
    io->started = false;
}

struct pl_http_io *pl_http_io_destroy(struct pl_http_io *io)
{
    if (io == NULL)
        return NULL;
    pl_http_io_stop(io);
    io_free(io);
    return NULL;
}

void pl_http_io_submit(struct pl_http_io *io, struct pl_http_exchange *x)
{
    bool over;

    pthread_mutex_lock(&io->lock);
    over = io->ended;
    if (!over) {
        x->next_ = io->arrived;
        io->arrived = x;
    }
    pthread_mutex_unlock(&io->lock);
    if (over)
        fail(x, PL_ECANCELED, "the request was canceled");
    else
        io->curl->multi_wakeup(io->multi);
}

void pl_http_io_at(struct pl_http_io *io, struct pl_http_timer *t)
{
    bool over;

    pthread_mutex_lock(&io->lock);
    over = io->ended;
    if (!over) {
        t->next_ = io->armed;
        io->armed = t;
    }
    pthread_mutex_unlock(&io->lock);
    if (over)
        t->fn(t);
    else
        io->curl->multi_wakeup(io->multi);
}

void pl_http_io_wake(struct pl_http_io *io)
{
    io->curl->multi_wakeup(io->multi);
}

struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool done;
};

static void wake(struct pl_http_exchange *x)
{
    struct waiter *w = x->arg;

    pthread_mutex_lock(&w->lock);
    w->done = true;
    pthread_cond_signal(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

int pl_http_io_run(struct pl_http_io *io, struct pl_http_exchange *x, struct pl_err *err)
{
    struct waiter w = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};

    x->done = wake;
    x->arg = &w;
    pl_http_io_submit(io, x);
    pthread_mutex_lock(&w.lock);
    while (!w.done)
        pthread_cond_wait(&w.changed, &w.lock);
    pthread_mutex_unlock(&w.lock);
    pthread_mutex_destroy(&w.lock);
    pthread_cond_destroy(&w.changed);
    if (x->err.code < 0 && err != NULL)
        *err = x->err;
    return x->err.code;
}
