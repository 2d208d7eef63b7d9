/* pod_ramp: how many pods of one shape may wait for a node at once. A pod that cannot start is of no use to anybody, and a thousand of them are
 * a burden to the scheduler and to who shares the cluster: so one goes first, and each that finds a node lets more follow.
 *
 *   1 ──bound──▶ min(2 × before, max(PL_PENDING_POD_LIMIT_STEP, 2 × those bound in the last second)) ──bound──▶ …
 *   any ──the autoscaler will not grow, or nothing bound for PL_PENDING_POD_LIMIT_QUIET_MS while pods wait──▶ 1
 *
 * Pure; `now_ms` is monotonic. */
#pragma once

#include "storage/base/base.h"

#define PL_PENDING_POD_LIMIT_STEP     20u
#define PL_PENDING_POD_LIMIT_QUIET_MS 900000 /* 15 min */
#define PL_PENDING_POD_LIMIT_PARTS    10u    /* of the last second */

struct pl_pending_pod_limit {
    uint32_t pending_max;
    int64_t quiet_since_ms; /* the last binding, or when pods began to wait */
    int64_t part;           /* which tenth of a second bound[part % PL_PENDING_POD_LIMIT_PARTS] is */
    uint32_t bound[PL_PENDING_POD_LIMIT_PARTS];
    bool waiting;
};

void pl_pending_pod_limit_init(struct pl_pending_pod_limit *r);
/* A pod has found a node. */
void pl_pending_pod_limit_bound(struct pl_pending_pod_limit *r, int64_t now_ms);
/* The cluster's autoscaler says that it will not grow for one. */
void pl_pending_pod_limit_refused(struct pl_pending_pod_limit *r);
/* So many wait now: to be told at each change, and now and then. True when pending_max has changed. */
bool pl_pending_pod_limit_waiting(struct pl_pending_pod_limit *r, uint32_t n, int64_t now_ms);
/* How many more may be created: at most `left`, of which `pending` wait already. */
uint32_t pl_pending_pod_limit_room(const struct pl_pending_pod_limit *r, uint32_t pending, uint32_t left);
