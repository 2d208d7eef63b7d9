/* kube_watch: keeps one collection (the pods of a namespace, nodes) up to date: chooses the next request,
 * interprets its bytes, and decides when to continue or start over. Pure: the caller feeds answers and times
 * and sends the requests.
 *
 *             ┌────────── continue token ──────────┐
 *             ▼                                    │
 *   ──▶ listing ──page──▶ listing ──last page──▶ DELETED for missing objects ──▶ SYNCED ──▶ watching
 *             ▲                                                                               │
 *             └── 410 as status or in a frame · ahead of the server · no frames at all ◀──────┤
 *                                         other end: watch again from the last version ◀──────┘
 *
 * Events: ADDED and MODIFIED have the object, reduced to the members to keep. DELETED has its last state; if
 * the deletion itself was missed, it has only metadata {name, namespace, uid}. An object that reappears with
 * another uid is DELETED, then ADDED. SYNCED follows each complete list; unchanged objects cause no event.
 * Every object has exactly one ADDED before its MODIFIED events, and at most one DELETED.
 *
 * A watch that ends normally is continued at once; one that ends again within a second is continued after a
 * pause: 0.8 s, doubling up to 30 s, half of it random from `seed`. Servers send bookmark frames, so complete
 * watches without any frame are suspicious and lead to a new list: after one that lasted PL_KUBE_QUIET_MS, or
 * PL_KUBE_EMPTY_MAX in a row.
 *
 * Memory: about 200 bytes per object (name, uid and a hash of the version); at most PL_KUBE_OBJECTS_MAX
 * objects. Single-threaded. */
#pragma once

#include "pipelined/kube/client/kube_response.h"
#include "pipelined/kube/watch/kube_stream.h"

#define PL_KUBE_PAGE 500u
#define PL_KUBE_WATCH_S                                                                                                          \
    60u /* minimum seconds of a watch; a random time up to as long is added; short watches find dead connections sooner */
/* ms without data after a watch's own time limit until its connection counts as dead */
#define PL_KUBE_PATIENCE_MS  30000
#define PL_KUBE_LIST_MS      120000 /* time limit of the request for one list page */
#define PL_KUBE_QUIET_MS     60000
#define PL_KUBE_EMPTY_MAX    3u
#define PL_KUBE_BACKOFF_MS   800
#define PL_KUBE_BACKOFF_MOST 30000
#define PL_KUBE_OBJECTS_MAX  1000000u

enum pl_kube_event { PL_KUBE_ADDED, PL_KUBE_MODIFIED, PL_KUBE_DELETED, PL_KUBE_SYNCED };
const char *pl_kube_event_name(enum pl_kube_event e);

struct pl_kube_watch_config {
    const char *path;            /* path of the collection: "/api/v1/namespaces/N/pods" */
    const char *labels, *fields; /* label and field selectors; NULL = none */
    const char *keep;            /* members to keep (kube_stream.h); NULL = all */
    /* request only the objects' metadata; kube_informer, which sends the requests, obeys it */
    bool metadata_only;
    unsigned page; /* objects per page; 0 = PL_KUBE_PAGE */
    /* first pause after a failure; later pauses are longer; 0 = PL_KUBE_BACKOFF_MS */
    int64_t pause_ms;
    uint64_t seed;
    /* Receives an event. `object` is borrowed; NULL with SYNCED. A negative result ends the request with that
     * error, and the event is delivered again later. */
    int (*event)(void *self, enum pl_kube_event e, json_t *object, struct pl_err *err);
    void *self;
};

struct pl_kube_watch;

/* Creates the state machine; copies the configuration. PL_EINVAL (`keep` is malformed), PL_ENOMEM. */
PL_MUST_CHECK
int pl_kube_watch_create(const struct pl_kube_watch_config *config, struct pl_kube_watch **ret, struct pl_err *err);
struct pl_kube_watch *pl_kube_watch_destroy(struct pl_kube_watch *w);

struct pl_kube_watch_request {
    const char *path;   /* path with query; the watch owns it until the request has ended */
    int64_t timeout_ms; /* time limit of the request */
    int64_t stall_ms;   /* time without any received byte after which the request fails */
    bool watching;
};
/* Chooses the next request: returns 0 and sets `ret`, or returns the ms to wait before the next call. Not
 * while a request is in progress. PL_ENOMEM. */
PL_MUST_CHECK
int64_t pl_kube_watch_next(struct pl_kube_watch *w, int64_t now_ms, struct pl_kube_watch_request *ret, struct pl_err *err);
/* Call when the answer's head is there and is a 200: the last failure is over. */
void pl_kube_watch_answers(struct pl_kube_watch *w);
/* Processes bytes of a 200 answer's body. After a negative result the caller must cancel the request and call
 * pl_kube_watch_ended. */
PL_MUST_CHECK
int pl_kube_watch_bytes(struct pl_kube_watch *w, const void *data, size_t n, struct pl_err *err);
/* Call when the request has ended: `status` is the answer's (code 200 for a normal end, 0 if the connection
 * broke); `err` has code 0, or the reason why the connection broke. */
void pl_kube_watch_ended(struct pl_kube_watch *w, int64_t now_ms, const struct pl_kube_status *status, const struct pl_err *err);

struct pl_kube_watch_view {
    size_t objects;
    uint64_t lists, watches, events; /* number of lists and watches begun, and of events delivered */
    bool synced;                     /* a list was completed, and no later change is known to be missing */
    unsigned failures;               /* number of failures in a row */
    const char *problem;             /* reason of the last failure; "" = none; the watch owns it */
};
void pl_kube_watch_look(const struct pl_kube_watch *w, struct pl_kube_watch_view *ret);
