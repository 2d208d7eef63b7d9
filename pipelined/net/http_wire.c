/* HTTP/1.1 (RFC 9112) as a client, over TCP or a unix socket: one request at a time on a connection, connections kept.
 *
 *   connect ──▶ send head and body ──▶ read head ──▶ read body ──▶ kept, when both sides are at a clean end
 *                    └── the server speaks early (a refusal): stop sending ──▶ read head …
 */
#include "http_exchange.h"
#include "storage/base/clock.h"

#include <ctype.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/un.h>

#define HEAD_MAX     (64u << 10)
#define BUFFER_BYTES (256u << 10)
#define JOIN_BYTES   (64u << 10) /* a body up to here goes with its head */
#define LOOK_MS      500         /* how often a waiting call looks whether it was given up */
#define LOST         1           /* the connection broke; a kept one may simply have been closed */
#define EARLY        2           /* the server answers before it has the body */

/* A connection; `buf` holds what was received and not yet used. */
struct conn {
    int fd;
    bool kept; /* it has served before */
    size_t at, len;
    char buf[BUFFER_BYTES];
};

struct pl_http_wire {
    char *host, *port, *header; /* header: of Host */
    char *prefix;               /* path of the URL, "" = none */
    struct sockaddr_un un;      /* sun_path "" = TCP */
    pthread_mutex_t lock;
    struct conn *idle[PL_HTTP_HANDLES_KEPT];
    size_t n_idle;
};

/* One request on one connection. */
struct turn {
    struct pl_http_wire *wire;
    struct pl_exchange *x;
    struct conn *c;
    int64_t end_ms, moved_ms; /* end_ms 0 = none */
    bool answered;            /* something of the answer came */
    bool sent;                /* all of the request went */
    bool close;               /* the server closes the connection */
    bool chunked;
    bool has_length;
    uint64_t length;
};

/* ---- waiting ---- */

static int64_t patience_ms(const struct turn *t, int64_t now)
{
    int64_t ms = t->x->call->may_stall ? INT32_MAX : t->moved_ms + PL_HTTP_STALL_S * 1000 - now;

    if (t->end_ms)
        ms = PL_MIN(ms, t->end_ms - now);
    return PL_MAX(ms, 0);
}

/* Given up, or out of time: negative. */
static int check(const struct turn *t, struct pl_err *err)
{
    const struct pl_http_call *call = t->x->call;

    if (call->cancel && atomic_load(call->cancel))
        return pl_exchange_given_up(t->x, err);
    return patience_ms(t, pl_clock_mono_ms()) == 0 ? pl_exchange_late(t->x, err) : 0;
}

/* Until the socket can be read or written: the events. */
static int wait_for(struct turn *t, int fd, short events, struct pl_err *err)
{
    const struct pl_http_call *call = t->x->call;
    struct pollfd p = {.fd = fd, .events = events};

    for (;;) {
        int n = check(t, err);

        if (n < 0)
            return n;
        n = poll(&p, 1, (int)PL_MIN(patience_ms(t, pl_clock_mono_ms()), call->cancel ? LOOK_MS : INT32_MAX));
        if (n > 0)
            return p.revents;
        if (n < 0 && errno != EINTR)
            return pl_err_errno(err, errno, "poll");
    }
}

/* ---- connections ---- */

static struct conn *conn_close(struct conn *c)
{
    if (c) {
        close(c->fd);
        free(c);
    }
    return NULL;
}

static int connect_to(struct turn *t, const struct sockaddr *to, socklen_t len, struct pl_err *err)
{
    int fd = socket(to->sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0), one = 1, failed = 0, r;
    socklen_t size = sizeof failed;
    int64_t end = t->end_ms;

    if (fd < 0)
        return pl_err_errno(err, errno, "socket");
    if (to->sa_family != AF_UNIX)
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    if (connect(fd, to, len) == 0)
        return fd;
    failed = errno;
    r = 0;
    if (failed == EINPROGRESS) {
        int64_t limit = pl_clock_mono_ms() + PL_HTTP_CONNECT_MS;

        t->end_ms = end ? PL_MIN(end, limit) : limit;
        r = wait_for(t, fd, POLLOUT, err);
        t->end_ms = end;
        if (r > 0 && getsockopt(fd, SOL_SOCKET, SO_ERROR, &failed, &size) < 0)
            failed = errno;
    }
    if (r >= 0 && !failed)
        return fd;
    close(fd);
    return r < 0 ? r : pl_exchange_no_server(t->x, err);
}

