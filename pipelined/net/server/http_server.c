/* Starts and stops the server, runs its threads, and moves requests through their phases. The keeper thread
 * accepts connections, because libmicrohttpd's quiesce can abort when two of its threads race for the
 * listening socket. Once a second the keeper does what libmicrohttpd does not: it checks whether the clients
 * of suspended connections have disconnected, sends heartbeats, and retries work for which the pool had no
 * space. */
#include "pipelined/net/server/http_internal.h"
#include "pipelined/net/server/tls.h"

#include "pipelined/text/json_text.h"
#include "storage/base/alloc_failure.h"
#include "storage/base/clock.h"
#include "storage/system/timed_cond.h"
#include "storage/system/trace.h"
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>

#define ACCEPT_AT_ONCE 64
/* bytes that the kernel takes for a client that does not read; what such a client costs must stay small */
#define UNSENT_MAX (256 << 10)
/* pause before new connections are accepted again when the process has no file descriptors left, in ms */
#define DEAF_MS 100

/* --- references, suspension --- */

static void server_unref(struct pl_http_server *s)
{
    if (atomic_fetch_sub(&s->refs, 1) != 1)
        return;
    if (s->lacking)
        MHD_destroy_response(s->lacking);
    if (s->listen_fd >= 0)
        close(s->listen_fd);
    if (s->wake_fd >= 0)
        close(s->wake_fd);
    free(s->matchers);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->idle);
    free(s);
}

void pl_httpd_request_ref(struct pl_http_request *r)
{
    atomic_fetch_add(&r->refs, 1);
}

void pl_httpd_request_unref(struct pl_http_request *r)
{
    struct pl_http_server *s = r->server;

    if (atomic_fetch_sub(&r->refs, 1) != 1)
        return;
    pl_httpd_request_free(r);
    server_unref(s);
}

bool pl_httpd_suspend(struct pl_http_request *r)
{
    if (atomic_load(&r->server->stopping) == HTTP_CUTTING)
        return false;
    r->suspended = true;
    MHD_suspend_connection(r->connection);
    return true;
}

void pl_httpd_resume(struct pl_http_request *r)
{
    if (!r->suspended)
        return;
    r->suspended = false;
    MHD_resume_connection(r->connection);
}

static void keeper_wake(struct pl_http_server *s)
{
    uint64_t one = 1;

    if (write(s->wake_fd, &one, sizeof(one)) < 0)
        return; /* EAGAIN: the keeper has been woken already */
}

void pl_httpd_retry_soon(struct pl_http_server *s)
{
    if (!atomic_exchange(&s->hurry, true))
        keeper_wake(s);
}

/* --- a request: opening --- */

static void request_link(struct pl_http_server *s, struct pl_http_request *r)
{
    pthread_mutex_lock(&s->lock);
    r->next = s->first;
    if (r->next)
        r->next->prev = r;
    s->first = r;
    r->linked = true;
    s->live++;
    s->live_most = PL_MAX(s->live_most, s->live);
    pthread_mutex_unlock(&s->lock);
}

static void request_unlink(struct pl_http_server *s, struct pl_http_request *r)
{
    if (!r->linked)
        return;
    pthread_mutex_lock(&s->lock);
    if (r->prev)
        r->prev->next = r->next;
    else
        s->first = r->next;
    if (r->next)
        r->next->prev = r->prev;
    if (--s->live == 0)
        pthread_cond_broadcast(&s->idle);
    pthread_mutex_unlock(&s->lock);
}

static uint64_t body_max(const struct pl_http_route *route)
{
    switch (route->body) {
    case PL_BODY_NONE:
        return 0;
    case PL_BODY_STREAM:
        return route->body_max ? route->body_max : UINT64_MAX;
    case PL_BODY_JSON:
    case PL_BODY_BYTES:
        break;
    }
    return route->body_max ? route->body_max : PL_HTTP_JSON_MAX;
}

static int too_large(const struct pl_http_request *r, struct pl_err *err)
{
    return pl_err_set(err, PL_ETOOBIG, "%s %s accepts a body of at most %llu bytes", r->method, r->target,
                      (unsigned long long)body_max(r->route));
}

/* Makes all checks of a request for which no handler is needed. `*ret_status` stays 0 if the error code
 * determines the status. */
