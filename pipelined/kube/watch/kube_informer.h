/* kube_informer: kube_watch over a client: a collection that is kept up to date for as long as it lives. `event` is called on the I/O
 * thread, one at a time; what it gets is borrowed. */
#pragma once

#include "pipelined/kube/client/kube_client.h"
#include "pipelined/kube/watch/kube_watch.h"

struct pl_kube_informer;

/* Begins at once. `config` as for kube_watch (seed 0 = by chance). PL_EINVAL, PL_ENOMEM. The client outlives it. */
PL_MUST_CHECK
int pl_kube_informer_create(struct pl_kube_client *c, const struct pl_kube_watch_config *config, struct pl_kube_informer **ret,
                            struct pl_err *err);
/* No event comes after it returned. Not on the I/O thread. Takes NULL, returns NULL. */
struct pl_kube_informer *pl_kube_informer_destroy(struct pl_kube_informer *i);

/* A copy of how it stands. Any thread. */
struct pl_kube_informer_view {
    size_t objects;
    uint64_t lists, watches, events;
    bool synced;
    unsigned failures;
    char problem[1024]; /* the server's words; "" */
};
void pl_kube_informer_look(struct pl_kube_informer *i, struct pl_kube_informer_view *ret);
