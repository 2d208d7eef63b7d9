/* kube_client: requests to one API server until their outcome is known: with whose identity, how many at a time and a second, and again
 * where that may help.
 *
 *   start ─▶ queued ─▶ (identity: a plugin may run) ─▶ running ─▶ done
 *               ▲                                         │ AGAIN (kube_status.h): after a pause with jitter, or what Retry-After says
 *               └──────────────── paused ◀────────────────┘ LOGIN: at once, with a fresh identity, once
 *
 * At most PL_KUBE_CALLS run at a time over kept connections, at the rate of kube_rate; streams (watches, followed logs) have connections of
 * their own, PL_KUBE_STREAMS of them, no rate, and are not tried again here: who reads them knows from where. Logs have PL_KUBE_LOGS of these at
 * most: the others are for watches, which nothing goes on without. `done` and `write` are called on the I/O
 * thread and must not block. Any thread may start. */
#pragma once

#include "pipelined/kube/client/kube_identity.h"
#include "pipelined/kube/client/kube_response.h"

#include <jansson.h>
#include <stdatomic.h>

#define PL_KUBE_CALLS       32u
#define PL_KUBE_STREAMS     48u
#define PL_KUBE_LOGS        16u
#define PL_KUBE_STALL_MS    30000
#define PL_KUBE_DEADLINE_MS 120000 /* of a call with all its attempts */
#define PL_KUBE_PAUSE_MS    200    /* the first; doubles up to */
#define PL_KUBE_PAUSE_MOST  10000
#define PL_KUBE_REPLY_MAX   (16u << 20)
#define PL_KUBE_PATH_MAX    4096u
#define PL_KUBE_WAITING_MAX 65536u /* calls that wait; more: PL_EBUSY */
#define PL_KUBE_METADATA                                                                                                         \
    "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1,application/json" /* `accept`: of objects only metadata travels */
#define PL_KUBE_METADATA_LIST "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json"
#define PL_KUBE_CANCEL_MS     250 /* a pause looks so often whether its call is to be given up */

struct pl_kube_client;

struct pl_kube_client_config {
    struct pl_kubeconfig kubeconfig; /* taken over */
    unsigned calls;                  /* at a time; 0 = PL_KUBE_CALLS */
    int64_t pause_ms;                /* 0 = PL_KUBE_PAUSE_MS */
};

struct pl_kube_call {
    /* The request; borrowed until done. */
    const char *method; /* "GET", "POST", "PATCH", "DELETE" */
    const char *path;   /* "/api/v1/…": percent-encoded, with query */
    const char *body;   /* NULL = none */
    size_t body_len;
    const char *content_type; /* NULL = application/json */
    const char *accept;       /* NULL = application/json */
    bool stream;
    bool log; /* a stream that is a log */
    bool
        later; /* half of the places are kept for those that are not: somebody waits for what is made, nobody for what is removed */
    bool once; /* no second attempt, but for LOGIN */
    int64_t
        tries_ms; /* so long after the first failure (but 429) no attempt is begun: whoever waits says why; 0 = until the deadline */
    int64_t deadline_ms; /* 0 = PL_KUBE_DEADLINE_MS; of a stream: none */
    int64_t stall_ms;    /* 0 = PL_KUBE_STALL_MS */
    /* The body of a 2xx: to `write` (negative ends the call with its error; `restart` before each attempt), else to `reply`. */
    int (*write)(void *self, const void *data, size_t n, struct pl_err *err);
    void (*restart)(void *self);
    void (*begins)(void *self); /* of a stream, as `write`: its answer is a 2xx, whether or not bytes of it come soon; NULL */
    void *write_self;
    void (*done)(struct pl_kube_call *c); /* exactly once; may free or start again */
    void *arg;

    /* What came of it. */
    struct pl_err err; /* code 0: a 2xx, whole */
    enum pl_kube_verdict verdict;
    struct pl_kube_status status; /* of the last answer; code 0 = the last attempt got none */
    bool unknown;                 /* it failed, and may yet have been carried out */
    unsigned attempts;
    struct pl_buf reply; /* pl_kube_call_finish */

    /* kube_client's own. */
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

/* PL_EUNAVAILABLE (no libcurl), PL_EINVAL, PL_EIO, PL_ENOMEM. Nothing is sent yet. */
PL_MUST_CHECK
int pl_kube_client_create(struct pl_kube_client_config *config, struct pl_kube_client **ret, struct pl_err *err);
/* No call is begun or tried again from now on: it ends with PL_ECANCELED. So do those that wait; who waits for one by pl_kube_client_run is
 * back when its attempt is over. Any thread. */
void pl_kube_client_close(struct pl_kube_client *c);
/* Calls under way end with PL_ECANCELED; joins the I/O thread. Not on it. Takes NULL, returns NULL. */
struct pl_kube_client *pl_kube_client_destroy(struct pl_kube_client *c);

void pl_kube_client_start(struct pl_kube_client *c, struct pl_kube_call *call);
/* It ends at its next step, with PL_ECANCELED unless it was over: at once when it runs. Before `done` only. Any thread. */
void pl_kube_client_cancel(struct pl_kube_client *c, struct pl_kube_call *call);
/* Starts it and waits; returns call->err.code. `done` and `arg` are used. Not on the I/O thread. */
PL_MUST_CHECK
int pl_kube_client_run(struct pl_kube_client *c, struct pl_kube_call *call, struct pl_err *err);
/* The error of a call as those are told it who asked the daemon: a server that is away, or does not take the daemon's credentials, is neither
 * their server nor their token. PL_EUNAVAILABLE, and which one; any other stays. Returns its code. */
int pl_kube_client_blame(const struct pl_kube_client *c, struct pl_err *err);
/* Gives back what a call holds. */
void pl_kube_call_finish(struct pl_kube_call *call);

/* GET and the answer's JSON. PL_EPROTO; as the call. Waits. */
PL_MUST_CHECK
int pl_kube_client_get(struct pl_kube_client *c, const char *path, json_t **ret, struct pl_err *err);

/* Runs t->fn on the I/O thread, as pl_http_io_at does. */
void pl_kube_client_at(struct pl_kube_client *c, struct pl_http_timer *t);
/* "https://host:port (context NAME)": for messages; the namespace of the context. */
const char *pl_kube_client_name(const struct pl_kube_client *c);
const char *pl_kube_client_namespace(const struct pl_kube_client *c);

struct pl_kube_client_view {
    double rate;                /* a second, now */
    uint64_t requests, retries; /* attempts in all; of them not the first */
    uint64_t throttled;         /* answers 429 */
    size_t waiting, running;
};
void pl_kube_client_look(struct pl_kube_client *c, struct pl_kube_client_view *ret);
