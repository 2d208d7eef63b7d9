/* seen_set: the ids a session met lately, in bounded memory: two generations of at most `max` / 2 ids; when the young one is full the old
 * one is forgotten. So an id that was met may be unknown again, never the other way round. One thread at a time. */
#pragma once

#include "storage/base/hash.h"

struct pl_recent_ids {
    uint8_t (*young)[16]; /* open addressing; all zero = free */
    uint8_t (*old)[16];
    size_t young_cap, young_count, old_cap;
    size_t max;
};

/* True when the id was there; else it is put, unless memory ran out. */
bool pl_recent_ids_put(struct pl_recent_ids *s, const struct pl_hash *id);
/* It is as if it had never been met. */
void pl_recent_ids_forget(struct pl_recent_ids *s, const struct pl_hash *id);
bool pl_recent_ids_has(const struct pl_recent_ids *s, const struct pl_hash *id);
void pl_recent_ids_finish(struct pl_recent_ids *s);
