/* s3_client: sends requests to one bucket. It signs and sends each request, and retries it until the outcome
 * is known or a retry cannot succeed.
 *
 *   start ─▶ queued ─▶ (wait for credentials) ─▶ running ─▶ done
 *               ▲                                   │ 5xx, lost connection, 503: after a random pause
 *               └───────────── paused ◀─────────────┘ clock, region or keys corrected: at once
 *
 * At most `connections` requests run at a time. A response 503 halves that number, and successful responses
 * raise it again. A call ends at its deadline with the last known error. Functions may be called from any
 * thread; pl_s3_client_start calls `done` on the I/O thread. */
#pragma once

#include "storage/http/http_io.h"
#include "storage/s3/s3_credentials.h"
#include "storage/s3/s3_url.h"
#include "storage/s3/s3_xml.h"

#define PL_S3_CONNECTIONS  32u
#define PL_S3_ATTEMPTS     12u
#define PL_S3_PAUSE_MS     100 /* upper bound of the first pause; doubles with each attempt */
#define PL_S3_PAUSE_GROWTH 100 /* maximum of the upper bound of a pause, as a multiple of PL_S3_PAUSE_MS */
#define PL_S3_STALL_MS     30000
/* time limit of a call in ms; a large body adds the time that it takes at PL_S3_SLOWEST */
#define PL_S3_DEADLINE_MS 120000
/* lowest speed of a transfer that is tolerated, in bytes per second */
#define PL_S3_SLOWEST       ((int64_t)256 << 10)
#define PL_S3_CALL_HEADERS  8
#define PL_S3_REDIRECTS_MAX 3u
#define PL_S3_REPLY_MAX     PL_S3_XML_BYTES_MAX /* bytes of an XML response */

struct pl_s3_client_config {
    struct pl_s3_place place;
    struct pl_s3_credentials_config creds; /* the members `changed` and `arg` are ignored */
    const char *ca;
    /* maximum number of simultaneous requests; 0 = PL_S3_CONNECTIONS */
    unsigned connections;
    int64_t pause_ms, stall_ms, deadline_ms; /* 0 = the constants above */
};

struct pl_s3_client;

/* One request. The caller owns the struct and does not touch it until `done`; everything that the fields
 * before `err` point to must stay valid until then. */
struct pl_s3_call {
    const char *method;
    const char *key; /* object key without the prefix of the store's URL; NULL = the bucket itself */
    const struct pl_sigv4_pair *query;
    size_t n_query;
    /* Headers in addition to those of every request, at most PL_S3_CALL_HEADERS; they are signed. */
    const struct pl_sigv4_pair *headers;
    size_t n_headers;
    const struct iovec *body;
    int n_body;
    bool has_body;
    const char *payload; /* hex SHA-256 of the body, or UNSIGNED-PAYLOAD; NULL = no body */
    /* The response is an XML document: its body is stored in `reply`, and an error document is treated as an
     * error even if the status is 200. */
    bool xml;
    bool etag;       /* a response without an ETag is an error */
    unsigned expect; /* expected status; 0 = any 2xx */
    /* without `xml`: receives the body, emptied at each attempt; NULL: `write` receives it */
    struct pl_buf *out;
    int (*write)(void *self, const void *data, size_t n, struct pl_err *err);
    void (*restart)(void *self); /* with `write`: called at the start of each attempt */
    void *write_self;
    bool once; /* make only one attempt: used by tests of the server */
    void (*done)(struct pl_s3_call *c);
    void *arg;

    /* The result. */
    /* Result of the call. Code 0: success. Otherwise a code of pl_s3_response_class_error, PL_ETIMEOUT,
     * PL_ECANCELED, or an error of pl_s3_credentials_get. */
    struct pl_err err;
    /* the call failed, but the server may have carried it out; the code is PL_ENET or PL_ETIMEOUT */
    bool unknown;
    unsigned attempts;
    struct pl_buf reply;       /* response body with `xml`; freed by pl_s3_call_finish */
    struct pl_http_exchange x; /* status and headers of the last response */

    /* Fields used by s3_client only. */
    struct pl_s3_client *client_;
    struct pl_s3_call *next_;
    struct pl_http_timer timer_;
    const atomic_bool *cancel; /* cancel flag of the thread that started the call (cancel.h) */
    struct pl_s3_access_keys *keys_;
    struct pl_buf text_; /* URL and headers of the current attempt */
    const char *lines_[PL_S3_CALL_HEADERS + 8];
    struct pl_s3_place moved_; /* location to which a redirect sent this call; valid if has_moved_ */
    bool has_moved_;
    int64_t deadline_ms_, due_ms_; /* deadline of the call; time of its next attempt */
    unsigned redirects_;
    bool clock_tried_, keys_tried_;
};

/* Attempts since the client was created. */
struct pl_s3_client_view {
    uint64_t requests, retries; /* requests: attempts sent; retries: those that repeated a call's earlier attempt */
    /* replies that refuse a request: 401 or 403; 429 or 503; other statuses from 500 on */
    uint64_t forbidden, busy, errors;
};

/* Creates a client; sends nothing yet. PL_EINVAL, PL_EUNAVAILABLE (no libcurl), PL_ENOMEM, PL_EIO. */
PL_MUST_CHECK
int pl_s3_client_create(const struct pl_s3_client_config *config, struct pl_s3_client **ret, struct pl_err *err);
/* Ends calls in progress with PL_ECANCELED and frees the client. NULL is allowed. Returns NULL. */
struct pl_s3_client *pl_s3_client_destroy(struct pl_s3_client *c);

/* Starts a call; `done` is called exactly once. */
void pl_s3_client_start(struct pl_s3_client *c, struct pl_s3_call *call);
/* Starts a call and waits for its end; returns call->err.code. Sets `done` and `arg`. Must not be called on
 * the I/O thread. */
PL_MUST_CHECK
int pl_s3_client_run(struct pl_s3_client *c, struct pl_s3_call *call, struct pl_err *err);
/* Frees the memory that a call holds. */
void pl_s3_call_finish(struct pl_s3_call *call);

/* Appends a presigned URL, which other programs can use, to `out`. `behind`: another endpoint of the same
 * bucket to use in the URL; NULL = the client's own. The user of the URL must send `headers` (without Host)
 * unchanged; `payload` as in pl_sigv4_presign. `*ret_expires_s` receives the lifetime of the URL, which ends
 * no later than the credentials. Waits for credentials if there are none yet. PL_EINVAL; errors of
 * pl_s3_credentials_wait. */
PL_MUST_CHECK
int pl_s3_client_presign(struct pl_s3_client *c, const struct pl_s3_place *behind, const char *method, const char *key,
                         const struct pl_sigv4_pair *headers, size_t n_headers, const char *payload, uint32_t expires_s,
                         struct pl_buf *out, uint32_t *ret_expires_s, struct pl_err *err);
/* Returns the client's connections, for plain HTTP requests such as those to presigned URLs. Owned by the
 * client. */
struct pl_http_io *pl_s3_client_io(struct pl_s3_client *c);
void pl_s3_client_look(struct pl_s3_client *c, struct pl_s3_client_view *ret);
/* Returns true if requests use TLS; bodies are then not hashed for the signature. */
bool pl_s3_client_tls(const struct pl_s3_client *c);
/* Returns "s3://bucket/prefix at https://host", for messages. Owned by the client. */
const char *pl_s3_client_name(const struct pl_s3_client *c);
