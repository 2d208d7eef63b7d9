/* job_save: writes the rows of unfinished jobs when they change. A job has one write in progress at a time,
 * and the newest state is written last. Subscribers hear of each change of its state at once, and of datums that
 * ended at most every PROGRESS_MS; what was held back is said by a timer. */
#include "pipelined/engine/engine_internal.h"

#include "storage/base/clock.h"
#include "storage/system/log_line.h"

#include <stdio.h>

#define PROGRESS_MS 500 /* least time between two events of one job's progress */

static json_t *counts_json(const struct pl_etotals *t)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "total", (json_int_t)t->datums, "planned",
                     (json_int_t)t->planned, "reused", (json_int_t)t->reused, "done", (json_int_t)t->done, "failed",
                     (json_int_t)t->failed, "recovered", (json_int_t)t->recovered, "attempts", (json_int_t)t->attempts, "lost",
                     (json_int_t)t->lost);
}

static json_t *ms_json(const struct pl_etotals *t)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "busy",
                     (json_int_t)t->busy_ms, "wait", (json_int_t)t->wait_ms, "fetch", (json_int_t)t->fetch_ms, "compute",
                     (json_int_t)t->compute_ms, "upload", (json_int_t)t->upload_ms, "held", (json_int_t)t->held_ms, "gpu",
                     (json_int_t)t->gpu_ms, "user", (json_int_t)(t->user_us / 1000), "sys", (json_int_t)(t->sys_us / 1000),
                     "max_rss_kb", (json_int_t)t->max_rss_kb, "gpus", (json_int_t)t->gpus, "oom", (json_int_t)t->oom,
                     "gpu_measured", (json_int_t)t->gpu_measured_ms, "gpu_used", (json_int_t)t->gpu_used_ms, "gpu_wait",
                     (json_int_t)t->gpu_wait_ms, "gpu_mem_peak", (json_int_t)t->gpu_mem_peak, "lost", (json_int_t)t->lost_ms,
                     "gpu_lost", (json_int_t)t->gpu_lost_ms);
}

void pl_engine_job_args(struct pl_ejob *j, struct pl_job_args *ret)
{
    struct pl_sched_job_info info;

    if (pl_sched_job_info(j->engine->sched, j->id, &info, NULL) == 0)
        j->totals.busy_ms = info.busy_ms;
    *ret = (struct pl_job_args){.id = j->row,
                                .run = j->run,
                                .project = j->stage->project,
                                .stage = j->stage->def->name,
                                .pipeline = j->stage->pipeline,
                                .version = (int64_t)j->stage->version,
                                .state = pl_sched_state_name(j->state),
                                .reason = strdup(j->reason),
                                .base = j->planned ? j->base : "",
                                .code = j->stage->code_identity,
                                /* while the job is not planned, a pool thread may still be changing its
                                 * inputs */
                                .inputs = j->planned ? json_incref(j->inputs) : NULL,
                                .warnings = json_incref(j->warnings),
                                .counts = counts_json(&j->totals),
                                .ms = ms_json(&j->totals),
                                .bytes = json_pack("{s:I, s:I}", "in", (json_int_t)j->totals.bytes_in, "out",
                                                   (json_int_t)j->totals.bytes_out),
                                .created_us = j->created_us,
                                .started_us = j->started_us,
                                .live = j->id,
                                .planned = j->planned};
}

void pl_engine_job_args_done(struct pl_job_args *a)
{
    free((char *)a->reason);
    json_decref(a->inputs);
    json_decref(a->warnings);
    json_decref(a->counts);
    json_decref(a->ms);
    json_decref(a->bytes);
}

/* ---- what subscribers are told ---- */

