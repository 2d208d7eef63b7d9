/* http_server: HTTP/1.1 by libmicrohttpd on its own epoll threads. There, bytes are only received and sent, in bounded buffers;
 * handlers run on the loop or on a pool while the connection is suspended, and answer exactly once, from any thread, now or
 * later.
 *
 *   headers ──route, guard──▶ body ──complete──▶ handler (loop | pool) ──pl_http_reply…──▶ sending ──▶ next request
 *                │refused                            ▲
 *                └──────▶ discard the body ──▶ reply │ a STREAM route's handler runs before the body and takes it through a sink
 *
 * A client that vanishes is noticed within two seconds (pl_http_request_gone); a reply to it is dropped.
 * What the server answers by itself, as {"error":{code,message}}: 404 unknown path, 405 with Allow, 413, 400 for bad
 * percent-encoding, a repeated Host or Content-Length or both lengths at once, 503 while stopping or when pool, loop or the memory
 * for bodies are at their bounds. 431 and 400 for what does not parse come from libmicrohttpd as text. */
#pragma once

#include "storage/base/buf.h"
#include "storage/system/thread_pool.h"
#include <jansson.h>

#define PL_HTTP_HEADER_BYTES_MAX 32768        /* request line and headers together; past it 431 */
#define PL_HTTP_PARAMS_MAX       8            /* in a pattern */
#define PL_HTTP_JSON_MAX         (8u << 20)   /* a route's body_max when it says 0 */
#define PL_HTTP_BODIES_MAX       (256u << 20) /* of all bodies that a server has in memory, beyond */
#define PL_HTTP_BODY_FREE        (64u << 10)  /* the first of each: small requests pass whatever large ones take */
#define PL_HTTP_BODY_BUFFER      (256u << 10) /* of a streamed body, between network and sink */
#define PL_HTTP_STREAM_BUFFER    (256u << 10) /* of a response stream */
#define PL_HTTP_IDLE_S           60           /* a connection without progress is closed */
#define PL_HTTP_CONNECTIONS_MAX  8192
#define PL_HTTP_GREETING_MS      30000 /* for the TLS handshake and a first request's headers; for the body of a refused one */
#define PL_HTTP_ADDRESS_MAX      1024  /* connections of one address, on listeners that others reach directly */
#define PL_HTTP_TLS_LOOK_MS      5000

struct pl_loop;
struct pl_http_server;
struct pl_http_request;
struct pl_http_stream;

/* Where a handler runs. */
enum pl_http_where { PL_ON_LOOP, PL_ON_POOL };
/* What it takes as body: none (any byte is 413), all of it in memory (≤ body_max, else 413), or through a sink. */
enum pl_http_body { PL_BODY_NONE, PL_BODY_JSON, PL_BODY_BYTES, PL_BODY_STREAM };

/* Replies exactly once, sooner or later; `req` is the handler's until then. */
typedef void (*pl_http_handler)(struct pl_http_request *req, void *arg);

struct pl_http_route {
    const char *method; /* "GET" also answers HEAD */
    const char
        *pattern; /* "/api/v1/repos/{project}/{repo}"; a last "{path...}" takes the rest, slashes and all, also when empty */
    enum pl_http_where where;
    enum pl_http_body body;
    uint64_t body_max; /* JSON, BYTES: 0 = PL_HTTP_JSON_MAX. STREAM: 0 = no bound */
    pl_http_handler handler;
    void *arg;
    unsigned access; /* the guard's business; the server does not look at it */
};

