/* http_server: HTTP/1.1 with libmicrohttpd on its own epoll threads. These only receive and send bytes, in bounded
 * buffers. Handlers run on the loop or on a pool while the connection is suspended, and reply exactly once, from
 * any thread, now or later.
 *
 *   headers ──route, guard──▶ body ──complete──▶ handler (loop | pool) ──pl_http_reply…──▶ sending ──▶ next request
 *                │refused
 *                └──────▶ discard the body ──▶ reply
 *
 * A STREAM route's handler runs before the body and takes it through a sink.
 *
 * A client that disappears is noticed within two seconds (pl_http_request_gone); a reply to it is dropped. The
 * server itself replies, as {"error":{code,message}}: 404 unknown path; 405 with Allow; 413; 400 for bad
 * percent-encoding, a repeated Host or Content-Length, or both kinds of length; 503 while stopping, or when pool,
 * loop or memory for bodies are at their bounds. libmicrohttpd replies with text: 431, and 400 for requests that
 * it cannot parse. */
#pragma once

#include "storage/base/buf.h"
#include "storage/system/thread_pool.h"
#include <jansson.h>

#define PL_HTTP_HEADER_BYTES_MAX 32768        /* request line and headers together; beyond it 431 */
#define PL_HTTP_PARAMS_MAX       8            /* per pattern */
#define PL_HTTP_JSON_MAX         (8u << 20)   /* body_max of a route that says 0 */
#define PL_HTTP_BODIES_MAX       (256u << 20) /* bytes of all bodies in memory, not counting … */
/* … the first bytes of each body: small requests pass whatever large ones take */
#define PL_HTTP_BODY_FREE       (64u << 10)
#define PL_HTTP_BODY_BUFFER     (256u << 10) /* per streamed body, between network and sink */
#define PL_HTTP_STREAM_BUFFER   (256u << 10) /* per response stream */
#define PL_HTTP_IDLE_S          60           /* a connection without progress is closed */
#define PL_HTTP_CONNECTIONS_MAX 8192
/* for the TLS handshake and the first request's headers; for the body of a refused request */
#define PL_HTTP_GREETING_MS 30000
#define PL_HTTP_ADDRESS_MAX 1024 /* connections per client address, on listeners without a proxy in front */
#define PL_HTTP_TLS_LOOK_MS 5000

struct pl_loop;
struct pl_http_server;
struct pl_http_request;
struct pl_http_stream;

/* Where a handler runs. */
enum pl_http_where { PL_ON_LOOP, PL_ON_POOL };
/* How the body arrives: none (any byte is 413), complete in memory (≤ body_max, else 413), or through a sink. */
enum pl_http_body { PL_BODY_NONE, PL_BODY_JSON, PL_BODY_BYTES, PL_BODY_STREAM };

/* Replies exactly once, now or later; the handler owns `req` until then. */
typedef void (*pl_http_handler)(struct pl_http_request *req, void *arg);

struct pl_http_route {
    const char *method; /* "GET" also answers HEAD */
    const char
        /* "/api/v1/repos/{project}/{repo}"; a final "{path...}" matches the rest with its slashes, even if empty */
        *pattern;
    enum pl_http_where where;
    enum pl_http_body body;
    uint64_t body_max; /* JSON, BYTES: 0 = PL_HTTP_JSON_MAX. STREAM: 0 = no bound */
    pl_http_handler handler;
    void *arg;
    unsigned access; /* for the guard; the server ignores it */
};

