/* http_server: HTTP/1.1 with libmicrohttpd on its own epoll threads, which only receive and send bytes, in bounded
 * buffers. Handlers run on the loop or on a pool while the connection is suspended, and reply exactly once, from
 * any thread, now or later.
 *
 *   headers ──route, guard──▶ body ──complete──▶ handler (loop | pool) ──pl_http_reply…──▶ sending ──▶ next request
 *                │refused
 *                └──────▶ discard the body ──▶ reply
 *
 * The handler of a STREAM route runs before the body arrives, and receives the body through a sink.
 *
 * The server notices within two seconds that a client has disconnected (pl_http_request_gone); a reply to it is
 * dropped. The server itself replies, as {"error":{code,message}}: 404 to an unknown path; 405 with Allow to a wrong
 * method; 413 to a body that is too long; 400 to bad percent-encoding, a repeated Host or Content-Length, or both
 * kinds of length; 503 while it stops, or when pool, loop or memory for bodies are at their bounds. libmicrohttpd
 * replies with text: 431, and 400 to requests that it cannot parse. */
#pragma once

#include "storage/base/buf.h"
#include "storage/system/thread_pool.h"
#include <jansson.h>

/* most bytes of the request line and the headers together; more give status 431 */
#define PL_HTTP_HEADER_BYTES_MAX 32768
#define PL_HTTP_PARAMS_MAX       8          /* most parameters of a route's pattern */
#define PL_HTTP_JSON_MAX         (8u << 20) /* longest body of a route whose `body_max` is 0 */
/* most bytes of all bodies in memory together, without the first PL_HTTP_BODY_FREE bytes of each body */
#define PL_HTTP_BODIES_MAX (256u << 20)
/* number of first bytes of each body that do not count in PL_HTTP_BODIES_MAX: small requests are accepted even
 * when large ones use up that memory */
#define PL_HTTP_BODY_FREE (64u << 10)
/* size of the buffers of a streamed body, between the network and the sink */
#define PL_HTTP_BODY_BUFFER     (256u << 10)
#define PL_HTTP_STREAM_BUFFER   (256u << 10) /* a push stream refuses data beyond this; a pull stream may queue one pull more */
#define PL_HTTP_IDLE_S          60           /* time after which a connection without progress is closed, in seconds */
#define PL_HTTP_CONNECTIONS_MAX 8192
/* time limit for the TLS handshake and the first request's headers, and for the body of a refused request */
#define PL_HTTP_GREETING_MS 30000
/* most connections of one client address, on listeners without a proxy in front of them */
#define PL_HTTP_ADDRESS_MAX 1024
#define PL_HTTP_TLS_LOOK_MS 5000

struct pl_loop;
struct pl_http_server;
struct pl_http_request;
struct pl_http_stream;

/* The thread on which a handler runs: the loop's or one of the pool's. */
enum pl_http_where { PL_ON_LOOP, PL_ON_POOL };
/* How a handler gets the body. NONE: it expects none (any byte gives 413); JSON and BYTES: complete in memory
 * (at most body_max bytes, else 413); STREAM: through a sink. */
enum pl_http_body { PL_BODY_NONE, PL_BODY_JSON, PL_BODY_BYTES, PL_BODY_STREAM };

/* A handler of requests. It replies exactly once, now or later, and owns `req` until it replies. */
typedef void (*pl_http_handler)(struct pl_http_request *req, void *arg);

struct pl_http_route {
    const char *method; /* HTTP method; "GET" also handles HEAD */
    const char
        /* "/api/v1/repos/{project}/{repo}"; a final "{path...}" matches the rest with its slashes, even if empty */
        *pattern;
    enum pl_http_where where;
    enum pl_http_body body;
    uint64_t body_max; /* longest body; for JSON and BYTES, 0 = PL_HTTP_JSON_MAX; for STREAM, 0 = no limit */
    pl_http_handler handler;
    void *arg;
    unsigned access; /* data for the guard; the server does not use it */
};

