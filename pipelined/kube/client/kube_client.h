/* kube_client: requests to one API server, with its credentials, a rate limit, a limit of concurrent
 * requests, and retries until the outcome is known.
 *
 *   start ─▶ queued ─▶ (credentials: a plugin may run) ─▶ running ─▶ done
 *               ▲                                            │ AGAIN (kube_response.h): after a pause
 *               └────────────────── paused ◀─────────────────┘ LOGIN: at once, with fresh credentials, once
 *
 * The pause between two attempts is an exponential back-off with a random part, plus the server's
 * Retry-After. At most PL_KUBE_CALLS calls run at a time over persistent connections, at the rate of
 * kube_rate_limit.h. Streams (watches, followed logs) have PL_KUBE_STREAMS connections of their own and no
 * rate limit; kube_client does not retry a stream, because only the stream's reader knows where to continue.
 * At most PL_KUBE_LOGS of the streams are logs, so that watches, which everything depends on, always find a
 * connection. `done` and `write` are called on the I/O thread and must not block. Any thread may start calls. */
#pragma once

#include "pipelined/kube/client/kube_identity.h"
#include "pipelined/kube/client/kube_response.h"

#include <jansson.h>
#include <stdatomic.h>

#define PL_KUBE_CALLS       32u
#define PL_KUBE_STREAMS     48u
#define PL_KUBE_LOGS        16u
#define PL_KUBE_STALL_MS    30000
#define PL_KUBE_DEADLINE_MS 120000 /* time limit of a call including all its attempts */
#define PL_KUBE_PAUSE_MS    200    /* first pause between attempts; doubles up to PL_KUBE_PAUSE_MOST */
#define PL_KUBE_PAUSE_MOST  10000
#define PL_KUBE_REPLY_MAX   (16u << 20)
#define PL_KUBE_PATH_MAX    4096u
#define PL_KUBE_WAITING_MAX 65536u /* maximum number of waiting calls; further calls fail with PL_EBUSY */
#define PL_KUBE_METADATA                                                                                                         \
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json" /* `accept` that requests only metadata */
#define PL_KUBE_METADATA_LIST "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
/* interval at which a call that waits for its next attempt checks whether it was cancelled */
#define PL_KUBE_CANCEL_MS 250

struct pl_kube_client;

struct pl_kube_client_config {
    struct pl_kubeconfig kubeconfig; /* moved into the client by pl_kube_client_create */
    unsigned calls;                  /* maximum number of concurrent calls; 0 = PL_KUBE_CALLS */
    int64_t pause_ms;                /* first pause between attempts; 0 = PL_KUBE_PAUSE_MS */
};

struct pl_kube_call {
    /* The request. Its strings and body must stay valid until `done` is called. */
    const char *method; /* HTTP method: "GET", "POST", "PATCH" or "DELETE" */
    const char *path;   /* path with query, percent-encoded: "/api/v1/…" */
    const char *body;   /* request body; NULL = none */
    size_t body_len;
    const char *content_type; /* media type of the body; NULL = application/json */
    const char *accept;       /* media types of the Accept header; NULL = application/json */
    bool stream;
    bool log; /* this stream follows or reads a container's log */
    /* low priority, for calls that no user waits for, such as deletions; these calls use at most half of
     * the concurrent calls */
    bool later;
    bool once; /* make no retries, except one with fresh credentials after status 401 */
    /* ms after the first failure (other than status 429) during which new attempts may begin, so that the
     * caller can report the failure early; 0 = until the deadline */
    int64_t tries_ms;
    /* time limit of the call with all its attempts; 0 = PL_KUBE_DEADLINE_MS, or no limit for a stream */
    int64_t deadline_ms;
    int64_t stall_ms; /* time without any data after which an attempt fails; 0 = PL_KUBE_STALL_MS */
    /* Receives the bytes of a 2xx answer's body; if NULL, the body is stored in `reply`. A negative return
     * value ends the call with that error. `restart` (may be NULL) is called before each attempt. */
    int (*write)(void *self, const void *data, size_t n, struct pl_err *err);
    void (*restart)(void *self);
    void (*begins)(void *self); /* called when a stream's answer is a 2xx, before any of its bytes; may be NULL */
    void *write_self;
    void (*done)(struct pl_kube_call *c); /* called exactly once; may free the call or start it again */
    void *arg;