static int connect_tcp(struct turn *t, struct pl_err *err)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_NUMERICHOST}, *list = NULL, *a;
    int r = PL_ENET;

    /* an address needs no resolver, which reads half of /etc */
    if (getaddrinfo(t->wire->host, t->wire->port, &hints, &list) != 0) {
        hints.ai_flags = AI_ADDRCONFIG;
        if (getaddrinfo(t->wire->host, t->wire->port, &hints, &list) != 0)
            return pl_exchange_no_server(t->x, err);
    }
    for (a = list; a && r == PL_ENET; a = a->ai_next)
        r = connect_to(t, a->ai_addr, a->ai_addrlen, err);
    freeaddrinfo(list);
    return r;
}

static int conn_open(struct turn *t, struct pl_err *err)
{
    struct pl_http_wire *w = t->wire;
    int fd;

    t->moved_ms = pl_clock_mono_ms();
    fd = *w->un.sun_path ? connect_to(t, (const struct sockaddr *)&w->un, sizeof w->un, err) : connect_tcp(t, err);
    if (fd < 0)
        return fd;
    t->c = malloc(sizeof *t->c);
    if (!t->c) {
        close(fd);
        return pl_err_nomem(err);
    }
    t->c->fd = fd;
    t->c->kept = false;
    t->c->at = t->c->len = 0;
    return 0;
}

static struct conn *take_idle(struct pl_http_wire *w)
{
    struct conn *c;

    pthread_mutex_lock(&w->lock);
    c = w->n_idle ? w->idle[--w->n_idle] : NULL;
    pthread_mutex_unlock(&w->lock);
    return c;
}

static void keep(struct pl_http_wire *w, struct conn *c)
{
    c->kept = true;
    pthread_mutex_lock(&w->lock);
    if (w->n_idle < PL_HTTP_HANDLES_KEPT) {
        w->idle[w->n_idle++] = c;
        c = NULL;
    }
    pthread_mutex_unlock(&w->lock);
    conn_close(c);
}

/* ---- sending ---- */

/* 0, LOST, EARLY, or negative. */
static int send_all(struct turn *t, const void *data, size_t n, struct pl_err *err)
{
    const char *p = data;

    while (n) {
        ssize_t k;
        int r = check(t, err);

        if (r < 0)
            return r;
        k = send(t->c->fd, p, n, MSG_NOSIGNAL);
        if (k >= 0) {
            p += k;
            n -= (size_t)k;
            t->moved_ms = pl_clock_mono_ms();
            continue;
        }
        if (errno == EINTR)
            continue;
        if (errno != EAGAIN)
            return LOST;
        r = wait_for(t, t->c->fd, POLLOUT | POLLIN, err);
        if (r < 0)
            return r;
        if (r & POLLIN)
            return EARLY;
    }
    return 0;
}

/* Has the server begun to answer, or gone? */
static bool speaks(const struct turn *t)
{
    struct pollfd p = {.fd = t->c->fd, .events = POLLIN};

    return poll(&p, 1, 0) > 0;
}

static int make_head(const struct turn *t, struct pl_buf *head, struct pl_err *err)
{
    const struct pl_http_call *call = t->x->call;
    bool body = call->upload != PL_UPLOAD_NONE, unknown = call->upload == PL_UPLOAD_READER && call->len == UINT64_MAX;
    int r = pl_buf_addf(head, err, "%s %s%s HTTP/1.1\r\nHost: %s\r\nUser-Agent: pipelined/1\r\nAccept: */*\r\n", call->method,
                        t->wire->prefix, call->path, t->wire->header);

    if (r == 0 && t->x->authorization)
        r = pl_buf_addf(head, err, "%s\r\n", t->x->authorization);
    if (r == 0 && body)
        r = pl_buf_addf(head, err, "Content-Type: %s\r\n", call->content_type ? call->content_type : "application/octet-stream");
    if (r == 0 && unknown)
        r = pl_buf_add_str(head, "Transfer-Encoding: chunked\r\n", err);
    else if (r == 0 && (body || pl_streq(call->method, "POST") || pl_streq(call->method, "PUT")))
        r = pl_buf_addf(head, err, "Content-Length: %llu\r\n", (unsigned long long)(body ? call->len : 0));
    for (size_t i = 0; r == 0 && call->headers && call->headers[i]; i++)
        r = pl_buf_addf(head, err, "%s\r\n", call->headers[i]);
    return r < 0 ? r : pl_buf_add_str(head, "\r\n", err);
}

