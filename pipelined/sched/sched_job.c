/* sched_job: the life of a job. A job checks its inputs, waits for its turn, is planned, leases its datums,
 * and commits or fails. This file also decides which earlier jobs a newer job supersedes. */
#include <stdio.h>

#include "pipelined/sched/sched_internal.h"
#include "storage/base/clock.h"

/* ---- inputs ---- */

static void depend(struct pl_sched *s, struct job *up, const struct job *job)
{
    if (up->n_dependents > 0 && up->dependents[up->n_dependents - 1] == job->id)
        return;
    if (pl_sched_grow(s, &up->dependents, up->n_dependents, &up->cap_dependents, sizeof(*up->dependents)))
        up->dependents[up->n_dependents++] = job->id;
}

/* Returns the job that writes this input and that must end before the input can be read: the writer's job in
 * the same run, else the writer's newest unfinished earlier job. A run with a separate branch waits only for
 * its own jobs. NULL if there is no such job. */
static struct job *input_job(const struct pl_sched *s, const struct job *job, struct pl_sched_head key)
{
    const struct head *head = pl_sched_head_find(s, key);
    struct job *up;

    if (!head || !head->writer || head->writer == job->stage)
        return NULL;
    up = pl_sched_job_find(s, head->writer, job->run);
    if (up || job->run->aside)
        return up;
    up = TAILQ_LAST(&head->writer->lane, job_list);
    while (up && (up->run->order > job->run->order || up->run->aside))
        up = TAILQ_PREV(up, job_list, lane_link);
    return up;
}

/* Ends the job because the job `up` of the same run, which writes one of its inputs, ended without
 * success. */
static void inherit(struct pl_sched *s, struct job *job, const struct job *up)
{
    if (up->superseded_by[0])
        pl_sched_job_end(s, job, PL_SCHED_KILLED, "", up->superseded_by);
    else
        pl_sched_job_end(s, job, PL_SCHED_UNRUNNABLE, up->cause, NULL);
}

/* ---- superseding ---- */

static bool has_leased(const struct run *run)
{
    return run->states[PL_SCHED_RUNNING] + run->states[PL_SCHED_FINISHING] + run->states[PL_SCHED_SUCCESS] > 0;
}

static bool has_begun(const struct run *run)
{
    return run->planning > 0 || has_leased(run);
}

/* Makes the run the `carried` run of each of its pipelines, unless the pipeline carries a run that has begun,
 * or a job of this run has already ended without success. A stage that joins outputs of other stages commits
 * only if all come from one run. If each stage went on with its own newest run, such a stage might never
 * commit; so the first run to begin is carried through. */
static void carry(struct run *run)
{
    const uint32_t lost = run->states[PL_SCHED_FAILURE] + run->states[PL_SCHED_KILLED] + run->states[PL_SCHED_UNRUNNABLE];

    for (size_t i = 0; !run->aside && lost == 0 && i < run->n_jobs; i++) {
        struct pipeline *p = run->jobs[i]->version->pipeline;

        if (pl_sched_state_final(run->jobs[i]->state) || (p->carried && p->carried != run && has_begun(p->carried)))
            continue;
        if (p->carried != run && p->carried)
            p->carried->carried--;
        run->carried += p->carried != run;
        p->carried = run;
        p->carried_open = 0;
    }
    for (size_t i = 0; !run->aside && lost == 0 && i < run->n_jobs; i++)
        run->jobs[i]->version->pipeline->carried_open +=
            run->jobs[i]->version->pipeline->carried == run && !pl_sched_state_final(run->jobs[i]->state);
}

static void carried_ended(const struct job *job)
{
    struct pipeline *p = job->version->pipeline;

    if (p->carried != job->run || --p->carried_open > 0)
        return;
    p->carried->carried--;
    p->carried = NULL;
}

/* True if the job `old` may be superseded. A job that is being planned may not: the newer job would have to
 * be planned first. */
