/* pending_pod_limit: limits how many pods with the same requirements (one pod shape) may wait for a node
 * at once. Pods that cannot start burden the scheduler and other users of the cluster without any gain. So
 * one pod is created first, and each pod that gets a node raises the limit.
 *
 *   1 ──bound──▶ min(2 × before, max(PL_PENDING_POD_LIMIT_STEP, 2 × bound in the last second)) ──bound──▶ …
 *   any ──the autoscaler refuses, or pods wait and none is bound for PL_PENDING_POD_LIMIT_QUIET_MS──▶ 1
 *
 * Pure; `now_ms` is monotonic. */
#pragma once

#include "storage/base/base.h"

#define PL_PENDING_POD_LIMIT_STEP     20u
#define PL_PENDING_POD_LIMIT_QUIET_MS 900000 /* 15 min without a binding while pods wait */
#define PL_PENDING_POD_LIMIT_PARTS    10u    /* parts into which the last second is divided */

struct pl_pending_pod_limit {
    uint32_t pending_max;
    /* time of the last binding, or of the moment from which on pods have been waiting, if that is later */
    int64_t quiet_since_ms;
    /* number of the current tenth of a second; its count of bindings is bound[part %
     * PL_PENDING_POD_LIMIT_PARTS] */
    int64_t part;
    uint32_t bound[PL_PENDING_POD_LIMIT_PARTS];
    bool waiting;
};

void pl_pending_pod_limit_init(struct pl_pending_pod_limit *r);
/* Reports that a pod got a node. */
void pl_pending_pod_limit_bound(struct pl_pending_pod_limit *r, int64_t now_ms);
/* Reports that the cluster's autoscaler will not add a node for a pod. */
void pl_pending_pod_limit_refused(struct pl_pending_pod_limit *r);
/* Reports how many pods wait; call it at each change, and regularly while pods wait. True if pending_max has
 * changed. */
bool pl_pending_pod_limit_waiting(struct pl_pending_pod_limit *r, uint32_t n, int64_t now_ms);
/* Returns how many more pods may be created, at most `left`, while `pending` pods wait. */
uint32_t pl_pending_pod_limit_room(const struct pl_pending_pod_limit *r, uint32_t pending, uint32_t left);
