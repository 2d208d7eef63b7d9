/* http_internal: state and functions shared by the server's files.
 *
 * libmicrohttpd's threads alone move a request through its phases; handlers share the fields marked "lock".
 *
 *   NEW ──▶ BODY ──complete──▶ DONE ──▶ (queued, sent, completed: unlinked, unref)
 *    └─(STREAM route)─▶ OPENING ─▶ BODY
 *
 * A connection is suspended in OPENING, in DONE until the reply, and in BODY while the sink is slow.
 *
 * References: libmicrohttpd has one (until `completed`), the handler one (until its reply), a stream one. Lock
 * order: server, request, then libmicrohttpd's own. libmicrohttpd 0.9.75 closes a connection if a reply is queued
 * before the whole body was read, and accepts no reply in the middle of a body. Replies are therefore queued when
 * the body is complete, and the refusal of a long upload is sent directly to the socket. */
#pragma once

#include "pipelined/net/loop/loop.h"
#include "pipelined/net/server/http_server.h"
#include "storage/base/hash.h"
#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#define HTTP_SEGMENTS_MAX 24  /* most segments of a route's pattern */
#define HTTP_QUERY_MAX    256 /* most arguments of a query */
#define HTTP_DISCARD_QUIET                                                                                                       \
    (1u << 20) /* a refused request whose remaining body is larger gets its reply at once, a smaller one after the body */
#define HTTP_DISCARD_MAX (64u << 20) /* bytes of a refused request's body after which its connection is closed */
#define HTTP_TICK_MS     1000
/* interval of the keeper's sweeps while the pool has no space for a body or a stream */
#define HTTP_TICK_HURRY_MS 10

enum http_phase { HTTP_NEW, HTTP_OPENING, HTTP_BODY, HTTP_DONE };
enum http_stopping { HTTP_SERVING, HTTP_DRAINING, HTTP_CUTTING };

struct http_segment {
    bool param, tail;
    char text[48]; /* the segment's text, or the name of its parameter */
};

struct http_matcher {
    const struct pl_http_route *route;
    size_t n_segments;
    struct http_segment segments[HTTP_SEGMENTS_MAX];
};

struct pl_http_server {
    atomic_uint refs;
    struct MHD_Daemon *daemon;
    /* the reply for lack of memory, made in advance and shared by all requests */
    struct MHD_Response *lacking;
    struct http_matcher *matchers;
    size_t n_matchers;
    int (*guard)(struct pl_http_request *, const struct pl_http_route *, void *, struct pl_err *);
    void *guard_arg;
    bool guard_unknown;
    const char *private_prefix;
    unsigned (*tell)(struct pl_http_request *, unsigned, const struct pl_err *, struct pl_buf *);
    const char *tell_type;
    struct pl_loop *loop;
    struct pl_pool *pool;
    unsigned port;
    int listen_fd; /* used by the keeper thread only */
    int wake_fd;   /* eventfd that wakes the keeper thread */
    bool tls;
    int64_t greeting_ms;
    pthread_t keeper;
    bool stopped;        /* pl_http_server_stop has completed */
    atomic_int stopping; /* a value of enum http_stopping */
    atomic_bool hurry;
    atomic_uint_fast64_t requests; /* since the start */
    atomic_size_t bodies;          /* total bytes of request bodies in memory, at most `bodies_max` */
    size_t bodies_max;

    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t idle;  /* signalled when `live`, the number of requests in progress, becomes 0 */
    struct pl_http_request *first;
    struct http_guest *guests;
    size_t live, live_most;
    atomic_size_t streams;
};

struct http_intake;

struct pl_http_request {
    atomic_uint refs;
    struct pl_http_server *server;
    uint64_t id;
    int64_t begun_ms;
    struct pl_http_request *prev, *next; /* list of requests in progress; guarded by the server's lock */
    bool linked;

    /* what the client sent; constant once a handler sees the request */
    char *target;  /* path as the client sent it, without the query */
    char *decoded; /* decoded segments of the path, each followed by a NUL */
    size_t n_segments;
    char *query_text;
    struct pl_http_pair *query;
    size_t n_query;
    char *header_text;
    struct pl_http_pair *headers;
    size_t n_headers;
    char method[16];
    char peer[48];
    int fd;
    void *tls;      /* TLS session of the connection (gnutls_session_t); NULL = no TLS */
    int64_t length; /* value of Content-Length; -1 = the body is chunked */
    bool expects_continue;
    const struct pl_http_route *route;
    const struct http_matcher *matcher;
    const char *params[PL_HTTP_PARAMS_MAX];
    struct pl_buf body;
    size_t body_counted; /* number of this body's bytes that are counted in server->bodies */
    struct http_intake *intake;
    void *context;
    void (*drop_context)(void *);
    struct pl_loop_work work;

    enum http_phase phase; /* this field and the next three are used on libmicrohttpd's thread only */
    uint64_t received;     /* number of bytes of the body that were accepted */
    uint64_t discarded;
    bool sent_raw;

    pthread_mutex_t lock;              /* guards the fields below */
    struct MHD_Connection *connection; /* NULL once libmicrohttpd has completed the request */
    bool suspended, replied, gone;
    unsigned status;
    struct MHD_Response *response;
    const char *error_text; /* if the reply is an error: the bytes of the response's body */
    size_t error_len;
    struct pl_http_pair *reply_headers;
    size_t n_reply_headers;
    struct pl_http_stream *stream; /* the open response stream, borrowed; NULL = none */
};