static bool gives_way(const struct job *old, enum pl_sched_on_new way)
{
    return !old->run->aside && !old->planning && old->state < PL_SCHED_FINISHING && (way == PL_SCHED_RESTART || !old->leased);
}

static bool is_waited_for(const struct pl_sched *s, const struct job *job, const struct job *up)
{
    for (size_t i = 0; i < job->version->def.n_inputs; i++)
        if (input_job(s, job, job->version->def.inputs[i]) == up)
            return true;
    return false;
}

/* True if `job` can run as soon as `old` could, so that `job` may supersede `old`. If all inputs of `job` are
 * there, the run of `old` must not be a run that has begun and that a pipeline carries (allowed with on_new =
 * restart). If `job` still waits for other jobs, `old` must wait for the same jobs, and no job of the run of
 * `old` may have leased a task. */
static bool runs_as_soon(const struct pl_sched *s, const struct job *job, const struct job *old)
{
    const struct pl_sched_stage *def = &job->version->def;

    if (job->blocked_on == 0)
        return def->on_new == PL_SCHED_RESTART || old->run->carried == 0 || !has_begun(old->run);
    for (size_t i = 0; i < def->n_inputs; i++) {
        const struct job *up = input_job(s, job, def->inputs[i]);

        if (up && !pl_sched_state_final(up->state) && !is_waited_for(s, old, up))
            return false;
    }
    return !has_leased(old->run);
}

/* Ends the earlier jobs of the stage that the job supersedes. */
static void supersede(struct pl_sched *s, struct job *job)
{
    const enum pl_sched_on_new way = job->version->def.on_new;
    struct job *old;

    if (way == PL_SCHED_QUEUE || job->run->aside || s->draining)
        return;
    while ((old = TAILQ_PREV(job, job_list, lane_link)) && gives_way(old, way) && runs_as_soon(s, job, old)) {
        if (old->version == job->version) {
            job->in_line = job->in_line || (old->version->wish && (old->rows || old->in_line));
            job->gpu_since = old->gpu_since >= 0 ? old->gpu_since : job->gpu_since;
            job->pending_since = old->pending_since;
        }
        pl_sched_job_end(s, old, PL_SCHED_KILLED, "", job->run->id);
    }
}

static bool is_ready(const struct job *job)
{
    return job->linked && job->state == PL_SCHED_CREATED && job->blocked_on == 0 && !job->queued;
}

/* Called for a planned job: if the inputs of the next job of the stage became complete during planning, that
 * next job supersedes the planned job. Returns true if the planned job has ended. */
static bool is_superseded(struct pl_sched *s, struct job *job)
{
    struct job *next = TAILQ_NEXT(job, lane_link);

    /* except with on_new = restart, the job is kept if a worker is about to get one of its tasks */
    if (!next || !is_ready(next) || (next->version->def.on_new != PL_SCHED_RESTART && !TAILQ_EMPTY(&job->version->asking)))
        return false;
    supersede(s, next);
    return pl_sched_state_final(job->state);
}

/* Determines what the job waits for. If an input job of the same run failed, the job ends; if nothing is
 * missing, it supersedes earlier jobs. */
void pl_sched_job_look(struct pl_sched *s, struct job *job)
{
    const struct pl_sched_stage *def = &job->version->def;
    bool first = !job->looked;

    if (job->state != PL_SCHED_CREATED)
        return;
    job->looked = true;
    job->blocked_on = 0;
    for (size_t i = 0; i < def->n_inputs; i++) {
        struct job *up = input_job(s, job, def->inputs[i]);

        if (!up || up->state == PL_SCHED_SUCCESS)
            continue;
        if (pl_sched_state_final(up->state)) {
            inherit(s, job, up);
            return;
        }
        if (job->blocked_on == 0)
            job->blocked_on = up->id;
        if (first || up->run != job->run) /* since the first check, jobs of the same run notify this job */
            depend(s, up, job);
    }
    supersede(s, job);
    pl_sched_wait_reason_created(s, job);
    pl_sched_stage_dirty(s, job->stage);
}

