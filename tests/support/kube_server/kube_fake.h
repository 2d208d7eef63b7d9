/* kube_fake: an API server in this process: objects of any kind under their paths, lists in pages, watches with bookmarks, conflicts,
 * preconditions, dry run, logs, access reviews; and the faults that real ones have. One thread of its own, plain HTTP on loopback, any
 * number of connections. It is checked by running the same tests of the client on it and on the real one.
 *
 * Paths are those of the API: "/api/v1/namespaces/n/pods" is a collection, "…/pods/a" an object of it, "…/pods/a/status" and "/log" what
 * belongs to it. Any collection is there. Selectors: labels by "k=v,k2!=v,k3,…"; fields by dotted paths ("involvedObject.uid=u").
 *
 * Functions may be called by any thread. */
#pragma once

#include "storage/base/base.h"
#include <jansson.h>

struct kube_fake;

#define KUBE_FAKE_HISTORY 8192 /* events that a watch may go back */

struct kube_fake *kube_fake_start(void);
void kube_fake_stop(struct kube_fake *f);
/* "http://127.0.0.1:PORT" */
const char *kube_fake_url(const struct kube_fake *f);

enum kube_fault {
    KUBE_FAULT_ANSWER, /* `status` and `body` instead of doing it */
    KUBE_FAULT_AFTER,  /* it is done, and then that is answered */
    KUBE_FAULT_CUT,    /* the connection ends after `bytes` of the answer (a watch: of its frames) */
    KUBE_FAULT_SILENT, /* nothing is ever said on this connection again */
};
struct kube_fake_fault {
    const char *method; /* NULL = any; "WATCH" = a GET that watches */
    const char *part;   /* of the path and query; NULL = any */
    enum kube_fault kind;
    unsigned status, retry_after_s;
    const char *body; /* all texts must outlive the server */
    size_t bytes;
    unsigned times; /* so often; 0 = until kube_fake_heal */
};
/* They come in the order in which they were added; the first that fits counts. At most 32. */
void kube_fake_fault(struct kube_fake *f, struct kube_fake_fault fault);
void kube_fake_heal(struct kube_fake *f);

/* What another client would do; `collection` as in paths. The object's version and uid are made. */
void kube_fake_put(struct kube_fake *f, const char *collection, json_t *object /* taken over */);
/* Merges `patch` into the object at this path; false when there is none. */
bool kube_fake_patch(struct kube_fake *f, const char *path, json_t *patch /* taken over */);
bool kube_fake_delete(struct kube_fake *f, const char *path);
/* A copy; NULL when there is none. The caller's. */
json_t *kube_fake_get(struct kube_fake *f, const char *path);
size_t kube_fake_count(struct kube_fake *f, const char *collection);
/* Watches that are not at the newest version must list again. */
void kube_fake_compact(struct kube_fake *f);
/* The store as it was at an older version, as after a backup was put back: newer objects are gone, their watches wait for ever. */
void kube_fake_set_back(struct kube_fake *f, unsigned long version);
/* A bookmark for every watch now. */
void kube_fake_bookmark(struct kube_fake *f);
/* Ends every watch, well or by breaking its connection. */
void kube_fake_end_watches(struct kube_fake *f, bool broken);
/* What is printed by pods: lines with times, as `timestamps=true` shows them; `over`: a follower's answer ends there. Replaces. */
void kube_fake_log(struct kube_fake *f, const char *pod_path, const char *lines, bool over);
/* Access reviews say no to "verb group/resource" lists, separated by blanks. The text must outlive the server. */
void kube_fake_deny(struct kube_fake *f, const char *denied);
/* Requests with this token (NULL = with any) are let in, others get 401. */
void kube_fake_token(struct kube_fake *f, const char *token);

struct kube_fake_view {
    unsigned long requests, writes, connections, watches; /* watches: open now; the others: ever */
    unsigned long with_data;                              /* objects with "data" that were answered whole: not in watches */
    unsigned at_once;                                     /* connections open at the same time, at most */
    unsigned long counted;                                /* see kube_fake_count_requests */
};
void kube_fake_look(struct kube_fake *f, struct kube_fake_view *ret);
/* From now on `counted` counts the requests with this method (NULL = any) and this part in their path, from 0. The texts must outlive the server. */
void kube_fake_count_requests(struct kube_fake *f, const char *method, const char *part);
/* Waits until so many watches are open, or so many requests have come. */
void kube_fake_await_watches(struct kube_fake *f, unsigned long n);
void kube_fake_await_requests(struct kube_fake *f, unsigned long n);