/* Decides what the write of the job's row that begins now tells. */
static enum pl_job_tell tell_of(struct pl_ejob *j)
{
    const int64_t now_ms = pl_clock_mono_ms();
    const struct pl_job_told now = {.told = true,
                                    .planned = j->planned,
                                    .state = j->state,
                                    .reason = pl_xxh64(j->reason, strlen(j->reason), 0),
                                    .warnings = j->warnings,
                                    .started_us = j->started_us,
                                    .datums = (int64_t)(j->totals.done + j->totals.reused + j->totals.failed),
                                    .at_ms = now_ms};
    const struct pl_job_told *last = &j->told;
    const bool same = last->told && last->planned == now.planned && last->state == now.state && last->reason == now.reason &&
                      last->warnings == now.warnings && last->started_us == now.started_us;

    if (same && last->datums == now.datums)
        return PL_JOB_TELL_NOTHING;
    if (same && now_ms - last->at_ms < PROGRESS_MS) {
        j->told.owed = true;
        if (!pl_timer_active(j->engine->progress))
            pl_timer_start(j->engine->progress, PROGRESS_MS);
        return PL_JOB_TELL_NOTHING;
    }
    j->told = now;
    return same ? PL_JOB_TELL_PROGRESS : PL_JOB_TELL_STATE;
}

/* Writes the rows of jobs whose progress was held back; goes on until none is. */
static void tell_progress(void *arg)
{
    struct pl_engine *e = arg;
    const struct pl_map_slot *slot;
    const int64_t now_ms = pl_clock_mono_ms();
    bool more = false;

    for (size_t i = 0; !e->failed && (slot = pl_map_next(&e->jobs, &i));) {
        struct pl_ejob *j = slot->value;

        if (j->told.owed && now_ms - j->told.at_ms >= PROGRESS_MS)
            pl_engine_job_changed(j);
        more = more || j->told.owed;
    }
    if (more && !pl_timer_active(e->progress))
        pl_timer_start(e->progress, PROGRESS_MS);
}

int pl_engine_progress_init(struct pl_engine *e, struct pl_err *err)
{
    return pl_timer_create(e->config.loop, "engine.progress", tell_progress, e, &e->progress, err);
}

void pl_engine_progress_finish(struct pl_engine *e)
{
    e->progress = pl_timer_destroy(e->progress);
}

/* ---- writes ---- */

/* One write of an unfinished job's row. Holds a reference to the job. */
struct job_write {
    struct pl_ejob *job;
    struct pl_job_args args;
    int result;
    struct pl_err err;
};

static void job_written(void *arg)
{
    struct job_write *w = arg;
    struct pl_ejob *j = w->job;

    j->writing = false;
    if (w->result >= 0 && !j->row)
        j->row = w->args.id;
    if (w->result >= 0 && w->args.tell != PL_JOB_TELL_NOTHING)
        j->told.at_ms = pl_clock_mono_ms(); /* the write may have waited: the next event keeps its distance from this one */
    if (w->result < 0 && w->result != PL_ESTOPPING) {
        pl_log_error("engine", "cannot write job %s of run %.8s, will retry: %s", j->stage->def->name, j->run, w->err.msg);
        j->dirty = true;
        j->told.told = false; /* what this write was to tell, the next one tells */
        pl_engine_retry(j->engine);
    } else if (j->dirty) {
        pl_engine_job_changed(j);
    }
    pl_engine_job_args_done(&w->args);
    pl_engine_job_unref(j);
    free(w);
}

static void job_write_done(void *arg, int r, const struct pl_err *err)
{
    struct job_write *w = arg;

    w->result = r;
    w->err = *err;
    pl_engine_post(w->job->engine, "engine.job_written", job_written, w);
}

static int job_write_tx(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    return pl_tx_job_progress(tx, &((struct job_write *)arg)->args, err);
}

static void write_job(struct pl_ejob *j)
{
    struct job_write *w = calloc(1, sizeof *w);

    if (!w) {
        pl_engine_fail(j->engine, "no memory for a job's row");
        return;
    }
    w->job = pl_engine_job_ref(j);
    pl_engine_job_args(j, &w->args);
    w->args.tell = tell_of(j);
    j->dirty = false;
    j->writing = true;
    pl_engine_submit(j->engine, PL_TX_UNLOGGED, job_write_tx, job_write_done, w);
}

