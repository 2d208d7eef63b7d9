/* deadline_heap: a heap of timers, each with one deadline. A timer is a field of the object that it belongs
 * to; a zeroed timer is not set. Not thread-safe. */
#pragma once

#include "storage/base/base.h"

#define PL_TIMER_NEVER INT64_MAX

struct pl_timer {
    int64_t at;
    size_t pos; /* index in the heap plus 1; 0 = the timer is not set */
    int kind;   /* set by the owner of the timer, to find the owner from the timer */
};

struct pl_timers {
    struct pl_timer **heap;
    size_t n;
    size_t cap;
};

/* Frees the heap, but not the timers, which belong to their owners. */
void pl_timers_finish(struct pl_timers *h);
/* Sets or moves the deadline of the timer; PL_TIMER_NEVER clears it. Returns false only without memory. */
PL_MUST_CHECK
bool pl_timers_set(struct pl_timers *h, struct pl_timer *t, int64_t at);
/* Clears the timer. Does nothing if it is not set. */
void pl_timers_clear(struct pl_timers *h, struct pl_timer *t);
/* Returns the timer with the earliest deadline, which stays set; NULL if none is set. */
static inline struct pl_timer *pl_timers_first(const struct pl_timers *h)
{
    return h->n ? h->heap[0] : NULL;
}
