#include "pipelined/kube/pod_state/pending_pod_limit.h"

void pl_ramp_init(struct pl_ramp *r)
{
    *r = (struct pl_ramp){.pending_max = 1};
}

/* Tenths of a second that have passed are empty again. */
static void ramp_advance(struct pl_ramp *r, int64_t now_ms)
{
    int64_t part = now_ms / (1000 / PL_RAMP_PARTS);

    if (part - r->part >= (int64_t)PL_RAMP_PARTS || part < r->part)
        memset(r->bound, 0, sizeof(r->bound));
    for (int64_t p = PL_MAX(r->part + 1, part - PL_RAMP_PARTS + 1); p <= part && part - r->part < (int64_t)PL_RAMP_PARTS; p++)
        r->bound[p % PL_RAMP_PARTS] = 0;
    r->part = part;
}

void pl_ramp_bound(struct pl_ramp *r, int64_t now_ms)
{
    uint32_t last_second = 0, most;

    ramp_advance(r, now_ms);
    r->bound[r->part % PL_RAMP_PARTS]++;
    for (uint32_t i = 0; i < PL_RAMP_PARTS; i++)
        last_second += r->bound[i];
    most = PL_MAX(PL_RAMP_STEP, 2 * last_second);
    r->pending_max = PL_MIN(2 * r->pending_max, most);
    r->quiet_since_ms = now_ms;
}

void pl_ramp_refused(struct pl_ramp *r)
{
    r->pending_max = 1;
}

bool pl_ramp_waiting(struct pl_ramp *r, uint32_t n, int64_t now_ms)
{
    if (n > 0 && !r->waiting)
        r->quiet_since_ms = now_ms;
    r->waiting = n > 0;
    if (n == 0 || r->pending_max == 1 || now_ms - r->quiet_since_ms < PL_RAMP_QUIET_MS)
        return false;
    r->pending_max = 1;
    return true;
}

uint32_t pl_ramp_room(const struct pl_ramp *r, uint32_t pending, uint32_t left)
{
    return pending >= r->pending_max ? 0 : PL_MIN(r->pending_max - pending, left);
}
