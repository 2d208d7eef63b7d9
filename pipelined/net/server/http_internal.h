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

#define HTTP_SEGMENTS_MAX 24  /* per pattern */
#define HTTP_QUERY_MAX    256 /* arguments per query */
#define HTTP_DISCARD_QUIET                                                                                                       \
    (1u << 20) /* bytes of a refused body that are read before the reply; a longer body gets it early and is cut */
#define HTTP_DISCARD_MAX   (64u << 20) /* bytes of a refused body that are read at all */
#define HTTP_TICK_MS       1000
#define HTTP_TICK_HURRY_MS 10 /* while a pool had no space for a body or a stream */

enum http_phase { HTTP_NEW, HTTP_OPENING, HTTP_BODY, HTTP_DONE };
enum http_stopping { HTTP_SERVING, HTTP_DRAINING, HTTP_CUTTING };

struct http_segment {
    bool param, tail;
    char text[48]; /* the literal, or the parameter's name */
};

struct http_matcher {
    const struct pl_http_route *route;
    size_t n_segments;
    struct http_segment segments[HTTP_SEGMENTS_MAX];
};

struct pl_http_server {
    atomic_uint refs;
    struct MHD_Daemon *daemon;
    struct MHD_Response *lacking; /* the shared reply for lack of memory */
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
    int listen_fd; /* keeper thread only */
    int wake_fd;   /* eventfd: wakes the keeper */
    bool tls;
    int64_t greeting_ms;
    pthread_t keeper;
    bool stopped;        /* stop has completed */
    atomic_int stopping; /* enum http_stopping */
    atomic_bool hurry;
    atomic_uint_fast64_t next_id;
    atomic_size_t bodies; /* bytes of bodies in memory, at most `bodies_max` */
    size_t bodies_max;

    pthread_mutex_t lock; /* guards the fields below */
    pthread_cond_t idle;  /* signalled when `live` becomes 0 */
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
    struct pl_http_request *prev, *next; /* list of live requests; the server's lock */
    bool linked;

    /* the request; constant once a handler sees it */
    char *target;  /* as sent, without the query */
    char *decoded; /* of the path: decoded segments, each with its NUL */
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
    void *tls;      /* gnutls_session_t; NULL = plain */
    int64_t length; /* Content-Length, -1 = chunked */
    bool expects_continue;
    const struct pl_http_route *route;
    const struct http_matcher *matcher;
    const char *params[PL_HTTP_PARAMS_MAX];
    struct pl_buf body;
    size_t body_counted; /* share of server->bodies */
    struct http_intake *intake;
    void *context;
    void (*drop_context)(void *);
    struct pl_loop_work work;

    enum http_phase phase; /* libmicrohttpd's thread only, with the next three */
    uint64_t received;     /* bytes of the body, accepted */
    uint64_t discarded;
    bool sent_raw;

    pthread_mutex_t lock;              /* guards the fields below */
    struct MHD_Connection *connection; /* NULL once completed */
    bool suspended, replied, gone;
    unsigned status;
    struct MHD_Response *response;
    const char *error_text; /* for an error: the bytes of the response */
    size_t error_len;
    struct pl_http_pair *reply_headers;
    size_t n_reply_headers;
    struct pl_http_stream *stream; /* borrowed, while open */
};

/* http_server.c */
void pl_httpd_request_ref(struct pl_http_request *r);
void pl_httpd_request_unref(struct pl_http_request *r);
/* Suspends the connection. On libmicrohttpd's thread, with the request's lock held. False: the server is cutting
 * off: end the request. */
bool pl_httpd_suspend(struct pl_http_request *r);
/* Resumes the connection if it is suspended. With the request's lock held. */
void pl_httpd_resume(struct pl_http_request *r);
/* Makes the keeper soon retry what the pool refused. */
void pl_httpd_retry_soon(struct pl_http_server *s);

/* Frees the body and returns its share of the memory for bodies. */
void pl_httpd_body_finish(struct pl_http_request *r);

