/* timers: a heap of deadlines that live inside their owners. A zeroed timer is not set; one timer has one deadline. Not thread-safe. */
#pragma once

#include "storage/base/base.h"

#define PL_TIMER_NEVER INT64_MAX

struct pl_timer {
    int64_t at;
    size_t pos; /* place in the heap + 1; 0 = not set */
    int kind;   /* the owner's word for itself */
};

struct pl_timers {
    struct pl_timer **heap;
    size_t n;
    size_t cap;
};

void pl_timers_finish(struct pl_timers *h);
/* Sets, moves or (PL_TIMER_NEVER) clears it. False only without memory. */
PL_MUST_CHECK
bool pl_timers_set(struct pl_timers *h, struct pl_timer *t, int64_t at);
void pl_timers_clear(struct pl_timers *h, struct pl_timer *t);
/* The earliest one, still set; NULL when none is. */
static inline struct pl_timer *pl_timers_first(const struct pl_timers *h)
{
    return h->n ? h->heap[0] : NULL;
}
