/* kube_rate_limit.c: a token bucket with additive increase and multiplicative decrease of its rate. */
#include "pipelined/kube/client/kube_rate_limit.h"

#include <math.h>

static double burst(const struct pl_kube_rate *r)
{
    return PL_MAX(PL_KUBE_BURST_MIN, r->rate * PL_KUBE_BURST_S);
}

void pl_kube_rate_init(struct pl_kube_rate *r, int64_t now_ms)
{
    *r = (struct pl_kube_rate){.rate = PL_KUBE_RATE_FIRST, .tokens = PL_KUBE_BURST_MIN, .at_ms = now_ms, .cut_ms = INT64_MIN / 2};
}

/* Adds the tokens since the last call; none if the clock went back. */
static void fill(struct pl_kube_rate *r, int64_t now_ms)
{
    if (now_ms <= r->at_ms)
        return;
    r->tokens = PL_MIN(burst(r), r->tokens + r->rate * (double)(now_ms - r->at_ms) / 1000.0);
    r->at_ms = now_ms;
}

int64_t pl_kube_rate_take(struct pl_kube_rate *r, int64_t now_ms)
{
    fill(r, now_ms);
    if (now_ms < r->blocked_ms)
        return r->blocked_ms - now_ms;
    if (r->tokens < 1.0)
        return PL_MAX((int64_t)1, (int64_t)ceil((1.0 - r->tokens) / r->rate * 1000.0));
    r->tokens -= 1.0;
    return 0;
}

static void halve(struct pl_kube_rate *r, int64_t now_ms)
{
    if (now_ms - r->cut_ms < PL_KUBE_CUT_MS)
        return;
    r->rate = PL_MAX(PL_KUBE_RATE_LEAST, r->rate / 2);
    r->tokens = PL_MIN(r->tokens, r->rate * PL_KUBE_BURST_S);
    r->cut_ms = now_ms;
    r->cut = true;
}

void pl_kube_rate_answer(struct pl_kube_rate *r, int64_t now_ms, unsigned status, uint32_t retry_after_s, int64_t took_ms)
{
    fill(r, now_ms);
    if (status == 429)
        r->blocked_ms = PL_MAX(r->blocked_ms, now_ms + 1000 * (int64_t)retry_after_s);
    if (status == 0 || status == 429 || status >= 500 || took_ms > PL_KUBE_SLOW_MS)
        halve(r, now_ms);
    else
        r->rate = PL_MIN(PL_KUBE_RATE_MOST, r->rate + (r->cut ? PL_KUBE_RATE_STEP / r->rate : PL_KUBE_RATE_GAIN));
}
