/* sched_graph: pipelines, stages and their versions, and the graph of branches that connects them: for each
 * branch, the stage that writes it and the stages that read it. A new stage that would close a cycle is
 * refused. */
#include "pipelined/sched/sched_internal.h"

struct head *pl_sched_head_find(const struct pl_sched *s, struct pl_sched_head key)
{
    return pl_map_get(&s->heads, &key, sizeof(key));
}

static struct head *head_make(struct pl_sched *s, struct pl_sched_head key)
{
    struct head *head = pl_sched_head_find(s, key);

    if (head)
        return head;
    head = pl_sched_calloc(s, 1, sizeof(*head));
    if (!head)
        return NULL;
    head->key = key;
    if (!pl_sched_put(s, &s->heads, &key, sizeof(key), head)) {
        free(head);
        return NULL;
    }
    return head;
}

static void head_free(void *p)
{
    struct head *head = p;

    free(head->readers);
    free(head);
}

static void head_drop_unused(struct pl_sched *s, struct head *head)
{
    if (head->writer || head->n_readers > 0)
        return;
    (void)pl_map_remove(&s->heads, &head->key, sizeof(head->key));
    head_free(head);
}

static void head_remove_reader(struct pl_sched *s, struct pl_sched_head key, const struct stage *stage)
{
    struct head *head = pl_sched_head_find(s, key);

    for (size_t i = 0; head && i < head->n_readers; i++) {
        if (head->readers[i] != stage)
            continue;
        head->n_readers--;
        memmove(head->readers + i, head->readers + i + 1, (head->n_readers - i) * sizeof(*head->readers));
        head_drop_unused(s, head);
        return;
    }
}

/* Remove the stage's current version from the graph of branches (graph_unlink), or add it (graph_link). */
static void graph_unlink(struct pl_sched *s, struct stage *stage)
{
    const struct pl_sched_stage *def = &stage->current->def;
    struct head *out = pl_sched_head_find(s, def->output);

    for (size_t i = 0; i < def->n_inputs; i++)
        head_remove_reader(s, def->inputs[i], stage);
    if (out && out->writer == stage) {
        out->writer = NULL;
        head_drop_unused(s, out);
    }
}

static void graph_link(struct pl_sched *s, struct stage *stage)
{
    const struct pl_sched_stage *def = &stage->current->def;
    struct head *out = head_make(s, def->output);

    if (out)
        out->writer = stage;
    for (size_t i = 0; i < def->n_inputs; i++) {
        struct head *in = head_make(s, def->inputs[i]);

        if (!in)
            return;
        /* the stage reads the branch twice (a cross with itself) and is already its last reader */
        if (in->n_readers > 0 && in->readers[in->n_readers - 1] == stage)
            continue;
        if (pl_sched_grow(s, &in->readers, in->n_readers, &in->cap_readers, sizeof(*in->readers)))
            in->readers[in->n_readers++] = stage;
    }
}

/* A depth-first search over stages. It uses a stack in memory, because graphs can be deep. */
struct search {
    struct stage **stack;
    size_t n, cap;
    /* `mark`: number of this search; `other`: number of the search in the opposite direction. Each search
     * marks the stages that it visits with its number */
    uint64_t mark, other;
    struct stage *met; /* stage at which the two searches met; NULL if they have not met */
    uint64_t own;      /* id of the stage that is being set; its older version is ignored */
};

static void search_push(struct pl_sched *s, struct search *q, struct stage *at)
{
    if (!at || at->mark == q->mark || at->id == q->own)
        return;
    if (at->mark == q->other)
        q->met = at;
    at->mark = q->mark;
    if (pl_sched_grow(s, &q->stack, q->n, &q->cap, sizeof(*q->stack)))
        q->stack[q->n++] = at;
}

/* Push the stages that read the branch, or the stages that write the inputs of `def`, onto the search's
 * stack. */
