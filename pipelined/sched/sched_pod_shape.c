/* sched_pod_shape: shapes of pods with their reference counts, the number of pods of each shape that wait for
 * a node, and the replacement of such pods when their stage's shape or device changes. */
#include "pipelined/sched/sched_internal.h"

#include "storage/base/clock.h"
#include <stdio.h>

static struct shape *shape_of(struct pl_sched *s, uint64_t id)
{
    struct shape *shape = id ? pl_sched_get(&s->shapes, id) : NULL;

    if (shape || id == 0)
        return shape;
    shape = pl_sched_calloc(s, 1, sizeof(*shape));
    if (!shape)
        return NULL;
    shape->id = id;
    pl_sched_fair_share_init(&shape->line);
    if (!pl_sched_put(s, &s->shapes, &id, sizeof(id), shape)) {
        free(shape);
        return NULL;
    }
    return shape;
}

static void shape_free(void *arg)
{
    struct shape *shape = arg;

    pl_sched_fair_share_finish(&shape->line);
    free(shape->text);
    free(shape->why);
    free(shape);
}

static void forget(struct pl_sched *s, struct shape *shape)
{
    if (shape->ready)
        TAILQ_REMOVE(&s->ready, shape, ready_link);
    pl_sched_drop(&s->shapes, shape->id);
    shape_free(shape);
}

struct shape *pl_sched_shape_ref(struct pl_sched *s, uint64_t id)
{
    struct shape *shape = shape_of(s, id);

    if (shape)
        shape->refs++;
    return shape;
}

void pl_sched_shape_unref(struct pl_sched *s, struct shape *shape)
{
    if (shape && --shape->refs == 0 && !s->restoring)
        forget(s, shape);
}

void pl_sched_shapes_restored(struct pl_sched *s)
{
    struct shape *unused[64];
    const struct pl_map_slot *slot;
    size_t n;

    do {
        n = 0;
        for (size_t i = 0; n < PL_ARRAY_SIZE(unused) && (slot = pl_map_next(&s->shapes, &i));)
            if (((struct shape *)slot->value)->refs == 0)
                unused[n++] = slot->value;
        for (size_t i = 0; i < n; i++)
            forget(s, unused[i]);
    } while (n == PL_ARRAY_SIZE(unused));
}

bool pl_sched_has_shape(const struct pl_sched *s, uint64_t id)
{
    return pl_sched_get(&s->shapes, id) != NULL;
}

void pl_sched_shape_ready(struct pl_sched *s, struct shape *shape)
{
    if (shape->ready)
        return;
    shape->ready = true;
    TAILQ_INSERT_TAIL(&s->ready, shape, ready_link);
}

bool pl_sched_shape_fits(const struct shape *shape)
{
    return shape->told && shape->offered && shape->pending < shape->pending_max;
}

/* Queues all stages to be looked at again, because the shapes that they can use may have changed. */
static void offer_changed(struct pl_sched *s)
{
    const struct pl_map_slot *slot;

    for (size_t i = 0; (slot = pl_map_next(&s->stages, &i));) {
        ((struct stage *)slot->value)->reshaped = true;
        pl_sched_stage_dirty(s, slot->value);
    }
}

/* Handles event SHAPE: stores whether nodes can take pods of this shape and how many, and queues the stages that
 * use it again if that changed. */
int pl_sched_shape_set(struct pl_sched *s, const struct pl_sched_shape *def, struct pl_err *err)
{
    struct shape *shape;
    char *text;

    if (def->id == 0)
        return pl_err_set(err, PL_EINVAL, "the id of a pod shape is 0: use another number");
    shape = pl_sched_get(&s->shapes, def->id);
    /* no stage or worker uses the shape; the engine sends the event again once one does */
    if (!shape && !s->restoring)
        return 0;
    if (!shape && s->shapes.len >= PL_SCHED_SHAPES_MAX)
        return pl_err_set(err, PL_ELIMIT, "the limit of %u pod shapes is reached", PL_SCHED_SHAPES_MAX);
    shape = shape_of(s, def->id);
    text = pl_sched_strdup(s, def->text);
    if (!shape || !text) {
        free(text);
        return 0; /* out of memory: the end of the step reports it */
    }
    if (!shape->told || shape->offered != def->offered || shape->needs != def->needs ||
        (!def->offered && !pl_streq(text, shape->text)))
        offer_changed(s);
    free(shape->text);
    shape->text = text;
    shape->told = true;
    shape->offered = def->offered;
    shape->pending_max = def->pending_max;
    shape->needs = def->needs;
    pl_sched_shape_ready(s, shape);
    return 0;
}

