/* http_io: HTTP exchanges for any number of callers, with libcurl's multi interface on one thread of its own,
 * over connections that are kept open. One exchange is one attempt; retries are made by the caller, such as
 * s3_client.
 *
 *   submit ─▶ waiting (all connections busy) ─▶ running ─▶ done() on the I/O thread, exactly once
 *
 * Bounds: `connections` exchanges run at a time, and further ones wait in order; PL_HTTP_IO_WAITING_MAX
 * waiting exchanges; PL_HTTP_IO_BUFFER_BYTES per connection and direction;
 * PL_HTTP_IO_ERROR_BYTES of an error's body. The memory of bodies belongs to the callers. */
#pragma once

#include "storage/base/buf.h"

#include <stdatomic.h>

#include <sys/uio.h>

#define PL_HTTP_IO_CONNECTIONS_MAX 96u
#define PL_HTTP_IO_WAITING_MAX     4096u
#define PL_HTTP_IO_BUFFER_BYTES    (512L << 10)
#define PL_HTTP_IO_ERROR_BYTES     (64u << 10)
#define PL_HTTP_IO_CONNECT_MS      10000
/* After an exchange was ended because nothing was received, kept connections that also received nothing
 * during that time are not reused, because they may be dead as well. Only the last PL_HTTP_IO_DOUBT_MS of
 * that time count, because a Kubernetes watch may be silent for longer. */
#define PL_HTTP_IO_DOUBT_MS 15000

struct sockaddr;
struct pl_http_io;

struct pl_http_io_config {
    unsigned connections; /* maximum number of simultaneous exchanges, 1 to PL_HTTP_IO_CONNECTIONS_MAX */
    /* file with the CA certificates to trust instead of the system's; NULL = the system's */
    const char *ca;
    bool no_proxy; /* ignore the proxy variables of the environment */
    /* Called on the I/O thread before a connection to a resolved address, with `connect_self`; a negative result with its
     * error forbids it, and the exchange ends with that error if no other address of the host is allowed. NULL = all are. */
    int (*may_connect)(const void *self, const struct sockaddr *address, struct pl_err *err);
    const void *connect_self;
    long buffer_bytes; /* per connection and direction; 0 = PL_HTTP_IO_BUFFER_BYTES */
};

/* How to reach one server that needs other settings than those of pl_http_io_config. A member that is NULL or
 * 0 keeps the setting of that configuration. */
struct pl_http_io_route {
    const char *ca;         /* file with the CA certificates to trust */
    const char *cert, *key; /* files with the client certificate and its key */
    /* "::HOST:PORT": connect there, whatever the URL says; the URL's host is then only used to verify the
     * certificate */
    const char *connect_to;
    const char *proxy; /* URL of the proxy; "" = none */
    bool insecure;     /* do not verify the server's certificate */
    long keepalive_s;  /* interval in seconds of TCP keepalive probes */
};

/* One request and its response. The caller owns the struct and does not touch it from submit until `done`. */
struct pl_http_exchange {
    /* The request. Everything it points to must stay valid until `done`. */
    const char *method;
    const char *url;            /* percent-encoded; sent unchanged */
    const char *const *headers; /* "Name: value", terminated by NULL */
    const struct iovec *body;   /* request body, if `has_body`; sent with its length */
    int n_body;
    bool has_body;
    const struct pl_http_io_route *route; /* NULL = as configured */
    int64_t timeout_ms;                   /* limit for the whole exchange; 0 = none */
    int64_t stall_ms;                     /* limit for a time without a byte in either direction; 0 = none */
    /* cancel flag: if it is set, the exchange ends with PL_ECANCELED at the next pl_http_io_wake; may be
     * NULL */
    const atomic_bool *cancel;
    /* Receives the response body of a status 200 to 299; a negative result ends the exchange with its error.
     * If NULL, the body is appended to `out`; if that is NULL too, it is discarded. */
    int (*write)(void *self, const void *data, size_t n, struct pl_err *err);
    /* called with `write_self` when all headers of a response with status 200 to 299 were received; may be
     * NULL */
    void (*begins)(void *self);
    void *write_self;
    struct pl_buf *out;

    /* The response. */
    unsigned status; /* 0 = there is no response: see `err` */
    /* Error of the exchange; code 0 if the response was received completely. PL_ENET, PL_ETIMEOUT,
     * PL_ECANCELED, PL_EPROTO, PL_EINVAL (bad URL), PL_EUNAVAILABLE (untrusted certificate), PL_EBUSY (too
     * many wait), PL_ENOMEM, PL_ETOOBIG (the body exceeds out->max), or the error of `write`. */
    struct pl_err err;
    bool sent; /* the server may have received the whole request */
    /* libcurl sent the request a second time, because a kept connection was closed before a response
     * arrived; the response is to the second transmission */
    bool resent;
    struct pl_buf problem; /* body of a response whose status is not 200 to 299; the caller frees it */
    int64_t date_s;        /* Date header in seconds since 1970; 0 = none */
    /* Content-Range: offset of the first byte and size of the whole; total = UINT64_MAX: none */
    uint64_t first, total;
    uint64_t length; /* Content-Length; UINT64_MAX = none */
    /* The Transfer-Encoding is chunked. A response with neither this nor a Content-Length ends when the
     * connection is closed, so that a truncated body looks complete. */
    bool chunked;
    uint32_t retry_after_s; /* Retry-After in seconds, at most 3600; 0 = none */
    char etag[96], region[64], location[1536];

    /* on the I/O thread: must not block; may free `x` or submit it again */
    void (*done)(struct pl_http_exchange *x);
    void *arg;

    struct pl_http_exchange *next_; /* used by http_io only, like run_ */
    struct pl_http_run *run_;
};

/* A function call on the I/O thread at a later time. The caller owns the struct, which must stay valid until
 * `fn` runs. */
struct pl_http_timer {
    void (*fn)(struct pl_http_timer *t); /* may free the timer or arm it again */
    int64_t due_ms;                      /* time at which `fn` is due, on the clock of pl_clock_mono_ms */
    struct pl_http_timer *next_;
};

/* Creates the object and its thread. PL_EUNAVAILABLE without libcurl, PL_ENOMEM, PL_EIO if the thread cannot
 * be started. */
PL_MUST_CHECK
int pl_http_io_create(const struct pl_http_io_config *config, struct pl_http_io **ret, struct pl_err *err);
/* Ends running and waiting exchanges with PL_ECANCELED, runs all timers and joins the thread. Later exchanges
 * end with PL_ECANCELED, and later timers run, immediately on the calling thread. Must not be called on the
 * I/O thread. */
void pl_http_io_stop(struct pl_http_io *io);
/* Stops the thread and frees the object. NULL is allowed. Returns NULL. */
struct pl_http_io *pl_http_io_destroy(struct pl_http_io *io);

/* Starts an exchange. If too many exchanges wait or memory is exhausted, `done` is called with that error.
 * Any thread. */
void pl_http_io_submit(struct pl_http_io *io, struct pl_http_exchange *x);
/* Makes the I/O thread check the cancel flags of exchanges. Any thread. */
void pl_http_io_wake(struct pl_http_io *io);
/* Runs t->fn at t->due_ms or soon after; immediately if the object is being stopped. Any thread. */
void pl_http_io_at(struct pl_http_io *io, struct pl_http_timer *t);
/* Submits an exchange and waits for its end. Returns 0 if there is a response, whatever its status, otherwise
 * x->err's code. Sets `done` and `arg`. Any thread except the I/O thread. */
PL_MUST_CHECK
int pl_http_io_run(struct pl_http_io *io, struct pl_http_exchange *x, struct pl_err *err);
