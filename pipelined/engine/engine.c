/* engine: creation and shutdown of the engine, passing events to the scheduler and carrying out its actions,
 * posts to the loop, and the API's calls, which run on the loop. */
#include "pipelined/engine/engine_internal.h"
#include "storage/base/clock.h"
#include "storage/system/log_line.h"
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>

struct pl_ejob *pl_engine_job_ref(struct pl_ejob *j)
{
    j->refs++;
    return j;
}

void pl_engine_result_finish(struct pl_eresult *r)
{
    free(r->ops);
    r->ops = NULL;
}

void pl_engine_job_unref(struct pl_ejob *j)
{
    if (!j || --j->refs)
        return;
    pl_job_unplan(j);
    json_decref(j->inputs);
    json_decref(j->warnings);
    free(j->reason);
    pl_engine_stage_unref(j->stage);
    free(j);
}

struct pl_ejob *pl_engine_job(struct pl_engine *e, uint64_t id)
{
    return pl_map_get(&e->jobs, &id, sizeof id);
}

static int job_key(char out[256], const char *run, const char *project, const char *stage)
{
    return snprintf(out, 256, "%s/%s/%s", run, project, stage);
}

struct pl_ejob *pl_engine_job_by_key(struct pl_engine *e, const char *run, const char *project, const char *stage)
{
    char key[256];

    return pl_map_get(&e->by_key, key, (size_t)job_key(key, run, project, stage));
}

/* Makes the list of warnings that every job of the stage has on this executor. */
static json_t *warnings_of(const struct pl_engine *e, const struct pl_estage *stage)
{
    json_t *list = json_array();
    char text[PL_EXECUTOR_NOT_HELD];

    if (!e->executor || e->executor->ops->shape)
        return list; /* pods run the image, and the cluster enforces their limits */
    if (stage->def->image && !(e->executor->ops->runs_image && e->executor->ops->runs_image(e->executor, stage->def))) {
        snprintf(text, sizeof text,
                 "image %.300s is not used: commands run with this machine's files; the image only counts as code",
                 stage->def->image);
        json_array_append_new(list, json_string(text));
    }
    /* a job's warnings mention an unenforced memory limit only; the pipeline's author is warned of an
     * unenforced CPU limit */
    if (stage->def->resources.memory_bytes && e->executor->ops->not_held &&
        e->executor->ops->not_held(e->executor, stage->def, text))
        json_array_append_new(list, json_string(text));
    return list;
}

int pl_engine_add_job(struct pl_engine *e, uint64_t id, uint64_t order, const char *run, struct pl_estage *stage,
                      struct pl_ejob **ret, struct pl_err *err)
{
    struct pl_ejob *j = calloc(1, sizeof *j);
    char key[256];
    int n = job_key(key, run, stage->project, stage->def->name), r;

    if (!j)
        return pl_err_nomem(err);
    j->refs = 1;
    j->engine = e;
    j->id = id;
    j->order = order;
    j->created_us = pl_clock_wall_us();
    j->stage = pl_engine_stage_ref(stage);
    j->reason = strdup("");
    j->warnings = warnings_of(e, stage);
    snprintf(j->run, sizeof j->run, "%s", run);
    r = j->reason && j->warnings ? 0 : pl_err_nomem(err);
    r = r < 0 ? r : pl_map_put(&e->jobs, &id, sizeof id, j, NULL, err);
    r = r < 0 ? r : pl_map_put(&e->by_key, key, (size_t)n, j, NULL, err);
    if (r < 0) {
        pl_map_remove(&e->jobs, &id, sizeof id);
        pl_engine_job_unref(j);
        return r;
    }
    *ret = j;
    return 0;
}

void pl_engine_forget_job(struct pl_engine *e, struct pl_ejob *j)
{
    char key[256];
    size_t n = (size_t)job_key(key, j->run, j->stage->project, j->stage->def->name);

    pl_map_remove(&e->jobs, &j->id, sizeof j->id);
    if (pl_map_get(&e->by_key, key, n) == j)
        pl_map_remove(&e->by_key, key, n);
    pl_engine_job_unref(j);
}

/* Copies state and reason from the action to the engine's job: makes the job if it is new, writes its row, or
 * writes its end and forgets it. */