    /* The outcome, valid from the call of `done` on. */
    struct pl_err err; /* error of the call; code 0 = a 2xx answer was received completely */
    enum pl_kube_verdict verdict;
    struct pl_kube_status status; /* the last answer's status; code 0 = the last attempt got no answer */
    bool unknown;                 /* the call failed, but the server may have carried out the request */
    unsigned attempts;
    struct pl_buf reply; /* body of the answer; freed by pl_kube_call_finish */

    /* Private to kube_client. */
    struct pl_kube_client *client_;
    struct pl_kube_call *next_;
    struct pl_kube_auth *auth_;
    struct pl_http_exchange x_;
    struct pl_http_timer timer_;
    struct iovec iov_;
    struct pl_buf url_;
    const char *headers_[8];
    char type_[96], accept_[112];
    int64_t tries_until_, deadline_at_, began_ms_, due_ms_;
    bool login_tried_;
    atomic_bool cancel_;
};

/* Creates a client and its I/O thread; sends nothing. Takes the contents of config->kubeconfig, also on
 * failure. PL_EUNAVAILABLE (no libcurl), PL_EINVAL, PL_EIO, PL_ENOMEM. */
PL_MUST_CHECK
int pl_kube_client_create(struct pl_kube_client_config *config, struct pl_kube_client **ret, struct pl_err *err);
/* Makes the client begin no more calls and retry none: waiting calls end with PL_ECANCELED, running attempts
 * are completed. A thread in pl_kube_client_run returns when its attempt has ended. Any thread. */
void pl_kube_client_close(struct pl_kube_client *c);
/* Ends all calls with PL_ECANCELED, joins the I/O thread and frees the client. Not on the I/O thread. NULL is
 * allowed; returns NULL. */
struct pl_kube_client *pl_kube_client_destroy(struct pl_kube_client *c);

/* Starts a call and returns at once; `done` is called when it has ended, possibly within this function if too
 * many calls wait. Any thread. */
void pl_kube_client_start(struct pl_kube_client *c, struct pl_kube_call *call);
/* Cancels a call whose `done` has not been called: it ends soon, with PL_ECANCELED unless it was already
 * complete. Any thread. */
void pl_kube_client_cancel(struct pl_kube_client *c, struct pl_kube_call *call);
/* Starts a call and waits for its end; returns call->err.code. Overwrites the call's `done` and `arg`. Not on
 * the I/O thread. */
PL_MUST_CHECK
int pl_kube_client_run(struct pl_kube_client *c, struct pl_kube_call *call, struct pl_err *err);
/* Rewrites a call's error so that users of the daemon do not mistake it for an error of the daemon itself or
 * of their own token: if the API server is unreachable or rejects the daemon's credentials, the error becomes
 * PL_EUNAVAILABLE and names the API server. Other errors stay as they are. Returns the error's code. */
int pl_kube_client_blame(const struct pl_kube_client *c, struct pl_err *err);
/* Frees the buffers of a call that has ended. */
void pl_kube_call_finish(struct pl_kube_call *call);

/* Sends a GET, waits, and parses the answer as JSON. PL_EPROTO (not JSON); errors of the call. Not on the I/O
 * thread. */
PL_MUST_CHECK
int pl_kube_client_get(struct pl_kube_client *c, const char *path, json_t **ret, struct pl_err *err);

/* Runs t->fn on the I/O thread; see pl_http_io_at. */
void pl_kube_client_at(struct pl_kube_client *c, struct pl_http_timer *t);
/* pl_kube_client_name returns "https://host:port (context NAME)" for messages; pl_kube_client_namespace
 * returns the namespace of the context. The client owns both strings. */
const char *pl_kube_client_name(const struct pl_kube_client *c);
const char *pl_kube_client_namespace(const struct pl_kube_client *c);

struct pl_kube_client_view {
    double rate; /* current rate limit, requests per second */
    /* requests: number of attempts sent; retries: number of those attempts that repeated a call's earlier
     * attempt */
    uint64_t requests, retries;
    uint64_t throttled; /* number of answers with status 429 */
    size_t waiting, running;
};
void pl_kube_client_look(struct pl_kube_client *c, struct pl_kube_client_view *ret);
