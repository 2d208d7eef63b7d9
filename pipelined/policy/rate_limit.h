/* rate_limit: limits how often each of many keys may do something, in bounded memory. Each key has a leaky bucket: every
 * hit adds one, and the bucket leaks at a steady rate. A hit that would overflow the bucket exceeds the limit. When all
 * buckets that a new key may use are occupied, the emptiest is reassigned and its former key is forgotten.
 *
 *   level ──hit: +1──▶ … ──▶ burst ──▶ over: PL_RATE_FIRST, then PL_RATE_OVER ──leaks to half──▶ next excess is PL_RATE_FIRST
 *
 * The caller supplies the buckets and the time. No locks: one thread at a time. */
#pragma once

#include "storage/base/base.h"

#define PL_RATE_LIMIT_NEAR 4 /* number of candidate buckets of a key */

struct pl_rate_limit_bucket {
    uint64_t key;   /* 0 = free */
    int64_t at_ms;  /* time at which `level` was computed, in ms */
    uint64_t level; /* fill level in 1/60000 of a hit, so that the leak per millisecond is a whole number */
    bool told;      /* PL_RATE_FIRST was returned and the bucket has not leaked to half since */
};

struct pl_rate_limit {
    struct pl_rate_limit_bucket *buckets;
    size_t n;                      /* number of buckets, at least PL_RATE_LIMIT_NEAR */
    unsigned burst, leak_a_minute; /* capacity in hits; hits that leak per minute */
};

enum pl_rate_limit_verdict { PL_RATE_UNDER, PL_RATE_FIRST, PL_RATE_OVER };

/* Records a hit of `key` (any number; 0 counts as 1) at `now_ms`. Returns PL_RATE_UNDER if the hit is within the limit,
 * PL_RATE_FIRST for the first hit over it, PL_RATE_OVER for further ones. If `now_ms` goes back, nothing leaks until it
 * catches up. */
enum pl_rate_limit_verdict pl_rate_limit_hit(struct pl_rate_limit *r, uint64_t key, int64_t now_ms);
