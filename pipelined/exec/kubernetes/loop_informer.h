/* kube_feed: a collection of the cluster (kube_informer.h) whose events arrive on the loop, in their order. Between the two threads lie at
 * most PL_LOOP_INFORMER_MAX events: when the loop does not keep up, the request is cut and made again later. Functions are the loop's. */
#pragma once

#include "pipelined/kube/watch/kube_informer.h"
#include "pipelined/net/loop/loop.h"

#define PL_LOOP_INFORMER_MAX  65536u
#define PL_LOOP_INFORMER_TURN 256u /* events in one turn of the loop */

struct pl_kube_feed;

struct pl_loop_informer_config {
    struct pl_loop *loop;
    struct pl_kube_client *client;
    const char *path, *labels, *fields, *keep; /* as of kube_watch.h; copied */
    bool metadata_only;                        /* as there */
    json_t *known; /* {NAME: …} of what was asked for before; NULL = nothing. The caller's reference is taken, whatever
                                                  comes of it. Who is not there when all that is there has come was told of by nobody: its DELETED
                                                  comes before the first SYNCED, with metadata {name} */
    /* `object` is borrowed, NULL with SYNCED. */
    void (*event)(void *self, enum pl_kube_event e, json_t *object);
    void *self;
};

/* Begins at once. PL_EINVAL, PL_ENOMEM. */
PL_MUST_CHECK
int pl_loop_informer_create(const struct pl_loop_informer_config *config, struct pl_kube_feed **ret, struct pl_err *err);
/* No event comes after it was called. Takes NULL, returns NULL. */
struct pl_kube_feed *pl_loop_informer_destroy(struct pl_kube_feed *f);
/* The server's words when it fails, "" else; `out` of at least 1,024 bytes. */
void pl_loop_informer_problem(struct pl_kube_feed *f, char *out, size_t n);