static void search_push_readers(struct pl_sched *s, struct search *q, struct pl_sched_head key)
{
    const struct head *head = pl_sched_head_find(s, key);

    for (size_t i = 0; head && i < head->n_readers; i++)
        search_push(s, q, head->readers[i]);
}

static void search_push_writers(struct pl_sched *s, struct search *q, const struct pl_sched_stage *def)
{
    for (size_t i = 0; i < def->n_inputs; i++) {
        const struct head *head = pl_sched_head_find(s, def->inputs[i]);

        search_push(s, q, head ? head->writer : NULL);
    }
}

static bool same_head(struct pl_sched_head a, struct pl_sched_head b)
{
    return a.repo == b.repo && a.branch == b.branch;
}

static bool reads(const struct pl_sched_stage *def, struct pl_sched_head key)
{
    for (size_t i = 0; i < def->n_inputs; i++)
        if (same_head(def->inputs[i], key))
            return true;
    return false;
}

/* True if the stage has the same inputs and output as in its older version, so that it closes no new
 * cycle. */
static bool same_edges(const struct pl_sched_stage *a, const struct pl_sched_stage *b)
{
    bool same = a->n_inputs == b->n_inputs && same_head(a->output, b->output);

    for (size_t i = 0; same && i < a->n_inputs; i++)
        same = same_head(a->inputs[i], b->inputs[i]);
    return same;
}

/* True if `def` would read its own output through other stages; the stage's older version is ignored. Two
 * searches take turns: one downstream from the output, one upstream from the inputs. If either ends, there is
 * no cycle; in a graph that grows stage by stage, one of them is short. */
static bool makes_cycle(struct pl_sched *s, const struct pl_sched_stage *def, const char **ret_through)
{
    const struct stage *own = pl_sched_get(&s->stages, def->stage);
    struct search down = {.mark = s->last_mark + 1, .other = s->last_mark + 2, .own = def->stage},
                  up = {.mark = down.other, .other = down.mark, .own = def->stage};
    bool found = reads(def, def->output);

    *ret_through = def->name;
    if (own && own->current && same_edges(&own->current->def, def))
        return false;
    s->last_mark += 2;
    search_push_readers(s, &down, def->output);
    search_push_writers(s, &up, def);
    while (!found && !up.met && !down.met && down.n > 0 && up.n > 0) {
        const struct stage *below = down.stack[--down.n], *above = up.stack[--up.n];

        *ret_through = below->current->def.name;
        found = reads(def, below->current->def.output);
        search_push_readers(s, &down, below->current->def.output);
        search_push_writers(s, &up, &above->current->def);
    }
    if (!found && (up.met || down.met))
        *ret_through = (up.met ? up.met : down.met)->current->def.name;
    found = found || up.met || down.met;
    free(down.stack);
    free(up.stack);
    return found;
}

static int check_shapes(const struct pl_sched *s, const struct pl_sched_stage *def, const char *name, bool may_do_without,
                        struct pl_err *err)
{
    const uint64_t ids[] = {def->shape, def->cpu_shape};
    unsigned n_new = 0;

    if (def->cpu_shape && (!def->shape || !may_do_without))
        return pl_err_set(err, PL_EINVAL, "stage %s: only a stage of pods whose GPU is not required may have a CPU shape", name);
    for (unsigned i = 0; i < PL_ARRAY_SIZE(ids); i++)
        n_new += ids[i] && !pl_sched_has_shape(s, ids[i]);
    if (n_new > 0 && s->shapes.len + n_new > PL_SCHED_SHAPES_MAX)
        return pl_err_set(err, PL_ELIMIT, "the limit of %u pod shapes is reached", PL_SCHED_SHAPES_MAX);
    return 0;
}