/* http_server.c */
void pl_httpd_request_ref(struct pl_http_request *r);
/* Counts a request of the server and returns its id, which no other request of any server of this process has. */
uint64_t pl_httpd_number(struct pl_http_server *s);
void pl_httpd_request_unref(struct pl_http_request *r);
/* Suspends the connection. Call it on libmicrohttpd's thread, with the request's lock held. Returns false if
 * the server is cutting off connections: then end the request. */
bool pl_httpd_suspend(struct pl_http_request *r);
/* Resumes the connection if it is suspended. The caller holds the request's lock. */
void pl_httpd_resume(struct pl_http_request *r);
/* Makes the keeper thread resubmit soon the jobs for which the pool had no space. */
void pl_httpd_retry_soon(struct pl_http_server *s);

/* Frees the body of a request and returns its share of the memory for bodies. */
void pl_httpd_body_finish(struct pl_http_request *r);

/* http_timeouts.c */
/* libmicrohttpd's MHD_OPTION_NOTIFY_CONNECTION; `arg` is the server. */
void pl_httpd_on_connection(void *arg, struct MHD_Connection *connection, void **context,
                            enum MHD_ConnectionNotificationCode what);
/* Set the time limit of a connection. begun: no limit, because a request's headers are complete. refused: a
 * limit for the body of a refused request. answered: a limit for the next request. Called on libmicrohttpd's
 * thread. */
void pl_httpd_timeout_request_begun(struct MHD_Connection *connection);
void pl_httpd_timeout_refused(const struct pl_http_server *s, struct MHD_Connection *connection);
void pl_httpd_timeout_answered(const struct pl_http_server *s, struct MHD_Connection *connection);
/* Shuts down the connections whose time limit has passed. The caller holds the server's lock. */
void pl_httpd_timeout_sweep(struct pl_http_server *s, int64_t now_ms);

/* http_request.c */
/* Creates a request and copies its target `uri`. NULL if memory runs out. */
struct pl_http_request *pl_httpd_request_create(struct pl_http_server *s, const char *uri);
void pl_httpd_request_free(struct pl_http_request *r);
/* Reads method, headers, path and query from the connection into the request. PL_EINVAL, PL_ENOMEM,
 * PL_EPROTO. */
PL_MUST_CHECK
int pl_httpd_request_read(struct pl_http_request *r, const char *method, const char *version, struct pl_err *err);

/* http_route.c */
PL_MUST_CHECK
int pl_httpd_matchers_compile(const struct pl_http_route *routes, size_t n, struct http_matcher **ret, struct pl_err *err);
/* Finds the request's route and sets its route and parameters. PL_ENOTFOUND: no route has this path;
 * PL_EINVAL: only the method does not match; `allow` then has the allowed methods. */
PL_MUST_CHECK
int pl_httpd_route_find(struct pl_http_server *s, struct pl_http_request *r, char *allow, size_t allow_size, struct pl_err *err);

/* http_reply.c */
/* Sets an error reply of the server itself, for a request that no handler has received. `status` 0 = the
 * status that belongs to the error code. */
void pl_httpd_refuse(struct pl_http_request *r, unsigned status, const struct pl_err *err);
/* Sets the reply of a handler and resumes the request, which owns `response` from then on. */
void pl_httpd_answer(struct pl_http_request *r, unsigned status, struct MHD_Response *response);
void pl_httpd_add_header(struct MHD_Response *response, const char *name, const char *value);
/* Replies for lack of memory, and headers. pl_httpd_make_no_memory_reply makes the shared 503 reply; NULL if
 * there is not even memory for it. Use pl_httpd_drop_response in place of MHD_destroy_response: it does not
 * destroy the shared reply, and accepts NULL. pl_httpd_add_common_headers adds the common headers, and those
 * that the handler set, to any other response. */
struct MHD_Response *pl_httpd_make_no_memory_reply(void);
void pl_httpd_drop_response(const struct pl_http_request *r, struct MHD_Response *response);
void pl_httpd_add_common_headers(struct pl_http_request *r, struct MHD_Response *response, const char *content_type);
/* Sends the request's error reply directly to the socket, with Connection: close. The caller holds the
 * request's lock. */
void pl_httpd_send_raw(struct pl_http_request *r);

/* http_body.c */
void pl_httpd_body_free(struct http_intake *in);
/* If the pool refused the job and no other call will retry it, runs it on this thread. The caller does not
 * hold the request's lock. */
void pl_httpd_body_settle(struct pl_http_request *r);
/* The caller of these functions holds the request's lock. pl_httpd_body_add accepts the bytes that fit and
 * returns their number; 0 = the buffer is full. */
size_t pl_httpd_body_add(struct pl_http_request *r, const void *data, size_t n);
void pl_httpd_body_fail(struct pl_http_request *r, const struct pl_err *err);
void pl_httpd_body_eof(struct pl_http_request *r);
void pl_httpd_body_gone(struct pl_http_request *r);
void pl_httpd_body_wake(struct pl_http_request *r);

/* http_stream.c; the caller of these functions holds the request's lock. */
void pl_httpd_stream_gone(struct pl_http_stream *s);
void pl_httpd_stream_drain(struct pl_http_stream *s);
void pl_httpd_stream_tick(struct pl_http_stream *s, int64_t now_ms);