struct pl_http_options {
    /* address to listen on: "127.0.0.1:7380", "[::1]:0", "host:port"; port 0 = any free port */
    const char *listen;
    /* array of routes, which must outlive the server; the first route that matches is used */
    const struct pl_http_route *routes;
    size_t n_routes;
    /* Checks a request before its handler runs and its body is read. Called on the server's threads: it must
     * not block. A negative result refuses the request with the status and JSON of `err`. May be NULL. It is
     * not called for an unknown path or a wrong method (404 and 405; `route` would be NULL) unless
     * guard_unknown is set. */
    int (*guard)(struct pl_http_request *req, const struct pl_http_route *route, void *arg, struct pl_err *err);
    void *guard_arg;
    /* Formats an error reply, whether the server's own or from pl_http_reply_error: fills `out` and returns
     * the status; may add headers with pl_http_reply_header. `status` 0 = choose the status that belongs to
     * `err`. NULL = JSON, with that status. Called on the server's threads: it must not block. */
    unsigned (*tell)(struct pl_http_request *req, unsigned status, const struct pl_err *err, struct pl_buf *out);
    const char *tell_type; /* Content-Type of the error replies that `tell` formats */
    /* Replies to paths with this prefix are private to the user: caches do not store them and pages of
     * another origin cannot embed them (Cache-Control: no-store, CORP, COOP). NULL = no such prefix. Must
     * outlive the server. */
    const char *private_prefix;
    /* also call the guard, with `route` NULL, before the replies 404 and 405, which would tell strangers
     * which paths exist */
    bool guard_unknown;
    struct pl_loop *loop; /* loop that runs handlers of PL_ON_LOOP */
    struct pl_pool *pool; /* pool that runs handlers of PL_ON_POOL, body sinks and pull streams */
    unsigned threads;     /* number of libmicrohttpd's threads; 0 = 2 */
    unsigned connections; /* most connections; 0 = PL_HTTP_CONNECTIONS_MAX */
    unsigned per_address; /* most connections of one client address; 0 = no limit */
    size_t bodies_max;    /* most bytes of bodies in memory; 0 = PL_HTTP_BODIES_MAX */
    unsigned greeting_ms; /* time limit for handshake and headers, in ms; 0 = PL_HTTP_GREETING_MS */
    /* speak https only, with the certificate of tls.h, whose files are checked for changes every
     * PL_HTTP_TLS_LOOK_MS */
    bool tls;
};

/* Listens and starts serving. PL_EINVAL: a wrong address or pattern; PL_EINUSE: the port is in use;
 * PL_EIO. */
PL_MUST_CHECK
int pl_http_server_start(const struct pl_http_options *o, struct pl_http_server **ret, struct pl_err *err);
unsigned pl_http_server_port(const struct pl_http_server *s);
/* Makes the URL, owned by the caller, at which clients reach a listener. For a listener on all addresses it
 * guesses the machine's name with TLS, and 127.0.0.1 without. PL_ENOMEM. */
PL_MUST_CHECK
int pl_http_listener_url(const char *listen, unsigned port, bool tls, char **ret, struct pl_err *err);
/* True if `listen` means all addresses of the machine. */
bool pl_http_listens_anywhere(const char *listen);
/* Begins the shutdown and returns at once: the server accepts no new connections, replies 503 to new
 * requests, and ends endless streams. pl_http_stats.live shows how many requests are left. */
void pl_http_server_drain(struct pl_http_server *s);
/* Drains the server, waits up to `deadline_ms` for the requests in progress, then cuts them off. Blocks. Do
 * not call it on the loop's thread if handlers run there; instead: drain, watch `live` with a timer, stop the
 * loop, then destroy. Handlers may still reply afterwards; these replies are dropped. */
void pl_http_server_stop(struct pl_http_server *s, int64_t deadline_ms);
/* Stops the server at once if it still runs, and frees it. Handlers that have not replied yet may still
 * reply; the memory that they need is freed after the last reply. NULL is allowed. */
struct pl_http_server *pl_http_server_destroy(struct pl_http_server *s);

struct pl_http_stats {
    uint64_t requests;  /* number of requests since the start */
    size_t live;        /* number of requests in progress, including streams */
    size_t streams;     /* number of open response streams */
    size_t connections; /* number of open connections */
    size_t live_most;
};
void pl_http_server_get_stats(struct pl_http_server *s, struct pl_http_stats *ret);

/* --- the request: valid until the reply; any thread --- */
const char *pl_http_method(const struct pl_http_request *r);
/* Returns the path as the client sent it, percent-encoded and without the query. */
const char *pl_http_path(const struct pl_http_request *r);
/* Returns a decoded parameter of the route's pattern; aborts if the pattern has no such name. */
const char *pl_http_param(const struct pl_http_request *r, const char *name);
/* Returns the decoded i-th value of a query argument; "" without "=", NULL if there is none. */
const char *pl_http_query_at(const struct pl_http_request *r, const char *name, size_t i);
const char *pl_http_query(const struct pl_http_request *r, const char *name);
/* Reads a query argument as a number; `fallback` if absent. PL_EINVAL names the argument and the range. */
PL_MUST_CHECK
int pl_http_query_u64(const struct pl_http_request *r, const char *name, uint64_t fallback, uint64_t max, uint64_t *ret,
                      struct pl_err *err);
