/* sched_queue: lists what waits for resources, in the order in which it is served, for the API. */
#include "pipelined/sched/sched_internal.h"

/* The list that is being made. */
struct listing {
    const struct pl_sched *s;
    uint64_t only; /* the one job to list; 0 = all */
    struct pl_sched_wait *items;
    size_t n, max;
};

static void add_holder(struct pl_sched_wait *wait, const struct worker *w, uint32_t gpus)
{
    for (size_t i = 0; i < wait->n_holders; i++) {
        if (wait->holders[i].worker == w->id) {
            wait->holders[i].gpus += gpus;
            return;
        }
    }
    if (wait->n_holders < PL_SCHED_WAIT_HOLDERS)
        wait->holders[wait->n_holders++] = (struct pl_sched_wait_holder){w->id, gpus};
}

/* Names the workers that hold what the version waits for. */
static void find_holders(const struct pl_sched *s, const struct version *v, struct pl_sched_wait *wait)
{
    const struct pl_map_slot *slot;

    for (uint32_t i = 0; wait->what == PL_SCHED_WAITS_GPU && i < s->capacity.gpu_slots; i++)
        if (s->gpus[i] && pl_sched_slot_is_allowed(v, i))
            add_holder(wait, s->gpus[i], 1);
    if (wait->what != PL_SCHED_WAITS_CPU)
        return;
    for (size_t i = 0; wait->n_holders < PL_SCHED_WAIT_HOLDERS && (slot = pl_map_next(&s->workers, &i));)
        if (((const struct worker *)slot->value)->cpu_milli > 0)
            add_holder(wait, slot->value, 0);
}

/* most workers of a version examined to find one that starts */
#define WORKERS_LOOKED_AT 64

/* Returns a worker of the version that starts: one that has a place if there is any, else one whose pod waits for a node.
 * NULL if none starts. */
static const struct worker *starting_one(const struct version *v)
{
    const struct worker *w, *found = NULL;
    int looked = 0;

    TAILQ_FOREACH(w, &v->workers, version_link)
    {
        if (looked++ >= WORKERS_LOOKED_AT)
            break;
        if (w->state == WORKER_STARTING && (!found || found->pending))
            found = w;
    }
    return found;
}

/* Adds the stage's first job, if it is one of this version. */
static void add(struct listing *l, const struct version *v, enum pl_sched_waits what, uint32_t ahead)
{
    const struct job *job = TAILQ_FIRST(&v->stage->lane);
    const struct worker *starts = starting_one(v);
    enum device device = v->def.gpu_count == 0 ? CPU : v->wish ? v->wish_device : GPU;
    struct pl_sched_wait *wait;

    if (!job || job->version != v || job->workers > 0 || l->n >= l->max || (l->only && job->id != l->only))
        return;
    if (starts) {
        what = starts->pending ? PL_SCHED_WAITS_POD : PL_SCHED_WAITS_START;
        device = v->def.gpu_count > 0 && (starts->shape ? starts->shape == v->shape : starts->n_gpus > 0) ? GPU : CPU;
    }
    wait = &l->items[l->n++];
    *wait = (struct pl_sched_wait){.job = job->id, .what = what, .ahead = ahead, .gpus = device == GPU ? v->def.gpu_count : 0};
    wait->cpu_milli = pl_sched_cpu_need(l->s, v, device);
    wait->memory_bytes = v->def.memory_bytes;
    if (what == PL_SCHED_WAITS_GPU) {
        wait->free = pl_sched_gpus_for(l->s, v, false);
        wait->slots = (uint32_t)(v->def.gpu_chosen ? v->def.n_gpu_slots : l->s->capacity.gpu_slots);
    }
    find_holders(l->s, v, wait);
}

static void add_line(struct listing *l, const struct line *line, enum pl_sched_waits what)
{
    const struct version *v = pl_sched_fair_share_first(line);

    for (uint32_t ahead = 0; v && l->n < l->max; ahead++, v = pl_sched_fair_share_next(v))
        add(l, v, what, ahead);
}

/* Adds the stages that are in no line although their first job has ready datums and no worker: their workers start, or none
 * can ever start. */
static void add_others(struct listing *l)
{
    const struct pl_map_slot *slot;

    for (size_t i = 0; l->n < l->max && (slot = pl_map_next(&l->s->stages, &i));) {
        const struct job *job = TAILQ_FIRST(&((const struct stage *)slot->value)->lane);
        const struct version *v = job ? job->version : NULL;

        if (!job || !job->rows || job->workers > 0 || job->state >= PL_SCHED_FINISHING || v->wish ||
            pl_sched_datums_ready(l->s, job->rows) == 0)
            continue;
        add(l, v, v->starting == 0 && !pl_sched_admit_possible(l->s, v) ? PL_SCHED_WAITS_EVER : PL_SCHED_WAITS_START, 0);
    }
}

size_t pl_sched_queue(const struct pl_sched *s, uint64_t only, struct pl_sched_wait *items, size_t max)
{
    struct listing l = {.s = s, .only = only, .items = items, .max = max};
    const struct pl_map_slot *slot;

    add_line(&l, &s->lines[GPU], PL_SCHED_WAITS_GPU);
    add_line(&l, &s->lines[CPU], PL_SCHED_WAITS_CPU);
    for (size_t i = 0; l.n < max && (slot = pl_map_next(&s->shapes, &i));)
        add_line(&l, &((const struct shape *)slot->value)->line, PL_SCHED_WAITS_POD);
    add_others(&l);
    return l.n;
}
