/* engine_metrics: counts what jobs and datums did, and writes the engine's part of /metrics. The loop copies the
 * figures, in time that grows with the number of jobs, tasks and workers; the calling thread makes the text. */
#include "pipelined/engine/engine_internal.h"

#include "pipelined/metrics/metric_text.h"
#include "storage/base/clock.h"

#include <inttypes.h>
#include <stdio.h>

/* ---- counting ---- */

static struct pl_stage_place *place_of(struct pl_engine *e, const struct pl_estage *s)
{
    return pl_stage_activity_at(&e->count.stages, s->project, s->def->name, pl_clock_mono_ms());
}

static void count_work(const struct pl_ejob *j, const struct pl_stage_work *w)
{
    pl_stage_work_add(&j->engine->count.work, w);
    pl_stage_work_add(&place_of(j->engine, j->stage)->work, w);
}

void pl_engine_count_end(const struct pl_ejob *j)
{
    j->engine->count.jobs_ended[j->state]++;
}

void pl_engine_count_reused(const struct pl_ejob *j)
{
    const struct pl_stage_work w = {.reused = j->totals.reused};

    if (w.reused > 0)
        count_work(j, &w);
}

void pl_engine_count_attempts(const struct pl_ejob *j, const struct pl_etotals *before, enum pl_attempt_end end, uint64_t n)
{
    const struct pl_etotals *now = &j->totals;
    struct pl_stage_work w = {.success = end == PL_ATTEMPT_SUCCESS ? n : 0,
                              .failed = end == PL_ATTEMPT_FAILED ? n : 0,
                              .recovered = end == PL_ATTEMPT_RECOVERED ? n : 0,
                              .retry = end == PL_ATTEMPT_RETRY ? n : 0,
                              .lost = end == PL_ATTEMPT_LOST ? n : 0,
                              .wait_ms = now->wait_ms - before->wait_ms,
                              .fetch_ms = now->fetch_ms - before->fetch_ms,
                              .compute_ms = now->compute_ms - before->compute_ms,
                              .upload_ms = now->upload_ms - before->upload_ms,
                              .gpu_ms = now->gpu_ms - before->gpu_ms,
                              .gpu_lost_ms = now->gpu_lost_ms - before->gpu_lost_ms,
                              .bytes_in = now->bytes_in - before->bytes_in,
                              .bytes_out = now->bytes_out - before->bytes_out};

    w.gpu_compute_ms = w.gpu_ms - w.gpu_lost_ms - (now->gpu_wait_ms - before->gpu_wait_ms);
    count_work(j, &w);
}

/* ---- the present: copied on the loop ---- */

/* Current figures of a stage, summed over its versions. */
struct live {
    const struct pl_estage *stage;
    struct pl_stage_now now;
};

struct snapshot {
    struct pl_engine *engine;
    struct pl_sched_counts counts;
    uint64_t jobs[PL_SCHED_STATES];
    struct pl_stage_now all;
    uint64_t tasks_assigned, tasks_held, tasks_recalled;
    uint64_t gpus_held, gpus_used;
    struct pl_executor_calls calls;
    bool has_calls;
    struct pl_engine_count count;
    int result;
    struct pl_err err;
};

/* Finds the stage's figures in `lives`; adds them if there are none. NULL without memory. */
static struct live *live_of(struct pl_map *lives, const struct pl_estage *s)
{
    struct live *l = pl_map_get(lives, &s->stage, sizeof s->stage);

    if (l)
        return l;
    l = calloc(1, sizeof *l);
    if (l && pl_map_put(lives, &s->stage, sizeof s->stage, l, NULL, NULL) < 0) {
        free(l);
        return NULL;
    }
    if (l)
        l->stage = s;
    return l;
}

static void add_now(struct pl_stage_now *to, const struct pl_stage_now *now)
{
    to->jobs += now->jobs;
    to->waiting += now->waiting;
    to->leased += now->leased;
    to->workers += now->workers;
    if (now->oldest_us && (!to->oldest_us || now->oldest_us < to->oldest_us))
        to->oldest_us = now->oldest_us;
}

