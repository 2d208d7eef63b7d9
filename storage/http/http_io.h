/* http_io: HTTP exchanges of any number of callers, by libcurl's multi interface on one thread of its own, over connections that are
 * kept. One exchange is one attempt: who tries again is s3_client.
 *
 *   submit ─▶ waiting (all connections busy) ─▶ running ─▶ done() on the I/O thread, exactly once
 *
 * Bounds: `connections` at a time (the rest waits in order), PL_HTTP_IO_WAITING_MAX waiting, PL_HTTP_IO_BUFFER_BYTES a connection and
 * direction, PL_HTTP_IO_ERROR_BYTES of an error's body. Bodies are the callers' memory. */
#pragma once

#include "storage/base/buf.h"

#include <stdatomic.h>
#include <sys/uio.h>

#define PL_HTTP_IO_CONNECTIONS_MAX 96u
#define PL_HTTP_IO_WAITING_MAX     4096u
#define PL_HTTP_IO_BUFFER_BYTES    (512L << 10)
#define PL_HTTP_IO_ERROR_BYTES     (64u << 10)
#define PL_HTTP_IO_CONNECT_MS      10000
/* An exchange is cut since nothing comes: a kept connection over which nothing came in that time either may be as dead, and is not taken. Of the time
 * the last so many ms count: watches are silent for longer. */
#define PL_HTTP_IO_DOUBT_MS 15000

struct pl_http_io;

struct pl_http_io_config {
    unsigned connections; /* 1..PL_HTTP_IO_CONNECTIONS_MAX at a time */
    const char *ca;       /* file of certificates to trust instead of the system's; NULL */
    bool no_proxy;        /* whatever the environment says */
    long buffer_bytes;    /* a connection and direction; 0 = PL_HTTP_IO_BUFFER_BYTES */
};

/* How one server is reached where that is not as for all others. Every member may be NULL or 0: as for the others. */
struct pl_http_io_route {
    const char *ca;         /* file of certificates to trust */
    const char *cert, *key; /* files: who we are */
    const char *connect_to; /* "::HOST:PORT": there, whatever the URL says; its host is then only who is to vouch for itself */
    const char *proxy;      /* a URL; "" = none */
    bool insecure;          /* nobody needs to vouch for anything */
    long keepalive_s;       /* TCP asks so often whether a silent server is still there */
};

/* One request and its answer. The caller's, untouched by it from submit to done. */
struct pl_http_exchange {
    /* The request; everything is borrowed until `done`. */
    const char *method;
    const char *url;            /* percent-encoded; sent as it is */
    const char *const *headers; /* NULL-terminated "Name: value" */
    const struct iovec *body;   /* `has_body`: sent with its length */
    int n_body;
    bool has_body;
    const struct pl_http_io_route *route; /* NULL = as configured */
    int64_t timeout_ms;                   /* of the whole; 0 = none */
    int64_t stall_ms;                     /* at most so long without a byte either way; 0 = none */
    const atomic_bool *cancel;            /* set: it ends with PL_ECANCELED at the next pl_http_io_wake; may be NULL */
    /* The body of a status 200..299: to `write` (negative ends the exchange with its error), else to `out`, else nowhere. */
    int (*write)(void *self, const void *data, size_t n, struct pl_err *err);
    void (*begins)(void *self); /* NULL, or: the answer has such a status, and its headers are all here. Of `write_self` */
    void *write_self;
    struct pl_buf *out;

    /* The answer. */
    unsigned status; /* 0 = there is none: `err` says why */
    struct pl_err
        err; /* code 0 when there is a whole answer. PL_ENET, PL_ETIMEOUT, PL_ECANCELED, PL_EPROTO, of `write`, PL_ETOOBIG past out->max */
    bool sent;   /* the server may have got the whole request */
    bool resent; /* ... and libcurl sent it again, for a kept connection ended without an answer: this one is to the second */
    struct pl_buf problem;  /* body of other statuses; the caller's to finish */
    int64_t date_s;         /* Date header as seconds since 1970, 0 = none */
    uint64_t first, total;  /* Content-Range: where the bytes begin, size of the whole; total = UINT64_MAX without */
    uint64_t length;        /* Content-Length, UINT64_MAX without */
    bool chunked;           /* without either the body's end is that of the connection: a cut one looks whole */
    uint32_t retry_after_s; /* 0 = none */
    char etag[96], region[64], location[1536];

    void (*done)(struct pl_http_exchange *x); /* on the I/O thread: must not block; may free or submit again */
    void *arg;

    struct pl_http_exchange *next_; /* from here on http_io's own */
    struct pl_http_run *run_;
};

/* A call on the I/O thread at a later time. The caller's memory until it runs. */
struct pl_http_timer {
    void (*fn)(struct pl_http_timer *t); /* may free or arm it again */
    int64_t due_ms;                      /* of pl_clock_mono_ms */
    struct pl_http_timer *next_;
};

/* PL_EUNAVAILABLE without libcurl, PL_ENOMEM, PL_EIO without a thread. */
PL_MUST_CHECK
int pl_http_io_create(const struct pl_http_io_config *config, struct pl_http_io **ret, struct pl_err *err);
/* Ends what runs and waits with PL_ECANCELED, runs all timers, joins the thread. What is submitted or armed from now on ends so at once, on
 * the thread that does it. Not on the I/O thread. */
void pl_http_io_stop(struct pl_http_io *io);
/* Stops, and frees. Takes NULL, returns NULL. */
struct pl_http_io *pl_http_io_destroy(struct pl_http_io *io);

/* Begins an exchange. Any thread. Past the bound or without memory `done` is called with that error. */
void pl_http_io_submit(struct pl_http_io *io, struct pl_http_exchange *x);
/* Has the I/O thread look at what is to be cancelled. Any thread. */
void pl_http_io_wake(struct pl_http_io *io);
/* Runs t->fn at t->due_ms or soon after, or at once when it is being stopped. Any thread. */
void pl_http_io_at(struct pl_http_io *io, struct pl_http_timer *t);
/* Submits and waits for the end; returns 0 when there is an answer, whatever its status, else x->err's code. `done` and `arg` are used.
 * Any thread but the I/O thread. */
PL_MUST_CHECK
int pl_http_io_run(struct pl_http_io *io, struct pl_http_exchange *x, struct pl_err *err);
