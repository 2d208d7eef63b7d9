/* deadline_heap: a binary min-heap of pointers. Each timer knows its index, so it can be moved or removed in
 * O(log n). */
#include "pipelined/sched/deadline_heap.h"

void pl_timers_finish(struct pl_timers *h)
{
    free(h->heap);
    *h = (struct pl_timers){0};
}

static void timers_put(struct pl_timers *h, size_t i, struct pl_timer *t)
{
    h->heap[i] = t;
    t->pos = i + 1;
}

static void timers_sift(struct pl_timers *h, size_t i)
{
    struct pl_timer *t = h->heap[i];

    for (; i > 0 && h->heap[(i - 1) / 2]->at > t->at; i = (i - 1) / 2)
        timers_put(h, i, h->heap[(i - 1) / 2]);
    for (;;) {
        size_t child = 2 * i + 1;

        if (child + 1 < h->n && h->heap[child + 1]->at < h->heap[child]->at)
            child++;
        if (child >= h->n || h->heap[child]->at >= t->at)
            break;
        timers_put(h, i, h->heap[child]);
        i = child;
    }
    timers_put(h, i, t);
}

void pl_timers_clear(struct pl_timers *h, struct pl_timer *t)
{
    size_t i = t->pos;

    if (i == 0)
        return;
    t->pos = 0;
    h->n--;
    if (i - 1 < h->n) {
        timers_put(h, i - 1, h->heap[h->n]);
        timers_sift(h, i - 1);
    }
}

bool pl_timers_set(struct pl_timers *h, struct pl_timer *t, int64_t at)
{
    if (at == PL_TIMER_NEVER) {
        pl_timers_clear(h, t);
        return true;
    }
    t->at = at;
    if (t->pos == 0) {
        if (h->n == h->cap) {
            size_t cap = h->cap ? h->cap * 2 : 64;
            struct pl_timer **heap = realloc(h->heap, cap * sizeof(struct pl_timer *));

            if (!heap)
                return false;
            h->heap = heap;
            h->cap = cap;
        }
        timers_put(h, h->n++, t);
    }
    timers_sift(h, t->pos - 1);
    return true;
}