void pl_engine_write_dirty(struct pl_engine *e)
{
    const struct pl_map_slot *slot;

    for (size_t i = 0; (slot = pl_map_next(&e->jobs, &i));) {
        struct pl_ejob *j = slot->value;

        if (j->dirty)
            pl_engine_job_changed(j);
    }
}

void pl_engine_job_changed(struct pl_ejob *j)
{
    if (j->over)
        return;
    if (j->writing)
        j->dirty = true;
    else
        write_job(j);
}

/* ---- warnings about a job ---- */

#define WITHOUT_GPU "it runs on the CPU: gpu.required is false and "

static bool is_warned(const struct pl_ejob *j, const char *start)
{
    const json_t *one;
    size_t i;

    json_array_foreach(j->warnings, i, one)
    {
        if (strncmp(json_string_value(one), start, strlen(start)) == 0)
            return true;
    }
    return false;
}

/* Adds a warning to the job. Makes a new list, because a write in progress still uses the old one. */
static void warn(struct pl_ejob *j, const char *text)
{
    json_t *list = json_copy(j->warnings);

    if (!list || json_array_append_new(list, json_string(text)) < 0) {
        json_decref(list);
        return;
    }
    json_decref(j->warnings);
    j->warnings = list;
    pl_engine_job_changed(j);
}

void pl_engine_job_device(struct pl_ejob *j, const struct pl_eworker *w)
{
    const struct pl_gpu *wanted = &j->stage->def->gpu;
    char why[PL_SCHED_MESSAGE_MAX], text[sizeof WITHOUT_GPU + PL_SCHED_MESSAGE_MAX];

    if (wanted->count == 0 || wanted->required || w->n_gpus > 0 || w->pod == PL_POD_WITH_GPU || is_warned(j, WITHOUT_GPU))
        return;
    pl_sched_without_gpu(j->engine->sched, j->id, why);
    if (!*why)
        return;
    snprintf(text, sizeof text, WITHOUT_GPU "%s", why);
    warn(j, text);
}

/* ---- busy time ---- */

/* One write of the time for which jobs have had a leased task, without the rest of their rows. */
struct busy {
    size_t n;
    struct {
        int64_t row, ms;
    } jobs[];
};

static int busy_tx(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    const struct busy *b = arg;
    int r = 0;

    for (size_t i = 0; r >= 0 && i < b->n; i++)
        r = pl_sql_exec(pl_tx_conn(tx), err, "UPDATE job SET ms = json_set(ms, '$.busy', ?) WHERE id = ? AND final = 0", "ii",
                        b->jobs[i].ms, b->jobs[i].row);
    return PL_MIN(r, 0);
}

static void busy_done(void *arg, int r, const struct pl_err *err)
{
    if (r < 0)
        pl_log_warn("engine", "cannot save how long jobs have run: %s", err->msg);
    free(arg);
}

void pl_engine_write_busy(struct pl_engine *e)
{
    struct busy *b = malloc(sizeof *b + e->jobs.len * sizeof b->jobs[0]);
    const struct pl_map_slot *slot;
    struct pl_sched_job_info info;
    struct pl_err err = {0};

    if (!b)
        return; /* without memory this save is skipped; the next one includes its time */
    b->n = 0;
    for (size_t i = 0; (slot = pl_map_next(&e->jobs, &i));) {
        const struct pl_ejob *j = slot->value;

        if (!j->row || j->over || pl_sched_job_info(e->sched, j->id, &info, NULL) < 0 || info.leased == 0)
            continue;
        b->jobs[b->n].row = j->row;
        b->jobs[b->n++].ms = info.busy_ms;
    }
    if (b->n == 0 || pl_db_submit(e->config.db, PL_TX_UNLOGGED, busy_tx, busy_done, b, &err) < 0)
        free(b);
}