static int look_at_jobs(struct snapshot *s, struct pl_map *lives)
{
    const struct pl_map_slot *slot;

    for (size_t i = 0; (slot = pl_map_next(&s->engine->jobs, &i));) {
        const struct pl_ejob *j = slot->value;
        struct pl_sched_job_info info = {0};
        struct pl_stage_now now = {.jobs = 1};
        struct live *l = live_of(lives, j->stage);

        if (!l)
            return pl_err_nomem(&s->err);
        s->jobs[j->state]++;
        if (pl_sched_job_info(s->engine->sched, j->id, &info, NULL) == 0) {
            now.waiting = info.waiting;
            now.leased = info.leased;
        }
        now.oldest_us = j->state <= PL_SCHED_STARTING ? j->created_us : 0;
        add_now(&l->now, &now);
    }
    return 0;
}

static int by_number(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

    return (x > y) - (x < y);
}

/* Counts tasks and workers; a worker's GPUs are used while it has a task. */
static int look_at_workers(struct snapshot *s, struct pl_map *lives)
{
    struct pl_engine *e = s->engine;
    _cleanup_free_ uint64_t *busy = calloc(e->tasks.len + 1, sizeof *busy);
    const struct pl_map_slot *slot;
    size_t n = 0;

    if (!busy)
        return pl_err_nomem(&s->err);
    for (size_t i = 0; (slot = pl_map_next(&e->tasks, &i));) {
        const struct pl_etask *t = slot->value;

        busy[n++] = t->worker;
        s->tasks_recalled += t->recalled;
        s->tasks_held += t->told && !t->recalled;
        s->tasks_assigned += !t->told && !t->recalled;
    }
    qsort(busy, n, sizeof *busy, by_number);
    for (size_t i = 0; (slot = pl_map_next(&e->workers, &i));) {
        const struct pl_eworker *w = slot->value;
        /* a pod holds no GPU before a node has accepted it */
        const uint64_t gpus = w->pod != PL_POD_WITH_GPU ? w->n_gpus : *w->host ? w->stage->def->gpu.count : 0;
        struct live *l = live_of(lives, w->stage);

        if (!l)
            return pl_err_nomem(&s->err);
        l->now.workers++;
        s->gpus_held += gpus;
        if (gpus > 0 && bsearch(&w->id, busy, n, sizeof *busy, by_number))
            s->gpus_used += gpus;
    }
    return 0;
}

/* The most active stages come first, so that they take the free places. */
static int by_activity(const void *a, const void *b)
{
    const struct pl_stage_now *x = &(*(const struct live *const *)a)->now, *y = &(*(const struct live *const *)b)->now;
    const uint64_t at_x = x->leased + x->workers, at_y = y->leased + y->workers;

    if (at_x != at_y)
        return at_x > at_y ? -1 : 1;
    return (x->waiting < y->waiting) - (x->waiting > y->waiting);
}

static int place_stages(struct snapshot *s, const struct pl_map *lives)
{
    _cleanup_free_ const struct live **list = calloc(lives->len + 1, sizeof *list);
    const struct pl_map_slot *slot;
    size_t n = 0;

    if (!list)
        return pl_err_nomem(&s->err);
    for (size_t i = 0; (slot = pl_map_next(lives, &i));)
        list[n++] = slot->value;
    qsort(list, n, sizeof *list, by_activity);
    pl_stage_activity_clear_now(&s->engine->count.stages);
    for (size_t i = 0; i < n; i++) {
        add_now(&place_of(s->engine, list[i]->stage)->now, &list[i]->now);
        add_now(&s->all, &list[i]->now);
    }
    return 0;
}