void pl_sched_shape_take(struct pl_sched *s, struct worker *w, struct shape *shape, bool pending)
{
    struct version *v = w->version;

    (void)s;
    w->shape = shape;
    shape->refs++;
    w->on_gpu = v->def.gpu_count > 0 && shape == v->shape;
    w->pending = pending;
    shape->pending += pending;
    v->with_gpu += w->on_gpu && !pending;
}

void pl_sched_shape_left(struct pl_sched *s, struct worker *w)
{
    w->pending = false;
    if (--w->shape->pending == 0) {
        free(w->shape->why);
        w->shape->why = NULL;
    }
    pl_sched_shape_ready(s, w->shape);
}

void pl_sched_shape_placed(struct pl_sched *s, struct worker *w)
{
    struct job *job = TAILQ_FIRST(&w->version->stage->lane);

    if (!w->pending)
        return;
    pl_sched_shape_left(s, w);
    if (job) /* also if this pod is lost before the job takes its next step */
        job->pending_since = -1;
    if (w->state != WORKER_STOPPING)
        w->version->with_gpu += w->on_gpu;
    pl_sched_wait_reason_defer(s, w->version->stage);
}

void pl_sched_shape_waits(struct pl_sched *s, struct worker *w, const char *text)
{
    free(w->why);
    w->why = text && *text ? pl_sched_strdup(s, text) : NULL;
    pl_sched_wait_reason_defer(s, w->version->stage);
    if (!w->pending || !w->why || (w->shape->why && pl_streq(w->why, w->shape->why)))
        return;
    free(w->shape->why);
    w->shape->why = pl_sched_strdup(s, w->why);
    pl_sched_wait_reason_queue_head(s, &w->shape->line);
}

/* True if the worker's pod has no node yet, so that another pod can take its place. */
static bool may_be_replaced(const struct worker *w)
{
    return w->pending && w->state == WORKER_STARTING;
}

void pl_sched_shape_give_up(struct pl_sched *s, struct version *v, enum device device)
{
    struct worker *w;
    char text[80] = "its stage waits for a GPU", duration[32];

    if (device == GPU)
        snprintf(text, sizeof(text), "no GPU came within %s", pl_duration_text(v->def.gpu_wait_ms, duration));
    for (w = v->starting > 0 ? TAILQ_FIRST(&v->workers) : NULL; w; w = TAILQ_NEXT(w, version_link))
        if (may_be_replaced(w) && w->on_gpu == (device == GPU))
            pl_sched_worker_stop(s, w, true, text);
}

void pl_sched_shape_renew(struct pl_sched *s, struct version *v)
{
    struct worker *w;

    for (w = v->starting > 0 ? TAILQ_FIRST(&v->workers) : NULL; w; w = TAILQ_NEXT(w, version_link)) {
        const struct shape *now = w->on_gpu || v->def.gpu_count == 0 ? v->shape : v->cpu_shape;

        if (may_be_replaced(w) && w->needs && now && now->told && now->offered && now->needs && now->needs != w->needs)
            pl_sched_worker_stop(s, w, true, "its stage now has other requirements for a node");
    }
}

void pl_sched_shape_needs(struct pl_sched *s, struct worker *w, uint64_t needs)
{
    w->needs = needs;
    w->version->stage->reshaped = true;
    pl_sched_stage_dirty(s, w->version->stage);
}

void pl_sched_shapes_finish(struct pl_sched *s)
{
    pl_map_finish(&s->shapes, shape_free);
}