static void job_state(struct pl_engine *e, const struct pl_sched_action *a)
{
    struct pl_ejob *j = pl_engine_job(e, a->job.id);
    struct pl_estage *stage;
    char *reason;
    struct pl_err err = {0};

    if (!j) {
        if (pl_engine_stage(e, a->job.version, &stage, &err) < 0 ||
            pl_engine_add_job(e, a->job.id, a->job.order, a->job.run, stage, &j, &err) < 0) {
            pl_log_error("engine", "cannot add a job of run %.8s: %s", a->job.run, err.msg);
            return;
        }
    }
    j->state = a->job.state;
    reason = strdup(a->job.reason ? a->job.reason : "");
    if (reason) { /* without memory the job keeps its previous reason */
        free(j->reason);
        j->reason = reason;
    }
    if (j->state == PL_SCHED_RUNNING && !j->started_us)
        j->started_us = pl_clock_wall_us();
    if (!pl_sched_state_final(j->state)) {
        pl_engine_job_changed(j);
        return;
    }
    pl_engine_count_end(j);
    if (a->job.unplaced)
        pl_engine_tell(e, "StageGivenUp", "stage %s/%s: %s", j->stage->project, j->stage->def->name, j->reason);
    if (j->over) { /* the end of a successful job was written together with its commit */
        pl_engine_job_ended(j);
    } else {
        j->over = true;
        pl_engine_end_job(j);
    }
    pl_worker_records_job_over(j);
    pl_engine_forget_job(e, j); /* a job's plan and results are large, and its run may last much longer */
}

static void with_job(struct pl_engine *e, uint64_t id, void (*fn)(struct pl_engine *e, struct pl_ejob *j))
{
    struct pl_ejob *j = pl_engine_job(e, id);

    if (j)
        fn(e, j);
}

static void tick(void *arg);

static void set_timer(struct pl_engine *e, int64_t at_ms)
{
    int64_t now = pl_clock_mono_ms();

    if (at_ms == INT64_MAX)
        pl_timer_stop(e->timer);
    else
        pl_timer_start(e->timer, at_ms > now ? (uint64_t)(at_ms - now) : 0);
}

/* Carries out one action. It must not pass an event to the scheduler directly, because a step overwrites the
 * list of actions that are still to be carried out: an answer that is known at once is posted to the loop. */
static void act(struct pl_engine *e, const struct pl_sched_action *a)
{
    pl_trace("sched", "  %s", pl_sched_action_text(a, (char[PL_SCHED_ACTION_TEXT]){0}));
    switch (a->kind) {
    case PL_SCHED_RUN_STATE:
        if (pl_sched_state_final(a->run.state))
            pl_engine_end_run(e, a);
        break;
    case PL_SCHED_JOB_STATE:
        job_state(e, a);
        break;
    case PL_SCHED_PLAN:
        with_job(e, a->job.id, pl_engine_plan);
        break;
    case PL_SCHED_COMMIT:
        with_job(e, a->job.id, pl_engine_commit);
        break;
    case PL_SCHED_START_WORKER:
        pl_engine_start_worker(e, a);
        break;
    case PL_SCHED_STOP_WORKER:
        pl_engine_stop_worker(e, a);
        break;
    case PL_SCHED_LEASE:
        pl_engine_lease(e, a);
        break;
    case PL_SCHED_LEASE_LOST:
    case PL_SCHED_CANCEL:
        pl_engine_drop_task(e, a->lease.worker, a->lease.task, a->lease.fence);
        break;
    case PL_SCHED_RETURNED:
        pl_engine_return_task(e, a);
        break;
    case PL_SCHED_RECALL:
        pl_engine_recall_task(e, a);
        break;
    case PL_SCHED_GIVE_UP:
        pl_engine_give_up(e, a);
        break;
    case PL_SCHED_RESULT:
        pl_engine_result_action(e, a);
        break;
    case PL_SCHED_TIMER:
        set_timer(e, a->at_ms);
        break;
    case PL_SCHED_CONTINUE:
        if (!e->continuing) {
            e->continuing = true;
            pl_engine_post(e, "sched.continue", tick, e);
        }
        break;
    case PL_SCHED_DRAINED:
        if (e->drained)
            e->drained(e->drained_arg);
        break;
    }
}

