/* net/http_client: Blocking HTTP client of pipelinectl and the agent.
 *
 * In:      A request.
 * Out:     A response.
 * Uses:    text, storage/{base, http, system}
 * Threads: Any thread.
 *
 * One client serves any number of threads; each call borrows one of the client's kept-alive connections.
 *
 * A status ≥ 400 becomes an error: a body {"error":{code,message,field,hint}} gives the error's fields, any other
 * body gives an error that depends on the status. If there is no server: PL_ENET, "no server at
 * http://127.0.0.1:7380: start pipelined, or set --server"; if its name cannot be resolved, the error says that, and
 * what to check. Connecting takes at most 5 s; a transfer without progress
 * for PL_HTTP_STALL_S is PL_ETIMEOUT (heartbeats, and the 25 s of a long poll, are shorter than that).
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
/* number of idle connections that a client keeps; it opens and closes more as threads need them */
#define PL_HTTP_LINES_KEPT 32

struct pl_http_client;

/* True if the host of "http://host…" is this machine: then no proxy is used, and nobody can listen to the
 * traffic. */
bool pl_http_url_is_local(const char *url);

/* Creates a client. `base_url`: "http://host:port" (or https), with or without a path, or "unix:/path" for a
 * unix socket. `token`: a bearer token; NULL = none. PL_EINVAL: `base_url` is not such an address;
 * PL_EUNAVAILABLE: this machine has no libcurl. */
PL_MUST_CHECK
int pl_http_client_create(const char *base_url, const char *token, struct pl_http_client **ret, struct pl_err *err);
/* Sets a PEM file of CA certificates, which https servers are checked against instead of the machine's
 * certificates. Call it before the first request. PL_ENOMEM. */
PL_MUST_CHECK
int pl_http_client_set_ca(struct pl_http_client *c, const char *file, struct pl_err *err);
/* Sets the advice of the errors "no server at …", instead of that for a user of pipelinectl. The text is borrowed
 * and must outlive the client. Call it before the first request. */
void pl_http_client_set_remedy(struct pl_http_client *c, const char *remedy);
/* Returns the path of the file that pl_http_client_set_ca has set; NULL = the machine's certificates are
 * used. */
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
    const char *path;           /* path with query, beginning with "/" and percent-encoded; see pl_http_escape */
    const char *const *headers; /* NULL-terminated list of headers "Name: value"; may be NULL */
    const char *content_type;   /* Content-Type of the body; NULL = application/octet-stream */
    enum pl_http_upload upload;
    const void *bytes; /* for PL_UPLOAD_BYTES: the body */
    /* for PL_UPLOAD_FD: `len` bytes from `offset` are read from this file with pread; the caller closes it */
    int fd;
    uint64_t offset;
    /* length of the body; for PL_UPLOAD_READER, UINT64_MAX = unknown: the body is sent chunked */
    uint64_t len;
    /* For PL_UPLOAD_READER: writes the next bytes of the body, at most `n`, to `out`. Returns their number, 0
     * at the end, or a negative code, with `err` set, to abort the call. Called on the thread that made the
     * call. */
    ssize_t (*read)(void *self, void *out, size_t n, struct pl_err *err);
    void *read_self;
    /* Where the body of a successful reply goes: to `write` if it is set, else to `out` (at most out->max
     * bytes). If neither is set, the body is discarded. */
    struct pl_buf *out;
    /* a negative result ends the call with the error in `err` */
    int (*write)(void *self, const void *data, size_t n, struct pl_err *err);
    void *write_self;
    /* time limit of the whole call in ms; 0 = no limit, except that a stalled transfer is an error */
    int64_t timeout_ms;
    bool may_stall; /* a transfer without progress is not an error: a followed log may be silent for hours */
    /* another thread may set this to end the call with PL_ECANCELED within a second; may be NULL */
    atomic_bool *cancel;
    bool interruptible; /* pl_http_client_interrupt ends the call */
};
struct pl_http_answer {
    unsigned status;
    char content_type[64];
    char etag[160];
    char content_range[96];
    char content_length[24]; /* "" if the reply does not say it, as one that is sent in pieces */
};

/* Makes one request and reads its whole reply. Any thread. `answer` may be NULL; it is filled for error
 * replies as well. */
PL_MUST_CHECK
int pl_http_client_call(struct pl_http_client *c, const struct pl_http_call *call, struct pl_http_answer *answer,
                        struct pl_err *err);
/* Ends the interruptible calls that are in progress with PL_ECANCELED, except those whose reply has arrived.
 * Later calls are not affected. Any thread. */
void pl_http_client_interrupt(struct pl_http_client *c);
/* Makes a request whose body and reply are JSON. `body` (borrowed) and `ret` may be NULL; an empty reply
 * gives the JSON value null. */
PL_MUST_CHECK
int pl_http_client_json(struct pl_http_client *c, const char *method, const char *path, const json_t *body, json_t **ret,
                        struct pl_err *err);
/* Like pl_http_client_json; pl_http_client_interrupt ends the call, and so does `cancel` as in struct pl_http_call. */
PL_MUST_CHECK
int pl_http_client_json_interruptible(struct pl_http_client *c, const char *method, const char *path, const json_t *body,
                                      atomic_bool *cancel, json_t **ret, struct pl_err *err);
/* Makes a GET request; the body goes to `out`. */
PL_MUST_CHECK
int pl_http_client_get(struct pl_http_client *c, const char *path, struct pl_buf *out, struct pl_err *err);

/* Appends `text` percent-encoded, for use in a path segment or a query value. The unreserved bytes of RFC
 * 3986 are not encoded; with `keep_slash`, '/' is not encoded either. */
PL_MUST_CHECK
int pl_http_escape(struct pl_buf *out, const char *text, bool keep_slash, struct pl_err *err);
/* Makes a path from a format: %s is a string, percent-encoded; %p is a path in a tree, percent-encoded except
 * for its slashes; %u is a uint64_t. Example: pl_http_path_make("/api/v1/repos/%s/%s", project, repo).
 * Returns a malloc'ed string; NULL only if memory runs out. */
char *pl_http_path_make(const char *fmt, ...);
