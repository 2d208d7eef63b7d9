/* loss_log: writes into a job's log that a worker was lost, and why, so that the output of the datum's next
 * worker can be told from that of the lost one. */
#include "pipelined/engine/engine_internal.h"

#include "storage/system/log_line.h"

#include <stdio.h>

struct loss {
    struct pl_ejob *job;
    uint64_t fence;
    char why[PL_SCHED_MESSAGE_MAX];
};

int pl_engine_log_appended(const struct pl_ejob *j, int r, struct pl_err *err)
{
    return r == 0 && j->over ? pl_stage_logs_seal(j->engine->config.logs, j->stage->project, j->row, err) : r;
}

static void append_loss(void *arg)
{
    struct loss *l = arg;
    struct pl_err err = {0};
    int r = pl_stage_logs_lost(l->job->engine->config.logs, l->job->stage->project, l->job->row, l->fence, l->why, &err);

    r = pl_engine_log_appended(l->job, r, &err);
    if (r < 0)
        pl_log_warn("engine", "run %.8s: cannot write into the log of stage %s that a worker was lost: %s", l->job->run,
                    l->job->stage->def->name, err.msg);
    pl_engine_job_unref(l->job);
    free(l);
}

void pl_engine_log_loss(struct pl_engine *e, const struct pl_sched_action *a)
{
    struct pl_ejob *j = a->lease.lost ? pl_engine_job(e, a->lease.job) : NULL;
    struct loss *l = j && j->row ? malloc(sizeof *l) : NULL;

    if (!l)
        return;
    l->job = pl_engine_job_ref(j);
    l->fence = a->lease.fence;
    snprintf(l->why, sizeof l->why, "%s", a->lease.message);
    pl_engine_pool(e, append_loss, l);
}
