/* kube_rate: how many requests a second an API server gets from us: a bucket of tokens whose rate climbs as long as the server keeps up
 * (PL_KUBE_RATE_GAIN for each answer, so that it doubles three times a second at least), and is halved when it does not: 429, 5xx, or
 * answers that take longer than PL_KUBE_SLOW_MS. After the first halving it climbs by PL_KUBE_RATE_STEP a second. How many requests are
 * under way at once is bounded elsewhere (kube_client.h), and it is that bound that a server which takes its time is protected by: this one
 * is for a server that says no. Pure: times are given. */
#pragma once

#include "storage/base/base.h"

#define PL_KUBE_RATE_FIRST 200.0 /* a second */
#define PL_KUBE_RATE_GAIN  2.0
#define PL_KUBE_RATE_MOST  4000.0
#define PL_KUBE_RATE_LEAST 1.0
#define PL_KUBE_RATE_STEP  10.0
#define PL_KUBE_BURST_S    0.5 /* the bucket holds what comes in so long, at least PL_KUBE_BURST_MIN */
#define PL_KUBE_BURST_MIN  100.0
#define PL_KUBE_SLOW_MS    2000
#define PL_KUBE_CUT_MS     1000 /* answers to what was under way when it was halved do not halve it again */

struct pl_kube_rate {
    double rate, tokens;
    int64_t at_ms;      /* tokens are counted up to here */
    int64_t cut_ms;     /* when it was halved last */
    int64_t blocked_ms; /* nothing goes before */
    bool cut;           /* it was ever halved */
};

void pl_kube_rate_init(struct pl_kube_rate *r, int64_t now_ms);
/* Takes a token: 0 = go; else how many ms to wait before asking again. */
int64_t pl_kube_rate_take(struct pl_kube_rate *r, int64_t now_ms);
/* An answer: its status (0 = none came), Retry-After, and how long it took. */
void pl_kube_rate_answer(struct pl_kube_rate *r, int64_t now_ms, unsigned status, uint32_t retry_after_s, int64_t took_ms);
