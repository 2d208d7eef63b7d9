/* namespace_limits: what the resource quotas and limit ranges of the pods' namespace demand of pods. They are
 * listed once, then watched. All functions except pl_namespace_limits_create are called on the loop's
 * thread. */
#pragma once

#include "pipelined/exec/kubernetes/loop_informer.h"
#include "pipelined/kube/pod/own_limits.h"

#define PL_NAMESPACE_LIMITS_RETRY_MS 10000

struct pl_limits;

struct pl_namespace_limits_config {
    struct pl_loop *loop;
    struct pl_kube_client *client;
    const char *space; /* namespace of the stages' pods; copied */
    /* `ask`, `watch`: the account may list, and may watch, quotas and limit ranges; without `ask` no limits
     * are known, and nothing is demanded of pods */
    bool ask, follow;
    /* called when a quota or limit range changed, or when the used part of a quota became smaller */
    void (*changed)(void *self);
    void *self;
};

/* Lists the quotas and limit ranges and waits for the answers; a failed listing is logged. May be called on
 * any thread except the client's. PL_ENOMEM. */
PL_MUST_CHECK
int pl_namespace_limits_create(const struct pl_namespace_limits_config *config, struct pl_limits **ret, struct pl_err *err);
/* Begins to watch the quotas and limit ranges, if permitted. PL_EINVAL, PL_ENOMEM. */
PL_MUST_CHECK
int pl_namespace_limits_follow(struct pl_limits *l, struct pl_err *err);
struct pl_limits *pl_namespace_limits_destroy(struct pl_limits *l);
/* Call this after a quota or limit range has refused a pod. If they cannot be watched they are listed again,
 * at most once per PL_NAMESPACE_LIMITS_RETRY_MS. */
void pl_namespace_limits_refresh(struct pl_limits *l);
/* Returns true if every container must have a limit for `resource` ("cpu" or "memory"), because a quota
 * counts the limits and no limit range sets a default. */
bool pl_namespace_limits_required(const struct pl_limits *l, const char *resource);
/* Returns true if a limit range or a quota refuses every pod because of the containers that pipelined adds to it, as they
 * are in `pod`; then fills `ret`. */
bool pl_namespace_limits_refuse(const struct pl_limits *l, const json_t *pod, struct pl_own_limits *ret);