void pl_engine_fail(struct pl_engine *e, const char *what)
{
    if (e->failed)
        return;
    e->failed = true;
    if (e->config.failed)
        e->config.failed(e->config.failed_arg, what);
}

int pl_engine_feed(struct pl_engine *e, struct pl_sched_event *ev, struct pl_err *err)
{
    struct pl_sched_actions out = {0};
    int r;

    if (e->failed)
        return pl_err_set(err, PL_ESTOPPING, "the scheduler has stopped");
    ev->now_ms = pl_clock_mono_ms();
    r = pl_sched_step(e->sched, ev, &out, err);
    pl_trace("sched", "%s %llu: %d, %zu actions", pl_sched_event_name(ev->kind), (unsigned long long)ev->id, r, out.n);
    if (r == PL_ENOMEM)
        pl_engine_fail(e, "the scheduler ran out of memory");
    if (r < 0)
        return r;
    for (size_t i = 0; i < out.n; i++)
        act(e, &out.items[i]);
    if (out.n > 0)
        pl_engine_gpus_touch(e);
    return 0;
}

static void tick(void *arg)
{
    struct pl_engine *e = arg;
    int64_t now_ms = pl_clock_mono_ms();
    struct pl_err err = {0};

    e->continuing = false;
    if (e->started && now_ms - e->busy_at_ms >= PL_BUSY_WRITE_MS) {
        e->busy_at_ms = now_ms;
        pl_engine_write_busy(e);
    }
    if (pl_engine_feed(e, &(struct pl_sched_event){.kind = PL_SCHED_EV_TICK}, &err) < 0)
        pl_log_error("engine", "the scheduler cannot handle a timer event: %s", err.msg);
}

/* A function call that is posted to the loop. Each call has its own memory, so the length limit of the loop's
 * queue does not apply. The number of jobs and requests that wait for calls bounds the number of calls. */
struct posted {
    struct pl_loop_work work; /* must be the first member: free(work) frees the whole struct */
    pl_loop_fn fn;
    void *arg;
};

static void run_posted(void *arg)
{
    struct posted p = *(struct posted *)arg;

    free(arg);
    p.fn(p.arg);
}

void pl_engine_post(struct pl_engine *e, const char *label, pl_loop_fn fn, void *arg)
{
    struct posted *p;

    while (!(p = calloc(1, sizeof *p)))
        usleep(1000);
    p->fn = fn;
    p->arg = arg;
    pl_loop_post_work(e->config.loop, &p->work, label, run_posted, p);
}

/* ---- calls of the API ---- */

/* A function that runs on the loop for a thread that waits for it. */
struct waited {
    pl_loop_fn fn;
    void *arg;
    pthread_mutex_t mutex;
    pthread_cond_t cond;
    bool done;
};

static void run_waited(void *arg)
{
    struct waited *w = arg;

    w->fn(w->arg);
    pthread_mutex_lock(&w->mutex);
    w->done = true;
    pthread_cond_signal(&w->cond);
    pthread_mutex_unlock(&w->mutex);
}

int pl_engine_call(struct pl_engine *e, pl_loop_fn fn, void *arg, struct pl_err *err)
{
    struct waited w = {.fn = fn, .arg = arg};

    if (e->hung_up) /* the loop may have stopped, so the call would never run */
        return pl_err_set(err, PL_ESTOPPING, "the daemon is stopping");
    pthread_mutex_init(&w.mutex, NULL);
    pthread_cond_init(&w.cond, NULL);
    pl_engine_post(e, "engine.call", run_waited, &w);
    pthread_mutex_lock(&w.mutex);
    while (!w.done)
        pthread_cond_wait(&w.cond, &w.mutex);
    pthread_mutex_unlock(&w.mutex);
    pthread_mutex_destroy(&w.mutex);
    pthread_cond_destroy(&w.cond);
    return 0;
}

/* A call that a pool thread makes and that runs on the loop; the pool thread waits for it. */
struct call {
    struct pl_engine *engine;
    void (*fn)(struct call *c);
    const char *run, *project, *stage, *why;
    const struct pl_stage *def;
    bool gpu;
    struct pl_executor_check check;
    const struct pl_container_log_request *ask;
    struct pl_http_stream_ops *printed;
    json_t *json;
    int result;
    struct pl_err err;
};

static void run_call(void *arg)
{
    struct call *c = arg;

    c->fn(c);
}