static int request_admit(struct pl_http_server *s, struct pl_http_request *r, const char *method, const char *version,
                         unsigned *ret_status, struct pl_err *err)
{
    char allow[96];
    int e, guard = 0;

    e = pl_httpd_request_read(r, method, version, err);
    if (e < 0)
        return e;
    if (atomic_load(&s->stopping) != HTTP_SERVING)
        return pl_err_set(err, PL_ESTOPPING, "the daemon is shutting down");
    e = pl_httpd_route_find(s, r, allow, sizeof(allow), err);
    if (s->guard && (e == 0 || s->guard_unknown)) {
        struct pl_err why = {0};

        guard = s->guard(r, r->route, s->guard_arg, &why);
        if (guard < 0) {
            *err = why;
            err->code = guard;
            return guard;
        }
    }
    if (e == PL_EINVAL) {
        *ret_status = 405;
        pl_http_reply_header(r, "Allow", allow);
    }
    if (e < 0)
        return e;
    if (r->length > 0 && (uint64_t)r->length > body_max(r->route))
        return too_large(r, err);
    return 0;
}

/* Queues the reply in libmicrohttpd. Allowed only when the body is complete, or if the connection is closed
 * afterwards. */
static enum MHD_Result request_queue(struct pl_http_request *r)
{
    struct MHD_Response *response = r->response;
    enum MHD_Result ok;

    pthread_mutex_lock(&r->lock);
    r->response = NULL;
    pthread_mutex_unlock(&r->lock);
    ok = MHD_queue_response(r->connection, r->status, response);
    pl_httpd_drop_response(r, response);
    return ok;
}

static void run_handler(void *arg)
{
    struct pl_http_request *r = arg;

    pl_http_request_enter(r);
    r->route->handler(r, r->route->arg);
    pl_http_request_leave();
}

/* Suspends the connection and hands the request to its handler. */
static enum MHD_Result request_dispatch(struct pl_http_server *s, struct pl_http_request *r)
{
    struct pl_err err = {0};
    bool waits;

    pthread_mutex_lock(&r->lock);
    waits = pl_httpd_suspend(r);
    pthread_mutex_unlock(&r->lock);
    if (!waits)
        return MHD_NO;
    pl_httpd_request_ref(r); /* this reference belongs to the handler */
    if (r->route->where == PL_ON_LOOP) {
        pl_loop_post_work(s->loop, &r->work, r->route->pattern, run_handler, r);
        return MHD_YES;
    }
    if (pl_pool_submit(s->pool, run_handler, r, &err) == 0)
        return MHD_YES;
    pl_httpd_request_unref(r);
    pthread_mutex_lock(&r->lock);
    pl_httpd_refuse(r, 0, &err);
    pl_httpd_resume(r);
    pthread_mutex_unlock(&r->lock);
    return MHD_YES;
}

/* Called when a request's headers are complete: admits or refuses the request. The handler of a STREAM route
 * is started here. */
static enum MHD_Result request_open(struct pl_http_server *s, struct pl_http_request *r, struct MHD_Connection *connection,
                                    const char *method, const char *version)
{
    struct pl_err err = {0};
    unsigned status = 0;
    int e;

    pl_httpd_timeout_request_begun(connection);
    r->connection = connection;
    r->id = pl_httpd_number(s);
    request_link(s, r);
    r->phase = HTTP_BODY;
    e = request_admit(s, r, method, version, &status, &err);
    if (e < 0) {
        pl_httpd_refuse(r, status, &err);
        /* for malformed framing, or a client that waits for 100-continue: reply now and close the
         * connection */
        return e == PL_EPROTO || (r->expects_continue && r->length) ? request_queue(r) : MHD_YES;
    }
    if (r->route->body != PL_BODY_STREAM)
        return MHD_YES;
    r->phase = HTTP_OPENING;
    return request_dispatch(s, r);
}

/* --- a request: its body --- */

static enum MHD_Result request_discard(struct pl_http_request *r, size_t n)
{
    if (r->discarded == 0)
        pl_httpd_timeout_refused(r->server, r->connection);
    r->discarded += n;
    if (r->discarded > HTTP_DISCARD_MAX)
        return MHD_NO;
    if (!r->sent_raw && r->error_text && (r->length < 0 || (uint64_t)r->length > r->received + HTTP_DISCARD_QUIET))
        pl_httpd_send_raw(r);
    return MHD_YES;
}

