/* sched_restore: rebuilds runs, jobs, workers and tasks from RESTORE_… events after a start. Each event is
 * checked before it changes the state. */
#include "pipelined/sched/sched_internal.h"

/* Checks that the ranges of tried datums are ascending, within the job's datums, and disjoint from the ended
 * datums. */
static int check_tried(const struct pl_sched_event *ev, struct pl_err *err)
{
    size_t e = 0;

    for (size_t i = 0; i < ev->job.n_tried; i++) {
        const struct pl_sched_range *r = &ev->job.tried[i].rows;

        while (e < ev->job.n_ended && ev->job.ended[e].hi <= r->lo)
            e++;
        if (r->lo >= r->hi || r->hi > ev->job.to_run || (i > 0 && r->lo < ev->job.tried[i - 1].rows.hi) ||
            (e < ev->job.n_ended && ev->job.ended[e].lo < r->hi))
            return pl_err_set(err, PL_EINVAL,
                              "job %llu: the entry for datums %u to %u has numbers that the job lacks or that are not ascending",
                              (unsigned long long)ev->job.id, r->lo, r->hi);
    }
    return 0;
}

/* Checks RESTORE_JOB: the job's run and stage exist, the job was not restored before, and its numbers and
 * ended datums are consistent. */
static int check_job(const struct pl_sched *s, const struct pl_sched_event *ev, struct run **ret_run, struct version **ret_v,
                     struct pl_err *err)
{
    *ret_run = pl_sched_run_find(s, ev->job.run);
    *ret_v = pl_sched_version_find(s, ev->job.stage, ev->job.version);
    if (!*ret_run || !*ret_v)
        return pl_err_set(err, PL_ENOTFOUND, "cannot restore a job of run %.8s: its %s does not exist",
                          ev->job.run ? ev->job.run : "?", *ret_run ? "stage" : "run");
    if (pl_sched_get(&s->jobs, ev->job.id) || pl_sched_job_find(s, (*ret_v)->stage, *ret_run))
        return pl_err_set(err, PL_EEXISTS, "job %llu is restored twice", (unsigned long long)ev->job.id);
    if (ev->job.to_run > PL_SCHED_ROWS_MAX || ev->job.to_run > ev->job.datums)
        return pl_err_set(err, PL_EINVAL, "job %llu: the plan is invalid: %u datums must run, but it has only %llu",
                          (unsigned long long)ev->job.id, ev->job.to_run, (unsigned long long)ev->job.datums);
    for (size_t i = 0; i < ev->job.n_ended; i++) {
        const struct pl_sched_range *r = &ev->job.ended[i];

        if (r->lo >= r->hi || r->hi > ev->job.to_run || (i > 0 && r->lo < r[-1].hi))
            return pl_err_set(err, PL_EINVAL, "job %llu: the ended datums %u to %u are out of range or out of order",
                              (unsigned long long)ev->job.id, r->lo, r->hi);
    }
    return check_tried(ev, err);
}

static void wait_tried(struct pl_sched *s, struct rows *rows, const struct pl_sched_tried *tried)
{
    struct pl_sched_range one = tried->rows;
    const struct pl_datum_ranges which = {.items = &one, .n = 1, .count = one.hi - one.lo};

    pl_sched_datums_wait(s, rows, &which, tried->failures, tried->losses, 0);
}

/* Creates the job's `rows`: all datums that have not ended wait, each with its history. Restoring a task later
 * takes its datums out of the waiting ones. */
static struct rows *rows_restore(struct pl_sched *s, const struct pl_sched_event *ev)
{
    struct rows *rows = pl_sched_datums_make(s, ev->job.datums, 0);
    struct pl_datum_ranges rest = {0};
    uint32_t at = 0, ended = 0;

    if (!rows)
        return NULL;
    rows->to_run = ev->job.to_run;
    for (size_t i = 0; i <= ev->job.n_ended; i++) {
        struct pl_sched_range r = i < ev->job.n_ended ? ev->job.ended[i] : (struct pl_sched_range){rows->to_run, rows->to_run};

        if (at < r.lo && !pl_datum_ranges_add(&rest, at, r.lo))
            s->oom = true;
        at = r.hi;
        ended += r.hi - r.lo;
    }
    for (size_t i = 0; i < ev->job.n_tried; i++)
        if (!pl_datum_ranges_remove(&rest, ev->job.tried[i].rows.lo, ev->job.tried[i].rows.hi))
            s->oom = true;
    if (rest.count > 0)
        pl_sched_datums_wait(s, rows, &rest, 0, 0, 0);
    pl_datum_ranges_finish(&rest);
    for (size_t i = 0; i < ev->job.n_tried; i++)
        wait_tried(s, rows, &ev->job.tried[i]);
    rows->failed = PL_MIN(ev->job.failed, ended);
    rows->recovered = PL_MIN(ev->job.recovered, ended - rows->failed);
    rows->done = ended - rows->failed - rows->recovered;
    rows->untried = PL_MIN(ev->job.untried, rows->failed + rows->recovered);
    rows->untried_failed = PL_MIN(ev->job.untried_failed, PL_MIN(rows->untried, rows->failed));
    if (rows->failed > 0) {
        rows->first_failed = ev->job.first_failed.index;
        rows->first_label = pl_sched_strdup(s, ev->job.first_failed.label);
        rows->first_message = pl_sched_strdup(s, ev->job.first_failed.message);
    }
    return rows;
}

