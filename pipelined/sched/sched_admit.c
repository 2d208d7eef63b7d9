/* sched_admit: decides which workers to start. Accounts for the CPU, memory and GPU slots of this machine,
 * queues each stage's request for a worker in a line, and serves the lines in order while resources are
 * left. */
#include "pipelined/sched/sched_internal.h"

/* ---- capacity ---- */

uint32_t pl_sched_gpus_free(const struct pl_sched *s)
{
    return s->capacity.gpu_slots - s->gpus_used;
}

uint64_t pl_sched_cpu_need(const struct pl_sched *s, const struct version *v, enum device device)
{
    uint64_t need = v->def.cpu_milli ? v->def.cpu_milli : device == GPU ? 0 : 1000;

    return s->capacity.cpu_milli > 0 ? PL_MIN(need, s->capacity.cpu_milli) : need;
}

static uint64_t left(uint64_t have, uint64_t used)
{
    return have > used ? have - used : 0;
}

/* fits_cpu, fits_memory: true if enough CPU, or enough memory, is free for one more worker. `back`: amount to
 * count as free although workers that are being stopped still hold it. */
static bool fits_cpu(const struct pl_sched *s, const struct version *v, enum device device, uint64_t back)
{
    return pl_sched_cpu_need(s, v, device) <= left(s->capacity.cpu_milli + back, s->cpu_used);
}

static bool fits_memory(const struct pl_sched *s, const struct version *v, uint64_t back)
{
    return s->capacity.memory_bytes == 0 || v->def.memory_bytes <= left(s->capacity.memory_bytes + back, s->memory_used);
}

uint32_t pl_sched_gpus_for(const struct pl_sched *s, const struct version *v, bool soon)
{
    uint32_t n = 0;

    if (!v->def.gpu_chosen)
        return pl_sched_gpus_free(s) + (soon ? s->gpus_stopping : 0);
    for (size_t i = 0; i < v->def.n_gpu_slots; i++) {
        const uint16_t slot = v->def.gpu_slots[i];
        const struct worker *w = slot < s->capacity.gpu_slots ? s->gpus[slot] : NULL;

        n += slot < s->capacity.gpu_slots && (!w || (soon && w->state == WORKER_STOPPING));
    }
    return n;
}

static bool fits_gpus(const struct pl_sched *s, const struct version *v, bool soon)
{
    return v->def.gpu_count <= pl_sched_gpus_for(s, v, soon);
}

bool pl_sched_gpus_offered(const struct pl_sched *s, const struct version *v)
{
    return v->def.gpu_count <= (v->def.gpu_chosen ? v->def.n_gpu_slots : s->capacity.gpu_offered);
}

bool pl_sched_slot_is_allowed(const struct version *v, uint32_t slot)
{
    for (size_t i = 0; v->def.gpu_chosen && i < v->def.n_gpu_slots; i++)
        if (v->def.gpu_slots[i] == slot)
            return true;
    return !v->def.gpu_chosen;
}

static bool fits(const struct pl_sched *s, const struct version *v, enum device device)
{
    return fits_cpu(s, v, device, 0) && fits_memory(s, v, 0) && (device == CPU || fits_gpus(s, v, false));
}

static bool fits_soon(const struct pl_sched *s, const struct version *v, enum device device)
{
    return fits_cpu(s, v, device, s->cpu_stopping) && fits_memory(s, v, s->memory_stopping) &&
           (device == CPU || fits_gpus(s, v, true));
}

bool pl_sched_admit_missing_resource(const struct pl_sched *s, const struct version *v)
{
    return !fits_cpu(s, v, GPU, 0) || !fits_memory(s, v, 0);
}

/* True if the cluster offers the shape, or if the shape's offer is not known yet. */
static bool may_be_offered(const struct shape *shape)
{
    return shape && (!shape->told || shape->offered);
}

bool pl_sched_admit_possible(const struct pl_sched *s, const struct version *v)
{
    if (v->shape)
        return may_be_offered(v->shape) || may_be_offered(v->cpu_shape);
    if (s->capacity.memory_bytes > 0 && v->def.memory_bytes > s->capacity.memory_bytes)
        return false;
    return v->def.gpu_count == 0 || !v->def.gpu_required || pl_sched_gpus_offered(s, v);
}

static void slots_count(struct pl_sched *s)
{
    s->gpus_used = 0;
    for (uint32_t i = 0; i < s->capacity.gpu_slots; i++)
        s->gpus_used += s->gpus[i] ? 1 : 0;
}