void pl_httpd_body_finish(struct pl_http_request *r)
{
    atomic_fetch_sub(&r->server->bodies, r->body_counted);
    r->body_counted = 0;
    pl_buf_finish(&r->body);
}

static int body_add(struct pl_http_request *r, const char *data, size_t n, struct pl_err *err)
{
    struct pl_http_server *s = r->server;
    size_t len = r->body.len + n, counted = len > PL_HTTP_BODY_FREE ? len - PL_HTTP_BODY_FREE : 0,
           more = counted - r->body_counted;

    if (len > body_max(r->route))
        return too_large(r, err);
    r->body_counted = counted;
    if (atomic_fetch_add(&s->bodies, more) + more > s->bodies_max)
        return pl_err_set(err, PL_EBUSY, "all %zu MiB of memory for request bodies are in use: try again", s->bodies_max >> 20);
    return pl_buf_add(&r->body, data, n, err);
}

/* Accepts as many bytes of the body as fit; sets `*n` to the number of those left over. */
static enum MHD_Result request_take(struct pl_http_request *r, const char *data, size_t *n)
{
    struct pl_err err = {0};
    enum MHD_Result ok = MHD_YES;
    size_t taken = *n;

    pthread_mutex_lock(&r->lock);
    if (!r->response && r->route->body != PL_BODY_STREAM) {
        if (body_add(r, data, *n, &err) < 0) {
            pl_httpd_refuse(r, 0, &err);
            pl_httpd_body_finish(r);
        }
    } else if (!r->response) {
        if (r->received + *n > body_max(r->route)) {
            too_large(r, &err);
            pl_httpd_body_fail(r, &err);
        }
        taken = pl_httpd_body_add(r, data, *n);
        if (taken < *n && !pl_httpd_suspend(r))
            ok = MHD_NO;
    }
    if (r->response)
        ok = request_discard(r, *n);
    r->received += taken;
    *n -= taken;
    pthread_mutex_unlock(&r->lock);
    return ok;
}

/* Queues the reply if there is one; otherwise suspends the connection until there is. */
static enum MHD_Result request_finish(struct pl_http_request *r)
{
    bool answered, waits = true;

    pthread_mutex_lock(&r->lock);
    answered = r->response;
    if (!answered)
        waits = pl_httpd_suspend(r);
    pthread_mutex_unlock(&r->lock);
    if (answered)
        return r->sent_raw ? MHD_NO : request_queue(r);
    return waits ? MHD_YES : MHD_NO;
}

static enum MHD_Result request_body_complete(struct pl_http_server *s, struct pl_http_request *r)
{
    bool answered;

    r->phase = HTTP_DONE;
    pthread_mutex_lock(&r->lock);
    answered = r->response;
    if (!answered && r->intake)
        pl_httpd_body_eof(r);
    pthread_mutex_unlock(&r->lock);
    if (answered || r->intake)
        return request_finish(r);
    if (pl_buf_str(&r->body) == NULL)
        return MHD_NO;
    return request_dispatch(s, r);
}

/* Continues a request after its STREAM route's handler has replied or set a sink. If the handler has done neither,
 * the server is cutting off connections. */
static enum MHD_Result request_opened(struct pl_http_request *r)
{
    bool answered, ready;

    pthread_mutex_lock(&r->lock);
    answered = r->response;
    ready = answered || r->intake;
    pthread_mutex_unlock(&r->lock);
    if (!ready)
        return MHD_NO;
    r->phase = HTTP_BODY;
    return answered && r->expects_continue && r->length ? request_queue(r) : MHD_YES;
}

/* --- callbacks of libmicrohttpd --- */

static void *on_uri(void *arg, const char *uri, struct MHD_Connection *connection)
{
    struct pl_http_server *s = arg;
    struct pl_http_request *r = pl_httpd_request_create(s, uri ? uri : "");

    (void)connection;
    if (r)
        atomic_fetch_add(&s->refs, 1);
    return r;
}

