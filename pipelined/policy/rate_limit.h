/* rate: how often each of many has done something lately, in bounded memory. A bucket a key: every hit adds one, and it leaks at a steady
 * rate; past its brim there is too much. Of more keys than there are buckets near each other the emptiest makes room: it is forgotten.
 *
 *   level ──hit: +1──▶ … ──▶ burst ──▶ over: PL_RATE_FIRST, then PL_RATE_OVER ──leaks to half──▶ under: the next time is the first again
 *
 * Pure but for the caller's buckets and clock; no locks. */
#pragma once

#include "storage/base/base.h"

#define PL_RATE_LIMIT_NEAR 4 /* buckets that a key may have */

struct pl_rate_limit_bucket {
    uint64_t key;   /* 0 = free */
    int64_t at_ms;  /* of the level */
    uint64_t level; /* in hits / 60000: what leaks in a millisecond is a whole number */
    bool told;
};

struct pl_rate_limit {
    struct pl_rate_limit_bucket *buckets;
    size_t n;                      /* at least PL_RATE_LIMIT_NEAR */
    unsigned burst, leak_a_minute; /* hits */
};

enum pl_rate_limit_verdict { PL_RATE_UNDER, PL_RATE_FIRST, PL_RATE_OVER };

/* A hit of `key` (any number) at `now_ms`, which never goes back by more than it matters. */
enum pl_rate_limit_verdict pl_rate_limit_hit(struct pl_rate_limit *r, uint64_t key, int64_t now_ms);