bool pl_sched_job_tell(struct pl_sched *s, struct job *job)
{
    struct job *down;

    if (job->told == job->n_dependents) {
        job->run->open--;
        return false;
    }
    down = pl_sched_get(&s->jobs, job->dependents[job->told++]);
    if (!down || pl_sched_state_final(down->state))
        return true;
    if (down->run == job->run && job->state != PL_SCHED_SUCCESS) {
        inherit(s, down, job);
    } else if (!down->queued && down->state == PL_SCHED_CREATED) {
        down->queued = true;
        TAILQ_INSERT_TAIL(&s->looks, down, queue_link);
    }
    return true;
}

void pl_sched_job_link(struct pl_sched *s, struct job *job)
{
    if (job->linked || pl_sched_state_final(job->state))
        return;
    job->linked = true;
    pl_sched_job_look(s, job);
    if (!pl_sched_state_final(job->state))
        pl_sched_stage_dirty(s, job->stage);
}

/* ---- end of a job ---- */

void pl_sched_job_cause(struct pl_sched *s, struct job *job, const char *reason)
{
    char text[PL_SCHED_MESSAGE_MAX];
    const char *verb = job->state == PL_SCHED_KILLED ? "was killed" : "failed";

    if (!reason)
        reason = "";
    if (job->state == PL_SCHED_UNRUNNABLE)
        snprintf(text, sizeof(text), "%s", reason); /* report the first cause, not a chain of causes */
    else
        snprintf(text, sizeof(text), "stage %s %s: %.*s", job->version->def.name, verb, PL_SCHED_MESSAGE_MAX / 2, reason);
    job->cause = pl_sched_strdup(s, text);
}

static void leave_rows(struct pl_sched *s, struct job *job)
{
    struct task *task;

    while (job->rows && (task = TAILQ_FIRST(&job->rows->tasks))) {
        struct worker *w = task->worker;

        pl_sched_task_action(s, task, PL_SCHED_CANCEL);
        pl_sched_task_free(s, task);
        pl_sched_worker_settle(s, w);
    }
    pl_sched_datums_free(job->rows);
    job->rows = NULL;
}

static void leave_lane(struct pl_sched *s, struct job *job)
{
    struct job *next = TAILQ_NEXT(job, lane_link);

    TAILQ_REMOVE(&job->stage->lane, job, lane_link);
    if (next && next->state == PL_SCHED_CREATED && next->linked)
        pl_sched_wait_reason_created(s, next);
    if (--job->version->unfinished == 0)
        job->version->unused_since = s->now;
    pl_sched_stage_dirty(s, job->stage);
}

/* Writes "10 datums: 4 run, 6 reused; 1 failed and is left out". */
static void success_text(const struct rows *rows, char *text, size_t size)
{
    size_t n = (size_t)snprintf(text, size, "%llu datum%s: %u run, %llu reused", (unsigned long long)rows->datums,
                                rows->datums == 1 ? "" : "s", rows->to_run - rows->untried,
                                (unsigned long long)(rows->datums - rows->to_run));

    if (rows->failed > 0)
        n += (size_t)snprintf(text + n, size - n, "; %u failed and %s left out", rows->failed, rows->failed == 1 ? "is" : "are");
    if (rows->recovered > 0)
        snprintf(text + n, size - n, "; %u recovered and %s left out", rows->recovered, rows->recovered == 1 ? "is" : "are");
}

static void planned(struct pl_sched *s, struct job *job)
{
    s->planning -= job->planning;
    job->run->planning -= job->planning;
    job->planning = false;
}

/* Ends the job: cancels its tasks, removes it from all queues, and queues the notification of its
 * dependents. */
