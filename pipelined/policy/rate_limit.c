/* Leaky buckets in a fixed array: a key hashes to PL_RATE_LIMIT_NEAR neighbouring buckets and uses one of them. */
#include "pipelined/policy/rate_limit.h"

#define UNIT 60000u /* units of a bucket's level that one hit adds */

static uint64_t level_at(const struct pl_rate_limit *r, const struct pl_rate_limit_bucket *b, int64_t now_ms)
{
    uint64_t leaked = now_ms > b->at_ms ? (uint64_t)(now_ms - b->at_ms) : 0;

    leaked = leaked > UINT64_MAX / PL_MAX(r->leak_a_minute, 1u) ? UINT64_MAX : leaked * r->leak_a_minute;
    return b->level > leaked ? b->level - leaked : 0;
}

/* Returns the key's bucket. If it has none, resets the emptiest of its candidate buckets and assigns it to the key. */
static struct pl_rate_limit_bucket *bucket_of(struct pl_rate_limit *r, uint64_t key, int64_t now_ms)
{
    size_t first = (key * 0x9E3779B97F4A7C15u >> 32) % (r->n - PL_RATE_LIMIT_NEAR + 1);
    struct pl_rate_limit_bucket *emptiest = &r->buckets[first];

    for (size_t i = first; i < first + PL_RATE_LIMIT_NEAR; i++) {
        struct pl_rate_limit_bucket *b = &r->buckets[i];

        if (b->key == key)
            return b;
        if (level_at(r, b, now_ms) < level_at(r, emptiest, now_ms))
            emptiest = b;
    }
    *emptiest = (struct pl_rate_limit_bucket){.key = key, .at_ms = now_ms};
    return emptiest;
}

enum pl_rate_limit_verdict pl_rate_limit_hit(struct pl_rate_limit *r, uint64_t key, int64_t now_ms)
{
    const uint64_t brim = (uint64_t)r->burst * UNIT;
    struct pl_rate_limit_bucket *b = bucket_of(r, key ? key : 1, now_ms);
    bool first;

    b->level = level_at(r, b, now_ms);
    b->at_ms = PL_MAX(now_ms, b->at_ms);
    if (b->level <= brim / 2)
        b->told = false;
    if (b->level + UNIT <= brim) {
        b->level += UNIT;
        return PL_RATE_UNDER;
    }
    first = !b->told; /* a hit over the limit adds nothing: the key is allowed again once one hit has leaked */
    b->told = true;
    return first ? PL_RATE_FIRST : PL_RATE_OVER;
}
