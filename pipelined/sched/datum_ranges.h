/* ranges: a set of row numbers as ascending, disjoint, not touching ranges.
 *
 * Taking from the front and adding at the end cost O(1); in the middle they move what follows (8 bytes a fragment). `struct pl_datum_ranges r =
 * {0}` is empty. Bound: one range for every second row of PL_SCHED_ROWS_MAX, 64 MiB. */
#pragma once

#include "pipelined/sched/sched.h"

struct pl_datum_ranges {
    struct pl_sched_range *items; /* items[head … head + n − 1] */
    size_t head;
    size_t n;
    size_t cap;
    uint32_t count; /* of rows */
};

void pl_datum_ranges_finish(struct pl_datum_ranges *r);
static inline const struct pl_sched_range *pl_datum_ranges_items(const struct pl_datum_ranges *r)
{
    return r->items + r->head;
}
/* Adds rows lo … hi − 1, none of which is in the set. False only without memory. */
PL_MUST_CHECK
bool pl_datum_ranges_add(struct pl_datum_ranges *r, uint32_t lo, uint32_t hi);
PL_MUST_CHECK
bool pl_datum_ranges_add_all(struct pl_datum_ranges *r, const struct pl_datum_ranges *from);
/* True when all of lo … hi − 1 are in the set. */
bool pl_datum_ranges_has(const struct pl_datum_ranges *r, uint32_t lo, uint32_t hi);
/* Takes lo … hi − 1 out, all of which are in the set. False only without memory. */
PL_MUST_CHECK
bool pl_datum_ranges_remove(struct pl_datum_ranges *r, uint32_t lo, uint32_t hi);
/* Moves the first `n` (≤ count) rows to the empty set `ret`. False only without memory. */
PL_MUST_CHECK
bool pl_datum_ranges_take(struct pl_datum_ranges *r, uint32_t n, struct pl_datum_ranges *ret);