void pl_sched_job_end(struct pl_sched *s, struct job *job, enum pl_sched_state state, const char *reason, const char *by)
{
    char text[PL_SCHED_MESSAGE_MAX];

    if (by) {
        snprintf(text, sizeof(text), "superseded by run %.8s", by);
        memcpy(job->superseded_by, by, sizeof(job->superseded_by) - 1);
    } else {
        snprintf(text, sizeof(text), "%s", reason && *reason ? reason : "no reason was given");
    }
    planned(s, job);
    if (job->state == PL_SCHED_FINISHING)
        s->committing--;
    if (state == PL_SCHED_SUCCESS && job->rows)
        success_text(job->rows, text, sizeof(text));
    leave_rows(s, job);
    pl_timers_clear(&s->timers, &job->timer);
    if (job->queued)
        TAILQ_REMOVE(&s->looks, job, queue_link);
    job->queued = false;
    pl_sched_job_state(job, state);
    carried_ended(job);
    leave_lane(s, job);
    if (state != PL_SCHED_SUCCESS)
        pl_sched_job_cause(s, job, text);
    pl_sched_wait_reason(s, job, "%s", text);
    TAILQ_INSERT_TAIL(&s->ended, job, queue_link);
}

/* ---- from the job's turn to its commit ---- */

void pl_sched_job_state(struct job *job, enum pl_sched_state state)
{
    job->run->states[job->state]--;
    job->run->states[state]++;
    job->state = state;
}

static void plan(struct pl_sched *s, struct job *job)
{
    pl_sched_job_state(job, PL_SCHED_STARTING);
    if (!job->version->pipeline->carried || !has_begun(job->version->pipeline->carried))
        carry(job->run);
    job->planning = true;
    job->run->planning++;
    s->planning++;
    pl_sched_wait_reason_state(s, job);
    pl_sched_job_action(s, job, PL_SCHED_PLAN);
}

void pl_sched_job_planned(struct pl_sched *s, struct job *job, const struct pl_sched_plan *plan)
{
    planned(s, job);
    job->rows = pl_sched_datums_make(s, plan->datums, plan->to_run);
    if (job->rows)
        pl_sched_datums_leave(s, job->rows, plan);
    pl_sched_stage_dirty(s, job->stage);
}

static void commit(struct pl_sched *s, struct job *job)
{
    pl_sched_job_state(job, PL_SCHED_FINISHING);
    s->committing++;
    pl_timers_clear(&s->timers, &job->timer);
    pl_sched_admit_withdraw(s, job->version);
    pl_sched_wait_reason_state(s, job);
    pl_sched_job_action(s, job, PL_SCHED_COMMIT);
}

static void fail_rows(struct pl_sched *s, struct job *job)
{
    const struct rows *rows = job->rows;
    char text[PL_SCHED_MESSAGE_MAX];

    snprintf(text, sizeof(text), "%u of %llu datums failed; the first: datum %s: %s", rows->failed,
             (unsigned long long)rows->datums, rows->first_label ? rows->first_label : "",
             rows->first_message ? rows->first_message : "");
    if (rows->datums == 1)
        snprintf(text, sizeof(text), "datum %s: %s", rows->first_label ? rows->first_label : "",
                 rows->first_message ? rows->first_message : "");
    pl_sched_job_end(s, job, PL_SCHED_FAILURE, text, NULL);
}

/* True if the stage does not allow that so many of the job's datums fail. */
static bool too_many_failed(const struct job *job, uint32_t failed)
{
    const struct pl_sched_stage *def = &job->version->def;
    uint64_t max = def->max_failed_share ? job->rows->datums * def->max_failed_ppm / 1000000 : def->max_failed;

    return def->max_failed_given && failed > max;
}