static int call(struct call *c, struct pl_err *err)
{
    int r = pl_engine_call(c->engine, run_call, c, err);

    if (r == 0 && c->result < 0 && err)
        *err = c->err;
    return r < 0 ? r : c->result;
}

static void do_stop(struct call *c)
{
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_STOP_RUN, .text = c->why};
    struct pl_ejob *j;

    ev.run.id = c->run;
    if (c->stage) {
        j = pl_engine_job_by_key(c->engine, c->run, c->project, c->stage);
        if (!j) {
            c->result = pl_err_set(&c->err, PL_ENOTFOUND, "stage %s has no unfinished job in run %.8s", c->stage, c->run);
            return;
        }
        ev.kind = PL_SCHED_EV_STOP_JOB;
        ev.id = j->id;
    }
    c->result = pl_engine_feed(c->engine, &ev, &c->err);
}

static int ops_stop(void *self, const char *run, const char *project, const char *stage, const char *why, struct pl_err *err)
{
    struct call c = {.engine = self, .fn = do_stop, .run = run, .project = project, .stage = stage, .why = why};

    return call(&c, err);
}

/* True if the stage is there already and names an image. */
static bool had_image(const struct pl_engine *e, const char *project, const char *stage)
{
    const struct pl_map_slot *slot;

    for (size_t i = 0; (slot = pl_map_next(&e->current, &i));) {
        const struct pl_estage *s = slot->value;

        if (pl_streq(s->def->name, stage) && pl_streq(s->project, project))
            return s->def->image != NULL;
    }
    return false;
}

static void do_check(struct call *c)
{
    struct pl_executor *x = c->engine->executor;

    if (x && x->ops->check)
        c->result = x->ops->check(x, c->project, c->def, c->gpu, &c->check, &c->err);
    if (c->result == 0 && *c->check.no_image && !had_image(c->engine, c->project, c->def->name))
        c->result =
            pl_err_field(&c->err,
                         pl_err_set(&c->err, PL_EINVAL,
                                    "%.500s; or \"image_required\": false, in the stage or by pipelinectl update defaults, "
                                    "runs its commands with this machine's files",
                                    c->check.no_image),
                         "image");
}

static int take_check(const struct pl_stage *def, const struct pl_executor_check *check, bool strict, json_t *warnings,
                      struct pl_err *err)
{
    if (*check->not_offered && strict)
        return pl_err_set(err, PL_EUNAVAILABLE, "stage %s: %.900s", def->name, check->not_offered);
    if (*check->not_offered)
        json_array_append_new(warnings, json_sprintf("stage %s: %s; its jobs %s until one does", def->name, check->not_offered,
                                                     check->on_cpu ? "run on the CPU" : "wait"));
    if (*check->cannot_start && strict)
        return pl_err_set(err, PL_EUNAVAILABLE, "stage %s: %.900s", def->name, check->cannot_start);
    if (*check->cannot_start)
        json_array_append_new(warnings,
                              json_sprintf("stage %s: %s; its jobs fail until it is there", def->name, check->cannot_start));
    if (*check->not_checked && strict)
        return pl_err_set(err, PL_EUNAVAILABLE, "stage %s: not checked: %.900s", def->name, check->not_checked);
    if (*check->not_checked)
        json_array_append_new(warnings, json_sprintf("stage %s: not checked: %s", def->name, check->not_checked));
    if (*check->no_image)
        json_array_append_new(warnings, json_sprintf("stage %s: %s; until then its commands run with this machine's files",
                                                     def->name, check->no_image));
    if (*check->not_held) /* only a warning, even with `strict`: the stage's jobs can run */
        json_array_append_new(warnings, json_sprintf("stage %s: %s", def->name, check->not_held));
    return 0;
}

/* Checks one stage. Sets `*away` if the cluster did not answer; for later stages the cluster is then not
 * asked again. */
static int check_stage(struct pl_engine *e, const char *project, const struct pl_stage *def, bool strict, bool *away,
                       json_t *warnings, struct pl_err *err)
{
    struct call c = {.engine = e, .fn = do_check, .project = project, .def = def, .gpu = def->gpu.count > 0};
    int r = call(&c, err);

    c.check.away = *away;
    if (r == 0 && c.check.body)
        r = e->executor->ops->ask(e->executor, &c.check, err);
    *away = c.check.away;
    if (r < 0)
        return pl_err_wrap(err, r, "stage %s", def->name);
    return take_check(def, &c.check, strict, warnings, err);
}

