/* kube_informer: runs kube_watch over a client: keeps a collection up to date until the informer is
 * destroyed. The `event` callback of the configuration is called on the I/O thread, never concurrently; its
 * object is borrowed. */
#pragma once

#include "pipelined/kube/client/kube_client.h"
#include "pipelined/kube/watch/kube_watch.h"

struct pl_kube_informer;

/* Creates an informer and starts it at once. `config`: see kube_watch.h; seed 0 = random. The client must
 * outlive the informer. PL_EINVAL, PL_ENOMEM. */
PL_MUST_CHECK
int pl_kube_informer_create(struct pl_kube_client *c, const struct pl_kube_watch_config *config, struct pl_kube_informer **ret,
                            struct pl_err *err);
/* Stops the informer and frees it; no event is delivered after this function has returned. Not on the I/O
 * thread. NULL is allowed; returns NULL. */
struct pl_kube_informer *pl_kube_informer_destroy(struct pl_kube_informer *i);

/* A copy of the watch's state (see struct pl_kube_watch_view). */
struct pl_kube_informer_view {
    size_t objects;
    uint64_t lists, watches, events;
    bool synced;
    unsigned failures;
    char problem[1024]; /* error text of the last failure; "" = none */
};
/* Copies the current state. Any thread. */
void pl_kube_informer_look(struct pl_kube_informer *i, struct pl_kube_informer_view *ret);
