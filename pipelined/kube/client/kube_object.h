/* kube_object: creates objects exactly once and deletes exactly the object that was seen. The caller chooses
 * the names, so that a repeated creation is noticed: after a 409 answer the existing object is read, and it
 * counts as ours if it has our hash. */
#pragma once

#include "pipelined/kube/client/kube_client.h"

#define PL_KUBE_HASH                                                                                                             \
    "pipelined.io/hash" /* annotation that identifies an object as the one we would create; webhooks may change the rest */

/* Appends "/api/v1/namespaces/n/pods[/name[/sub]]" to `out`, with a NUL that is not counted. `api`: "v1" or
 * "group/version"; `space` NULL = a cluster-wide object. PL_ENOMEM, PL_EINVAL (not a Kubernetes name: lower
 * case letters, digits, "-", "."; at most 253 bytes). */
PL_MUST_CHECK
int pl_kube_path(struct pl_buf *out, const char *api, const char *space, const char *resource, const char *name, const char *sub,
                 struct pl_err *err);

enum pl_kube_object_made { PL_KUBE_MADE, PL_KUBE_WAS_THERE };

/* A creation. Owned by the caller, who must not change it until `done`. */
struct pl_kube_object_create {
    /* The request. Its memory is borrowed until `done`. */
    const char *collection; /* path of the collection */
    const char *name;       /* name of the object, as in the body */
    const char *hash;       /* hash of the object, as in the body's annotation PL_KUBE_HASH */
    const char *body;       /* the object as JSON */
    size_t body_len;
    bool dry_run;                  /* admission with all its messages, but the object is not stored */
    bool metadata_only;            /* the server returns only metadata, and the answers are overwritten after use */
    int64_t tries_ms, deadline_ms; /* see pl_kube_call */
    void (*done)(struct pl_kube_object_create *op); /* called once, on the I/O thread */
    void *arg;

    /* The outcome: code 0; PL_EEXISTS if another object has the name; else the call's error. */
    struct pl_err err;
    enum pl_kube_verdict verdict;
    struct pl_kube_status status;
    enum pl_kube_object_made made;
    char uid[64];

    struct pl_kube_client *client_;
    struct pl_kube_call call_;
    struct pl_buf path_;
    bool looking_;
};
void pl_kube_object_create_start(struct pl_kube_client *c, struct pl_kube_object_create *op);
/* Creates the object and waits; returns op->err.code. Uses `done` and `arg`. Not on the I/O thread. */
PL_MUST_CHECK
int pl_kube_object_create_run(struct pl_kube_client *c, struct pl_kube_object_create *op);
void pl_kube_object_create_finish(struct pl_kube_object_create *op);

/* A deletion of exactly the object with this uid. */
struct pl_kube_object_delete {
    const char *path, *uid;
    int64_t grace_s;       /* grace period in seconds; -1 = the object's own */
    const char *propagate; /* propagation policy: "Background", "Foreground", "Orphan"; NULL = Background */
    bool metadata_only;    /* as in struct pl_kube_object_create */
    int64_t deadline_ms;
    void (*done)(struct pl_kube_object_delete *op);
    void *arg;

    struct pl_err err; /* code 0: the object is being deleted or was gone already, or another object has its name */
    bool was_gone;

    struct pl_kube_call call_;
    struct pl_buf body_;
};
void pl_kube_object_delete_start(struct pl_kube_client *c, struct pl_kube_object_delete *op);
/* See pl_kube_object_create_run. */
PL_MUST_CHECK
int pl_kube_object_delete_run(struct pl_kube_client *c, struct pl_kube_object_delete *op);
void pl_kube_object_delete_finish(struct pl_kube_object_delete *op);