static void look(void *arg)
{
    struct snapshot *s = arg;
    struct pl_engine *e = s->engine;
    struct pl_map lives = {0};

    pl_sched_counts(e->sched, &s->counts);
    s->result = look_at_jobs(s, &lives);
    if (s->result == 0)
        s->result = look_at_workers(s, &lives);
    if (s->result == 0)
        s->result = place_stages(s, &lives);
    pl_map_finish(&lives, free);
    s->has_calls = e->executor && e->executor->ops->calls;
    if (s->has_calls)
        e->executor->ops->calls(e->executor, &s->calls);
    s->count = e->count;
}

/* ---- the text ---- */

static double seconds(uint64_t ms)
{
    return (double)ms / 1000;
}

static double age(int64_t since_us, int64_t now_us)
{
    return since_us && now_us > since_us ? (double)(now_us - since_us) / 1e6 : 0;
}

static void write_jobs(const struct snapshot *s, struct pl_metric_text *t)
{
    pl_metric_add_one(t, PL_METRIC_RUNS, NULL, s->counts.runs);
    for (enum pl_sched_state state = 0; state < PL_SCHED_SUCCESS; state++)
        pl_metric_add_one(t, PL_METRIC_JOBS, pl_sched_state_name(state), (double)s->jobs[state]);
    for (enum pl_sched_state state = PL_SCHED_SUCCESS; state < PL_SCHED_STATES; state++)
        pl_metric_add_one(t, PL_METRIC_JOBS_ENDED, pl_sched_state_name(state), (double)s->count.jobs_ended[state]);
}

/* A list of figures that differ in one label. */
struct figure {
    const char *label;
    double value;
};

static void write_list(struct pl_metric_text *t, enum pl_metric metric, const struct figure *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        pl_metric_add_one(t, metric, list[i].label, list[i].value);
}
#define WRITE(t, metric, ...)                                                                                                    \
    write_list(t, PL_METRIC_##metric, (const struct figure[]){__VA_ARGS__},                                                      \
               sizeof(const struct figure[]){__VA_ARGS__} / sizeof(struct figure))

static void write_sums(const struct snapshot *s, struct pl_metric_text *t, int64_t now_us)
{
    const struct pl_stage_work *w = &s->count.work;

    WRITE(t, DATUMS, {"waiting", (double)s->all.waiting}, {"leased", (double)s->all.leased});
    WRITE(t, DATUMS_ENDED, {"success", (double)w->success}, {"failed", (double)w->failed}, {"recovered", (double)w->recovered},
          {"retry", (double)w->retry}, {"lost", (double)w->lost});
    pl_metric_add_one(t, PL_METRIC_DATUMS_REUSED, NULL, (double)w->reused);
    WRITE(t, TASKS, {"assigned", (double)s->tasks_assigned}, {"held", (double)s->tasks_held},
          {"recalled", (double)s->tasks_recalled});
    WRITE(t, WORKERS, {"starting", s->counts.workers_starting}, {"idle", s->counts.workers_idle},
          {"busy", s->counts.workers_busy}, {"stopping", s->counts.workers_stopping});
    pl_metric_add_one(t, PL_METRIC_QUEUE_JOBS, NULL, (double)(s->jobs[PL_SCHED_CREATED] + s->jobs[PL_SCHED_STARTING]));
    pl_metric_add_one(t, PL_METRIC_QUEUE_AGE, NULL, age(s->all.oldest_us, now_us));
    WRITE(t, PHASE, {"wait", seconds(w->wait_ms)}, {"fetch", seconds(w->fetch_ms)}, {"compute", seconds(w->compute_ms)},
          {"upload", seconds(w->upload_ms)});
    WRITE(t, DATUM_BYTES, {"in", (double)w->bytes_in}, {"out", (double)w->bytes_out});
    if (!s->has_calls) /* a cluster's GPUs are not counted by the scheduler */
        pl_metric_add_one(t, PL_METRIC_GPUS, "offered", s->counts.gpus);
    WRITE(t, GPUS, {"held", (double)s->gpus_held}, {"used", (double)s->gpus_used});
    WRITE(t, GPU_SECONDS, {"held", seconds(w->gpu_ms)}, {"computing", seconds(w->gpu_compute_ms)},
          {"lost", seconds(w->gpu_lost_ms)});
}