int pl_sched_admit_capacity(struct pl_sched *s, const struct pl_sched_capacity *c, struct pl_err *err)
{
    const struct pl_map_slot *slot;

    if (c->gpu_slots > PL_SCHED_GPUS_MAX)
        return pl_err_set(err, PL_ELIMIT, "the executor reports %u GPUs: at most %u are supported", c->gpu_slots,
                          PL_SCHED_GPUS_MAX);
    s->capacity = *c;
    s->capacity.gpu_offered = PL_MAX(c->gpu_offered, c->gpu_slots);
    slots_count(s);
    s->devices_changed = true;
    for (size_t i = 0; (slot = pl_map_next(&s->stages, &i));)
        pl_sched_stage_dirty(s, slot->value);
    return 0;
}

/* ---- resources that workers hold, until they are certainly gone ---- */

void pl_sched_admit_take(struct pl_sched *s, struct worker *w)
{
    w->on_gpu = w->n_gpus > 0;
    for (uint32_t i = 0; i < w->n_gpus; i++)
        s->gpus[w->gpus[i]] = w;
    s->cpu_used += w->cpu_milli;
    s->memory_used += w->memory_bytes;
    w->version->with_gpu += w->on_gpu;
    if (w->n_gpus > 0)
        slots_count(s);
    s->devices_changed = true;
}

void pl_sched_admit_leaving(struct pl_sched *s, struct worker *w)
{
    s->cpu_stopping += w->cpu_milli;
    s->memory_stopping += w->memory_bytes;
    s->gpus_stopping += w->n_gpus;
    if (w->on_gpu && !w->pending && --w->version->with_gpu == 0) {
        struct job *job = TAILQ_FIRST(&w->version->stage->lane);

        if (job && job->version == w->version)
            job->gpu_since = -1; /* the job had a GPU: if it needs one again, it waits as long as for the first */
    }
    s->devices_changed = true;
    if (w->pending)
        pl_sched_shape_left(s, w);
}

void pl_sched_admit_give(struct pl_sched *s, struct worker *w)
{
    if (w->state != WORKER_STOPPING)
        pl_sched_admit_leaving(s, w);
    s->cpu_stopping -= w->cpu_milli;
    s->memory_stopping -= w->memory_bytes;
    s->gpus_stopping -= w->n_gpus;
    for (uint32_t i = 0; i < w->n_gpus; i++)
        s->gpus[w->gpus[i]] = NULL;
    s->cpu_used -= w->cpu_milli;
    s->memory_used -= w->memory_bytes;
    if (w->n_gpus > 0)
        slots_count(s);
    s->devices_changed = true;
}

static void slots_choose(const struct pl_sched *s, const struct version *v, struct worker *w)
{
    const size_t n = v->def.gpu_chosen ? v->def.n_gpu_slots : s->capacity.gpu_slots;

    for (size_t i = 0; i < n && w->n_gpus < v->def.gpu_count; i++) {
        const uint16_t slot = v->def.gpu_chosen ? v->def.gpu_slots[i] : (uint16_t)i;

        if (slot < s->capacity.gpu_slots && !s->gpus[slot])
            w->gpus[w->n_gpus++] = slot;
    }
}

/* ---- requests for workers ---- */

void pl_sched_admit_withdraw(struct pl_sched *s, struct version *v)
{
    pl_sched_fair_share_add(s, v, NULL, NO_DEVICE);
}

static struct shape *shape_for(const struct version *v, enum device d)
{
    return d == CPU && v->def.gpu_count > 0 ? v->cpu_shape : v->shape;
}

static void wish(struct pl_sched *s, struct version *v, enum device d)
{
    struct shape *shape = v->shape ? shape_for(v, d) : NULL;

    if (shape)
        pl_sched_shape_ready(s, shape);
    if (v->shape && !shape)
        pl_sched_admit_withdraw(s, v);
    else
        pl_sched_fair_share_add(s, v, shape ? &shape->line : &s->lines[d], d);
}

/* Returns the device for the next worker of the job. If the stage prefers a GPU but does not require one, the
 * job waits for a GPU while no worker of its stage has one, and anew after the last one that had is gone. Once it
 * has given up it stays on the CPU. */
enum device pl_sched_admit_device(struct pl_sched *s, struct job *job)
{
    const struct version *v = job->version;

