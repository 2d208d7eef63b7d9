/* deadline_heap: a heap of deadlines (timers) that are fields of their owners. A zeroed timer is not set; a
 * timer has one deadline. Not thread-safe. */
#pragma once

#include "storage/base/base.h"

#define PL_TIMER_NEVER INT64_MAX

struct pl_timer {
    int64_t at;
    size_t pos; /* index in the heap + 1; 0 = not set */
    int kind;   /* set by the owner, to find the owner from the timer */
};

struct pl_timers {
    struct pl_timer **heap;
    size_t n;
    size_t cap;
};

/* Frees the heap; the timers belong to their owners. */
void pl_timers_finish(struct pl_timers *h);
/* Sets or moves the deadline of the timer; PL_TIMER_NEVER clears it. Returns false only without memory. */
PL_MUST_CHECK
bool pl_timers_set(struct pl_timers *h, struct pl_timer *t, int64_t at);
/* Clears the timer; it need not be set. */
void pl_timers_clear(struct pl_timers *h, struct pl_timer *t);
/* Returns the timer with the earliest deadline, which stays set; NULL if none is set. */
static inline struct pl_timer *pl_timers_first(const struct pl_timers *h)
{
    return h->n ? h->heap[0] : NULL;
}