static bool fail_start(struct pl_sched *s, struct job *job)
{
    const struct version *v = job->version;
    char text[PL_SCHED_MESSAGE_MAX];

    if (v->start_failures <= PL_SCHED_LOSSES_MAX || v->starting + v->idle + v->busy > 0)
        return false;
    snprintf(text, sizeof(text), "%u workers in a row failed to start: %s", v->start_failures,
             v->last_failure ? v->last_failure : "");
    job->version->start_failures = 0; /* the count of failed starts begins at 0 for the next job */
    pl_sched_job_end(s, job, PL_SCHED_FAILURE, text, NULL);
    return true;
}

int64_t pl_sched_job_busy_ms(const struct pl_sched *s, const struct job *job)
{
    return job->busy_ms + (job->rows && job->rows->leased > 0 ? s->now - job->busy_since : 0);
}

void pl_sched_job_leased(struct pl_sched *s, struct job *job, int64_t change)
{
    uint32_t before = job->rows->leased;

    job->rows->leased = (uint32_t)(before + change);
    if (before == 0 && change > 0)
        job->busy_since = s->now;
    else if (before > 0 && job->rows->leased == 0)
        job->busy_ms += s->now - job->busy_since;
}

/* True if the job waits for a GPU: its request is in the GPU line, or its GPU pods wait for a node. */
static bool waits_for_gpu(const struct version *v, const struct job *job)
{
    return v->cpu_shape ? job->gpu_since >= 0 && !job->on_cpu && v->with_gpu == 0 : v->wish && v->wish_device == GPU;
}

static bool has_place(const struct version *v)
{
    const struct worker *w;

    TAILQ_FOREACH(w, &v->workers, version_link)
    if (!w->pending && w->state != WORKER_STOPPING)
        return true;
    return false;
}

/* True if the job waits until a pod of its stage has a node, and this wait counts: it waits for no GPU that it can do
 * without, and the cluster has reported what it offers. */
static bool waits_for_place(const struct pl_sched *s, const struct job *job, const struct shape *shape)
{
    const struct version *v = job->version;

    return v->def.pending_ms > 0 && shape && shape->told && !s->draining && pl_sched_datums_ready(s, job->rows) > 0 &&
           (v->def.gpu_required || !waits_for_gpu(v, job)) && !has_place(v);
}

/* Fails the job if no pod of its stage has had a node for too long. */
static bool fail_pending(struct pl_sched *s, struct job *job)
{
    const struct version *v = job->version;
    const struct shape *shape = v->cpu_shape && pl_sched_admit_device(s, job) == CPU ? v->cpu_shape : v->shape;
    char text[PL_SCHED_MESSAGE_MAX], duration[32];

    if (!waits_for_place(s, job, shape))
        job->pending_since = -1;
    else if (job->pending_since < 0)
        job->pending_since = s->now;
    if (job->pending_since < 0 || s->now - job->pending_since < v->def.pending_ms)
        return false;
    snprintf(text, sizeof(text), "no pod got a node within %s (placement.pending): %s",
             pl_duration_text(v->def.pending_ms, duration), pl_sched_wait_reason_place(s, v, shape));
    job->unplaced = true;
    pl_sched_job_end(s, job, PL_SCHED_FAILURE, text, NULL);
    return true;
}

static void set_timer(struct pl_sched *s, struct job *job)
{
    const struct version *v = job->version;
    int64_t at = pl_sched_datums_next(s, job->rows);
    int64_t gpu_until = job->gpu_since + v->def.gpu_wait_ms;

    if (v->def.job_timeout_ms > 0 && job->rows->leased > 0)
        at = PL_MIN(at, s->now + v->def.job_timeout_ms - pl_sched_job_busy_ms(s, job));
    if (v->retry_at > s->now)
        at = PL_MIN(at, v->retry_at);
    if (!v->def.gpu_required && gpu_until > s->now && waits_for_gpu(v, job))
        at = PL_MIN(at, gpu_until);
    if (job->pending_since >= 0)
        at = PL_MIN(at, job->pending_since + v->def.pending_ms);
    pl_sched_timer(s, &job->timer, at);
}