static enum MHD_Result on_access(void *arg, struct MHD_Connection *connection, const char *url, const char *method,
                                 const char *version, const char *data, size_t *n, void **context)
{
    struct pl_http_request *r = *context;

    (void)url;
    if (!r)
        return MHD_NO;
    switch (r->phase) {
    case HTTP_NEW:
        return request_open(arg, r, connection, method, version);
    case HTTP_OPENING:
        return request_opened(r);
    case HTTP_BODY:
        return *n ? request_take(r, data, n) : request_body_complete(arg, r);
    case HTTP_DONE:
        break;
    }
    return request_finish(r);
}

/* Frees a request after libmicrohttpd has sent its reply or lost its connection. */
static void on_completed(void *arg, struct MHD_Connection *connection, void **context, enum MHD_RequestTerminationCode why)
{
    struct pl_http_request *r = *context;
    struct MHD_Response *response;
    bool settle;

    if (!r)
        return;
    pl_httpd_timeout_answered(arg, connection);
    *context = NULL;
    pthread_mutex_lock(&r->lock);
    r->connection = NULL;
    r->gone |= why != MHD_REQUEST_TERMINATED_COMPLETED_OK;
    response = r->response;
    r->response = NULL;
    settle = r->intake;
    if (r->intake)
        pl_httpd_body_gone(r);
    pl_trace("net/server", "%s %s: %u%s", r->method, pl_http_path(r), r->status, r->gone ? ", the client has gone" : "");
    pthread_mutex_unlock(&r->lock);
    pl_httpd_drop_response(r, response);
    request_unlink(arg, r);
    if (settle)
        pl_httpd_body_settle(r);
    pl_httpd_request_unref(r);
}

static size_t on_unescape(void *arg, struct MHD_Connection *connection, char *text)
{
    (void)arg;
    (void)connection;
    return strlen(text); /* decode nothing: http_request.c makes a decoded copy */
}

/* --- the keeper --- */

static void accept_some(struct pl_http_server *s, int64_t *deaf_until)
{
    for (int i = 0; i < ACCEPT_AT_ONCE; i++) {
        struct sockaddr_storage peer;
        socklen_t len = sizeof(peer);
        int fd = accept4(s->listen_fd, (struct sockaddr *)&peer, &len, SOCK_CLOEXEC | SOCK_NONBLOCK);

        if (fd < 0) {
            if (errno != EAGAIN && errno != EINTR && errno != ECONNABORTED)
                *deaf_until = pl_clock_mono_ms() + DEAF_MS;
            return;
        }
        /* at the limit of connections, libmicrohttpd closes the descriptor */
        MHD_add_connection(s->daemon, fd, (struct sockaddr *)&peer, len);
    }
}

struct sweep {
    struct pollfd *fds;
    struct pl_http_request **requests;
    size_t n, cap;
};

static void sweep_add(struct sweep *sweep, struct pl_http_request *r)
{
    if (sweep->n == sweep->cap) {
        size_t cap = sweep->cap ? 2 * sweep->cap : 64;
        struct pollfd *fds = reallocarray(sweep->fds, cap, sizeof(*fds));
        struct pl_http_request **requests;

        if (!fds)
            return; /* skip the request: the next sweep will check it */
        sweep->fds = fds;
        requests = reallocarray(sweep->requests, cap, sizeof(struct pl_http_request *));
        if (!requests)
            return;
        sweep->requests = requests;
        sweep->cap = cap;
    }
    sweep->fds[sweep->n] = (struct pollfd){.fd = r->fd, .events = POLLRDHUP};
    sweep->requests[sweep->n++] = r;
}

/* Checks all requests in progress. Holds the server's lock throughout: a request is removed from the list
 * before its descriptor is closed, so no descriptor is reused meanwhile. */
static void keeper_sweep(struct pl_http_server *s, struct sweep *sweep)
{
    int64_t now = pl_clock_mono_ms();

    sweep->n = 0;
    pthread_mutex_lock(&s->lock);
    pl_httpd_timeout_sweep(s, now);
    for (struct pl_http_request *r = s->first; r; r = r->next) {
        pthread_mutex_lock(&r->lock);
        if (r->intake)
            pl_httpd_body_wake(r);
        if (r->stream)
            pl_httpd_stream_tick(r->stream, now);
        if (r->suspended && !r->gone && r->fd >= 0 && now - r->begun_ms >= HTTP_TICK_MS)
            sweep_add(sweep, r);
        pthread_mutex_unlock(&r->lock);
    }
    if (sweep->n && poll(sweep->fds, sweep->n, 0) > 0)
        for (size_t i = 0; i < sweep->n; i++) {
            struct pl_http_request *r = sweep->requests[i];

            if (!sweep->fds[i].revents)
                continue;
            pthread_mutex_lock(&r->lock);
            r->gone = true;
            if (r->stream)
                pl_httpd_stream_gone(r->stream);
            pthread_mutex_unlock(&r->lock);
        }
    pthread_mutex_unlock(&s->lock);
}

