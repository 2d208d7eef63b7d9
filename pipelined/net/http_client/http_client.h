/* net/http_client: Blocking HTTP client of pipelinectl and the agent.
 *
 * In:      A request.
 * Out:     A response.
 * Uses:    text, storage/{base, http, system}
 * Threads: Any thread.
 *
 * One client serves any number of threads; each call borrows one of a small stock of kept-alive connections.
 *
 * A status ≥ 400 becomes an error: {"error":{code,message,field,hint}} is taken over as it is, other bodies by
 * their status. No server: PL_ENET, "no server at http://127.0.0.1:7380: start pipelined, or set --server".
 * Connecting takes at most 5 s; a transfer without progress for PL_HTTP_STALL_S is PL_ETIMEOUT (heartbeats and the
 * 25 s of a long poll stay below it).
 *
 * An https server whose certificate is not trusted is always PL_ETLS; the only remedy is to name its CA.
 *
 * The client uses libcurl. Proxies of the environment (http_proxy, no_proxy …) apply, but never to this machine's
 * own addresses. */
#pragma once

#include "storage/base/buf.h"
#include <jansson.h>
#include <stdatomic.h>

#define PL_HTTP_CONNECT_MS 5000
#define PL_HTTP_STALL_S    60
#define PL_HTTP_LINES_KEPT 32 /* idle connections kept; more are opened and closed as threads need them */

struct pl_http_client;

/* True if "http://host…" is this machine: no proxy is used, and nobody can listen on the way. */
bool pl_http_url_is_local(const char *url);

/* Creates a client. `base_url`: "http://host:port" (or https) with or without a path; "unix:/path" for a unix
 * socket. `token`: a bearer token or NULL. PL_EINVAL: not such an address; PL_EUNAVAILABLE: this machine has no
 * libcurl. */
PL_MUST_CHECK
int pl_http_client_create(const char *base_url, const char *token, struct pl_http_client **ret, struct pl_err *err);
/* Sets a PEM file of CA certificates that replaces the machine's for https servers. Before the first call.
 * PL_ENOMEM. */
PL_MUST_CHECK
int pl_http_client_set_ca(struct pl_http_client *c, const char *file, struct pl_err *err);
/* Returns that file; NULL = the machine's certificates. */
const char *pl_http_client_ca(const struct pl_http_client *c);
struct pl_http_client *pl_http_client_destroy(struct pl_http_client *c);
static inline void pl_http_client_destroyp(struct pl_http_client **c)
{
    *c = pl_http_client_destroy(*c);
}
const char *pl_http_client_url(const struct pl_http_client *c);

enum pl_http_upload { PL_UPLOAD_NONE, PL_UPLOAD_BYTES, PL_UPLOAD_FD, PL_UPLOAD_READER };

struct pl_http_call {
    const char *method;         /* "GET", "POST", "PUT", "DELETE", "HEAD" */
    const char *path;           /* from "/": percent-encoded, with query; see pl_http_escape */
    const char *const *headers; /* NULL-terminated "Name: value"; may be NULL */
    const char *content_type;   /* of the body; NULL = application/octet-stream */
    enum pl_http_upload upload;
    const void *bytes; /* BYTES */
    int fd;            /* FD: `len` bytes from `offset` are read with pread; the caller keeps it */
    uint64_t offset;
    uint64_t len; /* BYTES, FD; READER: UINT64_MAX = unknown, sent chunked */
    /* READER: writes up to `n` bytes to `out`; returns the count, 0 at the end, negative to abort with `err`. On
     * the calling thread. */
    ssize_t (*read)(void *self, void *out, size_t n, struct pl_err *err);
    void *read_self;
    /* The body of a successful answer goes to `out` (bounded by out->max), or to `write` if set. Neither =
     * discarded. */
    struct pl_buf *out;
    /* negative: the call ends with `err` */
    int (*write)(void *self, const void *data, size_t n, struct pl_err *err);
    void *write_self;
    int64_t timeout_ms;  /* for the whole call; 0 = none (only the stall rule) */
    bool may_stall;      /* no stall rule: a followed log may be silent for hours */
    atomic_bool *cancel; /* set by another thread: the call ends with PL_ECANCELED within a second; may be NULL */
    bool interruptible;  /* pl_http_client_interrupt ends the call */
};
struct pl_http_answer {
    unsigned status;
    char content_type[64];
    char etag[160];
    char content_range[96];
};

/* Makes one request and reads its whole answer. Any thread. `answer` may be NULL; it is filled for error answers
 * too. */
PL_MUST_CHECK
int pl_http_client_call(struct pl_http_client *c, const struct pl_http_call *call, struct pl_http_answer *answer,
                        struct pl_err *err);
/* Ends all interruptible calls in progress with PL_ECANCELED, unless their answer has arrived; later calls are not
 * affected. Any thread. */
void pl_http_client_interrupt(struct pl_http_client *c);
/* Makes a request with JSON in both directions. `body` (borrowed) and `ret` may be NULL; an empty answer is JSON
 * null. */
PL_MUST_CHECK
int pl_http_client_json(struct pl_http_client *c, const char *method, const char *path, const json_t *body, json_t **ret,
                        struct pl_err *err);
/* Makes a GET request; the body goes to `out`. */
PL_MUST_CHECK
int pl_http_client_get(struct pl_http_client *c, const char *path, struct pl_buf *out, struct pl_err *err);

/* Appends `text` percent-encoded for a path segment or query value (RFC 3986 unreserved bytes stay; '/' too with
 * `keep_slash`). */
PL_MUST_CHECK
int pl_http_escape(struct pl_buf *out, const char *text, bool keep_slash, struct pl_err *err);
/* Makes a path from a format: %s is escaped, %p is a tree path (its slashes stay), %u a uint64_t:
 * pl_http_path_make("/api/v1/repos/%s/%s", project, repo). Returns a malloc'ed string; NULL only without memory. */
char *pl_http_path_make(const char *fmt, ...);