/* Reads a query argument as a flag: "1", "true" and "" are true; "0" and "false" are false, as is an absent
 * argument. */
bool pl_http_query_flag(const struct pl_http_request *r, const char *name);
/* A header or a decoded argument, in the order of the request; valid until the reply. */
struct pl_http_pair {
    const char *name, *value;
};
const struct pl_http_pair *pl_http_headers(const struct pl_http_request *r, size_t *ret_n);
const struct pl_http_pair *pl_http_queries(const struct pl_http_request *r, size_t *ret_n);
/* Returns the value of a header; upper and lower case of its name are equal. NULL if absent. */
const char *pl_http_header(const struct pl_http_request *r, const char *name);
/* Copies the value of a cookie to `out`; returns false if there is none or it is longer than `size` - 1. */
bool pl_http_cookie(const struct pl_http_request *r, const char *name, char *out, size_t size);
/* Returns the client's address as text, without the port. */
const char *pl_http_peer(const struct pl_http_request *r);
/* Finds the local user whose process made the request; writes the user's name, or "uid N". Returns false if
 * the client, or a proxy in front of the server, is on another machine or has disconnected. Reads /proc: use
 * it for rare operations only. */
bool pl_http_peer_user(const struct pl_http_request *r, char *out, size_t size);
/* True if the request came over TLS. */
bool pl_http_tls(const struct pl_http_request *r);
/* Returns the request's number, which is also in the log and in the header X-Request-Id of every reply. */
uint64_t pl_http_request_id(const struct pl_http_request *r);
/* Before and after this thread works for the request: lines of the log carry its id, transactions its trace
 * (storage/http/trace_context.h), and failed allocations of earlier requests are forgotten. The server does this around
 * handlers and sinks; a handler that goes on on another thread does it there. */
void pl_http_request_enter(const struct pl_http_request *r);
void pl_http_request_leave(void);
/* Returns the route that matched; NULL in a guard that is called for an unknown path. */
const struct pl_http_route *pl_http_request_route(const struct pl_http_request *r);
/* Stores a pointer for the handler, set by the guard (the user who makes the request). `drop` (may be NULL)
 * frees it with the request, or when it is replaced. */
void pl_http_set_context(struct pl_http_request *r, void *context, void (*drop)(void *));
void *pl_http_context(const struct pl_http_request *r);
/* Returns the whole body (JSON and BYTES routes only), with a NUL after its `len` bytes; valid until the
 * reply. */
const struct pl_buf *pl_http_body(const struct pl_http_request *r);
/* Parses the body as JSON; the caller owns the reference. A missing body counts as an empty object.
 * PL_EINVAL, with line and column. */
PL_MUST_CHECK
int pl_http_body_json(const struct pl_http_request *r, json_t **ret, struct pl_err *err);
/* True if the client has disconnected: a handler may then stop long work, but must still reply. */
bool pl_http_request_gone(const struct pl_http_request *r);

/* --- STREAM bodies --- */
struct pl_http_sink {
    void *self;
    /* Receives the next bytes of the body; called on the pool, one call at a time. After a negative result
     * the rest of the body is discarded and `end` gets this error. */
    int (*write)(void *self, const void *data, size_t n, struct pl_err *err);
    /* Called exactly once, on the pool, and must reply. `err` is NULL if the body is complete; otherwise it
     * is the sink's error, PL_ETOOBIG for a body longer than body_max, or PL_ENET if the client has
     * disconnected. */
    void (*end)(void *self, struct pl_http_request *req, const struct pl_err *err);
};
/* Sets the sink of a STREAM route's body. The route's handler calls it once, instead of replying. */
void pl_http_body_to(struct pl_http_request *r, const struct pl_http_sink *sink);
/* Returns Content-Length; -1 for a chunked body. */
int64_t pl_http_body_length(const struct pl_http_request *r);

/* --- replies: exactly one ends the handler's ownership of `req`; any thread --- */
/* Adds a header to the reply that will follow, such as ETag, Location, Set-Cookie, Cache-Control. */
void pl_http_reply_header(struct pl_http_request *r, const char *name, const char *value);
/* Replies with a copy of the bytes. */
void pl_http_reply(struct pl_http_request *r, unsigned status, const char *content_type, const void *bytes, size_t n);
/* Replies with the buffer's bytes; takes its memory. */
void pl_http_reply_buf(struct pl_http_request *r, unsigned status, const char *content_type, struct pl_buf *bytes);
/* Replies with bytes that live as long as the program (embedded files). */
void pl_http_reply_static(struct pl_http_request *r, unsigned status, const char *content_type, const void *bytes, size_t n);
/* Replies to a HEAD request; `length` is the length of the body that GET would send. */
void pl_http_reply_head(struct pl_http_request *r, unsigned status, const char *content_type, uint64_t length);
/* Replies with compact JSON and a newline; takes the reference. */
void pl_http_reply_json(struct pl_http_request *r, unsigned status, json_t *value);
/* Replies with {"error":{"code","message","field"?,"hint"?}} and the code's status. */
void pl_http_reply_error(struct pl_http_request *r, const struct pl_err *err);
/* Replies with `len` bytes of the file `fd` from `offset`, using sendfile; takes over `fd`. Obeys a Range
 * header with a single range (206, 416). */