/* Handles RESTORE_JOB: creates the job in its restored state, with its datums if its plan still exists. */
static int restore_job(struct pl_sched *s, const struct pl_sched_event *ev, struct pl_err *err)
{
    struct version *v;
    struct run *run;
    struct job *job;
    enum pl_sched_state state = ev->job.state;
    int r = check_job(s, ev, &run, &v, err);

    if (r < 0)
        return r;
    if (!pl_sched_state_final(state))
        state = ev->job.planned ? (ev->job.leased ? PL_SCHED_RUNNING : PL_SCHED_STARTING) : PL_SCHED_CREATED;
    job = pl_sched_job_make(s, run, v, ev->job.id, state);
    if (!job)
        return pl_err_nomem(err);
    s->last_id = PL_MAX(s->last_id, ev->job.id);
    job->leased = ev->job.leased;
    job->busy_ms = PL_MAX(ev->job.busy_ms, 0);
    if (ev->job.superseded_by)
        memcpy(job->superseded_by, ev->job.superseded_by, strnlen(ev->job.superseded_by, sizeof(job->superseded_by) - 1));
    if (pl_sched_state_final(state) && state != PL_SCHED_SUCCESS)
        pl_sched_job_cause(s, job, ev->job.text);
    else if (!pl_sched_state_final(state) && ev->job.planned)
        job->rows = rows_restore(s, ev);
    return 0;
}

/* Handles RESTORE_WORKER: checks that its devices are free and its shape is known, and creates the worker. */
static int restore_worker(struct pl_sched *s, const struct pl_sched_event *ev, struct pl_err *err)
{
    struct version *v = pl_sched_version_find(s, ev->worker.stage, ev->worker.version);
    const bool starting = ev->worker.shape && ev->worker.starting, placed = ev->worker.node && *ev->worker.node;
    struct shape *shape;
    struct worker *w;

    if (!v)
        return pl_err_set(err, PL_ENOTFOUND, "the stage of the worker does not exist");
    if (pl_sched_get(&s->workers, ev->worker.id))
        return pl_err_set(err, PL_EEXISTS, "worker %llu is restored twice", (unsigned long long)ev->worker.id);
    if (ev->worker.n_gpus > PL_SCHED_WORKER_GPUS_MAX)
        return pl_err_set(err, PL_ELIMIT, "the worker has too many GPUs: %zu", ev->worker.n_gpus);
    for (size_t i = 0; i < ev->worker.n_gpus; i++)
        if (ev->worker.gpus[i] >= PL_SCHED_GPUS_MAX || s->gpus[ev->worker.gpus[i]])
            return pl_err_set(err, PL_EINVAL, "GPU %u is held by two workers", ev->worker.gpus[i]);
    shape = ev->worker.shape ? pl_sched_get(&s->shapes, ev->worker.shape) : NULL;
    if (ev->worker.shape && (!shape || (shape != v->shape && shape != v->cpu_shape)))
        return pl_err_set(err, PL_EINVAL, "worker %llu is a pod of a shape that its stage does not have",
                          (unsigned long long)ev->worker.id);
    w = pl_sched_worker_make(s, v, ev->worker.id,
                             /* a restored worker that has attached counts as busy until it asks for a task */
                             starting ? WORKER_STARTING : WORKER_BUSY);
    if (!w)
        return pl_err_nomem(err);
    s->last_id = PL_MAX(s->last_id, w->id);
    /* a worker that attached before the restart: its exit does not count as a failed start */
    w->came_up = w->productive = !starting;
    if (shape) {
        pl_sched_shape_take(s, w, shape, starting && !placed);
        pl_sched_node_placed(s, w, ev->worker.node);
        return 0;
    }
    w->n_gpus = (uint32_t)ev->worker.n_gpus;
    for (uint32_t i = 0; i < w->n_gpus; i++)
        w->gpus[i] = ev->worker.gpus[i];
    w->cpu_milli = pl_sched_cpu_need(s, v, w->n_gpus > 0 ? GPU : CPU);
    w->memory_bytes = v->def.memory_bytes;
    pl_sched_admit_take(s, w);
    return 0;
}

/* Returns the bin of waiting datums with this history; NULL if there is none. */
static struct bin *bin_of(const struct rows *rows, uint32_t failures, uint32_t losses)
{
    for (size_t i = 0; i < rows->n_bins; i++)
        if (rows->bins[i].rows.count > 0 && rows->bins[i].failures == failures && rows->bins[i].losses == losses)
            return &rows->bins[i];
    return NULL;
}

