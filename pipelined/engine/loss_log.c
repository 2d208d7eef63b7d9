/* loss_log: writes into a job's log that a worker was lost, and why, so that the output of the datum's next
 * worker can be told from that of the lost one. */
#include "pipelined/engine/engine_internal.h"

#include "storage/system/log_line.h"

#include <stdio.h>

struct loss {
    struct pl_ejob *job;
    uint64_t fence;
    bool one; /* only the datum `datum` was lost */
    struct pl_hash datum;
    char why[PL_SCHED_MESSAGE_MAX + PL_WORKER_WHERE_BYTES + 4];
};

int pl_engine_log_appended(const struct pl_ejob *j, int r, struct pl_err *err)
{
    return r == 0 && j->over ? pl_stage_logs_seal(j->engine->config.logs, j->stage->project, j->row, err) : r;
}

static void append_loss(void *arg)
{
    struct loss *l = arg;
    struct pl_err err = {0};
    int r = pl_stage_logs_lost(l->job->engine->config.logs, l->job->stage->project, l->job->row, l->fence,
                               l->one ? &l->datum : NULL, l->why, &err);

    r = pl_engine_log_appended(l->job, r, &err);
    if (r < 0)
        pl_log_warn("engine", "run %.8s: cannot write into the log of stage %s that a worker was lost: %s", l->job->run,
                    l->job->stage->def->name, err.msg);
    pl_engine_job_unref(l->job);
    free(l);
}

static void log_loss(struct pl_ejob *j, uint64_t worker, const struct loss *what, const char *why)
{
    struct loss *l = j && j->row ? malloc(sizeof *l) : NULL;
    char where[PL_WORKER_WHERE_BYTES];

    if (!l)
        return;
    *l = *what;
    l->job = pl_engine_job_ref(j);
    pl_worker_record_where(j->engine, worker, where);
    snprintf(l->why, sizeof l->why, *where ? "%s (%s)" : "%s%s", why, where);
    pl_engine_pool(j->engine, append_loss, l);
}

void pl_engine_log_loss(struct pl_engine *e, const struct pl_sched_action *a)
{
    if (a->lease.lost)
        log_loss(pl_engine_job(e, a->lease.job), a->lease.worker, &(struct loss){.fence = a->lease.fence}, a->lease.message);
}

void pl_engine_log_given_back(struct pl_ejob *j, uint64_t worker, uint64_t fence, size_t datum, const char *why)
{
    struct loss what = {.fence = fence, .one = true};

    pl_plan_datum_id(j->plan, datum, &what.datum);
    log_loss(j, worker, &what, why);
}
