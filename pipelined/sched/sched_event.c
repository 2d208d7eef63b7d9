/* sched_event: checks that an event is allowed in the current phase, and dispatches it to the file that
 * handles it. */
#include "pipelined/sched/sched_internal.h"

/* Returns the job with this id if it is in the state in which it waits for this answer (to PLAN or COMMIT);
 * else NULL. */
static struct job *job_answered(struct pl_sched *s, uint64_t id, enum pl_sched_state state)
{
    struct job *job = pl_sched_get(&s->jobs, id);

    return job && job->state == state ? job : NULL;
}

/* Checks that the numbers of a plan fit together. */
static int check_plan(const struct pl_sched_plan *plan, struct pl_err *err)
{
    uint32_t untried = 0;

    if (plan->to_run > PL_SCHED_ROWS_MAX)
        return pl_err_set(err, PL_ELIMIT, "a job runs at most %u datums, the plan has %u", PL_SCHED_ROWS_MAX, plan->to_run);
    if (plan->to_run > plan->datums)
        return pl_err_set(err, PL_EINVAL, "the plan is invalid: %u datums must run, but it has only %llu", plan->to_run,
                          (unsigned long long)plan->datums);
    for (size_t i = 0; i < plan->n_untried; i++) {
        const struct pl_sched_range *r = &plan->untried[i];

        if (r->lo >= r->hi || r->hi > plan->to_run || (i > 0 && r->lo < r[-1].hi))
            return pl_err_set(err, PL_EINVAL, "the plan is invalid: the untried datums %u to %u are out of range or out of order",
                              r->lo, r->hi);
        untried += r->hi - r->lo;
    }
    if (plan->recovered <= untried)
        return 0;
    return pl_err_set(err, PL_EINVAL, "the plan is invalid: %u datums are recovered, of %u that are not tried", plan->recovered,
                      untried);
}

static int take_plan(struct pl_sched *s, const struct pl_sched_event *ev, struct pl_err *err)
{
    struct job *job = job_answered(s, ev->id, PL_SCHED_STARTING);

    if (!job || !job->planning)
        return 0;
    if (ev->kind == PL_SCHED_EV_JOB_PLANNED) {
        int r = check_plan(&ev->plan, err);

        if (r < 0)
            return r;
        pl_sched_job_planned(s, job, &ev->plan);
    } else {
        pl_sched_job_end(s, job, PL_SCHED_FAILURE, ev->text, NULL);
    }
    return 0;
}

static int take_commit(struct pl_sched *s, const struct pl_sched_event *ev)
{
    struct job *job = job_answered(s, ev->id, PL_SCHED_FINISHING);

    if (!job)
        return 0;
    if (ev->kind == PL_SCHED_EV_JOB_COMMITTED)
        pl_sched_job_end(s, job, PL_SCHED_SUCCESS, "", NULL);
    else if (job->stranded || ev->on)
        pl_sched_job_end(s, job, PL_SCHED_KILLED, PL_SCHED_REMOVED, NULL);
    else
        pl_sched_job_end(s, job, PL_SCHED_FAILURE, ev->text, NULL);
    return 0;
}

/* Handles an event of an unknown worker, for example of one from before the engine ran out of memory: reports
 * its leases as lost and tells it to stop. */
static int take_stray(struct pl_sched *s, const struct pl_sched_event *ev)
{
    for (size_t i = 0; i < ev->leases.n; i++)
        pl_sched_task_lost(s, ev->id, ev->leases.items[i]);
    if (ev->kind == PL_SCHED_EV_RESULT)
        pl_sched_task_lost(s, ev->id, (struct pl_sched_lease){ev->result.task, ev->result.fence});
    if (ev->kind == PL_SCHED_EV_WORKER_ATTACHED || ev->kind == PL_SCHED_EV_WORKER_NEXT) {
        struct pl_sched_action *a = pl_sched_action_new(s, PL_SCHED_STOP_WORKER);

        a->worker.id = ev->id;
        a->worker.kill = ev->kind == PL_SCHED_EV_WORKER_ATTACHED;
        a->worker.reason = "the daemon does not know this worker";
    }
    return 0;
}

/* Dispatches an event about a worker. */
static int take_worker(struct pl_sched *s, const struct pl_sched_event *ev)
{
    struct worker *w = pl_sched_get(&s->workers, ev->id);

    if (!w)
        return take_stray(s, ev);
    if (ev->kind != PL_SCHED_EV_WORKER_PLACED && ev->kind != PL_SCHED_EV_WORKER_WAITS && ev->kind != PL_SCHED_EV_WORKER_NEEDS &&
        ev->kind != PL_SCHED_EV_WORKER_RETIRE) /* these events do not come from the worker itself */
        w->seen = s->now;
    switch (ev->kind) {
    case PL_SCHED_EV_START_FAILED:
    case PL_SCHED_EV_WORKER_EXITED:
        pl_sched_worker_gone(s, w, ev);
        break;
    case PL_SCHED_EV_WORKER_PLACED:
        pl_sched_shape_placed(s, w);
        if (w->shape) /* this machine is no node: a worker has nowhere else to go */
            pl_sched_node_placed(s, w, ev->text);
        if (ev->on)
            pl_sched_worker_up(s, w);
        break;
    case PL_SCHED_EV_WORKER_WAITS:
        /* a report about the pod that arrives late, after the worker has attached, is ignored */
        if (!w->up || w->state == WORKER_STARTING)
            pl_sched_shape_waits(s, w, ev->text);
        break;
    case PL_SCHED_EV_WORKER_NEEDS:
        pl_sched_shape_needs(s, w, ev->shape.needs);
        break;
    case PL_SCHED_EV_WORKER_RETIRE:
        pl_sched_worker_retire(s, w);
        break;
    case PL_SCHED_EV_WORKER_ATTACHED:
        pl_sched_worker_attached(s, w, ev);
        break;
    case PL_SCHED_EV_WORKER_NEXT:
        pl_sched_worker_next(s, w);
        break;
    case PL_SCHED_EV_RENEW:
        pl_sched_worker_renew(s, w, ev);
        break;
    default:
        pl_sched_task_result(s, w, ev);
    }
    return 0;
}