/* http_timeouts.c */
/* libmicrohttpd's MHD_OPTION_NOTIFY_CONNECTION; `arg` is the server. */
void pl_httpd_on_connection(void *arg, struct MHD_Connection *connection, void **context,
                            enum MHD_ConnectionNotificationCode what);
/* Set the connection's time limit: none, once a request's headers are complete; for the body of a refused request;
 * for the next request, after a reply. On libmicrohttpd's thread. */
void pl_httpd_timeout_request_begun(struct MHD_Connection *connection);
void pl_httpd_timeout_refused(const struct pl_http_server *s, struct MHD_Connection *connection);
void pl_httpd_timeout_answered(const struct pl_http_server *s, struct MHD_Connection *connection);
/* Shuts down connections past their limit. With the server's lock held. */
void pl_httpd_timeout_sweep(struct pl_http_server *s, int64_t now_ms);

/* http_request.c */
/* Creates a request and copies its target. NULL without memory. */
struct pl_http_request *pl_httpd_request_create(struct pl_http_server *s, const char *uri);
void pl_httpd_request_free(struct pl_http_request *r);
/* Reads method, headers, path and query of the connection. PL_EINVAL, PL_ENOMEM, PL_EPROTO. */
PL_MUST_CHECK
int pl_httpd_request_read(struct pl_http_request *r, const char *method, const char *version, struct pl_err *err);

/* http_route.c */
PL_MUST_CHECK
int pl_httpd_matchers_compile(const struct pl_http_route *routes, size_t n, struct http_matcher **ret, struct pl_err *err);
/* Sets route and params. PL_ENOTFOUND; PL_EINVAL, with `allow` filled, if only the method does not match. */
PL_MUST_CHECK
int pl_httpd_route_find(struct pl_http_server *s, struct pl_http_request *r, char *allow, size_t allow_size, struct pl_err *err);

/* http_reply.c */
/* Sets an error of the server itself as the reply, before a handler has the request. `status` 0 = that of the
 * code. */
void pl_httpd_refuse(struct pl_http_request *r, unsigned status, const struct pl_err *err);
/* Sets the handler's reply and resumes the request, which owns the response from here on. */
void pl_httpd_answer(struct pl_http_request *r, unsigned status, struct MHD_Response *response);
void pl_httpd_add_header(struct MHD_Response *response, const char *name, const char *value);
/* The shared 503 reply for lack of memory (NULL: no memory even for that); use pl_httpd_drop_response in place of
 * MHD_destroy_response, because it keeps the shared reply (NULL is allowed). Every other response gets the common
 * headers and those that the handler set. */
struct MHD_Response *pl_httpd_make_no_memory_reply(void);
void pl_httpd_drop_response(const struct pl_http_request *r, struct MHD_Response *response);
void pl_httpd_add_common_headers(struct pl_http_request *r, struct MHD_Response *response, const char *content_type);
/* Sends the request's error directly to the socket, with Connection: close. With the request's lock held. */
void pl_httpd_send_raw(struct pl_http_request *r);

/* http_body.c */
void pl_httpd_body_free(struct http_intake *in);
/* Runs the job that the pool refused on this thread, when no other call will wake it. Without the lock. */
void pl_httpd_body_settle(struct pl_http_request *r);
/* These need the request's lock. body_add takes what fits and returns its size; 0 = full. */
size_t pl_httpd_body_add(struct pl_http_request *r, const void *data, size_t n);
void pl_httpd_body_fail(struct pl_http_request *r, const struct pl_err *err);
void pl_httpd_body_eof(struct pl_http_request *r);
void pl_httpd_body_gone(struct pl_http_request *r);
void pl_httpd_body_wake(struct pl_http_request *r);

/* http_stream.c; these need the request's lock. */
void pl_httpd_stream_gone(struct pl_http_stream *s);
void pl_httpd_stream_drain(struct pl_http_stream *s);
void pl_httpd_stream_tick(struct pl_http_stream *s, int64_t now_ms);