    if (v->def.gpu_count == 0)
        return CPU;
    if (v->def.gpu_required)
        return GPU;
    if (job->on_cpu || (v->shape ? v->cpu_shape && !may_be_offered(v->shape) : !pl_sched_gpus_offered(s, v)))
        return CPU;
    if (v->shape && !v->shape->told) /* the executor has not reported yet whether it offers such a GPU */
        return GPU;
    if (job->gpu_since < 0)
        job->gpu_since = s->now;
    if (s->now - job->gpu_since >= v->def.gpu_wait_ms && v->with_gpu == 0)
        job->on_cpu = true;
    return job->on_cpu ? CPU : GPU;
}

void pl_sched_admit_request(struct pl_sched *s, struct version *v)
{
    struct job *job = TAILQ_FIRST(&v->stage->lane);
    uint32_t live = v->starting + v->idle + v->busy;

    if (job && job->version == v && job->in_line && !job->rows && v->wish && !s->draining)
        /* the job is still being planned: it keeps the position in the queue that it took over from the
         * superseded job */
        return;
    if (!job || job->version != v || !job->rows || pl_sched_state_final(job->state) || job->state == PL_SCHED_FINISHING ||
        s->draining || v->retry_at > s->now || live >= v->def.workers ||
        pl_sched_datums_ready(s, job->rows) <= v->starting + v->idle || !pl_sched_admit_possible(s, v))
        pl_sched_admit_withdraw(s, v);
    else
        wish(s, v, pl_sched_admit_device(s, job));
}

/* ---- starting workers and making room ---- */

/* Starts a worker of the version: reserves its devices, or a place among its shape's waiting pods, and
 * appends START_WORKER. */
static void start(struct pl_sched *s, struct version *v, enum device device)
{
    struct worker *w = pl_sched_worker_make(s, v, ++s->last_id, WORKER_STARTING);
    struct pl_sched_action *a;

    if (!w)
        return;
    if (v->shape) {
        pl_sched_shape_take(s, w, shape_for(v, device), true);
        w->needs = w->shape->needs;
    } else {
        w->cpu_milli = pl_sched_cpu_need(s, v, device);
        w->memory_bytes = v->def.memory_bytes;
        if (device == GPU)
            slots_choose(s, v, w);
        pl_sched_admit_take(s, w);
    }
    a = pl_sched_action_new(s, PL_SCHED_START_WORKER);
    pl_sched_nodes_avoid(s, w, TAILQ_FIRST(&v->stage->lane)->rows, a);
    pl_sched_worker_timer(s, w);
    a->worker.id = w->id;
    a->worker.stage = v->def.stage;
    a->worker.version = v->def.version;
    a->worker.job = TAILQ_FIRST(&v->stage->lane)->id;
    a->worker.shape = w->shape ? w->shape->id : 0;
    a->worker.gpu = w->shape && w->on_gpu;
    a->worker.n_gpus = w->n_gpus;
    memcpy(a->worker.gpus, w->gpus, sizeof(w->gpus));
    a->worker.cpu_milli = (uint32_t)w->cpu_milli;
    a->worker.memory_bytes = w->memory_bytes;
    pl_sched_wait_reason_defer(s, v->stage);
}

static bool holds_one_for(const struct version *v, const struct worker *w)
{
    for (uint32_t i = 0; i < w->n_gpus; i++)
        if (pl_sched_slot_is_allowed(v, w->gpus[i]))
            return true;
    return false;
}

static bool helps(const struct pl_sched *s, const struct version *v, enum device device, const struct worker *w)
{
    return (!fits_cpu(s, v, device, s->cpu_stopping) && w->cpu_milli > 0) ||
           (!fits_memory(s, v, s->memory_stopping) && w->memory_bytes > 0) ||
           (device == GPU && !fits_gpus(s, v, true) && holds_one_for(v, w));
}

/* Stops idle workers, and starting workers whose job is gone, to make room for the first request in line. */
static void make_room(struct pl_sched *s, const struct version *v, enum device device)
{
    struct worker *w, *next;

    for (w = TAILQ_FIRST(&s->idle); w && !fits_soon(s, v, device); w = next) {
        next = TAILQ_NEXT(w, place_link);
        if (w->version != v && helps(s, v, device, w))
            pl_sched_worker_stop(s, w, false, "another stage needs its CPU, memory or GPUs");
    }
    for (w = TAILQ_FIRST(&s->starting); w && !fits_soon(s, v, device); w = next) {
        next = TAILQ_NEXT(w, place_link);
        if (w->version->unfinished == 0 && helps(s, v, device, w))
            pl_sched_worker_stop(s, w, true, "another stage needs its CPU, memory or GPUs");
    }
}

/* True if a job that stopped waiting for a GPU and has no worker so far can have a GPU now. All workers of a
 * job run on the same device, so this must be decided before its first worker. */
