/* kube_rate_limit: limits the requests per second to an API server: a token bucket with an adaptive rate.
 * The rate rises by PL_KUBE_RATE_GAIN with each answer while the server keeps up: a client that uses the
 * whole rate doubles it in about a third of a second. The rate is halved when the server does not keep up:
 * status 429 or 5xx, no answer, or answers slower than PL_KUBE_SLOW_MS. After the first halving the rate
 * rises by only PL_KUBE_RATE_STEP a second. kube_client.h also limits the number of concurrent requests,
 * which protects a slow server; the rate limit protects a server that rejects requests (429). Pure: the
 * caller passes times. */
#pragma once

#include "storage/base/base.h"

#define PL_KUBE_RATE_FIRST 200.0 /* requests per second */
#define PL_KUBE_RATE_GAIN  2.0
#define PL_KUBE_RATE_MOST  4000.0
#define PL_KUBE_RATE_LEAST 1.0
#define PL_KUBE_RATE_STEP  10.0
/* capacity of the bucket in seconds of the current rate; the bucket holds at least PL_KUBE_BURST_MIN
 * tokens */
#define PL_KUBE_BURST_S   0.5
#define PL_KUBE_BURST_MIN 100.0
#define PL_KUBE_SLOW_MS   2000
/* ms after a halving during which the rate is not halved again, because answers to earlier requests still
 * arrive */
#define PL_KUBE_CUT_MS 1000

struct pl_kube_rate {
    double rate, tokens;
    int64_t at_ms;      /* time up to which tokens were added to the bucket */
    int64_t cut_ms;     /* time of the last halving */
    int64_t blocked_ms; /* time before which no request may be sent */
    bool cut;           /* the rate was halved at least once */
};

void pl_kube_rate_init(struct pl_kube_rate *r, int64_t now_ms);
/* Takes a token. Returns 0 if the request may be sent now, else the ms to wait before calling again. */
int64_t pl_kube_rate_take(struct pl_kube_rate *r, int64_t now_ms);
/* Reports an answer: its status (0 = no answer came), Retry-After, and how long it took. */
void pl_kube_rate_answer(struct pl_kube_rate *r, int64_t now_ms, unsigned status, uint32_t retry_after_s, int64_t took_ms);