/* The next piece of the body into `piece`, framed when it is chunked: 1, 0 after the last, negative. */
static int next_piece(struct turn *t, char *room, struct pl_buf *piece, bool framed, struct pl_err *err)
{
    ssize_t n = pl_exchange_upload(t->x, room, JOIN_BYTES);
    int r = 0;

    pl_buf_clear(piece);
    if (n < 0)
        return (int)n;
    if (framed)
        r = pl_buf_addf(piece, err, "%zx\r\n", (size_t)n);
    r = r < 0 ? r : pl_buf_add(piece, room, (size_t)n, err);
    if (r == 0 && framed)
        r = pl_buf_add_str(piece, "\r\n", err);
    return r < 0 ? r : n > 0;
}

static int send_pieces(struct turn *t, bool framed, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf piece = {0};
    _cleanup_free_ char *room = malloc(JOIN_BYTES);
    int more = room ? 1 : pl_err_nomem(err), r = 0;

    while (more > 0 && r == 0) {
        if (speaks(t))
            return EARLY;
        more = next_piece(t, room, &piece, framed, err);
        if (more > 0 || (more == 0 && framed))
            r = send_all(t, piece.data, piece.len, err);
    }
    if (more == 0 && r == 0 && !framed && t->x->uploaded < t->x->call->len) { /* the reader has less than it promised */
        pl_err_set(&t->x->err, PL_EIO, "the body ended after %llu of %llu bytes", (unsigned long long)t->x->uploaded,
                   (unsigned long long)t->x->call->len);
        return t->x->err.code;
    }
    return more < 0 ? more : r;
}

static int send_request(struct turn *t, struct pl_err *err)
{
    const struct pl_http_call *call = t->x->call;
    _cleanup_(pl_buf_finish) struct pl_buf head = {0};
    bool join = call->upload == PL_UPLOAD_BYTES && call->len <= JOIN_BYTES;
    int r = make_head(t, &head, err);

    if (r == 0 && join)
        r = pl_buf_add(&head, call->bytes, call->len, err);
    r = r < 0 ? r : send_all(t, head.data, head.len, err);
    if (r == 0 && call->upload == PL_UPLOAD_BYTES && !join)
        r = send_all(t, call->bytes, call->len, err);
    else if (r == 0 && call->upload != PL_UPLOAD_NONE && !join)
        r = send_pieces(t, call->upload == PL_UPLOAD_READER && call->len == UINT64_MAX, err);
    t->sent = r == 0;
    return r;
}

/* ---- receiving ---- */

/* More bytes into the buffer, which has room: 1, 0 at the end, LOST never: a broken connection is an end. */
static int receive(struct turn *t, struct pl_err *err)
{
    struct conn *c = t->c;

    if (c->at == c->len)
        c->at = c->len = 0;
    for (;;) {
        ssize_t n;
        int r = check(t, err);

        if (r < 0)
            return r;
        n = recv(c->fd, c->buf + c->len, sizeof c->buf - c->len, 0);
        if (n > 0) {
            c->len += (size_t)n;
            t->moved_ms = pl_clock_mono_ms();
            t->answered = true;
            return 1;
        }
        if (n == 0 || (errno != EAGAIN && errno != EINTR))
            return 0;
        r = wait_for(t, c->fd, POLLIN, err);
        if (r < 0)
            return r;
    }
}

/* A line without its end, in the buffer: 1; 0 when the connection ended. `*room` is what may still come. */
static int read_line(struct turn *t, char **ret, size_t *ret_len, size_t *room, struct pl_err *err)
{
    struct conn *c = t->c;

    for (;;) {
        char *start = c->buf + c->at, *end = memchr(start, '\n', c->len - c->at);
        int r;

        if (end) {
            size_t n = (size_t)(end - start) + 1;

            if (n > *room)
                return pl_exchange_broken(t->x, "its answer's head is too large", err);
            *room -= n;
            c->at += n;
            n -= n > 1 && end[-1] == '\r' ? 2 : 1;
            start[n] = '\0';
            *ret = start;
            *ret_len = n;
            return 1;
        }
        if (c->len - c->at > *room)
            return pl_exchange_broken(t->x, "its answer's head is too large", err);
        if (c->at) {
            memmove(c->buf, start, c->len - c->at);
            c->len -= c->at;
            c->at = 0;
        }
        r = receive(t, err);
        if (r <= 0)
            return r;
    }
}