/* Checks a stage definition: its limits, its version, its output branch, and that it closes no cycle. */
static int check_stage(struct pl_sched *s, const struct pl_sched_stage *def, struct pl_err *err)
{
    const struct head *out = pl_sched_head_find(s, def->output);
    const struct stage *stage = pl_sched_get(&s->stages, def->stage);
    const char *through;
    int r;

    if (!def->name || def->workers < 1 || def->tries < 1)
        return pl_err_set(err, PL_EINVAL, "a stage needs a name, at least 1 worker and 1 try");
    for (size_t i = 0; i < def->n_gpu_slots; i++)
        if (def->gpu_slots[i] >= PL_SCHED_GPUS_MAX)
            return pl_err_set(err, PL_ELIMIT, "stage %s: GPU slot %u is too high: slots are below %u", def->name,
                              def->gpu_slots[i], PL_SCHED_GPUS_MAX);
    if (def->gpu_count > PL_SCHED_WORKER_GPUS_MAX)
        return pl_err_set(err, PL_ELIMIT, "stage %s: %u GPUs per worker: use at most %u", def->name, def->gpu_count,
                          PL_SCHED_WORKER_GPUS_MAX);
    r = check_shapes(s, def, def->name, def->gpu_count > 0 && !def->gpu_required, err);
    if (r < 0)
        return r;
    if (!stage && s->stages.len >= PL_SCHED_STAGES_MAX)
        return pl_err_set(err, PL_ELIMIT, "the limit of %u stages is reached: delete pipelines that are not used",
                          PL_SCHED_STAGES_MAX);
    if (stage && stage->current && def->version <= stage->current->def.version)
        return pl_err_set(err, PL_EEXISTS, "stage %s already has version %llu", def->name, (unsigned long long)def->version);
    if (out && out->writer && out->writer->id != def->stage)
        return pl_err_set(err, PL_EINVAL, "stage %s would write the branch that stage %s writes", def->name,
                          out->writer->current->def.name);
    if (makes_cycle(s, def, &through))
        return pl_err_set(err, PL_EINVAL, "stage %s would read its own output through stage %s", def->name, through);
    return 0;
}

static struct pipeline *pipeline_make(struct pl_sched *s, uint64_t id)
{
    struct pipeline *p = pl_sched_get(&s->pipelines, id);

    if (p)
        return p;
    p = pl_sched_calloc(s, 1, sizeof(*p));
    if (!p)
        return NULL;
    p->id = id;
    if (!pl_sched_put(s, &s->pipelines, &id, sizeof(id), p)) {
        free(p);
        return NULL;
    }
    return p;
}

static struct stage *stage_make(struct pl_sched *s, uint64_t id)
{
    struct stage *stage = pl_sched_get(&s->stages, id);

    if (stage)
        return stage;
    stage = pl_sched_calloc(s, 1, sizeof(*stage));
    if (!stage)
        return NULL;
    stage->id = id;
    TAILQ_INIT(&stage->all);
    TAILQ_INIT(&stage->lane);
    if (!pl_sched_put(s, &s->stages, &id, sizeof(id), stage)) {
        free(stage);
        return NULL;
    }
    return stage;
}

/* Finds or creates the pipeline. Returns NULL only without memory. */
static uint16_t *slots_copy(struct pl_sched *s, const struct pl_sched_stage *def)
{
    uint16_t *slots = pl_sched_calloc(s, def->n_gpu_slots, sizeof(*slots));

    if (slots && def->n_gpu_slots > 0)
        memcpy(slots, def->gpu_slots, def->n_gpu_slots * sizeof(*slots));
    return slots;
}

/* Creates a stage version with its own copies of texts and arrays, and one reference. */
static struct version *version_make(struct pl_sched *s, struct stage *stage, const struct pl_sched_stage *def)
{
    struct pipeline *pipeline = pipeline_make(s, def->pipeline);
    struct version *v = pl_sched_calloc(s, 1, sizeof(*v));
    struct pl_sched_head *inputs = pl_sched_calloc(s, def->n_inputs, sizeof(*inputs));