static int take_stop_job(struct pl_sched *s, const struct pl_sched_event *ev, struct pl_err *err)
{
    struct job *job = pl_sched_get(&s->jobs, ev->id);

    if (!job || pl_sched_state_final(job->state))
        return pl_err_set(err, PL_ENOTFOUND, "the job has ended");
    if (job->state == PL_SCHED_FINISHING)
        return pl_err_set(err, PL_EBUSY, "the job is committing its output");
    pl_sched_job_end(s, job, PL_SCHED_KILLED, ev->text, NULL);
    return 0;
}

static int take_stop_run(struct pl_sched *s, const struct pl_sched_event *ev, struct pl_err *err)
{
    struct run *run = pl_sched_run_find(s, ev->run.id);

    if (!run)
        return pl_err_set(err, PL_ENOTFOUND, "there is no unfinished run %s", ev->run.id ? ev->run.id : "");
    pl_sched_run_settle(s);
    run = pl_sched_run_find(s, ev->run.id); /* a run without jobs has already ended and is freed */
    for (size_t i = 0; run && i < run->n_jobs; i++)
        if (run->jobs[i]->state < PL_SCHED_FINISHING)
            pl_sched_job_end(s, run->jobs[i], PL_SCHED_KILLED, ev->text, NULL);
    return 0;
}

static void take_drain(struct pl_sched *s)
{
    const struct pl_map_slot *slot;

    s->draining = true;
    for (size_t i = 0; (slot = pl_map_next(&s->stages, &i));)
        pl_sched_stage_dirty(s, slot->value);
}

static int take_run(struct pl_sched *s, const struct pl_sched_event *ev, struct pl_err *err)
{
    struct run *run;
    int r = pl_sched_run_add(s, ev, &run, err);

    if (r < 0)
        return r;
    pl_sched_wait_reason_run(s, run, PL_SCHED_RUNNING);
    return 0;
}

static bool is_restore(enum pl_sched_event_kind kind)
{
    return kind >= PL_SCHED_EV_RESTORE_RUN;
}

static int check_phase(const struct pl_sched *s, const struct pl_sched_event *ev, struct pl_err *err)
{
    if (!s->restoring && is_restore(ev->kind))
        return pl_err_set(err, PL_EINVAL, "the scheduler's state is restored already");
    if (s->restoring && !is_restore(ev->kind) && ev->kind != PL_SCHED_EV_STAGE_SET && ev->kind != PL_SCHED_EV_CAPACITY &&
        ev->kind != PL_SCHED_EV_SHAPE)
        return pl_err_set(err, PL_EINVAL, "event %d is refused until the scheduler's state is restored", (int)ev->kind);
    return 0;
}

int pl_sched_event_take(struct pl_sched *s, const struct pl_sched_event *ev, struct pl_err *err)
{
    int r = check_phase(s, ev, err);

    if (r < 0)
        return r;
    if (is_restore(ev->kind))
        return pl_sched_restore(s, ev, err);
    switch (ev->kind) {
    case PL_SCHED_EV_TICK:
        return 0;
    case PL_SCHED_EV_STAGE_SET:
        return pl_sched_stage_set(s, &ev->stage, err);
    case PL_SCHED_EV_STAGE_SHAPES:
        return pl_sched_stage_shapes(s, &ev->stage, err);
    case PL_SCHED_EV_STAGE_REMOVED:
        return pl_sched_stage_remove(s, ev->id, err);
    case PL_SCHED_EV_RUN:
        return take_run(s, ev, err);
    case PL_SCHED_EV_JOB_PLANNED:
    case PL_SCHED_EV_PLAN_FAILED:
        return take_plan(s, ev, err);
    case PL_SCHED_EV_JOB_COMMITTED:
    case PL_SCHED_EV_COMMIT_FAILED:
        return take_commit(s, ev);
    case PL_SCHED_EV_STOP_JOB:
        return take_stop_job(s, ev, err);
    case PL_SCHED_EV_STOP_RUN:
        return take_stop_run(s, ev, err);
    case PL_SCHED_EV_CAPACITY:
        return pl_sched_admit_capacity(s, &ev->capacity, err);
    case PL_SCHED_EV_SHAPE:
        return pl_sched_shape_set(s, &ev->shape, err);
    case PL_SCHED_EV_DRAIN:
        take_drain(s);
        return 0;
    default:
        return take_worker(s, ev);
    }
}
