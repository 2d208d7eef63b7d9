/* limits: what the quotas and limit ranges of the namespace that pods run in demand of them. Asked once, then followed. Functions are the loop's
 * but for pl_namespace_limits_create. */
#pragma once

#include "pipelined/exec/kubernetes/loop_informer.h"

#define PL_NAMESPACE_LIMITS_RETRY_MS 10000

struct pl_limits;

struct pl_namespace_limits_config {
    struct pl_loop *loop;
    struct pl_kube_client *client;
    const char *space;           /* copied */
    bool ask, follow;            /* we may; without either nothing is demanded */
    void (*changed)(void *self); /* a quota or a range is another, or less of a quota is used */
    void *self;
};

/* Asks and waits for the answers; what is not answered is said in the log. Any thread but the client's. PL_ENOMEM. */
PL_MUST_CHECK
int pl_namespace_limits_create(const struct pl_namespace_limits_config *config, struct pl_limits **ret, struct pl_err *err);
/* Begins to follow them, where we may. PL_EINVAL, PL_ENOMEM. */
PL_MUST_CHECK
int pl_namespace_limits_follow(struct pl_limits *l, struct pl_err *err);
struct pl_limits *pl_namespace_limits_destroy(struct pl_limits *l);
/* Something was refused by one of them. Where they cannot be followed they are asked for again, at most once in PL_NAMESPACE_LIMITS_RETRY_MS. */
void pl_namespace_limits_refresh(struct pl_limits *l);
/* Must every container say what it needs of "cpu" or "memory" at most? A quota counts that, and no range gives one to who says nothing. */
bool pl_namespace_limits_required(const struct pl_limits *l, const char *resource);
