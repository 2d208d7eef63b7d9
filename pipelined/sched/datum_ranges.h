/* datum_ranges: a set of row numbers, stored as ascending, disjoint ranges that do not touch.
 *
 * Taking from the front and adding at the end cost O(1). A change in the middle moves the ranges behind it (8
 * bytes each). `struct pl_datum_ranges r = {0}` is empty. Bound: one range for every second row of
 * PL_SCHED_ROWS_MAX, 64 MiB. Not thread-safe. */
#pragma once

#include "pipelined/sched/sched.h"

struct pl_datum_ranges {
    struct pl_sched_range *items; /* the ranges are items[head … head + n − 1] */
    size_t head;
    size_t n;
    size_t cap;
    uint32_t count; /* number of rows */
};

/* Frees the set's memory and leaves it empty. */
void pl_datum_ranges_finish(struct pl_datum_ranges *r);
static inline const struct pl_sched_range *pl_datum_ranges_items(const struct pl_datum_ranges *r)
{
    return r->items + r->head;
}
/* Adds rows lo … hi − 1, none of which is in the set. Returns false only without memory. */
PL_MUST_CHECK
bool pl_datum_ranges_add(struct pl_datum_ranges *r, uint32_t lo, uint32_t hi);
/* Adds all rows of `from`, none of which is in the set. Returns false only without memory. */
PL_MUST_CHECK
bool pl_datum_ranges_add_all(struct pl_datum_ranges *r, const struct pl_datum_ranges *from);
/* Returns true if all rows lo … hi − 1 are in the set. */
bool pl_datum_ranges_has(const struct pl_datum_ranges *r, uint32_t lo, uint32_t hi);
/* Removes rows lo … hi − 1, all of which are in the set. Returns false only without memory. */
PL_MUST_CHECK
bool pl_datum_ranges_remove(struct pl_datum_ranges *r, uint32_t lo, uint32_t hi);
/* Moves the first `n` (≤ count) rows to the empty set `ret`. Returns false only without memory. */
PL_MUST_CHECK
bool pl_datum_ranges_take(struct pl_datum_ranges *r, uint32_t n, struct pl_datum_ranges *ret);