struct pl_http_options {
    const char *listen;                 /* "127.0.0.1:7380", "[::1]:0", "host:port"; port 0 picks one */
    const struct pl_http_route *routes; /* must outlive the server; the first match wins */
    size_t n_routes;
    /* Checks a request before its handler and body. On the server's threads: must not block. Negative: refused
     * with `err`'s status and JSON. May be NULL. Not called before 404 and 405 (`route` would be NULL) unless
     * guard_unknown. */
    int (*guard)(struct pl_http_request *req, const struct pl_http_route *route, void *arg, struct pl_err *err);
    void *guard_arg;
    /* Formats an error, the server's own or of pl_http_reply_error: fills `out` and returns the status; may add
     * headers with pl_http_reply_header. `status` 0: choose by err. NULL: JSON with the code's status. On the
     * server's threads: must not block. */
    unsigned (*tell)(struct pl_http_request *req, unsigned status, const struct pl_err *err, struct pl_buf *out);
    const char *tell_type; /* Content-Type of these errors */
    /* Replies to paths with this prefix are private to the principal: no cache stores them and no page of another
     * origin embeds them (Cache-Control: no-store, CORP, COOP). NULL = no such prefix. Must outlive the server. */
    const char *private_prefix;
    bool guard_unknown;   /* call the guard, with route NULL, before 404 and 405 tell a stranger which paths exist */
    struct pl_loop *loop; /* for PL_ON_LOOP */
    struct pl_pool *pool; /* for PL_ON_POOL, body sinks, pull streams */
    unsigned threads;     /* 0 = 2 */
    unsigned connections; /* limit; 0 = PL_HTTP_CONNECTIONS_MAX */
    unsigned per_address; /* limit per client address; 0 = no limit */
    size_t bodies_max;    /* bytes; 0 = PL_HTTP_BODIES_MAX */
    unsigned greeting_ms; /* 0 = PL_HTTP_GREETING_MS */
    /* https only, with the certificate of tls.h, whose files are checked every PL_HTTP_TLS_LOOK_MS */
    bool tls;
};

/* Listens and starts serving. PL_EINVAL (address, pattern), PL_EINUSE (port taken), PL_EIO. */
PL_MUST_CHECK
int pl_http_server_start(const struct pl_http_options *o, struct pl_http_server **ret, struct pl_err *err);
unsigned pl_http_server_port(const struct pl_http_server *s);
/* Makes the URL, owned by the caller, at which clients reach a listener. For a listener on all addresses it
 * guesses the machine's name with TLS, and 127.0.0.1 without. PL_ENOMEM. */
PL_MUST_CHECK
int pl_http_listener_url(const char *listen, unsigned port, bool tls, char **ret, struct pl_err *err);
/* True if `listen` means all addresses of the machine. */
bool pl_http_listens_anywhere(const char *listen);
/* Begins the shutdown and returns: no new connections, 503 for new requests, endless streams end. Watch
 * pl_http_stats.live. */
void pl_http_server_drain(struct pl_http_server *s);
/* Drains, waits up to `deadline_ms` for running requests, then cuts them off. Blocks; not on the loop's thread if
 * handlers run there (instead: drain, watch `live` with a timer, stop the loop, then destroy). Later replies are
 * allowed and dropped. */
void pl_http_server_stop(struct pl_http_server *s, int64_t deadline_ms);
/* Stops at once if it still runs. Handlers that have not replied keep what they need alive. NULL is allowed. */
struct pl_http_server *pl_http_server_destroy(struct pl_http_server *s);

struct pl_http_stats {
    uint64_t requests;  /* since the start */
    size_t live;        /* in progress, including streams */
    size_t streams;     /* open response streams */
    size_t connections; /* open connections */
    size_t live_most;
};
void pl_http_server_get_stats(struct pl_http_server *s, struct pl_http_stats *ret);

