/* pending_pod_limit.c: counts the bindings of the last second in a ring of tenths of a second. */
#include "pipelined/kube/pod_state/pending_pod_limit.h"

void pl_pending_pod_limit_init(struct pl_pending_pod_limit *r)
{
    *r = (struct pl_pending_pod_limit){.pending_max = 1};
}

/* Advances the ring to the current tenth of a second, and clears the counters of the parts that began since
 * the last call. */
static void ramp_advance(struct pl_pending_pod_limit *r, int64_t now_ms)
{
    int64_t part = now_ms / (1000 / PL_PENDING_POD_LIMIT_PARTS);

    if (part - r->part >= (int64_t)PL_PENDING_POD_LIMIT_PARTS || part < r->part)
        memset(r->bound, 0, sizeof(r->bound));
    for (int64_t p = PL_MAX(r->part + 1, part - PL_PENDING_POD_LIMIT_PARTS + 1);
         p <= part && part - r->part < (int64_t)PL_PENDING_POD_LIMIT_PARTS; p++)
        r->bound[p % PL_PENDING_POD_LIMIT_PARTS] = 0;
    r->part = part;
}

void pl_pending_pod_limit_bound(struct pl_pending_pod_limit *r, int64_t now_ms)
{
    uint32_t last_second = 0, most;

    ramp_advance(r, now_ms);
    r->bound[r->part % PL_PENDING_POD_LIMIT_PARTS]++;
    for (uint32_t i = 0; i < PL_PENDING_POD_LIMIT_PARTS; i++)
        last_second += r->bound[i];
    most = PL_MAX(PL_PENDING_POD_LIMIT_STEP, 2 * last_second);
    r->pending_max = PL_MIN(2 * r->pending_max, most);
    r->quiet_since_ms = now_ms;
}

void pl_pending_pod_limit_refused(struct pl_pending_pod_limit *r)
{
    r->pending_max = 1;
}

bool pl_pending_pod_limit_waiting(struct pl_pending_pod_limit *r, uint32_t n, int64_t now_ms)
{
    if (n > 0 && !r->waiting)
        r->quiet_since_ms = now_ms;
    r->waiting = n > 0;
    if (n == 0 || r->pending_max == 1 || now_ms - r->quiet_since_ms < PL_PENDING_POD_LIMIT_QUIET_MS)
        return false;
    r->pending_max = 1;
    return true;
}

uint32_t pl_pending_pod_limit_room(const struct pl_pending_pod_limit *r, uint32_t pending, uint32_t left)
{
    return pending >= r->pending_max ? 0 : PL_MIN(r->pending_max - pending, left);
}