static bool header_is(const char *line, const char *name, const char **ret_value)
{
    size_t n = strlen(name);

    if (strncasecmp(line, name, n) != 0 || line[n] != ':')
        return false;
    *ret_value = line + n + 1 + strspn(line + n + 1, " \t");
    return true;
}

static int take_header(struct turn *t, const char *line, size_t n, struct pl_err *err)
{
    const char *value;
    char *end;

    if (header_is(line, "Content-Length", &value)) {
        errno = 0;
        t->length = strtoull(value, &end, 10);
        if (!isdigit((unsigned char)*value) || errno || (*end && !isspace((unsigned char)*end)))
            return pl_exchange_broken(t->x, "its Content-Length is no number", err);
        t->has_length = true;
    } else if (header_is(line, "Transfer-Encoding", &value)) {
        t->chunked = strcasestr(value, "chunked") != NULL;
    } else if (header_is(line, "Connection", &value)) {
        t->close |= strcasestr(value, "close") != NULL;
    } else {
        pl_exchange_header(t->x, line, n);
    }
    return 0;
}

/* Status line and headers: 1; 0 when there was no answer. */
static int read_one_head(struct turn *t, struct pl_err *err)
{
    size_t room = HEAD_MAX, n;
    unsigned minor;
    char *line;
    int r = read_line(t, &line, &n, &room, err), used = 0;

    if (r <= 0)
        return r;
    if (sscanf(line, "HTTP/1.%1u %3u%n", &minor, &t->x->answer.status, &used) != 2 || used < 12)
        return pl_exchange_broken(t->x, "what answers there does not speak HTTP", err);
    t->close = minor == 0;
    t->chunked = t->has_length = false;
    while ((r = read_line(t, &line, &n, &room, err)) > 0 && n > 0) {
        r = take_header(t, line, n, err);
        if (r < 0)
            break;
    }
    return r == 0 ? pl_exchange_broken(t->x, "the connection broke off", err) : r;
}

static int read_head(struct turn *t, struct pl_err *err)
{
    int r;

    do
        r = read_one_head(t, err);
    while (r > 0 && t->x->answer.status < 200); /* 100 Continue and the like */
    return r;
}

/* `left` bytes, or all until the end with UINT64_MAX. */
static int read_bytes(struct turn *t, uint64_t left, struct pl_err *err)
{
    struct conn *c = t->c;

    while (left) {
        size_t n = (size_t)PL_MIN(left, c->len - c->at);
        int r;

        if (n) {
            r = pl_exchange_body(t->x, c->buf + c->at, n);
            if (r < 0)
                return r;
            c->at += n;
            if (left != UINT64_MAX)
                left -= n;
            continue;
        }
        r = receive(t, err);
        if (r < 0)
            return r;
        if (r == 0)
            return left == UINT64_MAX ? 0 : pl_exchange_broken(t->x, "the connection broke off", err);
    }
    return 0;
}

static int read_chunks(struct turn *t, struct pl_err *err)
{
    unsigned long long size;
    char *line, *end;
    size_t n;
    int r;

    do {
        size_t room = HEAD_MAX;

        r = read_line(t, &line, &n, &room, err);
        if (r > 0) {
            errno = 0;
            size = strtoull(line, &end, 16);
            if (!isxdigit((unsigned char)*line) || errno)
                return pl_exchange_broken(t->x, "a chunk's size is no number", err);
            r = size ? read_bytes(t, size, err) : 0;
            r = r < 0 ? r : read_line(t, &line, &n, &room, err);
        }
        if (r <= 0)
            return r < 0 ? r : pl_exchange_broken(t->x, "the connection broke off", err);
    } while (size);
    while (r > 0 && n > 0) { /* trailers */
        size_t room = HEAD_MAX;

        r = read_line(t, &line, &n, &room, err);
    }
    return PL_MIN(r, 0);
}

static int read_body(struct turn *t, struct pl_err *err)
{
    unsigned status = t->x->answer.status;

    if (pl_streq(t->x->call->method, "HEAD") || status == 204 || status == 304)
        return 0;
    if (t->chunked)
        return read_chunks(t, err);
    if (t->has_length)
        return read_bytes(t, t->length, err);
    t->close = true;
    return read_bytes(t, UINT64_MAX, err);
}

/* ---- one request ---- */

