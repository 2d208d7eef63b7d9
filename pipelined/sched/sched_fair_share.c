/* sched_fair_share: lines (queues) of requests for workers. A line has one rank per priority; a rank keeps
 * its pipelines in buckets by their number of workers; a pipeline keeps its requesting stage versions in
 * order. The next request is the first one in the lowest bucket of the highest rank. */
#include "pipelined/sched/sched_internal.h"

void pl_sched_fair_share_init(struct line *line)
{
    TAILQ_INIT(&line->ranks);
}

void pl_sched_fair_share_finish(struct line *line)
{
    struct rank *rank;

    while ((rank = TAILQ_FIRST(&line->ranks))) {
        TAILQ_REMOVE(&line->ranks, rank, link);
        free(rank);
    }
}

static struct rank *rank_of(struct pl_sched *s, struct line *line, int32_t priority)
{
    struct rank *at, *rank;

    TAILQ_FOREACH(at, &line->ranks, link)
    if (at->priority <= priority)
        break;
    if (at && at->priority == priority)
        return at;
    rank = pl_sched_calloc(s, 1, sizeof(*rank));
    if (!rank)
        return NULL;
    rank->line = line;
    rank->priority = priority;
    for (int b = 0; b < FAIR_BUCKETS; b++)
        TAILQ_INIT(&rank->buckets[b]);
    if (at)
        TAILQ_INSERT_BEFORE(at, rank, link);
    else
        TAILQ_INSERT_TAIL(&line->ranks, rank, link);
    return rank;
}

static void bucket_leave(struct wisher *w)
{
    if (w->bucket >= 0)
        TAILQ_REMOVE(&w->rank->buckets[w->bucket], w, link);
    w->bucket = -1;
}

static void bucket_enter(struct wisher *w)
{
    int bucket = (int)PL_MIN(w->pipeline->workers, FAIR_BUCKETS - 1u);

    if (w->bucket == bucket)
        return;
    bucket_leave(w);
    w->bucket = bucket;
    TAILQ_INSERT_TAIL(&w->rank->buckets[bucket], w, link);
}

void pl_sched_fair_share_moved(struct pipeline *p)
{
    struct wisher *w;

    SLIST_FOREACH(w, &p->wishers, next)
    if (w->bucket >= 0)
        bucket_enter(w);
}

/* Finds or creates the pipeline's entry in the rank. A pipeline has few entries, so a list is enough. */
static struct wisher *wisher_of(struct pl_sched *s, struct pipeline *p, struct rank *rank)
{
    struct wisher *w;

    SLIST_FOREACH(w, &p->wishers, next)
    if (w->rank == rank)
        return w;
    w = pl_sched_calloc(s, 1, sizeof(*w));
    if (!w)
        return NULL;
    w->pipeline = p;
    w->rank = rank;
    w->bucket = -1;
    TAILQ_INIT(&w->versions);
    SLIST_INSERT_HEAD(&p->wishers, w, next);
    return w;
}

/* Moves the version's request to the end of its pipeline's queue in the line. */
void pl_sched_fair_share_add(struct pl_sched *s, struct version *v, struct line *line, enum device device)
{
    struct wisher *w = v->wish;
    struct rank *rank;

    if (w ? w->rank->line == line && v->wish_device == device : !line)
        return;
    if (w) {
        TAILQ_REMOVE(&w->versions, v, wish_link);
        if (TAILQ_EMPTY(&w->versions))
            bucket_leave(w);
        v->wish = NULL;
    }
    rank = line ? rank_of(s, line, v->def.priority) : NULL;
    w = rank ? wisher_of(s, v->pipeline, rank) : NULL;
    if (!w)
        return;
    v->wish = w;
    v->wish_device = device;
    TAILQ_INSERT_TAIL(&w->versions, v, wish_link);
    bucket_enter(w);
}

/* Returns the first request at or after the given bucket of the given rank; NULL if there is none. */
static struct version *first_from(const struct rank *rank, int bucket)
{
    for (; rank; rank = TAILQ_NEXT(rank, link), bucket = 0)
        for (int b = bucket; b < FAIR_BUCKETS; b++)
            if (!TAILQ_EMPTY(&rank->buckets[b]))
                return TAILQ_FIRST(&TAILQ_FIRST(&rank->buckets[b])->versions);
    return NULL;
}

struct version *pl_sched_fair_share_first(const struct line *line)
{
    return first_from(TAILQ_FIRST(&line->ranks), 0);
}

struct version *pl_sched_fair_share_next(const struct version *v)
{
    const struct wisher *w = v->wish, *other = TAILQ_NEXT(w, link);
    struct version *next = TAILQ_NEXT(v, wish_link);

    if (next)
        return next;
    return other ? TAILQ_FIRST(&other->versions) : first_from(w->rank, w->bucket + 1);
}

void pl_sched_fair_share_remove(struct pipeline *p, const struct line *line)
{
    struct wisher *w, *next;

    for (w = SLIST_FIRST(&p->wishers); w; w = next) {
        next = SLIST_NEXT(w, next);
        if (w->rank->line != line || !TAILQ_EMPTY(&w->versions))
            continue;
        SLIST_REMOVE(&p->wishers, w, wisher, next);
        free(w);
    }
}

void pl_sched_fair_share_pipeline_free(struct pipeline *p)
{
    struct wisher *w;

    while ((w = SLIST_FIRST(&p->wishers))) {
        SLIST_REMOVE_HEAD(&p->wishers, next);
        free(w);
    }
    free(p);
}