/* Leases datums to the workers whose requests are open: idle ones first; busy ones may fetch ahead while no
 * worker lacks work. */
static void serve(struct pl_sched *s, struct job *job)
{
    struct version *v = job->version;
    struct worker *w, *next;

    for (w = TAILQ_FIRST(&v->asking); w && !s->draining; w = next) {
        next = TAILQ_NEXT(w, asking_link);
        /* an idle CPU worker, left by an earlier job of the stage that got no GPU */
        if (w->n_tasks == 0 && !w->on_gpu && pl_sched_admit_device(s, job) == GPU) {
            pl_sched_worker_stop(s, w, false, "its stage waits for a GPU");
            continue;
        }
        if (pl_sched_node_idles(s, job->rows, w)) {
            pl_sched_worker_stop(s, w, false,
                                 "the waiting datums were lost on its node before, so they must run on another node");
            continue;
        }
        if (!pl_sched_task_lease(s, job, w) && (w->n_tasks == 0 || pl_sched_datums_ready(s, job->rows) == 0))
            break;
    }
    if (s->draining)
        pl_sched_workers_trim(s, v);
    else
        pl_sched_task_recall(s, job);
}

/* Stops pods that wait for a node and are meant for the other device than the job is to run on. */
static void keep_to_device(struct pl_sched *s, struct job *job)
{
    struct version *v = job->version;

    if (!v->cpu_shape)
        return;
    if (pl_sched_admit_device(s, job) == CPU)
        pl_sched_shape_give_up(s, v, GPU);
    else if (v->shape->told && v->shape->offered)
        pl_sched_shape_give_up(s, v, CPU);
}

/* Takes the next step of a planned job: it times out, fails, commits, or leases datums and requests
 * workers. */
static void run_rows(struct pl_sched *s, struct job *job)
{
    const struct version *v = job->version;
    char text[80], duration[32];

    if (v->def.job_timeout_ms > 0 && pl_sched_job_busy_ms(s, job) >= v->def.job_timeout_ms) {
        snprintf(text, sizeof(text), "job timed out after %s of running", pl_duration_text(v->def.job_timeout_ms, duration));
        pl_sched_job_end(s, job, PL_SCHED_KILLED, text, NULL);
        return;
    }
    /* what is not tried again ends no job before the rest has been tried */
    if (too_many_failed(job, job->rows->failed - job->rows->untried_failed)) {
        fail_rows(s, job);
        return;
    }
    if (job->rows->waiting + job->rows->leased == 0) {
        if ((job->rows->failed > 0 && !v->def.skip_failed) || too_many_failed(job, job->rows->failed))
            fail_rows(s, job);
        else
            commit(s, job);
        return;
    }
    if (fail_start(s, job) || is_superseded(s, job))
        return;
    serve(s, job);
    keep_to_device(s, job);
    if (fail_pending(s, job))
        return;
    pl_sched_admit_request(s, job->version);
    set_timer(s, job);
}

/* Only the first job of the lane is planned or run. */
void pl_sched_stage_advance(struct pl_sched *s, struct stage *stage)
{
    struct job *job = TAILQ_FIRST(&stage->lane);
    struct version *v, *next;

    for (v = TAILQ_FIRST(&stage->all); v; v = next) {
        next = TAILQ_NEXT(v, stage_link);
        if (!job || v != job->version || !(job->rows || job->in_line))
            pl_sched_admit_withdraw(s, v);
        pl_sched_workers_trim(s, v);
        if (stage->reshaped)
            pl_sched_shape_renew(s, v);
    }
    stage->reshaped = false;
    if (!job || !job->linked)
        return;
    if (job->state == PL_SCHED_CREATED && job->blocked_on == 0 && !job->queued && !s->draining)
        plan(s, job);
    else if (job->state != PL_SCHED_FINISHING && job->rows)
        run_rows(s, job);
    pl_sched_wait_reason_defer(s, stage);
}