/* LOST: nothing came, on a connection that may have been closed before. */
static int run_turn(struct turn *t, struct pl_err *err)
{
    int r = send_request(t, err);

    if (r < 0)
        return r;
    r = read_head(t, err);
    if (r == 0)
        return t->answered ? pl_exchange_broken(t->x, "the connection broke off", err) : LOST;
    if (r < 0)
        return r;
    r = read_body(t, err);
    if (r < 0 && t->x->answer.status >= 400 && t->x->error_body.len)
        return 0; /* the refusal is the news, not that its connection ends */
    return r;
}

int pl_http_wire_run(struct pl_http_wire *w, struct pl_exchange *x, struct pl_err *err)
{
    struct turn t = {.wire = w, .x = x};
    int r = LOST;

    if (x->call->timeout_ms)
        t.end_ms = pl_clock_mono_ms() + x->call->timeout_ms;
    while (r == LOST && (t.c = take_idle(w)) != NULL) { /* kept ones may be dead: the next, at last a new one */
        t.moved_ms = pl_clock_mono_ms();
        r = run_turn(&t, err);
        if (r != LOST)
            break;
        t.c = conn_close(t.c);
        if (x->call->upload == PL_UPLOAD_READER && x->uploaded)
            return pl_exchange_broken(x, "the connection broke off", err);
        x->uploaded = 0;
        t.sent = false;
    }
    if (r == LOST) {
        r = conn_open(&t, err);
        r = r < 0 ? r : run_turn(&t, err);
    }
    if (r == LOST)
        r = pl_exchange_broken(x, "the server closed the connection without an answer", err);
    if (r == 0 && t.sent && !t.close && t.c->at == t.c->len)
        keep(w, t.c);
    else
        conn_close(t.c);
    return r;
}

/* ---- the address ---- */

static bool by_proxy(const char *host)
{
    static const char *const local[] = {"localhost", "127.0.0.1", "::1"};
    const char *proxy = getenv("http_proxy"), *all = getenv("all_proxy"), *upper = getenv("ALL_PROXY");

    for (size_t i = 0; i < PL_ARRAY_SIZE(local); i++)
        if (strcasecmp(host, local[i]) == 0)
            return false;
    return (proxy && *proxy) || (all && *all) || (upper && *upper);
}

/* "HOST[:PORT][/PATH]" taken apart: false for anything else. */
static bool take_apart(struct pl_http_wire *w, const char *rest)
{
    size_t authority = strcspn(rest, "/?#"), len = strlen(rest), host, colon;
    bool six = *rest == '[';

    while (len && rest[len - 1] == '/')
        len--;
    host = six ? strcspn(rest, "]") : strcspn(rest, ":/?#");
    if (six ? host >= authority : host == 0)
        return false;
    colon = host + six;
    if (strspn(rest + six, six ? "0123456789abcdefABCDEF:."
                               : "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-._") < host - six ||
        strchr(rest, '@') || (colon < authority && rest[colon] != ':'))
        return false;
    w->host = strndup(rest + six, host - six);
    w->header = strndup(rest, authority);
    w->port = colon + 1 < authority ? strndup(rest + colon + 1, authority - colon - 1) : strdup("80");
    w->prefix = len > authority ? strndup(rest + authority, len - authority) : strdup("");
    return w->host && w->header && w->port && w->prefix && strspn(w->port, "0123456789") == strlen(w->port);
}

int pl_http_wire_create(const char *url, struct pl_http_wire **ret, struct pl_err *err)
{
    struct pl_http_wire *w = calloc(1, sizeof *w);
    bool mine;

    if (!w)
        return pl_err_nomem(err);
    pthread_mutex_init(&w->lock, NULL);
    if (strncmp(url, "unix:/", 6) == 0) {
        w->un.sun_family = AF_UNIX;
        mine = strlen(url + 5) < sizeof w->un.sun_path;
        if (mine)
            strcpy(w->un.sun_path, url + 5);
        w->header = strdup("localhost");
        w->prefix = strdup("");
        mine = mine && w->header && w->prefix;
    } else {
        mine = strncmp(url, "http://", 7) == 0 && take_apart(w, url + 7) && !by_proxy(w->host);
    }
    if (!mine) {
        pl_http_wire_destroy(w);
        return 0;
    }
    *ret = w;
    return 1;
}

struct pl_http_wire *pl_http_wire_destroy(struct pl_http_wire *w)
{
    if (!w)
        return NULL;
    for (size_t i = 0; i < w->n_idle; i++)
        conn_close(w->idle[i]);
    pthread_mutex_destroy(&w->lock);
    free(w->host);
    free(w->port);
    free(w->header);
    free(w->prefix);
    free(w);
    return NULL;
}