struct pl_http_options {
    const char *listen;                 /* "127.0.0.1:7380", "[::1]:0", "host:port"; port 0 picks one */
    const struct pl_http_route *routes; /* must outlive the server; the first that matches answers */
    size_t n_routes;
    /* Before a handler and before the body, on the server's threads: must not block. Negative = refused with `err`'s status and
     * JSON. May be NULL. Not called for 404 and 405 (with `route` NULL it could tell nothing) unless guard_unknown. */
    int (*guard)(struct pl_http_request *req, const struct pl_http_route *route, void *arg, struct pl_err *err);
    void *guard_arg;
    /* How an error is told, the server's own and those of pl_http_reply_error: fills `out` and gives the status; headers may be added
     * by pl_http_reply_header. NULL: as JSON, with the code's status. On the server's threads: must not block. `status` 0: by err. */
    unsigned (*tell)(struct pl_http_request *req, unsigned status, const struct pl_err *err, struct pl_buf *out);
    const char *tell_type; /* the Content-Type of that */
    /* An answer to a path that begins so is for the principal that asked: no cache keeps it, and no page of another origin embeds it
     * (Cache-Control: no-store, CORP, COOP). NULL = there is none. Must outlive the server. */
    const char *private_prefix;
    bool guard_unknown;   /* ask the guard, with route NULL, before 404 and 405 tell a stranger what exists */
    struct pl_loop *loop; /* for PL_ON_LOOP */
    struct pl_pool *pool; /* for PL_ON_POOL, body sinks, pull streams */
    unsigned threads;     /* 0 = 2 */
    unsigned connections; /* 0 = PL_HTTP_CONNECTIONS_MAX */
    unsigned per_address; /* of these, of one address; 0 = no limit */
    size_t bodies_max;    /* bytes; 0 = PL_HTTP_BODIES_MAX */
    unsigned greeting_ms; /* 0 = PL_HTTP_GREETING_MS */
    bool tls;             /* https alone, with the certificate of tls.h, whose files are looked at every PL_HTTP_TLS_LOOK_MS */
};

/* Listens and serves at once. PL_EINVAL (address, pattern), PL_EINUSE (port taken), PL_EIO. */
PL_MUST_CHECK
int pl_http_server_start(const struct pl_http_options *o, struct pl_http_server **ret, struct pl_err *err);
unsigned pl_http_server_port(const struct pl_http_server *s);
/* Where others reach a listener on `listen`, whose port is `port`: a URL, the caller's. Of all addresses the machine's name is the best guess;
 * without TLS it is for this machine. PL_ENOMEM. */
PL_MUST_CHECK
int pl_http_listener_url(const char *listen, unsigned port, bool tls, char **ret, struct pl_err *err);
/* Whether `listen` is all addresses of the machine. */
bool pl_http_listens_anywhere(const char *listen);
/* Begins the end and returns: no new connections, 503 for new requests on open ones, endless streams end. pl_http_stats.live tells how
 * far it is. */
void pl_http_server_drain(struct pl_http_server *s);
/* Drains, lets running requests finish for `deadline_ms`, then cuts them off. Blocks; not on the loop's thread when handlers run there
 * (there: drain, watch `live` by a timer, stop the loop, then destroy). Afterwards late replies are still allowed: they go nowhere. */
void pl_http_server_stop(struct pl_http_server *s, int64_t deadline_ms);
/* Stops (at once) when it still runs. Handlers that have not replied keep what they need alive. NULL is fine. */
struct pl_http_server *pl_http_server_destroy(struct pl_http_server *s);

struct pl_http_stats {
    uint64_t requests;  /* since the start */
    size_t live;        /* being worked on, streams included */
    size_t streams;     /* open response streams */
    size_t connections; /* open connections */
    size_t live_most;
};
void pl_http_server_get_stats(struct pl_http_server *s, struct pl_http_stats *ret);

/* --- the request: valid until the reply; any thread --- */
const char *pl_http_method(const struct pl_http_request *r);
/* The path as sent, percent-encoded, without the query. */
const char *pl_http_path(const struct pl_http_request *r);
/* A decoded parameter of the route's pattern; aborts for a name that the pattern does not have. */
const char *pl_http_param(const struct pl_http_request *r, const char *name);
/* The decoded i-th value of a query argument; "" for one without "=", NULL when there is none. */
const char *pl_http_query_at(const struct pl_http_request *r, const char *name, size_t i);
const char *pl_http_query(const struct pl_http_request *r, const char *name);
/* A query argument as number; `fallback` when absent. PL_EINVAL names the argument and the range. */
PL_MUST_CHECK
int pl_http_query_u64(const struct pl_http_request *r, const char *name, uint64_t fallback, uint64_t max, uint64_t *ret,
                      struct pl_err *err);
