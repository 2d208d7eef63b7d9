/* sched_run: runs. A new run is expanded step by step: one job for each stage that the run names and each
 * stage that reads a moved head, then for each stage that reads an output of these jobs. After that, each job
 * is linked to the jobs for which it waits. */
#include "pipelined/sched/sched_internal.h"

struct run *pl_sched_run_find(const struct pl_sched *s, const char *id)
{
    return id ? pl_map_get(&s->runs, id, strlen(id)) : NULL;
}

/* Key of a job: a stage has at most one job in a run. */
struct job_key {
    uint64_t stage;
    uint64_t order;
};

struct job *pl_sched_job_find(const struct pl_sched *s, const struct stage *stage, const struct run *run)
{
    struct job_key key = {stage->id, run->order};

    return pl_map_get(&s->jobs_by_run, &key, sizeof(key));
}

static int check_run(const struct pl_sched *s, const struct pl_sched_event *ev, struct pl_err *err)
{
    if (!ev->run.id || strlen(ev->run.id) != 32)
        return pl_err_set(err, PL_EINVAL, "the id of a run has 32 hex digits");
    if (pl_sched_run_find(s, ev->run.id))
        return pl_err_set(err, PL_EEXISTS, "run %s is known already", ev->run.id);
    if (ev->run.order <= s->last_order)
        return pl_err_set(err, PL_EINVAL, "run %.8s must have an order above %llu, not %llu", ev->run.id,
                          (unsigned long long)s->last_order, (unsigned long long)ev->run.order);
    if (s->jobs.len + s->stages.len > PL_SCHED_JOBS_MAX)
        return pl_err_set(err, PL_EBUSY, "%zu jobs are unfinished: the limit is reached; try again later", s->jobs.len);
    return 0;
}

int pl_sched_run_add(struct pl_sched *s, const struct pl_sched_event *ev, struct run **ret, struct pl_err *err)
{
    struct run *run;
    int r = check_run(s, ev, err);

    if (r < 0)
        return r;
    run = pl_sched_calloc(s, 1, sizeof(*run));
    if (!run)
        return pl_err_nomem(err);
    memcpy(run->id, ev->run.id, 32);
    run->order = s->last_order = ev->run.order;
    run->heads = pl_sched_calloc(s, ev->run.n_heads, sizeof(*run->heads));
    run->stages = pl_sched_calloc(s, ev->run.n_stages, sizeof(*run->stages));
    if (run->heads && ev->run.n_heads > 0)
        memcpy(run->heads, ev->run.heads, (run->n_heads = ev->run.n_heads) * sizeof(*run->heads));
    if (run->stages && ev->run.n_stages > 0)
        memcpy(run->stages, ev->run.stages, (run->n_stages = ev->run.n_stages) * sizeof(*run->stages));
    run->implied = run->n_heads + run->n_stages > 0;
    run->aside = ev->run.aside;
    run->expanding = true;
    TAILQ_INSERT_TAIL(&s->run_list, run, link);
    TAILQ_INSERT_TAIL(&s->expanding, run, expand_link);
    (void)pl_sched_put(s, &s->runs, run->id, 32, run);
    *ret = run;
    return 0;
}

/* Inserts the job into the stage's lane, which is in the order of runs. Only restored jobs are inserted
 * before the end. */
static void lane_insert(struct stage *stage, struct job *job)
{
    struct job *before = TAILQ_LAST(&stage->lane, job_list);

    while (before && before->run->order > job->run->order)
        before = TAILQ_PREV(before, job_list, lane_link);
    if (before)
        TAILQ_INSERT_AFTER(&stage->lane, before, job, lane_link);
    else
        TAILQ_INSERT_HEAD(&stage->lane, job, lane_link);
}

/* Creates a job in the given state. An unfinished job enters its stage's lane. */
struct job *pl_sched_job_make(struct pl_sched *s, struct run *run, struct version *v, uint64_t id, enum pl_sched_state state)
{
    struct job_key key = {v->stage->id, run->order};
    struct job *job;

    if (!pl_sched_grow(s, &run->jobs, run->n_jobs, &run->cap_jobs, sizeof(struct job *)))
        return NULL;
    job = pl_sched_calloc(s, 1, sizeof(*job));
    if (!job)
        return NULL;
    job->id = id;
    job->stage = v->stage;
    job->version = v;
    job->run = run;
    job->state = state;
    job->gpu_since = -1;
    job->pending_since = -1;
    job->timer.kind = TIMER_JOB;
    v->refs++;
    job->at = run->n_jobs;
    run->jobs[run->n_jobs++] = job;
    run->states[state]++;
    (void)pl_sched_put(s, &s->jobs, &id, sizeof(id), job);
    (void)pl_sched_put(s, &s->jobs_by_run, &key, sizeof(key), job);
    if (!pl_sched_state_final(state)) {
        run->open++;
        v->unfinished++;
        lane_insert(v->stage, job);
    }
    return job;
}

