/* datum_ranges: the ranges are in a growing array, whose first elements may be unused. Look-ups are binary
 * searches. */
#include "pipelined/sched/datum_ranges.h"

void pl_datum_ranges_finish(struct pl_datum_ranges *r)
{
    free(r->items);
    *r = (struct pl_datum_ranges){0};
}

/* Returns the index of the first range that ends at or after the datum number `row`: the range that contains
 * `row`, or else the position at which to insert a range for `row`. */
static size_t ranges_find(const struct pl_datum_ranges *r, uint32_t row)
{
    const struct pl_sched_range *v = pl_datum_ranges_items(r);
    size_t lo = 0, hi = r->n;

    if (r->n > 0 && v[r->n - 1].hi < row) /* the usual case: append at the end */
        return r->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;

        if (v[mid].hi < row)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo;
}

static bool ranges_reserve(struct pl_datum_ranges *r)
{
    size_t cap = r->cap ? r->cap * 2 : 4;
    struct pl_sched_range *items;

    if (r->head + r->n < r->cap)
        return true;
    if (r->head > r->cap / 2) { /* reuse the unused elements at the front instead of growing the array */
        memmove(r->items, pl_datum_ranges_items(r), r->n * sizeof(*items));
        r->head = 0;
        return true;
    }
    items = realloc(r->items, cap * sizeof(*items));
    if (!items)
        return false;
    r->items = items;
    r->cap = cap;
    return true;
}

static bool ranges_insert(struct pl_datum_ranges *r, size_t at, struct pl_sched_range range)
{
    struct pl_sched_range *v;

    if (!ranges_reserve(r))
        return false;
    v = r->items + r->head;
    memmove(v + at + 1, v + at, (r->n - at) * sizeof(*v));
    v[at] = range;
    r->n++;
    return true;
}

static void ranges_erase(struct pl_datum_ranges *r, size_t at)
{
    struct pl_sched_range *v = r->items + r->head;

    if (at == 0)
        r->head++;
    else
        memmove(v + at, v + at + 1, (r->n - at - 1) * sizeof(*v));
    if (--r->n == 0)
        r->head = 0;
}

bool pl_datum_ranges_add(struct pl_datum_ranges *r, uint32_t lo, uint32_t hi)
{
    size_t at = ranges_find(r, lo);
    struct pl_sched_range *v = r->items + r->head;
    bool before = at < r->n && v[at].hi == lo;
    size_t next = at + (before ? 1 : 0);
    bool after = next < r->n && v[next].lo == hi;

    if (before && after) {
        v[at].hi = v[next].hi;
        ranges_erase(r, next);
    } else if (before) {
        v[at].hi = hi;
    } else if (after) {
        v[next].lo = lo;
    } else if (!ranges_insert(r, at, (struct pl_sched_range){lo, hi})) {
        return false;
    }
    r->count += hi - lo;
    return true;
}

bool pl_datum_ranges_add_all(struct pl_datum_ranges *r, const struct pl_datum_ranges *from)
{
    const struct pl_sched_range *v = pl_datum_ranges_items(from);

    for (size_t i = 0; i < from->n; i++)
        if (!pl_datum_ranges_add(r, v[i].lo, v[i].hi))
            return false;
    return true;
}

bool pl_datum_ranges_has(const struct pl_datum_ranges *r, uint32_t lo, uint32_t hi)
{
    size_t at = ranges_find(r, lo + 1);
    const struct pl_sched_range *v = pl_datum_ranges_items(r);

    return at < r->n && v[at].lo <= lo && hi <= v[at].hi;
}

bool pl_datum_ranges_remove(struct pl_datum_ranges *r, uint32_t lo, uint32_t hi)
{
    size_t at = ranges_find(r, lo + 1);
    struct pl_sched_range *v = r->items + r->head + at;

    if (v->lo < lo && hi < v->hi) {
        struct pl_sched_range rest = {hi, v->hi};

        if (!ranges_insert(r, at + 1, rest))
            return false;
        r->items[r->head + at].hi = lo;
    } else if (v->lo < lo) {
        v->hi = lo;
    } else if (hi < v->hi) {
        v->lo = hi;
    } else {
        ranges_erase(r, at);
    }
    r->count -= hi - lo;
    return true;
}

bool pl_datum_ranges_take(struct pl_datum_ranges *r, uint32_t n, struct pl_datum_ranges *ret)
{
    while (n > 0) {
        const struct pl_sched_range *first = pl_datum_ranges_items(r);
        uint32_t lo = first->lo;
        uint32_t size = PL_MIN(n, first->hi - lo);

        if (!pl_datum_ranges_add(ret, lo, lo + size) || !pl_datum_ranges_remove(r, lo, lo + size))
            return false;
        n -= size;
    }
    return true;
}