/* "1", "true", "" = true; absent, "0", "false" = false. */
bool pl_http_query_flag(const struct pl_http_request *r, const char *name);
/* A header or an argument, decoded, as the request has them and in its order; valid until the reply. */
struct pl_http_pair {
    const char *name, *value;
};
const struct pl_http_pair *pl_http_headers(const struct pl_http_request *r, size_t *ret_n);
const struct pl_http_pair *pl_http_queries(const struct pl_http_request *r, size_t *ret_n);
/* A header, name in any case; NULL when absent. */
const char *pl_http_header(const struct pl_http_request *r, const char *name);
/* A cookie's value into `out`; false when absent or longer than `size`-1. */
bool pl_http_cookie(const struct pl_http_request *r, const char *name, char *out, size_t size);
/* The client's address as text, without the port. */
const char *pl_http_peer(const struct pl_http_request *r);
/* The user of this machine whose program asks, by name or "uid N"; false: it is of another machine, behind a proxy that is, or gone. Reads
 * /proc: for what happens seldom. */
bool pl_http_peer_user(const struct pl_http_request *r, char *out, size_t size);
/* Whether it came over TLS. */
bool pl_http_tls(const struct pl_http_request *r);
/* The request's number, for logs and X-Request-Id (which every reply carries). */
uint64_t pl_http_request_id(const struct pl_http_request *r);
/* The route that matched; NULL in a guard for an unknown path. */
const struct pl_http_route *pl_http_request_route(const struct pl_http_request *r);
/* A pointer of the guard's for the handler (the principal); `drop` (may be NULL) frees it with the request, or when another takes its place. */
void pl_http_set_context(struct pl_http_request *r, void *context, void (*drop)(void *));
void *pl_http_context(const struct pl_http_request *r);
/* The whole body (JSON and BYTES routes). NUL-terminated after `len`; valid until the reply. */
const struct pl_buf *pl_http_body(const struct pl_http_request *r);
/* The body as JSON object or array; the caller's reference. No body = an empty object. PL_EINVAL with line and column. */
PL_MUST_CHECK
int pl_http_body_json(const struct pl_http_request *r, json_t **ret, struct pl_err *err);
/* The client has gone: long work for it may stop. A reply is still due. */
bool pl_http_request_gone(const struct pl_http_request *r);

/* --- STREAM bodies --- */
struct pl_http_sink {
    void *self;
    /* The next bytes, on the pool, one call at a time. Negative: the rest is thrown away, `end` gets this error. */
    int (*write)(void *self, const void *data, size_t n, struct pl_err *err);
    /* Exactly once, on the pool: the body is complete (err NULL), or it failed (the sink's error, PL_ETOOBIG past body_max,
     * PL_ENET when the client went away). Replies. */
    void (*end)(void *self, struct pl_http_request *req, const struct pl_err *err);
};
/* In the handler of a STREAM route, once, instead of a reply. */
void pl_http_body_to(struct pl_http_request *r, const struct pl_http_sink *sink);
/* Content-Length; -1 when the body is chunked. */
int64_t pl_http_body_length(const struct pl_http_request *r);

/* --- replies: exactly one of them ends the handler's hold on `req`; any thread --- */
/* A header for the reply to come: ETag, Location, Set-Cookie, Cache-Control. */
void pl_http_reply_header(struct pl_http_request *r, const char *name, const char *value);
/* The bytes are copied. */
void pl_http_reply(struct pl_http_request *r, unsigned status, const char *content_type, const void *bytes, size_t n);
/* Takes the buffer's memory. */
void pl_http_reply_buf(struct pl_http_request *r, unsigned status, const char *content_type, struct pl_buf *bytes);
/* The bytes live as long as the program (embedded files). */
void pl_http_reply_static(struct pl_http_request *r, unsigned status, const char *content_type, const void *bytes, size_t n);
/* The answer to HEAD: `length` bytes would come. */
void pl_http_reply_head(struct pl_http_request *r, unsigned status, const char *content_type, uint64_t length);
/* Takes the reference; compact, with a newline. */
void pl_http_reply_json(struct pl_http_request *r, unsigned status, json_t *value);
/* {"error":{"code","message","field"?,"hint"?}} with the code's status. */
void pl_http_reply_error(struct pl_http_request *r, const struct pl_err *err);
/* `len` bytes of file `fd` from `offset` by sendfile; takes `fd`. Honours a single Range of the request (206, 416). */
void pl_http_reply_fd(struct pl_http_request *r, int fd, uint64_t offset, uint64_t len, const char *content_type);

