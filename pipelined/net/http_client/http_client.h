/* net/http_client: Blocking HTTP client of pipelinectl and the agent.
 *
 * In:      A request.
 * Out:     A response.
 * Uses:    text, storage/{base, http, system}
 * Threads: Any thread. */

/* http_client: blocking HTTP for pipelinectl, the agent and tests. One client serves any number of threads; each call borrows one
 * of a small stock of kept-alive connections.
 *
 * An answer ≥ 400 becomes an error: {"error":{code,message,field,hint}} is taken over as it is, anything else by its status. No
 * server: PL_ENET, "no server at http://127.0.0.1:7380: start pipelined, or set --server". Connecting takes at most 5 s; a
 * transfer that does not move for PL_HTTP_STALL_S is PL_ETIMEOUT (heartbeats and the 25 s of a long poll stay below it).
 *
 * An https server that nobody trusted vouches for: PL_ETLS, always; there is no way around it but its CA.
 *
 * By libcurl: proxies of the environment (http_proxy, no_proxy …) count, but never for this machine's own addresses. */
#pragma once

#include "storage/base/buf.h"
#include <jansson.h>
#include <stdatomic.h>

#define PL_HTTP_CONNECT_MS 5000
#define PL_HTTP_STALL_S    60
#define PL_HTTP_LINES_KEPT 32 /* idle, with their connections; more are made and closed as threads need them */

struct pl_http_client;

/* Whether "http://host…" is this machine: no proxy leads there, and nobody listens on the way. */
bool pl_http_url_is_local(const char *url);

/* `base_url` "http://host:port" (or https) with or without a path; "unix:/path" for a unix socket. `token` NULL or the bearer token.
 * PL_EINVAL: no such address; PL_EUNAVAILABLE: this machine has no libcurl. */
PL_MUST_CHECK
int pl_http_client_create(const char *base_url, const char *token, struct pl_http_client **ret, struct pl_err *err);
/* The file of certificates, in PEM, by one of which an https server must be vouched for, instead of the machine's; before the first call.
 * PL_ENOMEM. */
PL_MUST_CHECK
int pl_http_client_set_ca(struct pl_http_client *c, const char *file, struct pl_err *err);
/* That file; NULL = the machine's. */
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
    const char *path;           /* from "/": percent-encoded, with query; pl_http_escape helps */
    const char *const *headers; /* NULL-terminated "Name: value"; may be NULL */
    const char *content_type;   /* of the body; NULL = application/octet-stream */
    enum pl_http_upload upload;
    const void *bytes; /* BYTES */
    int fd;            /* FD: `len` bytes from `offset`, by pread; stays the caller's */
    uint64_t offset;
    uint64_t len; /* BYTES, FD; READER: UINT64_MAX = unknown, sent chunked */
    /* READER: up to `n` bytes into `out`; returns the count, 0 at the end, negative to give up with `err`. Called on the calling
     * thread. */
    ssize_t (*read)(void *self, void *out, size_t n, struct pl_err *err);
    void *read_self;
    /* A successful answer's body goes to `out` (bounded by out->max) or, when set, to `write`. Neither = thrown away. */
    struct pl_buf *out;
    int (*write)(void *self, const void *data, size_t n, struct pl_err *err); /* negative: the call ends with `err` */
    void *write_self;
    int64_t timeout_ms;  /* of the whole call; 0 = none (only the stall rule) */
    bool may_stall;      /* no stall rule: a followed log may be silent for hours */
    atomic_bool *cancel; /* set by another thread: the call ends with PL_ECANCELED within a second; may be NULL */
    bool interruptible;  /* pl_http_client_interrupt ends it */
};
struct pl_http_answer {
    unsigned status;
    char content_type[64];
    char etag[160];
    char content_range[96];
};

/* One request and its whole answer. Any thread. `answer` may be NULL; it is filled for error answers too. */
PL_MUST_CHECK
int pl_http_client_call(struct pl_http_client *c, const struct pl_http_call *call, struct pl_http_answer *answer,
                        struct pl_err *err);
/* The interruptible calls that are under way end with PL_ECANCELED at once, unless their answer is there; later calls do not. Any thread. */
void pl_http_client_interrupt(struct pl_http_client *c);
/* JSON both ways. `body` (borrowed) and `ret` may be NULL; an empty answer gives JSON null. */
PL_MUST_CHECK
int pl_http_client_json(struct pl_http_client *c, const char *method, const char *path, const json_t *body, json_t **ret,
                        struct pl_err *err);
/* GET into `out`. */
PL_MUST_CHECK
int pl_http_client_get(struct pl_http_client *c, const char *path, struct pl_buf *out, struct pl_err *err);

/* Appends `text` percent-encoded for a path segment or query value (RFC 3986 unreserved bytes stay; '/' too when `keep_slash`).
 */
PL_MUST_CHECK
int pl_http_escape(struct pl_buf *out, const char *text, bool keep_slash, struct pl_err *err);
/* A path made of a format in which each %s is escaped, each %p a tree path (slashes stay), %u a uint64_t:
 * pl_http_path_make("/api/v1/repos/%s/%s", project, repo). A malloc'ed string; NULL only without memory. */
char *pl_http_path_make(const char *fmt, ...);
