/* loop_informer: watches a collection of the cluster (kube_informer.h) and delivers its events on the loop's
 * thread, in order. At most PL_LOOP_INFORMER_MAX events wait for the loop; if the loop does not keep up, the
 * watch is cut and restarted later. All functions are called on the loop's thread. */
#pragma once

#include "pipelined/kube/watch/kube_informer.h"
#include "pipelined/net/loop/loop.h"

#define PL_LOOP_INFORMER_MAX  65536u
#define PL_LOOP_INFORMER_TURN 256u /* events delivered per loop turn */

struct pl_kube_feed;

struct pl_loop_informer_config {
    struct pl_loop *loop;
    struct pl_kube_client *client;
    /* path of the collection, selectors of its objects, and members to keep of each, see kube_watch.h;
     * copied */
    const char *path, *labels, *fields, *keep;
    bool metadata_only; /* deliver only the objects' metadata, see kube_watch.h */
    /* objects that were listed before the watch starts, as {NAME: …}; NULL = none. pl_loop_informer_create
     * takes ownership of the reference, also on failure. For each of these objects that the watch's first
     * listing lacks, DELETED with metadata {name} is delivered before the first SYNCED */
    json_t *known;
    /* Receives an event of the watch. `object` is borrowed; it is NULL with SYNCED. */
    void (*event)(void *self, enum pl_kube_event e, json_t *object);
    void *self;
};

/* Starts watching. PL_EINVAL, PL_ENOMEM. */
PL_MUST_CHECK
int pl_loop_informer_create(const struct pl_loop_informer_config *config, struct pl_kube_feed **ret, struct pl_err *err);
/* Stops watching: no event is delivered after this call. NULL is allowed; returns NULL. */
struct pl_kube_feed *pl_loop_informer_destroy(struct pl_kube_feed *f);
/* Writes the server's error text to `out` if the watch fails, else "". `out` has at least 1,024 bytes. */
void pl_loop_informer_problem(struct pl_kube_feed *f, char *out, size_t n);