static void write_stage(struct pl_metric_text *t, enum pl_metric metric, const struct pl_stage_place *p, int64_t now_us)
{
    const struct pl_stage_work *w = &p->work;
    const struct figure datums[] = {{"waiting", (double)p->now.waiting}, {"leased", (double)p->now.leased}},
                        ended[] = {{"success", (double)w->success},
                                   {"failed", (double)w->failed},
                                   {"recovered", (double)w->recovered},
                                   {"retry", (double)w->retry},
                                   {"lost", (double)w->lost}},
                        phases[] = {{"wait", seconds(w->wait_ms)},
                                    {"fetch", seconds(w->fetch_ms)},
                                    {"compute", seconds(w->compute_ms)},
                                    {"upload", seconds(w->upload_ms)}},
                        jobs[] = {{NULL, (double)p->now.jobs}}, oldest[] = {{NULL, age(p->now.oldest_us, now_us)}},
                        workers[] = {{NULL, (double)p->now.workers}}, gpu[] = {{NULL, seconds(w->gpu_ms)}};
    const struct {
        enum pl_metric metric;
        const struct figure *list;
        size_t n;
    } rows[] = {{PL_METRIC_STAGE_JOBS, jobs, 1},
                {PL_METRIC_STAGE_DATUMS, datums, PL_ARRAY_SIZE(datums)},
                {PL_METRIC_STAGE_AGE, oldest, 1},
                {PL_METRIC_STAGE_WORKERS, workers, 1},
                {PL_METRIC_STAGE_ENDED, ended, PL_ARRAY_SIZE(ended)},
                {PL_METRIC_STAGE_PHASE, phases, PL_ARRAY_SIZE(phases)},
                {PL_METRIC_STAGE_GPU_SECONDS, gpu, 1}};

    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++)
        for (size_t k = 0; rows[i].metric == metric && k < rows[i].n; k++)
            pl_metric_add(t, metric, rows[i].list[k].value, (const char *const[]){p->project, p->stage, rows[i].list[k].label});
}

static void write_calls(const struct pl_executor_calls *c, struct pl_metric_text *t)
{
    pl_metric_add_one(t, PL_METRIC_KUBE_REQUESTS, NULL, (double)c->requests);
    pl_metric_add_one(t, PL_METRIC_KUBE_RETRIES, NULL, (double)c->retries);
    pl_metric_add_one(t, PL_METRIC_KUBE_THROTTLED, NULL, (double)c->throttled);
    WRITE(t, KUBE_CALLS, {"waiting", (double)c->waiting}, {"running", (double)c->running});
}

int pl_engine_metrics(void *self, struct pl_metric_text *t, struct pl_err *err)
{
    _cleanup_free_ struct snapshot *s = calloc(1, sizeof *s);
    const int64_t now_us = pl_clock_wall_us();
    int r;

    if (!s)
        return pl_err_nomem(err);
    s->engine = self;
    r = pl_engine_call(self, look, s, err);
    if (r == 0 && s->result < 0) {
        if (err)
            *err = s->err;
        r = s->result;
    }
    if (r < 0)
        return r;
    write_jobs(s, t);
    write_sums(s, t, now_us);
    for (enum pl_metric m = PL_METRIC_STAGE_JOBS; m <= PL_METRIC_STAGE_GPU_SECONDS; m++) {
        for (size_t i = 0; i < s->count.stages.n; i++)
            write_stage(t, m, &s->count.stages.places[i], now_us);
        if (*s->count.stages.rest.stage)
            write_stage(t, m, &s->count.stages.rest, now_us);
    }
    if (s->has_calls)
        write_calls(&s->calls, t);
    return 0;
}
