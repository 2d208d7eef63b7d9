/* kube_object: creates objects exactly once and deletes exactly the object that was seen. The caller
 * chooses the names, so that a repeated creation is noticed: the server answers 409, and the existing object
 * is read. If that object has the hash of the requested object, an earlier attempt created it. */
#pragma once

#include "pipelined/kube/client/kube_client.h"

#define PL_KUBE_HASH                                                                                                             \
    "pipelined.io/hash" /* annotation with an object's hash: an object with the same hash was made by an earlier attempt */

/* Appends "/api/v1/namespaces/n/pods[/name[/sub]]" to `out`, with a NUL that is not counted. `api`: "v1" or
 * "group/version"; `space` NULL = a cluster-wide object. PL_ENOMEM, PL_EINVAL (not a Kubernetes name: lower
 * case letters, digits, "-", "."; at most 253 bytes). */
PL_MUST_CHECK
int pl_kube_path(struct pl_buf *out, const char *api, const char *space, const char *resource, const char *name, const char *sub,
                 struct pl_err *err);

enum pl_kube_object_made { PL_KUBE_MADE, PL_KUBE_WAS_THERE };

/* A request to create an object. Owned by the caller, who must not change it until `done` is called. */
struct pl_kube_object_create {
    /* The request. Its strings must stay valid until `done` is called. */
    const char *collection; /* path of the collection: "/api/v1/namespaces/N/pods" */
    const char *name;       /* name of the object, as in the body */
    const char *hash;       /* hash of the object, as in the body's annotation PL_KUBE_HASH */
    const char *body;       /* the object as JSON */
    size_t body_len;
    /* the server checks the object and reports all its messages, but does not store it */
    bool dry_run;
    bool metadata_only;            /* the server returns only metadata, and the answers are overwritten after use */
    int64_t tries_ms, deadline_ms; /* time limits, as in struct pl_kube_call */
    void (*done)(struct pl_kube_object_create *op); /* called once, on the I/O thread */
    void *arg;

    /* The outcome: code 0 = the object exists; PL_EEXISTS = another object has the name; else the error of
     * the API call. */
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
/* Creates the object and waits; returns op->err.code. Overwrites op->done and op->arg. Not on the I/O
 * thread. */
PL_MUST_CHECK
int pl_kube_object_create_run(struct pl_kube_client *c, struct pl_kube_object_create *op);
void pl_kube_object_create_finish(struct pl_kube_object_create *op);

/* A request to delete exactly the object with this uid. */
struct pl_kube_object_delete {
    const char *path, *uid;
    int64_t grace_s;       /* grace period in seconds; -1 = the object's own */
    const char *propagate; /* propagation policy: "Background", "Foreground", "Orphan"; NULL = Background */
    bool metadata_only;    /* as in struct pl_kube_object_create */
    int64_t deadline_ms;
    void (*done)(struct pl_kube_object_delete *op);
    void *arg;

    /* code 0: the object is being deleted, or it no longer exists (even if another object has its name
     * now) */
    struct pl_err err;
    bool was_gone;

    struct pl_kube_call call_;
    struct pl_buf body_;
};
void pl_kube_object_delete_start(struct pl_kube_client *c, struct pl_kube_object_delete *op);
/* Deletes the object and waits; otherwise like pl_kube_object_create_run. */
PL_MUST_CHECK
int pl_kube_object_delete_run(struct pl_kube_client *c, struct pl_kube_object_delete *op);
void pl_kube_object_delete_finish(struct pl_kube_object_delete *op);