    if (!pipeline || !v || !inputs) {
        free(inputs);
        free(v);
        return NULL;
    }
    v->def = *def;
    v->def.name = pl_sched_strdup(s, def->name);
    if (def->n_inputs > 0)
        memcpy(inputs, def->inputs, def->n_inputs * sizeof(*inputs));
    v->def.inputs = inputs;
    v->def.gpu_text = pl_sched_strdup(s, def->gpu_text ? def->gpu_text : "");
    v->def.gpu_slots = slots_copy(s, def);
    if (v->def.gpu_wait_ms < 0)
        v->def.gpu_wait_ms = 600000;
    v->stage = stage;
    v->pipeline = pipeline;
    v->shape = pl_sched_shape_ref(s, def->shape);
    v->cpu_shape = pl_sched_shape_ref(s, def->cpu_shape);
    v->refs = 1;
    v->unused_since = s->now;
    TAILQ_INIT(&v->workers);
    TAILQ_INIT(&v->asking);
    TAILQ_INSERT_TAIL(&stage->all, v, stage_link);
    pipeline->versions++;
    return v;
}

static void stage_free(struct pl_sched *s, struct stage *stage)
{
    if (stage->dirty)
        TAILQ_REMOVE(&s->dirty, stage, dirty_link);
    if (stage->say)
        TAILQ_REMOVE(&s->say, stage, say_link);
    pl_sched_drop(&s->stages, stage->id);
    free(stage);
}

/* Releases the version's reference to the shape, after its request for a worker in the shape's line was
 * withdrawn. */
static void leave_shape(struct pl_sched *s, const struct version *v, struct shape *shape)
{
    if (shape)
        pl_sched_fair_share_remove(v->pipeline, &shape->line);
    pl_sched_shape_unref(s, shape);
}

static void version_free(struct pl_sched *s, struct version *v)
{
    pl_sched_admit_withdraw(s, v);
    leave_shape(s, v, v->shape);
    leave_shape(s, v, v->cpu_shape);
    if (--v->pipeline->versions == 0) {
        pl_sched_drop(&s->pipelines, v->pipeline->id);
        pl_sched_fair_share_pipeline_free(v->pipeline);
    }
    TAILQ_REMOVE(&v->stage->all, v, stage_link);
    free(v->last_failure);
    free((void *)v->def.name);
    free((void *)v->def.inputs);
    free((void *)v->def.gpu_text);
    free((void *)v->def.gpu_slots);
    free(v);
}

void pl_sched_version_unref(struct pl_sched *s, struct version *v)
{
    struct stage *stage = v->stage;

    if (--v->refs > 0)
        return;
    version_free(s, v);
    if (TAILQ_EMPTY(&stage->all))
        stage_free(s, stage);
}

struct version *pl_sched_version_find(const struct pl_sched *s, uint64_t stage_id, uint64_t version)
{
    const struct stage *stage = pl_sched_get(&s->stages, stage_id);
    struct version *v;

    for (v = stage ? TAILQ_FIRST(&stage->all) : NULL; v; v = TAILQ_NEXT(v, stage_link))
        if (v->def.version == version)
            return v;
    return NULL;
}

/* Removes the stage's current version from the graph. The version is freed when no job and no worker uses
 * it. */
static void version_retire(struct pl_sched *s, struct stage *stage)
{
    struct version *old = stage->current;

    graph_unlink(s, stage);
    stage->current = NULL;
    if (s->restoring) {
        old->kept = true;
        return;
    }
    pl_sched_workers_trim(s, old);
    pl_sched_version_unref(s, old);
}

