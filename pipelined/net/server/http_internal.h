/* http_internal: what the files of the HTTP server share. http_server.c: life, threads, connections; http_request.c: what a request says;
 * http_route.c: which route answers; http_intake.c: bodies through a sink; http_reply.c: answers; http_stream.c: response streams;
 * http_guests.c: connections that do not get to the point.
 *
 * A request passes its phases on libmicrohttpd's threads only; everything marked "lock" is shared with handlers.
 *
 *   NEW ──▶ BODY ──all there──▶ DONE ──▶ (queued, sent, completed: unlinked, unref)
 *    └─(STREAM route)─▶ OPENING ─▶ BODY      suspended in OPENING, in DONE until the reply, in BODY while the sink is behind
 *
 * References: one of libmicrohttpd (until `completed`), one of the handler (until its reply), one of a stream. Lock order: server, request,
 * then libmicrohttpd's own. libmicrohttpd 0.9.75 closes a connection whose reply is queued before its body is read and takes no reply in
 * the middle of a body: replies are therefore queued when the body is complete, and a refusal of a long upload goes out by itself. */
#pragma once

#include "pipelined/net/loop/loop.h"
#include "pipelined/net/server/http_server.h"
#include "storage/base/hash.h"
#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

#define HTTP_SEGMENTS_MAX 24  /* of a pattern */
#define HTTP_QUERY_MAX    256 /* arguments */
#define HTTP_DISCARD_QUIET                                                                                                       \
    (1u << 20) /* of a refused body are read before the reply; a longer one gets it at once and is cut off */
#define HTTP_DISCARD_MAX   (64u << 20) /* of a refused body are read at all */
#define HTTP_TICK_MS       1000
#define HTTP_TICK_HURRY_MS 10 /* when a pool had no room for a body or a stream */

enum http_phase { HTTP_NEW, HTTP_OPENING, HTTP_BODY, HTTP_DONE };
enum http_stopping { HTTP_SERVING, HTTP_DRAINING, HTTP_CUTTING };

struct http_segment {
    bool param, tail;
    char text[48]; /* the literal or the parameter's name */
};

struct http_matcher {
    const struct pl_http_route *route;
    size_t n_segments;
    struct http_segment segments[HTTP_SEGMENTS_MAX];
};

struct pl_http_server {
    atomic_uint refs;
    struct MHD_Daemon *daemon;
    struct MHD_Response *lacking; /* for all to whom no other response can be made */
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
    int listen_fd; /* the keeper thread's */
    int wake_fd;   /* eventfd: stop, hurry */
    bool tls;
    int64_t greeting_ms;
    pthread_t keeper;
    bool stopped;        /* stop is done */
    atomic_int stopping; /* enum http_stopping */
    atomic_bool hurry;
    atomic_uint_fast64_t next_id;
    atomic_size_t bodies; /* bytes in memory, of at most */
    size_t bodies_max;

    pthread_mutex_t lock; /* what follows */
    pthread_cond_t idle;  /* live became 0 */
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
    struct pl_http_request *prev, *next; /* live ones; the server's lock */
    bool linked;

    /* what was asked; fixed before a handler sees it */
    char *target;  /* as sent, cut at "?" */
    char *decoded; /* of the path: segments, each with its NUL */
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
    size_t body_counted; /* of server->bodies */
    struct http_intake *intake;
    void *context;
    void (*drop_context)(void *);
    struct pl_loop_work work;

    enum http_phase phase; /* libmicrohttpd's thread only, as the next three */
    uint64_t received;     /* of the body, taken */
    uint64_t discarded;
    bool sent_raw;

    pthread_mutex_t lock;              /* what follows */
    struct MHD_Connection *connection; /* NULL once completed */
    bool suspended, replied, gone;
    unsigned status;
    struct MHD_Response *response;
    const char *error_text; /* the response's bytes when it is an error */
    size_t error_len;
    struct pl_http_pair *reply_headers;
    size_t n_reply_headers;
    struct pl_http_stream *stream; /* borrowed, while it is open */
};