static int ops_check_stages(void *self, const struct pl_spec *spec, bool strict, json_t *warnings, struct pl_err *err)
{
    bool away = false;
    int r = 0;

    for (size_t i = 0; r == 0 && i < spec->n_stages; i++)
        r = check_stage(self, spec->project, &spec->stages[i], strict, &away, warnings, err);
    return r;
}

static void do_network_changed(struct call *c)
{
    if (c->engine->started && !c->engine->failed)
        pl_engine_network_changed(c->engine, c->project);
}

static void ops_network_changed(void *self, const char *project)
{
    struct call c = {.engine = self, .fn = do_network_changed, .project = project};

    (void)call(&c, NULL); /* if the daemon is stopping, its next start compares the settings instead */
}

/* Asks the executor for the logs of all workers of the stage. */
static void do_container_log(struct call *c)
{
    struct pl_executor *x = c->engine->executor;
    const size_t n = c->engine->workers.len;
    const struct pl_map_slot *slot;
    _cleanup_free_ uint64_t *ids = malloc(PL_MAX(n, (size_t)1) * sizeof *ids);
    size_t found = 0;

    for (size_t i = 0; ids && (slot = pl_map_next(&c->engine->workers, &i));) {
        const struct pl_eworker *w = slot->value;

        if (pl_streq(w->stage->project, c->project) && pl_streq(w->stage->def->name, c->stage))
            ids[found++] = w->id;
    }
    if (!ids)
        c->result = pl_err_nomem(&c->err);
    else if (!x || !x->ops->container_log)
        c->result = pl_err_set(&c->err, PL_EUNAVAILABLE,
                               "workers are processes of the daemon's machine and have no containers; what commands "
                               "print is shown by: pipelinectl logs %s",
                               c->stage);
    else
        c->result = x->ops->container_log(x, ids, found, c->ask, c->printed, &c->err);
}

static int ops_container_log(void *self, const char *project, const char *stage, const struct pl_container_log_request *ask,
                             struct pl_http_stream_ops *ret, struct pl_err *err)
{
    struct call c = {.engine = self, .fn = do_container_log, .project = project, .stage = stage, .ask = ask, .printed = ret};

    return call(&c, err);
}

static json_t *workers_json(struct pl_engine *e)
{
    json_t *list = json_array();
    const struct pl_map_slot *slot;

    for (size_t i = 0; (slot = pl_map_next(&e->workers, &i));) {
        const struct pl_eworker *w = slot->value;
        json_t *gpus = json_array();

        for (uint32_t k = 0; k < w->n_gpus; k++)
            json_array_append_new(gpus, json_integer(w->gpus[k]));
        json_array_append_new(list, json_pack("{s:I, s:s, s:s, s:s, s:o, s:b, s:b}", "id", (json_int_t)w->id, "project",
                                              w->stage->project, "stage", w->stage->def->name, "host", w->host, "gpus", gpus,
                                              "attached", w->attached, "stopping", w->stopping));
    }
    return list;
}

static bool ops_outage(void *self, struct pl_executor_outage *ret)
{
    struct pl_executor *x = ((struct pl_engine *)self)->executor;

    return x && x->ops->outage && x->ops->outage(x, ret);
}

static void do_live(struct call *c)
{
    struct pl_executor_outage outage;
    struct pl_sched_counts n;
    struct pl_loop_stats loop;

    pl_sched_counts(c->engine->sched, &n);
    pl_loop_get_stats(c->engine->config.loop, &loop);
    c->json = json_pack("{s:o, s:o, s:{s:i, s:i, s:i, s:i, s:i, s:i, s:i}, s:{s:I, s:I, s:I}}", "workers",
                        workers_json(c->engine), "gpus", pl_engine_gpus_json(c->engine), "queue", "stages", (int)n.stages, "runs",
                        (int)n.runs, "jobs", (int)n.jobs, "tasks", (int)n.tasks, "workers_busy", (int)n.workers_busy, "gpus",
                        (int)n.gpus, "gpus_used", (int)n.gpus_used, "loop", "turns", (json_int_t)loop.turns, "slow_turns",
                        (json_int_t)loop.slow_turns, "longest_us", (json_int_t)loop.longest_us);
    if (ops_outage(c->engine, &outage))
        json_object_set_new(c->json, "outage",
                            json_pack("{s:s, s:I}", "reason", outage.text, "since_us", (json_int_t)outage.since_us));
    if (c->engine->executor->ops->limits)
        json_object_set_new(c->json, "limits", c->engine->executor->ops->limits(c->engine->executor));
    if (c->engine->executor->ops->sandbox)
        json_object_set_new(c->json, "sandbox", c->engine->executor->ops->sandbox(c->engine->executor));
}

