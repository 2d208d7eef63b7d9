/* completion: writes the ends of jobs and runs to the database, in order. A write that fails, e.g. on a full
 * disk, is retried with a growing pause until it succeeds.
 *
 * Ends of several jobs may be in the database's queue at the same time. The end of a run waits until all
 * earlier ends are written, so that it never precedes the end of one of its jobs. Callbacks of
 * pl_engine_after_completion wait in the same queue. */
#include "pipelined/engine/engine_internal.h"

#include "storage/system/log_line.h"

#include <stdio.h>

#define RETRY_MIN_MS 1000
#define RETRY_MAX_MS 30000

struct pl_ending {
    struct pl_ending *next;
    struct pl_engine *engine;
    /* sequence number: ends are written in the order in which they were handed over */
    uint64_t number;
    /* the job that ends; NULL: this entry is the end of a run, or a callback */
    struct pl_ejob *job;
    /* callback of an entry that writes nothing; NULL: the entry is the end of a job or run */
    void (*then)(void *arg, int r, const struct pl_err *err);
    void *arg;
    struct pl_job_args args;
    struct pl_run_args run;
    char run_id[PL_ID_HEX + 1], run_reason[160];
    int result;
    struct pl_err err;
};

static void ending_free(struct pl_ending *end)
{
    if (end->job)
        pl_engine_job_args_done(&end->args);
    pl_engine_job_unref(end->job);
    if (end->then)
        end->then(end->arg, end->result, &end->err);
    free(end);
}

/* Inserts the entry into the waiting list by its sequence number, so that an end that is retried is written
 * before later ends. */
static void ending_wait(struct pl_ending *end)
{
    struct pl_ending **link = &end->engine->endings;

    while (*link && (*link)->number < end->number)
        link = &(*link)->next;
    end->next = *link;
    *link = end;
}

void pl_engine_retry(struct pl_engine *e)
{
    if (pl_timer_active(e->retry_timer))
        return;
    e->retry_ms = e->retry_ms ? PL_MIN(2 * e->retry_ms, RETRY_MAX_MS) : RETRY_MIN_MS;
    pl_timer_start(e->retry_timer, (uint64_t)e->retry_ms);
}

static void seal_log(void *arg)
{
    struct pl_ejob *j = arg;
    struct pl_err err = {0};

    if (pl_stage_logs_seal(j->engine->config.logs, j->stage->project, j->row, &err) < 0)
        pl_log_error("engine", "cannot seal the log of stage %s, run %.8s: %s", j->stage->def->name, j->run, err.msg);
    pl_engine_job_unref(j);
}

void pl_engine_job_ended(struct pl_ejob *j)
{
    if (j->row)
        pl_engine_pool(j->engine, seal_log, pl_engine_job_ref(j));
}

static void submit_all(struct pl_engine *e);

/* Runs on the loop after a write: frees the entry if it was written or can never be written; otherwise queues
 * it for another try. */
static void ending_over(void *arg)
{
    struct pl_ending *end = arg;
    struct pl_engine *e = end->engine;

    e->jobs_ending -= end->job != NULL;
    if (end->result >= 0 && !end->then)
        e->retry_ms = 0;
    if (end->result >= 0 && end->job)
        pl_engine_job_ended(end->job);
    if (end->result >= 0 || end->result == PL_ESTOPPING || end->result == PL_EFENCED || e->failed) {
        ending_free(end);
        if (!e->jobs_ending && !pl_timer_active(e->retry_timer))
            submit_all(e);
        return;
    }
    if (!end->then)
        pl_log_error("engine", "cannot write the end of %s%srun %.8s, will retry: %s", end->job ? end->job->stage->def->name : "",
                     end->job ? " of " : "", end->job ? end->job->run : end->run_id, end->err.msg);
    ending_wait(end);
    pl_engine_retry(e);
}

static void ending_done(void *arg, int r, const struct pl_err *err)
{
    struct pl_ending *end = arg;

    end->result = r;
    end->err = *err;
    pl_engine_post(end->engine, "engine.ended", ending_over, end);
}

static int ending_tx(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_ending *end = arg;

    if (end->then)
        return 0;
    return end->job ? pl_tx_job_end(tx, &end->args, err) : pl_tx_run_end(tx, &end->run, err);
}

static void ending_submit(struct pl_ending *end)
{
    int r;

    /* earlier entries go first */
    if (end->engine->endings || (!end->job && end->engine->jobs_ending)) {
        ending_wait(end);
        return;
    }
    end->engine->jobs_ending += end->job != NULL;
    r = pl_db_submit(end->engine->config.db, PL_TX_LOGGED, ending_tx, ending_done, end, &end->err);
    if (r < 0) /* the writer thread calls ending_done unless the submission fails */
        ending_done(end, r, &end->err);
}

static void submit_all(struct pl_engine *e)
{
    struct pl_ending *list = TAKE_PTR(e->endings), *next;

    for (; list; list = next) {
        next = list->next;
        ending_submit(list);
    }
}

static void retry_all(void *arg)
{
    struct pl_engine *e = arg;

    submit_all(e);
    pl_engine_write_dirty(e);
}

static struct pl_ending *ending_new(struct pl_engine *e)
{
    struct pl_ending *end = calloc(1, sizeof *end);

    if (end) {
        end->engine = e;
        end->number = ++e->endings_made;
    }
    return end;
}

void pl_engine_end_job(struct pl_ejob *j)
{
    struct pl_ending *end = ending_new(j->engine);

    if (!end) {
        pl_engine_fail(j->engine, "no memory to record the end of a job");
        return;
    }
    end->job = pl_engine_job_ref(j);
    pl_engine_job_args(j, &end->args);
    ending_submit(end);
}

void pl_engine_end_run(struct pl_engine *e, const struct pl_sched_action *a)
{
    uint32_t failed = a->run.jobs[PL_SCHED_FAILURE], unrunnable = a->run.jobs[PL_SCHED_UNRUNNABLE];
    struct pl_ending *end = ending_new(e);

    if (!end) {
        pl_engine_fail(e, "no memory to record the end of a run");
        return;
    }
    /* the reason of a run that was killed is that of its jobs: the transaction reads it */
    if (a->run.state != PL_SCHED_KILLED && (failed || unrunnable))
        snprintf(end->run_reason, sizeof end->run_reason, failed ? "%u job%s failed%s" : "%u job%s could not run",
                 failed ? failed : unrunnable, (failed ? failed : unrunnable) == 1 ? "" : "s",
                 unrunnable ? ", others could not run" : "");
    snprintf(end->run_id, sizeof end->run_id, "%s", a->run.id);
    end->run = (struct pl_run_args){.id = end->run_id, .state = pl_sched_state_name(a->run.state), .reason = end->run_reason};
    ending_submit(end);
}

void pl_engine_after_completion(struct pl_engine *e, void (*fn)(void *arg, int r, const struct pl_err *err), void *arg)
{
    struct pl_ending *end;

    while (!(end = ending_new(e)))
        usleep(1000);
    end->then = fn;
    end->arg = arg;
    ending_submit(end);
}

int pl_engine_completion_init(struct pl_engine *e, struct pl_err *err)
{
    return pl_timer_create(e->config.loop, "engine.endings", retry_all, e, &e->retry_timer, err);
}

void pl_engine_completion_finish(struct pl_engine *e)
{
    struct pl_ending *end;

    while ((end = e->endings)) {
        e->endings = end->next;
        end->result = pl_err_set(&end->err, PL_ESTOPPING, "the daemon is stopping");
        ending_free(end);
    }
    pl_timer_destroy(e->retry_timer);
}
