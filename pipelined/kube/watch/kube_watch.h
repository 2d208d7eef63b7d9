/* kube_watch: one collection (pods of a namespace, nodes) kept up to date: which request comes next, what its bytes mean, when it is
 * asked again. Pure: it is fed answers and times, and says what to send.
 *
 *             ┌────────── continue token ──────────┐
 *             ▼                                    │
 *   ──▶ listing ──page──▶ listing ──last page──▶ deletes of what is not there any more ──▶ SYNCED ──▶ watching
 *             ▲                                                                                         │
 *             └── 410 as status or in a frame · ahead of the server · nothing at all was said ◀─────────┤
 *                                                            ended otherwise: again from the last version ┘
 *
 * Events: ADDED and MODIFIED bring the object (less what is not kept), DELETED the last that was seen of it or, when the deletion itself
 * was not seen, only metadata {name, namespace, uid}. An object that came back under its name with another uid is DELETED, then ADDED.
 * SYNCED comes after each whole list; what had not changed since brings no event. Every object has exactly one ADDED before its
 * MODIFIEDs and at most one DELETED.
 *
 * A watch that ends by itself goes on at once, the second time within a second after a pause: 0.8 s, doubling up to 30 s, half of it by
 * chance from `seed`. Whole watches without a frame (servers send bookmarks) lead to a list: one that lasted PL_KUBE_QUIET_MS, or
 * PL_KUBE_EMPTY_MAX in a row.
 *
 * Memory: name, uid and a hash of the version of each object, ~200 bytes; at most PL_KUBE_OBJECTS_MAX objects. One thread at a time. */
#pragma once

#include "pipelined/kube/client/kube_response.h"
#include "pipelined/kube/watch/kube_stream.h"

#define PL_KUBE_PAGE 500u
#define PL_KUBE_WATCH_S                                                                                                          \
    60u /* asked for: so long, and up to as much again by chance; the less, the sooner a silent connection is known to be dead */
#define PL_KUBE_PATIENCE_MS  30000  /* nothing for so long beyond that: it is */
#define PL_KUBE_LIST_MS      120000 /* one page */
#define PL_KUBE_QUIET_MS     60000
#define PL_KUBE_EMPTY_MAX    3u
#define PL_KUBE_BACKOFF_MS   800
#define PL_KUBE_BACKOFF_MOST 30000
#define PL_KUBE_OBJECTS_MAX  1000000u

enum pl_kube_event { PL_KUBE_ADDED, PL_KUBE_MODIFIED, PL_KUBE_DELETED, PL_KUBE_SYNCED };
const char *pl_kube_event_name(enum pl_kube_event e);

struct pl_kube_watch_config {
    const char *path;            /* of the collection: "/api/v1/namespaces/N/pods" */
    const char *labels, *fields; /* selectors; NULL = none */
    const char *keep;            /* kube_scan.h; NULL = all */
    bool metadata_only;          /* nothing else of objects travels; for who sends the requests */
    unsigned page;               /* objects a page; 0 = PL_KUBE_PAGE */
    int64_t pause_ms;            /* the first pause; 0 = PL_KUBE_BACKOFF_MS */
    uint64_t seed;
    /* `object` is borrowed, NULL with SYNCED. Negative ends the request with that error; it is made again later. */
    int (*event)(void *self, enum pl_kube_event e, json_t *object, struct pl_err *err);
    void *self;
};

struct pl_kube_watch;

/* Copies what it is given. PL_EINVAL (keep), PL_ENOMEM. */
PL_MUST_CHECK
int pl_kube_watch_create(const struct pl_kube_watch_config *config, struct pl_kube_watch **ret, struct pl_err *err);
struct pl_kube_watch *pl_kube_watch_destroy(struct pl_kube_watch *w);

struct pl_kube_watch_request {
    const char *path;   /* with query; the watch's, until it ended */
    int64_t timeout_ms; /* of the whole */
    int64_t stall_ms;   /* without a byte */
    bool watching;
};
/* What to send now: 0 and `ret`, or the ms to wait before asking again. Not while a request is under way. PL_ENOMEM. */
PL_MUST_CHECK
int64_t pl_kube_watch_next(struct pl_kube_watch *w, int64_t now_ms, struct pl_kube_watch_request *ret, struct pl_err *err);
/* Bytes of the body of a 200. Negative: cut the request, then say that it ended. */
PL_MUST_CHECK
int pl_kube_watch_bytes(struct pl_kube_watch *w, const void *data, size_t n, struct pl_err *err);
/* The request ended: `status` of the answer (code 200 when it ended well, 0 when the connection broke), `err` with code 0 or why. */
void pl_kube_watch_ended(struct pl_kube_watch *w, int64_t now_ms, const struct pl_kube_status *status, const struct pl_err *err);

struct pl_kube_watch_view {
    size_t objects;
    uint64_t lists, watches, events; /* begun; handed on */
    bool synced;                     /* since the last list nothing is known to be missing */
    unsigned failures;               /* in a row */
    const char *problem;             /* of the last failure, "" when there is none; the watch's */
};
void pl_kube_watch_look(const struct pl_kube_watch *w, struct pl_kube_watch_view *ret);