/* The keeper thread: accepts connections, sweeps the requests every tick, and reloads the TLS certificate. */
static void *keeper_main(void *arg)
{
    struct pl_http_server *s = arg;
    int64_t next_tick = pl_clock_mono_ms() + HTTP_TICK_MS, deaf_until = 0, next_look = 0;
    struct sweep sweep = {0};

    pthread_setname_np(pthread_self(), "http-keeper");
    while (atomic_load(&s->stopping) != HTTP_CUTTING) {
        int64_t now = pl_clock_mono_ms();
        struct pollfd fds[2] = {{.fd = s->wake_fd, .events = POLLIN},
                                {.fd = now < deaf_until ? -1 : s->listen_fd, .events = POLLIN}};
        int64_t wait = atomic_load(&s->hurry) ? HTTP_TICK_HURRY_MS : next_tick - now;
        uint64_t wakes;

        if (atomic_load(&s->stopping) == HTTP_DRAINING && s->listen_fd >= 0) {
            close(s->listen_fd);
            s->listen_fd = fds[1].fd = -1;
        }
        if (now < deaf_until)
            wait = PL_MIN(wait, deaf_until - now);
        if (poll(fds, 2, (int)PL_MAX(wait, 0)) > 0) {
            if (fds[0].revents && read(s->wake_fd, &wakes, sizeof(wakes)) > 0 && wait > HTTP_TICK_HURRY_MS)
                continue; /* woken because work must be retried soon: compute the waiting time again */
            if (fds[1].revents)
                accept_some(s, &deaf_until);
        }
        now = pl_clock_mono_ms();
        if (s->tls && now >= next_look) {
            pl_tls_look();
            next_look = now + PL_HTTP_TLS_LOOK_MS;
        }
        if (now >= next_tick || atomic_exchange(&s->hurry, false)) {
            keeper_sweep(s, &sweep);
            next_tick = now + HTTP_TICK_MS;
        }
    }
    free(sweep.fds);
    free(sweep.requests);
    return NULL;
}

/* --- starting --- */

/* Splits an address "host:port" or "[::1]:port" into host and port. */
static int listen_address(const char *text, char *host, size_t host_size, const char **ret_port, struct pl_err *err)
{
    const char *colon = strrchr(text, ':'), *from = text;
    size_t len = colon ? (size_t)(colon - text) : 0;

    if (len > 2 && text[0] == '[' && text[len - 1] == ']') {
        from++;
        len -= 2;
    }
    if (!colon || len == 0 || len >= host_size || !colon[1] || strspn(colon + 1, "0123456789") != strlen(colon + 1))
        return pl_err_set(err, PL_EINVAL, "listen address \"%s\" is not HOST:PORT, for example 127.0.0.1:7380", text);
    memcpy(host, from, len);
    host[len] = 0;
    *ret_port = colon + 1;
    return 0;
}

static int listen_on(const struct addrinfo *a, const char *text, struct pl_err *err)
{
    int fd = socket(a->ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1, unsent = UNSENT_MAX, errnum;

    if (fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one)) == 0 &&
        setsockopt(fd, IPPROTO_TCP, TCP_NOTSENT_LOWAT, &unsent, sizeof(unsent)) == 0 &&
        bind(fd, a->ai_addr, a->ai_addrlen) == 0 && listen(fd, 1024) == 0)
        return fd;
    errnum = errno;
    if (fd >= 0)
        close(fd);
    if (errnum == EADDRINUSE)
        return pl_err_set(err, PL_EINUSE, "the address %s is in use by another program", text);
    return pl_err_errno(err, errnum, "listen on %s", text);
}

