/* kube_write: objects made exactly once and removed exactly as they were seen. Names are given by us, so that making one twice is seen:
 * a 409 is looked into, and what is there is ours when it carries our hash. */
#pragma once

#include "pipelined/kube/client/kube_client.h"

#define PL_KUBE_HASH                                                                                                             \
    "pipelined.io/hash" /* the annotation by which an object is known as what we would make; webhooks may change the rest */

/* "/api/v1/namespaces/n/pods[/name[/sub]]": `api` "v1" or "group/version"; `space` NULL = of the cluster; appended with a NUL that is not
 * counted. PL_ENOMEM, PL_EINVAL (a name that is no name of Kubernetes: lower case letters, digits, "-", "."; ≤ 253). */
PL_MUST_CHECK
int pl_kube_path(struct pl_buf *out, const char *api, const char *space, const char *resource, const char *name, const char *sub,
                 struct pl_err *err);

enum pl_kube_object_made { PL_KUBE_MADE, PL_KUBE_WAS_THERE };

/* One object to be made. The caller's, untouched by it until done. */
struct pl_kube_object_create {
    /* Borrowed until done. */
    const char *collection; /* a path */
    const char *name;       /* that the body has */
    const char *hash;       /* that the body has as annotation PL_KUBE_HASH */
    const char *body;       /* JSON */
    size_t body_len;
    bool dry_run;                  /* everything but keeping it: admission and all its messages */
    bool metadata_only;            /* nothing else of what is there comes back, and none of that is left behind */
    int64_t tries_ms, deadline_ms; /* as of a call */
    void (*done)(struct pl_kube_object_create *op); /* on the I/O thread, once */
    void *arg;

    /* What came of it: code 0, or PL_EEXISTS when another object has its name, or as the call. */
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
/* Starts it and waits; returns op->err.code. `done` and `arg` are used. Not on the I/O thread. */
PL_MUST_CHECK
int pl_kube_object_create_run(struct pl_kube_client *c, struct pl_kube_object_create *op);
void pl_kube_object_create_finish(struct pl_kube_object_create *op);

/* One object to be removed: exactly the one with this uid. */
struct pl_kube_object_delete {
    const char *path, *uid;
    int64_t grace_s;       /* -1 = as the object says */
    const char *propagate; /* "Background", "Foreground", "Orphan"; NULL = Background */
    bool metadata_only;    /* as above */
    int64_t deadline_ms;
    void (*done)(struct pl_kube_object_delete *op);
    void *arg;

    struct pl_err err; /* code 0: it is going, or was gone, or its name is another's by now */
    bool was_gone;

    struct pl_kube_call call_;
    struct pl_buf body_;
};
void pl_kube_object_delete_start(struct pl_kube_client *c, struct pl_kube_object_delete *op);
/* As pl_kube_object_create_run. */
PL_MUST_CHECK
int pl_kube_object_delete_run(struct pl_kube_client *c, struct pl_kube_object_delete *op);
void pl_kube_object_delete_finish(struct pl_kube_object_delete *op);