/* --- the request: valid until the reply; any thread --- */
const char *pl_http_method(const struct pl_http_request *r);
/* Returns the path as sent, percent-encoded, without the query. */
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
/* "1", "true", "" = true; absent, "0", "false" = false. */
bool pl_http_query_flag(const struct pl_http_request *r, const char *name);
/* A header or a decoded argument, in the order of the request; valid until the reply. */
struct pl_http_pair {
    const char *name, *value;
};
const struct pl_http_pair *pl_http_headers(const struct pl_http_request *r, size_t *ret_n);
const struct pl_http_pair *pl_http_queries(const struct pl_http_request *r, size_t *ret_n);
/* Returns a header, with its name in any case; NULL if absent. */
const char *pl_http_header(const struct pl_http_request *r, const char *name);
/* Copies a cookie's value to `out`; false if absent or longer than `size`-1. */
bool pl_http_cookie(const struct pl_http_request *r, const char *name, char *out, size_t size);
/* Returns the client's address as text, without the port. */
const char *pl_http_peer(const struct pl_http_request *r);
/* Finds the local user whose process made the request, by name or "uid N". False: the client, or a proxy in front,
 * is on another machine, or has gone. Reads /proc: for rare operations. */
bool pl_http_peer_user(const struct pl_http_request *r, char *out, size_t size);
/* True if the request came over TLS. */
bool pl_http_tls(const struct pl_http_request *r);
/* Returns the request's number, for logs and X-Request-Id, which every reply has. */
uint64_t pl_http_request_id(const struct pl_http_request *r);
/* Returns the matched route; NULL in a guard for an unknown path. */
const struct pl_http_route *pl_http_request_route(const struct pl_http_request *r);
/* Stores the guard's pointer for the handler (the principal); `drop` (may be NULL) frees it with the request, or
 * when replaced. */
void pl_http_set_context(struct pl_http_request *r, void *context, void (*drop)(void *));
void *pl_http_context(const struct pl_http_request *r);
/* Returns the whole body (JSON and BYTES routes), NUL-terminated after `len`; valid until the reply. */
const struct pl_buf *pl_http_body(const struct pl_http_request *r);
/* Parses the body as JSON; the caller owns the reference. No body = an empty object. PL_EINVAL with line and
 * column. */
PL_MUST_CHECK
int pl_http_body_json(const struct pl_http_request *r, json_t **ret, struct pl_err *err);
/* True if the client has gone: long work may stop. The handler must still reply. */
bool pl_http_request_gone(const struct pl_http_request *r);

/* --- STREAM bodies --- */
struct pl_http_sink {
    void *self;
    /* Gets the next bytes, on the pool, one call at a time. Negative: the rest is discarded and `end` gets this
     * error. */
    int (*write)(void *self, const void *data, size_t n, struct pl_err *err);
    /* Called exactly once on the pool, and replies: the body is complete (err NULL), or failed (the sink's error,
     * PL_ETOOBIG beyond body_max, PL_ENET if the client has gone). */
    void (*end)(void *self, struct pl_http_request *req, const struct pl_err *err);
};
/* Sets the sink. Once, in the handler of a STREAM route, instead of a reply. */
void pl_http_body_to(struct pl_http_request *r, const struct pl_http_sink *sink);
/* Returns Content-Length; -1 for a chunked body. */
int64_t pl_http_body_length(const struct pl_http_request *r);

/* --- replies: exactly one ends the handler's ownership of `req`; any thread --- */
/* Adds a header to the coming reply: ETag, Location, Set-Cookie, Cache-Control. */
void pl_http_reply_header(struct pl_http_request *r, const char *name, const char *value);
/* Replies with a copy of the bytes. */
void pl_http_reply(struct pl_http_request *r, unsigned status, const char *content_type, const void *bytes, size_t n);
/* Replies with the buffer's bytes; takes its memory. */
void pl_http_reply_buf(struct pl_http_request *r, unsigned status, const char *content_type, struct pl_buf *bytes);
/* Replies with bytes that live as long as the program (embedded files). */
void pl_http_reply_static(struct pl_http_request *r, unsigned status, const char *content_type, const void *bytes, size_t n);
/* Replies to HEAD: a GET would send `length` bytes. */
void pl_http_reply_head(struct pl_http_request *r, unsigned status, const char *content_type, uint64_t length);
/* Replies with compact JSON and a newline; takes the reference. */
void pl_http_reply_json(struct pl_http_request *r, unsigned status, json_t *value);
/* Replies with {"error":{"code","message","field"?,"hint"?}} and the code's status. */
void pl_http_reply_error(struct pl_http_request *r, const struct pl_err *err);
/* Replies with `len` bytes of file `fd` from `offset` by sendfile; takes `fd`. Honours a single Range (206, 416). */
void pl_http_reply_fd(struct pl_http_request *r, int fd, uint64_t offset, uint64_t len, const char *content_type);