static bool gets_one_after_all(const struct pl_sched *s, const struct version *v)
{
    return v->def.gpu_count > 0 && v->starting + v->idle + v->busy == 0 && !pl_sched_fair_share_first(&s->lines[GPU]) &&
           fits(s, v, GPU);
}

/* Updates the first request in the line and returns its stage version. If after the update another request is
 * the first, returns NULL and sets `*ret_again`: the caller must call again. */
static struct version *first_in(struct pl_sched *s, const struct line *line, bool *ret_again)
{
    struct version *v = pl_sched_fair_share_first(line);

    *ret_again = false;
    if (!v)
        return NULL;
    pl_sched_admit_request(s, v);
    *ret_again = v != pl_sched_fair_share_first(line);
    return *ret_again ? NULL : v;
}

static void start_first(struct pl_sched *s, struct version *v, enum device device)
{
    start(s, v, device);
    pl_sched_admit_withdraw(s, v); /* the request moves to the end of its pipeline's queue */
    pl_sched_admit_request(s, v);
}

/* Starts workers for requests behind `first` that want none of the GPU slots for which earlier requests
 * wait. */
static void admit_beside(struct pl_sched *s, const struct version *first)
{
    bool kept[PL_SCHED_GPUS_MAX] = {false};
    struct version *v, *next;

    for (v = (struct version *)first; v && v->def.gpu_chosen && s->budget > 0 && !s->oom; v = next, s->budget--) {
        bool waits = v == first || !fits(s, v, GPU);

        next = pl_sched_fair_share_next(v);
        for (size_t i = 0; i < v->def.n_gpu_slots; i++)
            waits = waits || kept[v->def.gpu_slots[i]];
        for (size_t i = 0; i < v->def.n_gpu_slots && waits; i++)
            kept[v->def.gpu_slots[i]] = true;
        if (waits)
            continue;
        pl_sched_admit_request(s, v);
        if (v->wish && v->wish_device == GPU)
            start_first(s, v, GPU);
        if (next && !next->wish)
            /* request `next` has left the line, so the walk cannot go on; the next call serves the remaining
             * requests */
            return;
    }
}

/* Serves the requests for one device in order. Stops at the first request that does not fit, so that no later
 * one overtakes it, and returns that request. */
static const struct version *admit_device(struct pl_sched *s, enum device wished)
{
    const struct line *line = &s->lines[wished];
    struct version *v;
    bool again;

    for (; s->budget > 0 && !s->oom; s->budget--) {
        enum device device = wished;

        v = first_in(s, line, &again);
        if (again)
            continue;
        if (!v)
            return NULL;
        if (wished == CPU && gets_one_after_all(s, v))
            device = GPU;
        if (!fits(s, v, device)) {
            make_room(s, v, device);
            if (device == GPU)
                admit_beside(s, v);
            return v;
        }
        start_first(s, v, device);
    }
    s->admit_more = s->admit_more || pl_sched_fair_share_first(line);
    return NULL;
}

/* Serves the requests of one shape. Returns false if the step's budget is used up while requests are left. */
static bool admit_shape(struct pl_sched *s, const struct shape *shape)
{
    struct version *v;
    bool again;

    for (; s->budget > 0 && !s->oom; s->budget--) {
        if (!pl_sched_shape_fits(shape))
            return true;
        v = first_in(s, &shape->line, &again);
        if (again)
            continue;
        if (!v)
            return true;
        start_first(s, v, v->wish_device);
    }
    return !pl_sched_shape_fits(shape) || !pl_sched_fair_share_first(&shape->line);
}

static void admit_shapes(struct pl_sched *s)
{
    struct shape *shape, *last = TAILQ_LAST(&s->ready, shape_list);
    bool is_last = false;

    /* a shape that becomes ready during this loop belongs to a stage that was just served: it waits for the
     * next call */
    while (!is_last && !s->oom && (shape = TAILQ_FIRST(&s->ready))) {
        is_last = shape == last;
        TAILQ_REMOVE(&s->ready, shape, ready_link);
        shape->ready = false;
        if (admit_shape(s, shape))
            continue;
        pl_sched_shape_ready(s, shape);
        s->admit_more = true;
        return;
    }
}

void pl_sched_admit(struct pl_sched *s)
{
    const struct version *first;

    s->admit_more = false;
    first = admit_device(s, GPU);
    /* if the first GPU request lacks only CPU or memory, all free CPU and memory is kept for it */
    if (!first || !fits_gpus(s, first, false))
        (void)admit_device(s, CPU);
    admit_shapes(s);
}