int pl_sched_stage_set(struct pl_sched *s, const struct pl_sched_stage *def, struct pl_err *err)
{
    struct version *v;
    struct stage *stage;
    int r = check_stage(s, def, err);

    if (r < 0)
        return r;
    pl_sched_run_settle(s);
    stage = stage_make(s, def->stage);
    v = stage ? version_make(s, stage, def) : NULL;
    if (!v)
        return pl_err_nomem(err);
    if (stage->current)
        version_retire(s, stage);
    stage->current = v;
    graph_link(s, stage);
    pl_sched_stage_dirty(s, stage);
    return 0;
}

static uint64_t shape_id(const struct shape *shape)
{
    return shape ? shape->id : 0;
}

int pl_sched_stage_shapes(struct pl_sched *s, const struct pl_sched_stage *def, struct pl_err *err)
{
    struct version *v = pl_sched_version_find(s, def->stage, def->version);
    struct shape *old, *old_cpu;
    int r;

    if (!v)
        return pl_err_set(err, PL_ENOTFOUND, "stage %llu has no version %llu", (unsigned long long)def->stage,
                          (unsigned long long)def->version);
    if (!v->shape != !def->shape)
        return pl_err_set(err, PL_EINVAL, "stage %s: workers cannot change between processes and pods", v->def.name);
    r = check_shapes(s, def, v->def.name, v->def.gpu_count > 0 && !v->def.gpu_required, err);
    if (r < 0)
        return r;
    old = v->shape;
    old_cpu = v->cpu_shape;
    if (def->shape == shape_id(old) && def->cpu_shape == shape_id(old_cpu))
        return 0;
    pl_sched_admit_withdraw(s, v);
    v->shape = pl_sched_shape_ref(s, def->shape);
    v->cpu_shape = pl_sched_shape_ref(s, def->cpu_shape);
    leave_shape(s, v, old);
    leave_shape(s, v, old_cpu);
    v->stage->reshaped = true;
    pl_sched_stage_dirty(s, v->stage);
    return 0;
}

/* Kills the stage's unfinished jobs. A job that is committing cannot be stopped: the answer to its COMMIT
 * says whether the output was committed before the stage was removed. */
static void lane_kill(struct pl_sched *s, struct stage *stage)
{
    struct job *job, *next;

    for (job = TAILQ_FIRST(&stage->lane); job; job = next) {
        next = TAILQ_NEXT(job, lane_link);
        if (job->state == PL_SCHED_FINISHING)
            job->stranded = true;
        else
            pl_sched_job_end(s, job, PL_SCHED_KILLED, PL_SCHED_REMOVED, NULL);
    }
}

int pl_sched_stage_remove(struct pl_sched *s, uint64_t id, struct pl_err *err)
{
    struct stage *stage = pl_sched_get(&s->stages, id);

    if (!stage || !stage->current)
        return pl_err_set(err, PL_ENOTFOUND, "there is no stage %llu", (unsigned long long)id);
    pl_sched_run_settle(s);
    lane_kill(s, stage);
    version_retire(s, stage);
    return 0;
}

void pl_sched_graph_restored(struct pl_sched *s)
{
    const struct pl_map_slot *slot;

    pl_sched_shapes_restored(s);
    for (size_t i = 0; (slot = pl_map_next(&s->stages, &i));) {
        struct stage *stage = slot->value;
        struct version *v, *next;

        for (v = TAILQ_FIRST(&stage->all); v; v = next) {
            next = TAILQ_NEXT(v, stage_link);
            if (v->kept) {
                v->kept = false;
                pl_sched_version_unref(s, v);
            }
        }
        pl_sched_stage_dirty(s, stage);
    }
}

void pl_sched_graph_finish(struct pl_sched *s)
{
    const struct pl_map_slot *slot;

    for (size_t i = 0; (slot = pl_map_next(&s->stages, &i));) {
        struct stage *stage = slot->value;
        struct version *v;

        while ((v = TAILQ_FIRST(&stage->all)))
            version_free(s, v);
        free(stage);
    }
    pl_map_finish(&s->stages, NULL);
    pl_map_finish(&s->heads, head_free);
}