/* http_server.c */
void pl_httpd_request_ref(struct pl_http_request *r);
void pl_httpd_request_unref(struct pl_http_request *r);
/* With the request's lock held, on libmicrohttpd's thread. False when the server is cutting off: give up instead. */
bool pl_httpd_suspend(struct pl_http_request *r);
/* With the request's lock held; nothing when it is not suspended. */
void pl_httpd_resume(struct pl_http_request *r);
/* Asks the keeper to try again soon what the pool had no room for. */
void pl_httpd_retry_soon(struct pl_http_server *s);

/* The body's memory, which all requests share, is free again. */
void pl_httpd_body_finish(struct pl_http_request *r);

/* http_guests.c */
/* libmicrohttpd's MHD_OPTION_NOTIFY_CONNECTION; `arg` is the server. */
void pl_httpd_on_connection(void *arg, struct MHD_Connection *connection, void **context,
                            enum MHD_ConnectionNotificationCode what);
/* A request's headers are there; the body of a refused one comes; it is over. On libmicrohttpd's thread. */
void pl_httpd_timeout_request_begun(struct MHD_Connection *connection);
void pl_httpd_timeout_refused(const struct pl_http_server *s, struct MHD_Connection *connection);
void pl_httpd_timeout_answered(const struct pl_http_server *s, struct MHD_Connection *connection);
/* Cuts off whose time is over. With the server's lock held. */
void pl_httpd_timeout_sweep(struct pl_http_server *s, int64_t now_ms);

/* http_request.c */
/* Copies what the first line says. NULL without memory. */
struct pl_http_request *pl_httpd_request_create(struct pl_http_server *s, const char *uri);
void pl_httpd_request_free(struct pl_http_request *r);
/* Reads method, headers, path and query of the connection. PL_EINVAL, PL_ENOMEM, PL_EPROTO. */
PL_MUST_CHECK
int pl_httpd_request_read(struct pl_http_request *r, const char *method, const char *version, struct pl_err *err);

/* http_route.c */
PL_MUST_CHECK
int pl_httpd_matchers_compile(const struct pl_http_route *routes, size_t n, struct http_matcher **ret, struct pl_err *err);
/* Sets route and params. PL_ENOTFOUND; PL_EINVAL with `allow` filled when only the method does not fit. */
PL_MUST_CHECK
int pl_httpd_route_find(struct pl_http_server *s, struct pl_http_request *r, char *allow, size_t allow_size, struct pl_err *err);

/* http_reply.c */
/* An answer by the server itself, before a handler has the request. `status` 0 = the code's. */
void pl_httpd_refuse(struct pl_http_request *r, unsigned status, const struct pl_err *err);
/* Gives the request its answer and resumes it; the response is the request's from here on. */
void pl_httpd_answer(struct pl_http_request *r, unsigned status, struct MHD_Response *response);
void pl_httpd_add_header(struct MHD_Response *response, const char *name, const char *value);
/* Takes the headers that the handler asked for into `response`, with those that every answer has. */
/* Instead of MHD_destroy_response: the one that all share stays. NULL is fine. */
struct MHD_Response *pl_httpd_make_no_memory_reply(void);
void pl_httpd_drop_response(const struct pl_http_request *r, struct MHD_Response *response);
void pl_httpd_add_common_headers(struct pl_http_request *r, struct MHD_Response *response, const char *content_type);
/* Sends the error of `r` straight over the socket, with Connection: close. With the request's lock held. */
void pl_httpd_send_raw(struct pl_http_request *r);

/* http_intake.c */
void pl_httpd_body_free(struct http_intake *in);
/* After the last chance for a kick: runs here and now what the pool had no room for. Without the lock. */
void pl_httpd_body_settle(struct pl_http_request *r);
/* The rest with the request's lock held. Takes what fits and says how much; 0 = full. */
size_t pl_httpd_body_add(struct pl_http_request *r, const void *data, size_t n);
void pl_httpd_body_fail(struct pl_http_request *r, const struct pl_err *err);
void pl_httpd_body_eof(struct pl_http_request *r);
void pl_httpd_body_gone(struct pl_http_request *r);
void pl_httpd_body_wake(struct pl_http_request *r);

/* http_stream.c; with the request's lock held */
void pl_httpd_stream_gone(struct pl_http_stream *s);
void pl_httpd_stream_drain(struct pl_http_stream *s);
void pl_httpd_stream_tick(struct pl_http_stream *s, int64_t now_ms);