/* What a Range header asks of `size` bytes. */
enum pl_http_range { PL_RANGE_ALL, PL_RANGE_PART, PL_RANGE_OUTSIDE };
/* `header` may be NULL. Several ranges, other units and nonsense mean PL_RANGE_ALL, as RFC 9110 wants. */
enum pl_http_range pl_http_range_parse(const char *header, uint64_t size, uint64_t *ret_first, uint64_t *ret_count);
/* The same of this request, and adds Accept-Ranges, Content-Range. For PART reply with 206; for OUTSIDE with 416 and no body. */
enum pl_http_range pl_http_request_range(struct pl_http_request *r, uint64_t size, uint64_t *ret_first, uint64_t *ret_count);

/* --- response streams: server-sent events, followed logs, generated bodies ---
 * Two kinds. Push (ops.pull NULL): pl_http_stream_write from any thread. Pull: the server asks on the pool, one call at a time,
 * when there is room; the generator says when it has nothing for now and wakes the stream later. */
enum { PL_PULL_END = 0, PL_PULL_MORE = 1, PL_PULL_WAIT = 2 };

struct pl_http_stream_ops {
    void *self;
    /* Appends to `out` (about 64 KiB a call at most). PL_PULL_MORE: ask again; PL_PULL_WAIT: not before pl_http_stream_wake;
     * PL_PULL_END: that was all. Negative: the connection is cut, so that the client sees a truncated body. */
    int (*pull)(void *self, struct pl_buf *out, struct pl_err *err);
    /* Exactly once, when no other callback runs or will: frees `self`. Any thread, also before pl_http_reply_stream returns (the client
     * has gone already); must not block. */
    void (*closed)(void *self);
};
struct pl_http_stream_options {
    unsigned status; /* 0 = 200 */
    const char *content_type;
    uint64_t length;       /* bytes that will come; PL_HTTP_LENGTH_UNKNOWN = chunked */
    const char *heartbeat; /* sent when nothing was for heartbeat_ms (SSE: ": \n\n"); NULL = none. Must outlive the stream. */
    unsigned heartbeat_ms; /* 0 = 15,000 */
    bool endless;          /* events, followed logs: ended when the server drains, instead of being waited for */
};
#define PL_HTTP_LENGTH_UNKNOWN UINT64_MAX

/* Answers with a stream. The caller owns one reference of it, given up by pl_http_stream_close (also after the client is gone).
 */
struct pl_http_stream *pl_http_reply_stream(struct pl_http_request *r, const struct pl_http_stream_options *o,
                                            const struct pl_http_stream_ops *ops);
/* Push: all of it or nothing; never blocks. PL_EBUSY: the queue is full. PL_ENET: the client has gone, or the stream was ended.
 */
PL_MUST_CHECK
int pl_http_stream_write(struct pl_http_stream *s, const void *data, size_t n, struct pl_err *err);
/* Pull: there may be something to pull again. */
void pl_http_stream_wake(struct pl_http_stream *s);
bool pl_http_stream_gone(const struct pl_http_stream *s);
/* Sends what is queued, ends the body, gives up the reference. A pull stream that is still pulled goes on until PL_PULL_END. */
void pl_http_stream_close(struct pl_http_stream *s);
/* Cuts the connection after what is queued: the body is recognisably incomplete. Gives up the reference. */
void pl_http_stream_fail(struct pl_http_stream *s);
