/* own_limits: whether the LimitRanges and ResourceQuotas of a namespace refuse the containers that pipelined adds to
 * every pod: agent, install and node-cache. The API server's own message says neither which container it means nor
 * which setting changes it. Compared are memory and CPU, of a pod as it was rendered. Pure. */
#pragma once

#include "storage/base/err.h"

#include <jansson.h>

struct pl_own_limits {
    char why[400];      /* "LimitRange team allows a container at most 256Mi of memory, and container agent …" */
    const char *remedy; /* what to do */
};

/* Return true if no pod with pipelined's containers of `pod` can exist because of a LimitRange or a ResourceQuota (v1
 * objects); then fill `ret`. A quota with scopes is not compared, because it may not hold for the pod. */
bool pl_own_limits_range(const json_t *range, const json_t *pod, struct pl_own_limits *ret);
bool pl_own_limits_quota(const json_t *quota, const json_t *pod, struct pl_own_limits *ret);