/* Binds the address, listens, and records the port. */
static int server_listen(struct pl_http_server *s, const char *text, struct pl_err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found;
    struct sockaddr_storage bound;
    socklen_t len = sizeof(bound);
    char host[256];
    const char *port;
    int r = listen_address(text, host, sizeof(host), &port, err);

    if (r < 0)
        return r;
    r = getaddrinfo(host, port, &hints, &found);
    if (r != 0)
        return pl_err_set(err, PL_EINVAL, "listen address \"%s\": %s", text, gai_strerror(r));
    r = listen_on(found, text, err);
    freeaddrinfo(found);
    if (r < 0)
        return r;
    s->listen_fd = r;
    if (getsockname(s->listen_fd, (struct sockaddr *)&bound, &len) < 0)
        return pl_err_errno(err, errno, "listen on %s", text);
    s->port = ntohs(bound.ss_family == AF_INET6 ? ((struct sockaddr_in6 *)&bound)->sin6_port
                                                : ((struct sockaddr_in *)&bound)->sin_port);
    return 0;
}

/* Starts libmicrohttpd and the keeper thread. */
static int server_run(struct pl_http_server *s, const struct pl_http_options *o, struct pl_err *err)
{
    unsigned connections = o->connections ? o->connections : PL_HTTP_CONNECTIONS_MAX, tls = o->tls ? MHD_USE_TLS : 0;
    struct MHD_OptionItem more[] = {{MHD_OPTION_PER_IP_CONNECTION_LIMIT, (intptr_t)o->per_address, NULL},
                                    {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)(uintptr_t)PL_TLS_PRIORITIES},
                                    {MHD_OPTION_HTTPS_CERT_CALLBACK2, 0, pl_tls_callback()},
                                    {MHD_OPTION_END, 0, NULL}};
    int r;

    if (!tls)
        more[1].option = MHD_OPTION_END;
    s->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (s->wake_fd < 0)
        return pl_err_errno(err, errno, "eventfd");
    s->daemon =
        MHD_start_daemon(MHD_USE_EPOLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_NO_LISTEN_SOCKET | tls, 0, NULL, NULL,
                         on_access, s, MHD_OPTION_THREAD_POOL_SIZE, o->threads ? o->threads : 2, MHD_OPTION_CONNECTION_LIMIT,
                         connections, MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)PL_HTTP_IDLE_S, MHD_OPTION_CONNECTION_MEMORY_LIMIT,
                         (size_t)PL_HTTP_HEADER_BYTES_MAX, MHD_OPTION_STRICT_FOR_CLIENT, 1, MHD_OPTION_URI_LOG_CALLBACK, on_uri,
                         s, MHD_OPTION_UNESCAPE_CALLBACK, on_unescape, NULL, MHD_OPTION_NOTIFY_COMPLETED, on_completed, s,
                         MHD_OPTION_NOTIFY_CONNECTION, pl_httpd_on_connection, s, MHD_OPTION_ARRAY, more, MHD_OPTION_END);
    if (!s->daemon)
        return pl_err_errno(err, errno, "cannot start the HTTP server");
    s->lacking = pl_httpd_make_no_memory_reply();
    if (!s->lacking) {
        MHD_stop_daemon(s->daemon);
        return pl_err_nomem(err);
    }
    r = pthread_create(&s->keeper, NULL, keeper_main, s);
    if (r != 0) {
        MHD_stop_daemon(s->daemon);
        return pl_err_errno(err, r, "cannot start a thread of the HTTP server");
    }
    return 0;
}

int pl_http_server_start(const struct pl_http_options *o, struct pl_http_server **ret, struct pl_err *err)
{
    struct pl_http_server *s = calloc(1, sizeof(*s));
    int r;

    if (!s)
        return pl_err_nomem(err);
    pl_json_note_lack();
    atomic_init(&s->refs, 1);
    s->listen_fd = s->wake_fd = -1;
    s->tls = o->tls;
    s->greeting_ms = o->greeting_ms ? o->greeting_ms : PL_HTTP_GREETING_MS;
    s->bodies_max = o->bodies_max ? o->bodies_max : PL_HTTP_BODIES_MAX;
    s->guard = o->guard;
    s->guard_arg = o->guard_arg;
    s->guard_unknown = o->guard_unknown;
    s->private_prefix = o->private_prefix;
    s->tell = o->tell;
    s->tell_type = o->tell_type ? o->tell_type : "application/json";
    s->loop = o->loop;
    s->pool = o->pool;
    s->n_matchers = o->n_routes;
    pthread_mutex_init(&s->lock, NULL);
    pl_timed_cond_init(&s->idle);
    r = pl_httpd_matchers_compile(o->routes, o->n_routes, &s->matchers, err);
    if (r == 0)
        r = server_listen(s, o->listen, err);
    if (r == 0)
        r = server_run(s, o, err);
    if (r < 0) {
        server_unref(s);
        return r;
    }
    *ret = s;
    return 0;
}

