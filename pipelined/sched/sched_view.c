/* sched_view: read-only views of jobs, workers and devices, for the API. */
#include <stdio.h>

#include "pipelined/sched/sched_internal.h"
#include "storage/base/clock.h"

int pl_sched_job_info(const struct pl_sched *s, uint64_t id, struct pl_sched_job_info *ret, struct pl_err *err)
{
    const struct job *job = pl_sched_get(&s->jobs, id);

    if (!job)
        return pl_err_set(err, PL_ENOTFOUND, "job %llu is not in an unfinished run", (unsigned long long)id);
    *ret = (struct pl_sched_job_info){
        .state = job->state, .workers = job->workers, .planned = job->rows != NULL, .busy_ms = pl_sched_job_busy_ms(s, job)};
    if (job->rows) {
        ret->datums = job->rows->datums;
        ret->to_run = job->rows->to_run;
        ret->waiting = job->rows->waiting;
        ret->leased = job->rows->leased;
        ret->done = job->rows->done;
        ret->failed = job->rows->failed;
    }
    return 0;
}

/* all workers of a job run on the same device, so the first worker decides */
const char *pl_sched_job_device(const struct pl_sched *s, uint64_t id)
{
    const struct job *job = pl_sched_get(&s->jobs, id);
    const struct worker *w;

    if (!job || job->workers == 0)
        return NULL;
    TAILQ_FOREACH(w, &job->version->workers, version_link)
    {
        if (w->n_tasks > 0 && w->tasks[0]->job == job)
            return w->on_gpu ? "gpu" : "cpu";
    }
    return NULL;
}

void pl_sched_without_gpu(const struct pl_sched *s, uint64_t id, char out[PL_SCHED_MESSAGE_MAX])
{
    const struct job *job = pl_sched_get(&s->jobs, id);
    const struct version *v = job ? job->version : NULL;
    char duration[32];

    *out = '\0';
    if (!v || v->def.gpu_count == 0 || v->def.gpu_required)
        return;
    if (job->on_cpu)
        snprintf(out, PL_SCHED_MESSAGE_MAX, "no GPU came within %s", pl_duration_text(v->def.gpu_wait_ms, duration));
    else if (v->shape && (!v->shape->told || v->shape->offered))
        /* GPUs may be offered again by now, so the text uses the past tense */
        snprintf(out, PL_SCHED_MESSAGE_MAX, "no GPU was on offer");
    else if (v->shape)
        snprintf(out, PL_SCHED_MESSAGE_MAX, "no GPU is on offer: %s", v->shape->text);
    else if (v->def.gpu_chosen)
        snprintf(out, PL_SCHED_MESSAGE_MAX, "no GPU is on offer %s", v->def.gpu_text);
    else
        snprintf(out, PL_SCHED_MESSAGE_MAX, "no GPU is on offer: a worker wants %u and the executor has %u", v->def.gpu_count,
                 s->capacity.gpu_offered);
}

bool pl_sched_holds(const struct pl_sched *s, uint64_t worker, const struct pl_sched_lease *lease, uint32_t row)
{
    const struct task *task = pl_sched_get(&s->tasks, lease->task);

    return task && task->fence == lease->fence && task->worker && task->worker->id == worker && row < UINT32_MAX &&
           pl_datum_ranges_has(&task->open, row, row + 1);
}

size_t pl_sched_worker_tasks(const struct pl_sched *s, uint64_t worker, uint64_t ret[PL_SCHED_WORKER_LEASES])
{
    const struct worker *w = pl_sched_get(&s->workers, worker);
    const size_t n = w ? w->n_tasks : 0;

    for (size_t i = 0; i < n; i++)
        ret[i] = w->tasks[i]->id;
    return n;
}

/* Counts workers by state; the other figures are always up to date. */
void pl_sched_counts(const struct pl_sched *s, struct pl_sched_counts *ret)
{
    const struct pl_map_slot *slot;

    *ret = (struct pl_sched_counts){
        .stages = (uint32_t)s->stages.len,
        .runs = (uint32_t)s->runs.len,
        .jobs = (uint32_t)s->jobs.len,
        .tasks = (uint32_t)s->tasks.len,
        .gpus = s->capacity.gpu_slots,
        .gpus_used = s->gpus_used,
    };
    for (size_t i = 0; (slot = pl_map_next(&s->workers, &i));) {
        const struct worker *w = slot->value;

        /* a worker that has attached and never asked for a task does not run yet */
        ret->workers_starting += w->state == WORKER_STARTING || (w->state == WORKER_BUSY && w->n_tasks == 0);
        ret->workers_idle += w->state == WORKER_IDLE;
        ret->workers_busy += w->state == WORKER_BUSY && w->n_tasks > 0;
        ret->workers_stopping += w->state == WORKER_STOPPING;
    }
}

uint64_t pl_sched_gpu_holder(const struct pl_sched *s, uint32_t slot, uint64_t *ret_stage, uint64_t *ret_job)
{
    const struct worker *w = slot < PL_SCHED_GPUS_MAX ? s->gpus[slot] : NULL;

    if (!w)
        return 0;
    *ret_stage = w->version->def.stage;
    *ret_job = w->n_tasks > 0 ? w->tasks[0]->job->id : 0;
    return w->id;
}