static json_t *ops_live(void *self)
{
    struct call c = {.engine = self, .fn = do_live};

    (void)call(&c, NULL);
    return c.json ? c.json : json_object();
}

static void do_job_live(struct call *c)
{
    struct pl_ejob *j = pl_engine_job_by_key(c->engine, c->run, c->project, c->stage);
    struct pl_sched_job_info i;

    if (j && pl_sched_job_info(c->engine->sched, j->id, &i, NULL) == 0)
        c->json = json_pack("{s:I, s:i, s:i, s:i, s:i, s:i, s:i, s:s*, s:o}", "datums", (json_int_t)i.datums, "to_run",
                            (int)i.to_run, "waiting", (int)i.waiting, "leased", (int)i.leased, "done", (int)i.done, "failed",
                            (int)i.failed, "workers", (int)i.workers, "device", pl_sched_job_device(c->engine->sched, j->id),
                            "served_by", pl_worker_records_json(j));
}

static json_t *ops_job_live(void *self, const char *run, const char *project, const char *stage)
{
    struct call c = {.engine = self, .fn = do_job_live, .run = run, .project = project, .stage = stage};

    (void)call(&c, NULL);
    return c.json;
}

static void do_new_runs(void *arg)
{
    struct pl_engine *e = arg;
    struct pl_err err = {0};

    if (e->started && !e->failed && pl_engine_new_runs(e, &err) < 0)
        pl_log_error("engine", "cannot schedule new runs: %s", err.msg);
}

static void ops_run_created(void *self, const char *run)
{
    (void)run; /* the new runs are read from the database, in their order */
    pl_engine_post(self, "engine.new_runs", do_new_runs, self);
}

struct changed {
    struct pl_engine *engine;
    struct pl_estage **stages;
    size_t n;
};

static void do_pipelines_changed(void *arg)
{
    struct changed *c = arg;
    struct pl_engine *e = c->engine;
    struct pl_err err = {0};

    pl_engine_take_stages(e, c->stages, c->n);
    free(c);
    if (e->started && !e->failed && pl_engine_sync_stages(e, &err) < 0)
        pl_log_error("engine", "cannot update the stages: %s", err.msg);
    do_new_runs(e);
}

static void ops_pipelines_changed(void *self, const char *run)
{
    struct pl_err err = {0};
    struct changed *c;

    (void)run;
    while (!(c = calloc(1, sizeof *c)))
        usleep(1000);
    c->engine = self;
    if (pl_engine_load_stages(c->engine, c->engine->stages_made, &c->stages, &c->n, &err) < 0)
        pl_log_warn("engine", "cannot update the stages: %s", err.msg); /* the loop loads them again */
    pl_engine_post(c->engine, "engine.pipelines", do_pipelines_changed, c);
}

static int ops_secrets(void *self, const struct pl_secret_op *op, json_t **ret, struct pl_err *err)
{
    struct pl_executor *x = ((struct pl_engine *)self)->executor;

    /* an executor without secrets has none to list or delete */
    if (!x->ops->secrets && (op->what == PL_SECRET_NONE || (op->what == PL_SECRET_DELETE && !op->name)))
        return 0;
    return x->ops->secrets ? x->ops->secrets(x, op, ret, err)
                           : pl_err_set(err, PL_EUNAVAILABLE, "the executor %s does not store secrets", x->ops->name);
}

