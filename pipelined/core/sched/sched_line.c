#include "pipelined/core/sched/sched_state.h"

void pl_sched_line_init(struct line *line)
{
    for (int b = 0; b < FAIR_BUCKETS; b++)
        TAILQ_INIT(&line->buckets[b]);
}

static void bucket_leave(struct wisher *w)
{
    if (w->bucket >= 0)
        TAILQ_REMOVE(&w->line->buckets[w->bucket], w, link);
    w->bucket = -1;
}

static void bucket_enter(struct wisher *w)
{
    int bucket = (int)PL_MIN(w->pipeline->workers, FAIR_BUCKETS - 1u);

    if (w->bucket == bucket)
        return;
    bucket_leave(w);
    w->bucket = bucket;
    TAILQ_INSERT_TAIL(&w->line->buckets[bucket], w, link);
}

void pl_sched_line_moved(struct pipeline *p)
{
    struct wisher *w;

    SLIST_FOREACH(w, &p->wishers, next)
    if (w->bucket >= 0)
        bucket_enter(w);
}

/* A pipeline's stages are of few kinds. */
static struct wisher *wisher_of(struct pl_sched *s, struct pipeline *p, struct line *line)
{
    struct wisher *w;

    SLIST_FOREACH(w, &p->wishers, next)
    if (w->line == line)
        return w;
    w = pl_sched_calloc(s, 1, sizeof(*w));
    if (!w)
        return NULL;
    w->pipeline = p;
    w->line = line;
    w->bucket = -1;
    TAILQ_INIT(&w->versions);
    SLIST_INSERT_HEAD(&p->wishers, w, next);
    return w;
}

void pl_sched_line_wish(struct pl_sched *s, struct version *v, struct line *line, enum device device)
{
    struct wisher *w = v->wish;

    if (w ? w->line == line && v->wish_device == device : !line)
        return;
    if (w) {
        TAILQ_REMOVE(&w->versions, v, wish_link);
        if (TAILQ_EMPTY(&w->versions))
            bucket_leave(w);
        v->wish = NULL;
    }
    w = line ? wisher_of(s, v->pipeline, line) : NULL;
    if (!w)
        return;
    v->wish = w;
    v->wish_device = device;
    TAILQ_INSERT_TAIL(&w->versions, v, wish_link);
    bucket_enter(w);
}

struct version *pl_sched_line_first(const struct line *line)
{
    for (int b = 0; b < FAIR_BUCKETS; b++)
        if (!TAILQ_EMPTY(&line->buckets[b]))
            return TAILQ_FIRST(&TAILQ_FIRST(&line->buckets[b])->versions);
    return NULL;
}

void pl_sched_line_pipeline_free(struct pipeline *p)
{
    struct wisher *w;

    while ((w = SLIST_FIRST(&p->wishers))) {
        SLIST_REMOVE_HEAD(&p->wishers, next);
        free(w);
    }
    free(p);
}