void pl_http_reply_fd(struct pl_http_request *r, int fd, uint64_t offset, uint64_t len, const char *content_type);

/* The part of a body of `size` bytes that a Range header requests. */
enum pl_http_range { PL_RANGE_ALL, PL_RANGE_PART, PL_RANGE_OUTSIDE };
/* Parses a Range header; `header` may be NULL. Several ranges, other units and malformed text give
 * PL_RANGE_ALL (RFC 9110). */
enum pl_http_range pl_http_range_parse(const char *header, uint64_t size, uint64_t *ret_first, uint64_t *ret_count);
/* Like pl_http_range_parse, for the Range header of this request; adds Accept-Ranges and Content-Range to the
 * reply. Reply with 206 for PART, and with 416 and no body for OUTSIDE. */
enum pl_http_range pl_http_request_range(struct pl_http_request *r, uint64_t size, uint64_t *ret_first, uint64_t *ret_count);

/* --- response streams: server-sent events, followed logs, generated bodies ---
 *
 * A push stream (ops.pull NULL) is written with pl_http_stream_write from any thread. For a pull stream the server
 * calls the generator on the pool, one call at a time, when there is space; the generator says when it has nothing
 * for now and wakes the stream later. */
enum { PL_PULL_END = 0, PL_PULL_MORE = 1, PL_PULL_WAIT = 2 };

struct pl_http_stream_ops {
    void *self;
    /* Generates the next bytes: appends to `out`, about 64 KiB per call at most. PL_PULL_MORE: call again;
     * PL_PULL_WAIT: call again after pl_http_stream_wake; PL_PULL_END: the body is complete. A negative
     * result cuts the connection, so that the client sees that the body is truncated. */
    int (*pull)(void *self, struct pl_buf *out, struct pl_err *err);
    /* Frees `self`. Called exactly once, when no other callback runs or will run. Any thread, possibly before
     * pl_http_reply_stream returns (if the client has disconnected); must not block. */
    void (*closed)(void *self);
};
struct pl_http_stream_options {
    unsigned status; /* HTTP status; 0 = 200 */
    const char *content_type;
    uint64_t length; /* length of the body; PL_HTTP_LENGTH_UNKNOWN = chunked */
    /* text that is sent after heartbeat_ms without data (SSE: ": \n\n"); NULL = none. Must outlive the
     * stream. */
    const char *heartbeat;
    unsigned heartbeat_ms; /* ms without data after which a heartbeat is sent; 0 = 15,000 */
    /* when the server drains, it ends this stream instead of waiting for the end: for events and followed logs */
    bool endless;
};
#define PL_HTTP_LENGTH_UNKNOWN UINT64_MAX

/* Replies with a stream. The caller owns a reference, which pl_http_stream_close releases. Call
 * pl_http_stream_close even after the client has disconnected. NULL: there was no memory for the stream; the
 * request was refused, and ops.closed was called. */
struct pl_http_stream *pl_http_reply_stream(struct pl_http_request *r, const struct pl_http_stream_options *o,
                                            const struct pl_http_stream_ops *ops);
/* For a push stream: queues all of the data or nothing; never blocks. PL_EBUSY: the queue is full. PL_ENET:
 * the client has disconnected, or the stream has ended. */
PL_MUST_CHECK
int pl_http_stream_write(struct pl_http_stream *s, const void *data, size_t n, struct pl_err *err);
/* For a pull stream: reports that the generator may have data again. NULL is ignored. */
void pl_http_stream_wake(struct pl_http_stream *s);
bool pl_http_stream_gone(const struct pl_http_stream *s);
/* Sends what is queued, ends the body, and releases the reference. A pull stream continues until
 * PL_PULL_END. NULL is ignored. */
void pl_http_stream_close(struct pl_http_stream *s);
/* Sends what is queued, then cuts the connection, so that the client sees that the body is incomplete.
 * Releases the reference. */
void pl_http_stream_fail(struct pl_http_stream *s);
