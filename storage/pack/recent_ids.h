/* recent_ids: a bounded set of recently added record ids. It has two generations of at most `max` / 2 ids;
 * when the young one is full it replaces the old one. An id may thus drop out of the set, but the set
 * never contains an id that was not added. One thread at a time. */
#pragma once

#include "storage/base/hash.h"

struct pl_recent_ids {
    uint8_t (*young)[16]; /* open addressing; all zero = a free slot */
    uint8_t (*old)[16];
    size_t young_cap, young_count, old_cap;
    size_t max;
};

/* Returns true if the set contains the id. Otherwise adds it, unless there is no memory, and returns
 * false. */
bool pl_recent_ids_put(struct pl_recent_ids *s, const struct pl_hash *id);
/* Removes an id from the set, if it is there. */
void pl_recent_ids_forget(struct pl_recent_ids *s, const struct pl_hash *id);
bool pl_recent_ids_has(const struct pl_recent_ids *s, const struct pl_hash *id);
void pl_recent_ids_finish(struct pl_recent_ids *s);
