/* namespace_limits: the requirements that resource quotas and limit ranges of the pods' namespace put on
 * pods. Listed once, then watched. All functions except pl_namespace_limits_create are called on the loop's
 * thread. */
#pragma once

#include "pipelined/exec/kubernetes/loop_informer.h"

#define PL_NAMESPACE_LIMITS_RETRY_MS 10000

struct pl_limits;

struct pl_namespace_limits_config {
    struct pl_loop *loop;
    struct pl_kube_client *client;
    const char *space; /* namespace of the pods; copied */
    /* the account may list, and may watch, quotas and limit ranges; without `ask` nothing is known and
     * nothing required */
    bool ask, follow;
    void (*changed)(void *self); /* called when a quota or limit range changed, or less of a quota is used */
    void *self;
};

/* Lists the limits and waits for the answers; a failed listing is logged. Any thread except the client's.
 * PL_ENOMEM. */
PL_MUST_CHECK
int pl_namespace_limits_create(const struct pl_namespace_limits_config *config, struct pl_limits **ret, struct pl_err *err);
/* Begins to watch them, if permitted. PL_EINVAL, PL_ENOMEM. */
PL_MUST_CHECK
int pl_namespace_limits_follow(struct pl_limits *l, struct pl_err *err);
struct pl_limits *pl_namespace_limits_destroy(struct pl_limits *l);
/* Call after one of them refused a pod. If they cannot be watched they are listed again, at most once per
 * PL_NAMESPACE_LIMITS_RETRY_MS. */
void pl_namespace_limits_refresh(struct pl_limits *l);
/* True if every container must have a limit for `resource` ("cpu" or "memory"): a quota counts it, and no
 * limit range sets a default. */
bool pl_namespace_limits_required(const struct pl_limits *l, const char *resource);