/* Checks RESTORE_TASK: its job and worker exist, and all its datums wait with its history. */
static int check_task(const struct pl_sched *s, const struct pl_sched_event *ev, struct job **ret_job, struct worker **ret_w,
                      struct bin **ret_bin, struct pl_err *err)
{
    struct job *job = *ret_job = pl_sched_get(&s->jobs, ev->task.job);
    struct worker *w = *ret_w = pl_sched_get(&s->workers, ev->task.worker);
    uint32_t next = 0;

    if (!job || !job->rows || !w || w->version != job->version)
        return pl_err_set(err, PL_ENOTFOUND, "task %llu: its job or worker was not restored", (unsigned long long)ev->task.task);
    if (w->n_tasks == PL_SCHED_WORKER_LEASES || pl_sched_get(&s->tasks, ev->task.task))
        return pl_err_set(err, PL_EEXISTS, "task %llu is restored twice, or its worker has too many tasks",
                          (unsigned long long)ev->task.task);
    *ret_bin = bin_of(job->rows, ev->task.failures, ev->task.losses);
    if (ev->task.n_rows == 0 || !*ret_bin)
        return pl_err_set(err, PL_EINVAL, "task %llu: none of its datums is waiting", (unsigned long long)ev->task.task);
    for (size_t i = 0; i < ev->task.n_rows; i++) {
        const struct pl_sched_range *r = &ev->task.rows[i];

        if (r->lo >= r->hi || r->lo < next || !pl_datum_ranges_has(&(*ret_bin)->rows, r->lo, r->hi))
            return pl_err_set(err, PL_EINVAL, "task %llu: datums %u to %u are not waiting", (unsigned long long)ev->task.task,
                              r->lo, r->hi);
        next = r->hi;
    }
    return 0;
}

/* Handles RESTORE_TASK: moves the task's datums from waiting to leased. */
static int restore_task(struct pl_sched *s, const struct pl_sched_event *ev, struct pl_err *err)
{
    struct worker *w;
    struct task *task;
    struct job *job;
    struct bin *bin = NULL, part = {.failures = ev->task.failures, .losses = ev->task.losses};
    int r = check_task(s, ev, &job, &w, &bin, err);

    if (r < 0)
        return r;
    for (size_t i = 0; i < ev->task.n_rows; i++) {
        const struct pl_sched_range *rows = &ev->task.rows[i];

        if (!pl_datum_ranges_remove(&bin->rows, rows->lo, rows->hi) || !pl_datum_ranges_add(&part.rows, rows->lo, rows->hi))
            s->oom = true;
    }
    task = pl_sched_task_make(s, job, w, &part, part.rows.count);
    pl_datum_ranges_finish(&part.rows);
    if (!task)
        return pl_err_nomem(err);
    task->id = ev->task.task;
    task->fence = ev->task.fence;
    job->leased = true;
    job->on_cpu = job->on_cpu || !w->on_gpu;
    if (job->state == PL_SCHED_STARTING)
        pl_sched_job_state(job, PL_SCHED_RUNNING);
    s->last_id = PL_MAX(s->last_id, PL_MAX(task->id, task->fence));
    (void)pl_sched_put(s, &s->tasks, &task->id, sizeof(task->id), task);
    return 0;
}

/* Concludes from a restored CPU pod of a stage that prefers a GPU, while GPUs are offered, that the job had
 * stopped waiting for a GPU. */
static void restore_device(const struct worker *w)
{
    const struct version *v = w->version;
    struct job *job = TAILQ_FIRST(&v->stage->lane);

    if (v->cpu_shape && !w->on_gpu && v->shape->told && v->shape->offered && job && job->version == v && job->rows)
        job->on_cpu = true;
}

/* Handles RESTORE_DONE: leases and workers get their full time from now on, and all stages are queued. */
static void restore_done(struct pl_sched *s)
{
    const struct pl_map_slot *slot;

    s->restoring = false;
    for (size_t i = 0; (slot = pl_map_next(&s->workers, &i));) {
        struct worker *w = slot->value;

        w->seen = w->since = s->now;
        for (size_t k = 0; k < w->n_tasks; k++)
            w->tasks[k]->expires = s->now + s->config.lease_ms;
        restore_device(w);
        pl_sched_worker_timer(s, w);
    }
    for (struct run *run = TAILQ_FIRST(&s->run_list); run; run = TAILQ_NEXT(run, link))
        pl_sched_wait_reason_run(s, run, PL_SCHED_RUNNING);
    pl_sched_graph_restored(s);
}

int pl_sched_restore(struct pl_sched *s, const struct pl_sched_event *ev, struct pl_err *err)
{
    struct run *run;

    switch (ev->kind) {
    case PL_SCHED_EV_RESTORE_RUN:
        return pl_sched_run_add(s, ev, &run, err);
    case PL_SCHED_EV_RESTORE_JOB:
        return restore_job(s, ev, err);
    case PL_SCHED_EV_RESTORE_WORKER:
        return restore_worker(s, ev, err);
    case PL_SCHED_EV_RESTORE_TASK:
        return restore_task(s, ev, err);
    default:
        restore_done(s);
        return 0;
    }
}
