/* datum_ranges: a set of datum numbers, stored as ascending, disjoint ranges that do not touch. Removing
 * numbers at the front and adding numbers at the end cost O(1). A change in the middle moves the ranges
 * behind it (8 bytes each). `struct pl_datum_ranges r = {0}` is an empty set. Largest size: 64 MiB, if the
 * set contains every other number below PL_SCHED_ROWS_MAX. Not thread-safe. */
#pragma once

#include "pipelined/sched/sched.h"

struct pl_datum_ranges {
    struct pl_sched_range *items; /* the used ranges are items[head … head + n − 1] */
    size_t head;
    size_t n;
    size_t cap;
    uint32_t count; /* how many numbers the set contains */
};

/* Frees the set's memory and leaves it empty. */
void pl_datum_ranges_finish(struct pl_datum_ranges *r);
static inline const struct pl_sched_range *pl_datum_ranges_items(const struct pl_datum_ranges *r)
{
    return r->items + r->head;
}
/* Adds the numbers lo … hi − 1, none of which may be in the set. Returns false only without memory. */
PL_MUST_CHECK
bool pl_datum_ranges_add(struct pl_datum_ranges *r, uint32_t lo, uint32_t hi);
/* Adds all numbers of `from`, none of which may be in the set. Returns false only without memory. */
PL_MUST_CHECK
bool pl_datum_ranges_add_all(struct pl_datum_ranges *r, const struct pl_datum_ranges *from);
/* Returns true if all numbers lo … hi − 1 are in the set. */
bool pl_datum_ranges_has(const struct pl_datum_ranges *r, uint32_t lo, uint32_t hi);
/* Removes the numbers lo … hi − 1, all of which must be in the set. Returns false only without memory. */
PL_MUST_CHECK
bool pl_datum_ranges_remove(struct pl_datum_ranges *r, uint32_t lo, uint32_t hi);
/* Moves the `n` lowest numbers (n ≤ count) to the empty set `ret`. Returns false only without memory. */
PL_MUST_CHECK
bool pl_datum_ranges_take(struct pl_datum_ranges *r, uint32_t n, struct pl_datum_ranges *ret);