unsigned pl_http_server_port(const struct pl_http_server *s)
{
    return s->port;
}

bool pl_http_listens_anywhere(const char *listen)
{
    return strncmp(listen, "0.0.0.0:", 8) == 0 || strncmp(listen, "[::]:", 5) == 0;
}

int pl_http_listener_url(const char *listen, unsigned port, bool tls, char **ret, struct pl_err *err)
{
    char host[256] = "127.0.0.1";

    if (!pl_http_listens_anywhere(listen))
        snprintf(host, sizeof host, "%.*s", (int)(strrchr(listen, ':') - listen), listen);
    else if (tls && gethostname(host, sizeof host - 1) < 0)
        snprintf(host, sizeof host, "127.0.0.1");
    if (asprintf(ret, "http%s://%s:%u", tls ? "s" : "", host, port) >= 0)
        return 0;
    *ret = NULL;
    return pl_err_nomem(err);
}

void pl_http_server_get_stats(struct pl_http_server *s, struct pl_http_stats *ret)
{
    const union MHD_DaemonInfo *info = s->stopped ? NULL : MHD_get_daemon_info(s->daemon, MHD_DAEMON_INFO_CURRENT_CONNECTIONS);

    pthread_mutex_lock(&s->lock);
    *ret = (struct pl_http_stats){
        .requests = atomic_load(&s->requests),
        .live = s->live,
        .streams = atomic_load(&s->streams),
        .connections = info ? info->num_connections : 0,
        .live_most = s->live_most,
    };
    pthread_mutex_unlock(&s->lock);
}

/* --- stopping --- */

void pl_http_server_drain(struct pl_http_server *s)
{
    int serving = HTTP_SERVING;

    if (!atomic_compare_exchange_strong(&s->stopping, &serving, HTTP_DRAINING))
        return;
    keeper_wake(s);
    pthread_mutex_lock(&s->lock);
    for (struct pl_http_request *r = s->first; r; r = r->next) {
        pthread_mutex_lock(&r->lock);
        if (r->stream)
            pl_httpd_stream_drain(r->stream);
        pthread_mutex_unlock(&r->lock);
    }
    pthread_mutex_unlock(&s->lock);
}

static void server_wait_idle(struct pl_http_server *s, int64_t deadline_ms)
{
    struct timespec until;

    clock_gettime(CLOCK_MONOTONIC, &until);
    until.tv_sec += deadline_ms / 1000;
    until.tv_nsec += deadline_ms % 1000 * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_sec++;
        until.tv_nsec -= 1000000000;
    }
    pthread_mutex_lock(&s->lock);
    while (s->live && pthread_cond_timedwait(&s->idle, &s->lock, &until) == 0)
        ;
    pthread_mutex_unlock(&s->lock);
}

void pl_http_server_stop(struct pl_http_server *s, int64_t deadline_ms)
{
    if (s->stopped)
        return;
    pl_http_server_drain(s);
    server_wait_idle(s, deadline_ms);

    atomic_store(&s->stopping, HTTP_CUTTING); /* from here on, no connection can be suspended */
    keeper_wake(s);
    pthread_join(s->keeper, NULL);
    pthread_mutex_lock(&s->lock);
    for (struct pl_http_request *r = s->first; r; r = r->next) {
        pthread_mutex_lock(&r->lock);
        pl_httpd_resume(r);
        pthread_mutex_unlock(&r->lock);
    }
    pthread_mutex_unlock(&s->lock);
    MHD_stop_daemon(s->daemon);
    s->stopped = true;
}

struct pl_http_server *pl_http_server_destroy(struct pl_http_server *s)
{
    if (!s)
        return NULL;
    pl_http_server_stop(s, 0);
    server_unref(s);
    return NULL;
}