const struct pl_engine_ops *pl_engine_api_ops(void)
{
    static const struct pl_engine_ops ops = {.run_created = ops_run_created,
                                             .pipelines_changed = ops_pipelines_changed,
                                             .network_changed = ops_network_changed,
                                             .stop = ops_stop,
                                             .check_stages = ops_check_stages,
                                             .live = ops_live,
                                             .outage = ops_outage,
                                             .queue = pl_engine_queue,
                                             .gpu_spans = pl_engine_gpu_spans,
                                             .job_live = ops_job_live,
                                             .metrics = pl_engine_metrics,
                                             .secrets = ops_secrets,
                                             .container_log = ops_container_log,
                                             .worker = pl_engine_worker_principal};

    return &ops;
}

const struct pl_http_route *pl_engine_routes(struct pl_engine *e, size_t *ret_n)
{
    *ret_n = e->n_routes;
    return e->routes;
}

int pl_engine_create(const struct pl_engine_config *config, struct pl_engine **ret, struct pl_err *err)
{
    struct pl_engine *e = calloc(1, sizeof *e);
    struct pl_sched_config sched = {.first_id = config->epoch << 32, .linger_ms = config->linger_ms};
    int r;

    if (!e)
        return pl_err_nomem(err);
    e->config = *config;
    r = pl_db_own_reader(config->db, &e->conn, err);
    r = r < 0 ? r : pl_engine_retry_queue_init(e, err);
    r = r < 0 ? r : pl_worker_tokens_create(&e->doors, err);
    r = r < 0 ? r : pl_sched_create(&sched, &e->sched, err);
    r = r < 0 ? r : pl_timer_create(config->loop, "sched.tick", tick, e, &e->timer, err);
    r = r < 0 ? r : pl_engine_progress_init(e, err);
    r = r < 0 ? r : pl_engine_completion_init(e, err);
    r = r < 0 ? r : pl_engine_make_routes(e, err);
    if (r < 0) {
        pl_engine_detach(e);
        pl_engine_destroy(e);
        return r;
    }
    *ret = e;
    return 0;
}

void pl_engine_take_executor(struct pl_engine *e, struct pl_executor *executor)
{
    e->executor = executor;
}

int pl_engine_start(struct pl_engine *e, struct pl_err *err)
{
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_CAPACITY};
    struct pl_executor_capacity capacity = {0};
    int r;

    e->executor->ops->capacity(e->executor, &capacity);
    ev.capacity = (struct pl_sched_capacity){capacity.cpu_milli, capacity.memory_bytes, capacity.gpu_slots, capacity.gpu_offered};
    r = pl_engine_feed(e, &ev, err);
    r = r < 0 ? r : pl_engine_restore(e, err);
    if (r < 0)
        return pl_err_wrap(err, r, "restoring unfinished work");
    pl_worker_tokens_settle(e->doors);
    e->started = true;
    return pl_engine_gpus_start(e, capacity.gpu_slots, err);
}

void pl_engine_drain(struct pl_engine *e, void (*drained)(void *arg), void *arg)
{
    e->drained = drained;
    e->drained_arg = arg;
    if (pl_engine_feed(e, &(struct pl_sched_event){.kind = PL_SCHED_EV_DRAIN}, NULL) < 0)
        drained(arg);
}

void pl_engine_detach(struct pl_engine *e)
{
    if (!e)
        return;
    e->failed = true;
    pl_engine_gpus_end(e);
    pl_engine_retry_queue_flush(e);
    e->conn = pl_conn_close(e->conn);
}

static void unref_stage(void *stage)
{
    pl_engine_stage_unref(stage);
}

static void unref_job(void *job)
{
    pl_engine_job_unref(job);
}

struct pl_engine *pl_engine_destroy(struct pl_engine *e)
{
    if (!e)
        return NULL;
    pl_engine_gpus_finish(e);
    pl_engine_completion_finish(e);
    pl_engine_progress_finish(e);
    pl_engine_retry_queue_finish(e);
    pl_map_finish(&e->tasks, pl_etask_free);
    pl_map_finish(&e->records, pl_worker_record_free);
    pl_map_finish(&e->workers, pl_engine_worker_free);
    pl_worker_tokens_destroy(e->doors);
    pl_map_finish(&e->by_key, NULL);
    pl_map_finish(&e->jobs, unref_job);
    pl_map_finish(&e->current, NULL);
    pl_map_finish(&e->stages, unref_stage);
    pl_timer_destroy(e->timer);
    pl_sched_destroy(e->sched);
    free(e->routes);
    free(e);
    return NULL;
}
