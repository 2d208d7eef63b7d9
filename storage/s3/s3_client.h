/* s3_client: requests to one bucket until their outcome is known: signed, sent, and tried again where that may help.
 *
 *   start ─▶ queued ─▶ (keys are fetched) ─▶ running ─▶ done
 *               ▲                               │ 5xx, lost connection, 503: after a pause with full jitter
 *               └──────────── paused ◀──────────┘ clock, region, expired keys: at once, each once
 *
 * Never more than `connections` run at a time; a server that says 503 halves that number, answers raise it again. A call ends at its
 * deadline, with what is known by then. Any thread; `done` of the callback face is called on the I/O thread. */
#pragma once

#include "storage/http/http_io.h"
#include "storage/s3/s3_credentials.h"
#include "storage/s3/s3_url.h"
#include "storage/s3/s3_xml.h"

#define PL_S3_CONNECTIONS   32u
#define PL_S3_ATTEMPTS      12u
#define PL_S3_PAUSE_MS      100 /* of the first repetition at most; doubles */
#define PL_S3_PAUSE_GROWTH  100 /* until it is so many times that */
#define PL_S3_STALL_MS      30000
#define PL_S3_DEADLINE_MS   120000               /* and more for large bodies: */
#define PL_S3_SLOWEST       ((int64_t)256 << 10) /* bytes a second */
#define PL_S3_CALL_HEADERS  8
#define PL_S3_REDIRECTS_MAX 3u
#define PL_S3_REPLY_MAX     PL_S3_XML_BYTES_MAX /* of an XML answer */

struct pl_s3_client_config {
    struct pl_s3_place place;
    struct pl_s3_credentials_config creds; /* changed, arg: not used */
    const char *ca;
    unsigned connections;                    /* 0 = PL_S3_CONNECTIONS */
    int64_t pause_ms, stall_ms, deadline_ms; /* 0 = as above */
};

struct pl_s3_client;

/* One request. The caller's memory, not touched by it until done; everything in the first part is borrowed. */
struct pl_s3_call {
    const char *method;
    const char *key; /* behind the place's prefix; NULL = the bucket */
    const struct pl_sigv4_pair *query;
    size_t n_query;
    const struct pl_sigv4_pair *headers; /* beside those that every request has; signed; at most PL_S3_CALL_HEADERS */
    size_t n_headers;
    const struct iovec *body;
    int n_body;
    bool has_body;
    const char *payload; /* hex SHA-256 of the body or UNSIGNED-PAYLOAD; NULL = there is none */
    bool xml;            /* the answer's body goes to `reply`; one that is an error is one, whatever the status */
    bool etag;           /* an answer without ETag is not one */
    unsigned expect;     /* the status that is right; 0 = any 2xx */
    struct pl_buf *out;  /* else the body goes here (emptied with each attempt), or to `write` */
    int (*write)(void *self, const void *data, size_t n, struct pl_err *err);
    void (*restart)(void *self); /* with `write`: an attempt begins */
    void *write_self;
    bool once; /* one attempt: for probes */
    void (*done)(struct pl_s3_call *c);
    void *arg;

    /* What came of it. */
    struct pl_err err; /* code 0: done. Else as pl_s3_response_class_error says, or PL_ETIMEOUT, PL_ECANCELED, of credentials */
    bool unknown;      /* it failed, and may yet have been carried out: PL_ENET or PL_ETIMEOUT */
    unsigned attempts;
    struct pl_buf reply;       /* `xml`; pl_s3_call_finish */
    struct pl_http_exchange x; /* status and headers of the last answer */

    /* s3_client's own */
    struct pl_s3_client *client_;
    struct pl_s3_call *next_;
    struct pl_http_timer timer_;
    const atomic_bool *cancel; /* of the thread that started it (cancel.h) */
    struct pl_s3_access_keys *keys_;
    struct pl_buf text_; /* URL and headers */
    const char *lines_[PL_S3_CALL_HEADERS + 8];
    struct pl_s3_place moved_; /* `has_moved_`: where a redirect sent this call alone */
    bool has_moved_;
    int64_t deadline_ms_, due_ms_; /* of the call; of its next attempt */
    unsigned redirects_;
    bool clock_tried_, keys_tried_;
};

/* PL_EINVAL, PL_EUNAVAILABLE (no libcurl), PL_ENOMEM, PL_EIO. Nothing is sent yet. */
PL_MUST_CHECK
int pl_s3_client_create(const struct pl_s3_client_config *config, struct pl_s3_client **ret, struct pl_err *err);
/* Calls under way end with PL_ECANCELED first. Takes NULL, returns NULL. */
struct pl_s3_client *pl_s3_client_destroy(struct pl_s3_client *c);

/* Begins a call; `done` comes once. */
void pl_s3_client_start(struct pl_s3_client *c, struct pl_s3_call *call);
/* The same, waiting for its end; returns call->err.code. `done` and `arg` are used. Not on the I/O thread. */
PL_MUST_CHECK
int pl_s3_client_run(struct pl_s3_client *c, struct pl_s3_call *call, struct pl_err *err);
/* Gives back what a call holds. */
void pl_s3_call_finish(struct pl_s3_call *call);

/* Appends a presigned URL for others: `behind` = NULL or another endpoint of the same bucket. `headers` (without Host) must be sent as they
 * are; `payload` as in pl_sigv4_presign. `*ret_expires_s`: its life, which may be shorter than asked for: no URL outlives its keys.
 * PL_EINVAL, errors of credentials. Waits for credentials when there are none yet. */
PL_MUST_CHECK
int pl_s3_client_presign(struct pl_s3_client *c, const struct pl_s3_place *behind, const char *method, const char *key,
                         const struct pl_sigv4_pair *headers, size_t n_headers, const char *payload, uint32_t expires_s,
                         struct pl_buf *out, uint32_t *ret_expires_s, struct pl_err *err);
/* For plain HTTP beside the bucket's protocol (presigned URLs): the client's connections. */
struct pl_http_io *pl_s3_client_io(struct pl_s3_client *c);
/* Whether bodies travel over TLS: then they are not hashed for the signature. */
bool pl_s3_client_tls(const struct pl_s3_client *c);
/* "s3://bucket/prefix at https://host": for messages. */
const char *pl_s3_client_name(const struct pl_s3_client *c);