/* The part of `size` bytes that a Range header asks for. */
enum pl_http_range { PL_RANGE_ALL, PL_RANGE_PART, PL_RANGE_OUTSIDE };
/* Parses a Range header, which may be NULL. Several ranges, other units and malformed text mean PL_RANGE_ALL (RFC
 * 9110). */
enum pl_http_range pl_http_range_parse(const char *header, uint64_t size, uint64_t *ret_first, uint64_t *ret_count);
/* The same for this request; adds Accept-Ranges and Content-Range. For PART reply with 206, for OUTSIDE with 416
 * and no body. */
enum pl_http_range pl_http_request_range(struct pl_http_request *r, uint64_t size, uint64_t *ret_first, uint64_t *ret_count);

/* --- response streams: server-sent events, followed logs, generated bodies ---
 *
 * A push stream (ops.pull NULL) is written with pl_http_stream_write from any thread. For a pull stream the server
 * calls the generator on the pool, one call at a time, when there is space; the generator says when it has nothing
 * for now and wakes the stream later. */
enum { PL_PULL_END = 0, PL_PULL_MORE = 1, PL_PULL_WAIT = 2 };

struct pl_http_stream_ops {
    void *self;
    /* Appends to `out` (about 64 KiB per call at most). PL_PULL_MORE: call again; PL_PULL_WAIT: not before
     * pl_http_stream_wake; PL_PULL_END: done. Negative: cuts the connection, so that the client sees a truncated
     * body. */
    int (*pull)(void *self, struct pl_buf *out, struct pl_err *err);
    /* Called exactly once, when no other callback runs or will run: frees `self`. Any thread, possibly before
     * pl_http_reply_stream returns (the client has gone); must not block. */
    void (*closed)(void *self);
};
struct pl_http_stream_options {
    unsigned status; /* 0 = 200 */
    const char *content_type;
    uint64_t length; /* length of the body; PL_HTTP_LENGTH_UNKNOWN = chunked */
    /* sent after heartbeat_ms without data (SSE: ": \n\n"); NULL = none. Must outlive the stream. */
    const char *heartbeat;
    unsigned heartbeat_ms; /* 0 = 15,000 */
    bool endless;          /* events, followed logs: a drain ends the stream instead of waiting for it */
};
#define PL_HTTP_LENGTH_UNKNOWN UINT64_MAX

/* Replies with a stream. The caller owns a reference, released by pl_http_stream_close (also after the client has
 * gone). */
struct pl_http_stream *pl_http_reply_stream(struct pl_http_request *r, const struct pl_http_stream_options *o,
                                            const struct pl_http_stream_ops *ops);
/* Push: queues all of the data or nothing; never blocks. PL_EBUSY: the queue is full. PL_ENET: the client has
 * gone, or the stream ended. */
PL_MUST_CHECK
int pl_http_stream_write(struct pl_http_stream *s, const void *data, size_t n, struct pl_err *err);
/* Pull: the generator may have data again. */
void pl_http_stream_wake(struct pl_http_stream *s);
bool pl_http_stream_gone(const struct pl_http_stream *s);
/* Sends what is queued, ends the body, releases the reference. A pull stream goes on until PL_PULL_END. */
void pl_http_stream_close(struct pl_http_stream *s);
/* Cuts the connection after what is queued, so that the body is visibly incomplete. Releases the reference. */
void pl_http_stream_fail(struct pl_http_stream *s);