/* Finds or makes the stage's job in the run; NULL = it gets none. */
static struct job *run_job(struct pl_sched *s, struct run *run, struct stage *stage)
{
    struct job *job;

    if (!stage || !stage->current || stage->current->def.since > run->order)
        return NULL;
    job = pl_sched_job_find(s, stage, run);
    return job ? job : pl_sched_job_make(s, run, stage->current, ++s->last_id, PL_SCHED_CREATED);
}

/* Adds the stage to the run, and the stage that makes its environment. That one may have been added before, for the environment
 * of another: then those that read its output are still to be added. */
static void run_include(struct pl_sched *s, struct run *run, struct stage *stage)
{
    struct job *job = run_job(s, run, stage);
    const struct head *in;

    if (!job || job->wanted)
        return;
    job->wanted = true;
    if (job->at < run->at_made) {
        run->at_made = job->at;
        run->at_reader = 0;
    }
    in = run->aside ? NULL : pl_sched_head_find(s, stage->current->def.environment);
    if (in)
        (void)run_job(s, run, in->writer);
}

/* Creates the job of the next stage that reads the branch; false after the last one. */
static bool run_include_reader(struct pl_sched *s, struct run *run, struct pl_sched_head key)
{
    const struct head *head = pl_sched_head_find(s, key);

    if (!head || run->at_reader >= head->n_readers) {
        run->at_reader = 0;
        return false;
    }
    run_include(s, run, head->readers[run->at_reader++]);
    return true;
}

/* Creates the run's next job: first from the stages and heads that the run names, then from the outputs of
 * the run's jobs. False when all jobs exist. */
static bool run_make_next(struct pl_sched *s, struct run *run)
{
    if (!run->implied)
        return false;
    if (run->at_stage < run->n_stages) {
        run_include(s, run, pl_sched_get(&s->stages, run->stages[run->at_stage++]));
        return true;
    }
    if (run->at_head < run->n_heads) {
        if (!run_include_reader(s, run, run->heads[run->at_head]))
            run->at_head++;
        return true;
    }
    if (!run->aside && run->at_made < run->n_jobs) {
        const struct job *made = run->jobs[run->at_made];

        if (!made->wanted || !run_include_reader(s, run, made->version->def.output))
            run->at_made++;
        return true;
    }
    return false;
}

bool pl_sched_run_expand(struct pl_sched *s)
{
    struct run *run = TAILQ_FIRST(&s->expanding);

    if (!run)
        return false;
    if (run_make_next(s, run))
        return true;
    /* link the jobs only after all jobs of the run were created, because a job may read the output of any of
     * them */
    if (run->at_linked < run->n_jobs) {
        pl_sched_job_link(s, run->jobs[run->at_linked++]);
        return true;
    }
    TAILQ_REMOVE(&s->expanding, run, expand_link);
    run->expanding = false;
    pl_sched_run_close(s, run);
    return true;
}

void pl_sched_run_settle(struct pl_sched *s)
{
    while (!s->oom && !s->restoring && pl_sched_run_expand(s))
        ;
}

void pl_sched_run_close(struct pl_sched *s, struct run *run)
{
    enum pl_sched_state state = PL_SCHED_SUCCESS;

    if (run->expanding || run->open > 0)
        return;
    if (run->states[PL_SCHED_FAILURE] > 0)
        state = PL_SCHED_FAILURE;
    else if (run->states[PL_SCHED_KILLED] > 0) /* without a failure, jobs are unrunnable because another one was killed */
        state = PL_SCHED_KILLED;
    else if (run->states[PL_SCHED_UNRUNNABLE] > 0) /* the pipeline of that other job was deleted before a restart */
        state = PL_SCHED_FAILURE;
    pl_sched_wait_reason_run(s, run, state);
    pl_sched_run_free(s, run);
}

static void job_free(struct pl_sched *s, struct job *job)
{
    struct job_key key = {job->stage->id, job->run->order};

    pl_timers_clear(&s->timers, &job->timer);
    if (!pl_sched_state_final(job->state))
        TAILQ_REMOVE(&job->stage->lane, job, lane_link);
    pl_sched_datums_free(job->rows);
    pl_sched_drop(&s->jobs, job->id);
    (void)pl_map_remove(&s->jobs_by_run, &key, sizeof(key));
    pl_sched_version_unref(s, job->version);
    free(job->dependents);
    free(job->cause);
    free(job);
}

void pl_sched_run_free(struct pl_sched *s, struct run *run)
{
    TAILQ_REMOVE(&s->run_list, run, link);
    (void)pl_map_remove(&s->runs, run->id, 32);
    for (size_t i = 0; i < run->n_jobs; i++)
        job_free(s, run->jobs[i]);
    free(run->jobs);
    free(run->heads);
    free(run->stages);
    free(run);
}
