/* engine_restore: after a start of the daemon, gives the scheduler the runs, jobs, workers and leases that
 * the database contains. While the daemon runs, gives it the runs that transactions have created, in their
 * order. */
#include "pipelined/engine/engine_internal.h"

#include "storage/base/clock.h"
#include "storage/system/log_line.h"

#include <stdio.h>

/* A run as the scheduler expects it: the branch heads that the run moved (only those of input repos) and the
 * stages that the run names. */
struct run_input {
    char id[PL_ID_HEX + 1];
    uint64_t order;
    struct pl_sched_head *heads;
    size_t n_heads;
    uint64_t *stages;
    size_t n_stages;
    bool aside;
};

static void run_input_finish(struct run_input *in)
{
    free(in->heads);
    free(in->stages);
    *in = (struct run_input){0};
}

static int read_heads(struct pl_conn *c, struct run_input *in, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows,
                         "SELECT r.project, r.name, c.branch FROM commit_ c JOIN repo r ON r.id = c.repo"
                         " WHERE c.run = ? AND c.stage = ''",
                         "s", in->id);

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0) {
        struct pl_sched_head *grown = realloc(in->heads, (in->n_heads + 1) * sizeof *grown);

        if (!grown)
            return pl_err_nomem(err);
        in->heads = grown;
        in->heads[in->n_heads++] = pl_engine_head(pl_col_text(&rows, 0), pl_col_text(&rows, 1), pl_col_text(&rows, 2));
    }
    return r;
}

/* Reads the current versions of the stages that the run names; a stage that was deleted is skipped. */
static int read_stages(struct pl_conn *c, const json_t *list, struct run_input *in, struct pl_err *err)
{
    const json_t *pair;
    int64_t repo;
    size_t i;

    in->stages = calloc(json_array_size(list) + 1, sizeof *in->stages);
    if (!in->stages)
        return pl_err_nomem(err);
    json_array_foreach(list, i, pair)
    {
        const char *project = json_string_value(json_array_get(pair, 0)), *stage = json_string_value(json_array_get(pair, 1));

        if (project && stage &&
            pl_sql_int(c, NULL, &repo,
                       "SELECT r.id FROM repo r JOIN stage s ON s.project = r.project AND s.name = r.name AND s.current = 1"
                       " WHERE r.project = ? AND r.name = ?",
                       "ss", project, stage) == 0)
            in->stages[in->n_stages++] = (uint64_t)repo;
    }
    return 0;
}

/* Reads the next unfinished run after `order`. Returns 1, or 0 if there is none. */
static int next_run(struct pl_engine *e, uint64_t order, struct run_input *ret, struct pl_err *err)
{
    const struct pl_db_reading rd = {NULL, e->conn};
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    _cleanup_(json_decrefp) json_t *stages = NULL;
    struct run_input in = {0};
    int r = pl_sql_query(
        rd.conn, err, &rows,
        "SELECT id, ord, stages, as_branch IS NOT NULL FROM run WHERE state = 'running' AND ord > ? ORDER BY ord LIMIT 1", "i",
        (int64_t)order);

    r = r < 0 ? r : pl_sql_next(rd.conn, &rows, err);
    if (r <= 0)
        return r;
    snprintf(in.id, sizeof in.id, "%s", pl_col_text(&rows, 0));
    in.order = (uint64_t)pl_col_int(&rows, 1);
    stages = pl_col_json(&rows, 2);
    in.aside = pl_col_int(&rows, 3) != 0;
    r = stages ? read_heads(rd.conn, &in, err) : pl_err_nomem(err);
    r = r < 0 ? r : read_stages(rd.conn, stages, &in, err);
    if (r < 0) {
        run_input_finish(&in);
        return r;
    }
    *ret = in;
    return 1;
}

/* Brings the scheduler's stages up to date before the scheduler gets a run, because the notification about a
 * new stage may arrive after the run that uses the stage. */
static int know_stages(struct pl_engine *e, struct pl_err *err)
{
    int64_t made = 0;
    int r = pl_engine_stages_made(e, &made, err);

    return r < 0 || made == e->stages_made ? r : pl_engine_sync_stages(e, err);
}

static int feed_run(struct pl_engine *e, enum pl_sched_event_kind kind, const struct run_input *in, struct pl_err *err)
{
    struct pl_sched_event ev = {.kind = kind};
    int r = know_stages(e, err);

    if (r < 0)
        return r;
    ev.run.id = in->id;
    ev.run.order = in->order;
    ev.run.heads = in->heads;
    ev.run.n_heads = in->n_heads;
    ev.run.stages = in->stages;
    ev.run.n_stages = in->n_stages;
    ev.run.aside = in->aside;
    e->last_order = in->order;
    return pl_engine_feed(e, &ev, err);
}

/* Does nothing while there are stages in the database that the scheduler does not know. A pool thread is
 * loading these stages; after that, pipelines_changed calls this function again. */
int pl_engine_new_runs(struct pl_engine *e, struct pl_err *err)
{
    int64_t made = 0;
    int r;

    for (;;) {
        _cleanup_(run_input_finish) struct run_input in = {0};

        r = pl_engine_stages_made(e, &made, err);
        if (r < 0 || made != e->stages_made)
            return r;
        r = next_run(e, e->last_order, &in, err);
        if (r <= 0)
            return r;
        r = feed_run(e, PL_SCHED_EV_RUN, &in, err);
        if (r < 0)
            return pl_err_wrap(err, r, "run %.8s", in.id);
    }
}

/* ---- restoring ---- */

/* Reads the row ids that a query with a single integer column returns. */
static int read_ids(struct pl_engine *e, const char *sql, const char *text, int64_t **ret, size_t *ret_n, struct pl_err *err)
{
    const struct pl_db_reading rd = {NULL, e->conn};
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    _cleanup_free_ int64_t *list = NULL;
    size_t n = 0;
    int r = pl_sql_query(rd.conn, err, &rows, sql, text ? "s" : "", text);

    while (r >= 0 && (r = pl_sql_next(rd.conn, &rows, err)) > 0) {
        int64_t *grown = realloc(list, (n + 1) * sizeof *list);

        if (!grown)
            return pl_err_nomem(err);
        list = grown;
        list[n++] = pl_col_int(&rows, 0);
    }
    if (r < 0)
        return r;
    *ret = TAKE_PTR(list);
    *ret_n = n;
    return 0;
}

static int restore_stages(struct pl_engine *e, struct pl_err *err)
{
    _cleanup_free_ int64_t *versions = NULL;
    size_t n = 0;
    int r = read_ids(e,
                     "SELECT id FROM stage WHERE (current = 1 AND NOT EXISTS (SELECT 1 FROM pipeline p"
                     " WHERE p.id = stage.pipeline AND p.stopped <> '')) OR id IN (SELECT version FROM job WHERE final = 0)"
                     " OR id IN (SELECT j.version FROM job j JOIN run r ON r.id = j.run WHERE r.state = 'running')"
                     " OR id IN (SELECT stage FROM worker) ORDER BY id",
                     NULL, &versions, &n, err);

    return r < 0 ? r : pl_engine_set_versions(e, (const uint64_t *)versions, n, err);
}

/* A row of table `job`. */
struct job_row {
    int64_t id, version, created_us, started_us, live, busy_ms;
    bool final, planned;
    enum pl_sched_state state;
    char run[PL_ID_HEX + 1], base[PL_ID_HEX + 1];
    char *reason;
    json_t *inputs, *counts, *ms;
};

static void job_row_finish(struct job_row *row)
{
    free(row->reason);
    json_decref(row->inputs);
    json_decref(row->counts);
    json_decref(row->ms);
}

/* Reads a row of table `job`. */
static int read_job(struct pl_conn *c, int64_t id, struct job_row *ret, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows,
                         "SELECT run, version, state, reason, base, inputs, live, planned, final, created_us,"
                         " coalesce(started_us, 0), counts, ms FROM job WHERE id = ?",
                         "i", id);

    r = r < 0 ? r : pl_sql_next(c, &rows, err);
    if (r <= 0)
        return r < 0 ? r : pl_err_set(err, PL_EINTERNAL, "a row of table job is missing");
    ret->id = id;
    snprintf(ret->run, sizeof ret->run, "%s", pl_col_text(&rows, 0));
    ret->version = pl_col_int(&rows, 1);
    for (int s = 0; s < PL_SCHED_STATES; s++)
        if (pl_streq(pl_sched_state_name(s), pl_col_text(&rows, 2)))
            ret->state = s;
    ret->reason = strdup(pl_col_text(&rows, 3));
    snprintf(ret->base, sizeof ret->base, "%s", pl_col_text(&rows, 4));
    ret->inputs = pl_col_json(&rows, 5);
    ret->live = pl_col_int(&rows, 6);
    ret->planned = pl_col_int(&rows, 7) != 0;
    ret->final = pl_col_int(&rows, 8) != 0;
    ret->created_us = pl_col_int(&rows, 9);
    ret->started_us = pl_col_int(&rows, 10);
    ret->counts = pl_col_json(&rows, 11);
    ret->ms = pl_col_json(&rows, 12);
    ret->busy_ms = json_integer_value(json_object_get(ret->ms, "busy"));
    return ret->reason && ret->inputs && ret->counts && ret->ms ? 0 : pl_err_nomem(err);
}

/* Checks that the new plan has as many datums, and as many reused ones, as the old plan: the row numbers in
 * stored leases are valid only for that same plan. */
static int check_plan(const struct pl_ejob *j, const struct job_row *row, struct pl_err *err)
{
    json_int_t total = json_integer_value(json_object_get(row->counts, "total")),
               reused = json_integer_value(json_object_get(row->counts, "reused"));

    if ((uint64_t)total == j->plan->n_total && (uint64_t)reused == j->plan->n_total - j->n_rows)
        return 0;
    return pl_err_set(err, PL_ECONFLICT, "the plan had %lld datums, %lld of them reused; now it has %zu and %zu",
                      (long long)total, (long long)reused, j->plan->n_total, j->plan->n_total - j->n_rows);
}

/* Memory of the event's arrays and texts about datums that have ended. */
struct ended {
    struct pl_sched_range *ranges;
    struct pl_arena *arena; /* memory of the event's texts */
};

static void ended_finish(struct ended *ended)
{
    free(ended->ranges);
    pl_arena_destroy(ended->arena);
}

/* Loads the job's results and attempts from the database, and lists in the event the datums that have
 * ended. */
static int restore_ended(struct pl_engine *e, struct pl_ejob *j, struct ended *ended, struct pl_sched_event *ev,
                         struct pl_err *err)
{
    size_t n = 0;
    int r = pl_job_load_results(j, e->conn, err);

    if (r < 0)
        return r;
    j->settled = calloc((size_t)j->n_rows + 1, 1);
    ended->ranges = calloc((size_t)j->n_rows + 1, sizeof *ended->ranges);
    ended->arena = pl_arena_create(0);
    if (!j->settled || !ended->ranges || !ended->arena)
        return pl_err_nomem(err);
    for (uint32_t i = 0; i < j->n_rows; i++)
        j->settled[i] = j->has_result[j->rows[i]];
    r = pl_job_attempts_load(j, e->conn, ended->arena, ev, err);
    if (r < 0)
        return r;
    for (uint32_t i = 0; i < j->n_rows; i++) {
        if (!j->settled[i])
            continue;
        if (n && ended->ranges[n - 1].hi == i)
            ended->ranges[n - 1].hi++;
        else
            ended->ranges[n++] = (struct pl_sched_range){i, i + 1};
    }
    ev->job.untried = j->untried.all.count;
    ev->job.untried_failed = j->untried.failed.count;
    ev->job.recovered = (uint32_t)j->totals.recovered;
    ev->job.ended = ended->ranges;
    ev->job.n_ended = n;
    return 0;
}

/* Restores the plan of an unfinished job that was planned before the restart: makes the same plan again, over
 * the same commits, and loads the stored results. If that fails, the job is planned anew over the same
 * commits. */
static int restore_plan(struct pl_engine *e, struct pl_ejob *j, const struct job_row *row, struct ended *ended,
                        struct pl_sched_event *ev, struct pl_err *err)
{
    int r;

    j->inputs = json_incref(row->inputs);
    snprintf(j->base, sizeof j->base, "%s", row->base);
    r = pl_job_plan(j, e->conn, err);
    r = r < 0 ? r : check_plan(j, row, err);
    if (r == 0) {
        pl_job_planned(j);
        r = restore_ended(e, j, ended, ev, err);
    }
    if (r < 0) {
        pl_log_warn("engine", "job %s of run %.8s is planned anew: %s", j->stage->def->name, j->run, err->msg);
        pl_job_unplan(j);
        ev->job.tried = NULL;
        ev->job.n_tried = ev->job.failed = 0;
        /* an error here means that the database fails, which the next write reports */
        (void)!pl_job_attempts_forget(j, NULL);
    }
    return r;
}

/* Sets the counters that number the job's database rows to the values after the stored rows. */
static int restore_counters(struct pl_engine *e, struct pl_ejob *j, struct pl_err *err)
{
    int64_t metrics = 0, results = 0, good = 0, failed = 0, lost = 0;
    int r = pl_sql_int(e->conn, err, &lost, "SELECT count(*) FROM attempt WHERE job = ? AND state = 'lost'", "i", j->row);

    r = r < 0 ? r : pl_sql_int(e->conn, err, &metrics, "SELECT coalesce(max(id) + 1, 0) FROM metric WHERE job = ?", "i", j->row);

    r = r < 0 ? r : pl_sql_int(e->conn, err, &results, "SELECT coalesce(max(id) + 1, 0) FROM result WHERE job = ?", "i", j->row);
    r = r < 0 ? r
              : pl_sql_int(e->conn, err, &good, "SELECT count(*) FROM attempt WHERE job = ? AND state = 'success'", "i", j->row);
    r = r < 0 ? r
              : pl_sql_int(e->conn, err, &failed, "SELECT count(*) FROM attempt WHERE job = ? AND state = 'failed'", "i", j->row);
    j->next_metric = (uint32_t)metrics;
    j->next_result = (uint32_t)results;
    j->good_kept = (uint32_t)good;
    j->failed_kept = (uint32_t)failed;
    j->lost_kept = (uint32_t)lost;
    return r;
}

/* Adds to the job's totals the time that was lost with workers, of which there are no results. */
static void restore_lost(struct pl_ejob *j, const struct job_row *row)
{
    struct pl_etotals *t = &j->totals;

    t->lost = (uint64_t)json_integer_value(json_object_get(row->counts, "lost"));
    t->lost_ms = (uint64_t)json_integer_value(json_object_get(row->ms, "lost"));
    t->gpu_lost_ms = (uint64_t)json_integer_value(json_object_get(row->ms, "gpu_lost"));
    t->held_ms += t->lost_ms;
    t->gpu_ms += t->gpu_lost_ms;
    if (t->gpu_lost_ms)
        t->gpus = PL_MAX(t->gpus, (uint64_t)json_integer_value(json_object_get(row->ms, "gpus")));
}

/* Makes a job from its database row, with its plan if it had one, and adds it to the engine's maps. Fills in
 * `ev` except for the texts of the row. */
static int take_job(struct pl_engine *e, const struct job_row *row, uint64_t order, struct pl_sched_event *ev,
                    struct ended *ended, struct pl_ejob **ret, struct pl_err *err)
{
    struct pl_estage *stage;
    struct pl_ejob *j;
    int r = pl_engine_stage(e, (uint64_t)row->version, &stage, err);

    /* a job from a recovered log has no scheduler id (`live`). Its row id is used instead, because row ids
     * are smaller than all ids that the scheduler assigns */
    r = r < 0 ? r : pl_engine_add_job(e, row->live ? (uint64_t)row->live : (uint64_t)row->id, order, row->run, stage, &j, err);
    if (r < 0)
        return r;
    j->row = row->id;
    j->created_us = row->created_us;
    j->started_us = row->started_us;
    j->state = row->state;
    j->over = row->final;
    if (!row->final) {
        r = restore_counters(e, j, err);
        if (r == 0 && row->planned && restore_plan(e, j, row, ended, ev, err) < 0)
            ev->job.n_ended = 0;
        restore_lost(j, row);
    }
    ev->job.id = j->id;
    ev->job.stage = stage->stage;
    ev->job.version = stage->version;
    ev->job.state = row->final || j->planned ? row->state : PL_SCHED_CREATED;
    ev->job.planned = j->planned;
    ev->job.datums = j->plan ? j->plan->n_total : 0;
    ev->job.to_run = j->n_rows;
    ev->job.busy_ms = row->busy_ms;
    *ret = j;
    return r;
}

/* Gives one restored job to the scheduler. A job that the scheduler refuses is logged and dropped. */
static int restore_job(struct pl_engine *e, int64_t id, uint64_t order, struct pl_err *err)
{
    static const char superseded[] = "superseded by run ";
    _cleanup_(job_row_finish) struct job_row row = {0};
    _cleanup_(ended_finish) struct ended ended = {0};
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_RESTORE_JOB};
    char by[PL_ID_HEX + 1];
    struct pl_ejob *j;
    int64_t leases = 0;
    int r = read_job(e->conn, id, &row, err);

    r = r < 0 ? r : pl_sql_int(e->conn, err, &leases, "SELECT count(*) FROM lease WHERE job = ?", "i", id);
    if (r < 0)
        return r;
    r = take_job(e, &row, order, &ev, &ended, &j, err);
    if (r == PL_ENOTFOUND)
        return 0; /* the job's pipeline was deleted a moment ago; the daemon's next start ends the job */
    if (r < 0)
        return r;
    ev.job.run = row.run;
    ev.job.text = row.reason;
    ev.job.leased = leases > 0 || ev.job.n_ended > 0;
    if (strncmp(row.reason, superseded, sizeof superseded - 1) == 0 &&
        pl_db_run_find(e->conn, row.reason + sizeof superseded - 1, by, NULL) == 0)
        ev.job.superseded_by = by;
    r = pl_engine_feed(e, &ev, err);
    if (r == 0 && row.final)
        pl_engine_forget_job(e, j);
    if (r == 0 || r == PL_ENOMEM)
        return r;
    pl_log_error("engine", "job %s of run %.8s cannot be restored: %s", j->stage->def->name, row.run, err->msg);
    pl_engine_forget_job(e, j);
    return 0;
}

static int restore_runs(struct pl_engine *e, struct pl_err *err)
{
    int r;

    for (;;) {
        _cleanup_(run_input_finish) struct run_input in = {0};
        _cleanup_free_ int64_t *jobs = NULL;
        size_t n = 0;

        r = next_run(e, e->last_order, &in, err);
        if (r <= 0)
            return r;
        r = feed_run(e, PL_SCHED_EV_RESTORE_RUN, &in, err);
        r = r < 0 ? r : read_ids(e, "SELECT id FROM job WHERE run = ? ORDER BY id", in.id, &jobs, &n, err);
        for (size_t i = 0; r >= 0 && i < n; i++)
            r = restore_job(e, jobs[i], in.order, err);
        if (r < 0)
            return pl_err_wrap(err, r, "run %.8s", in.id);
    }
}

struct worker_row {
    int64_t id, stage, pid, pid_start, created_us;
    enum pl_pod_kind pod;
    bool network_off;
    uint16_t gpus[PL_SCHED_WORKER_GPUS_MAX];
    size_t n_gpus;
    char incarnation[64], host[128];
};

/* Reads a row of table `worker`. */
static int read_worker(struct pl_engine *e, int64_t id, struct worker_row *ret, struct pl_err *err)
{
    const struct pl_db_reading rd = {NULL, e->conn};
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    _cleanup_(json_decrefp) json_t *gpus = NULL;
    int r = pl_sql_query(
        rd.conn, err, &rows,
        "SELECT stage, incarnation, gpus, host, pid, pid_start, pod, network_off, created_us FROM worker WHERE id = ?", "i", id);

    r = r < 0 ? r : pl_sql_next(rd.conn, &rows, err);
    if (r <= 0)
        return r < 0 ? r : pl_err_set(err, PL_EINTERNAL, "a row of table worker is missing");
    ret->id = id;
    ret->stage = pl_col_int(&rows, 0);
    snprintf(ret->incarnation, sizeof ret->incarnation, "%s", pl_col_text(&rows, 1));
    gpus = pl_col_json(&rows, 2);
    if (!gpus)
        return pl_err_nomem(err);
    for (size_t i = 0; i < json_array_size(gpus) && i < PL_SCHED_WORKER_GPUS_MAX; i++)
        ret->gpus[ret->n_gpus++] = (uint16_t)json_integer_value(json_array_get(gpus, i));
    snprintf(ret->host, sizeof ret->host, "%s", pl_col_text(&rows, 3));
    ret->pid = pl_col_int(&rows, 4);
    ret->pid_start = pl_col_int(&rows, 5);
    ret->pod = (enum pl_pod_kind)pl_col_int(&rows, 6);
    ret->network_off = pl_col_int(&rows, 7) != 0;
    ret->created_us = pl_col_int(&rows, 8);
    return 0;
}

/* Stops a worker whose stage is gone, or that the scheduler refused. */
static void send_away(struct pl_engine *e, const struct pl_worker_spec *spec, const struct worker_row *row)
{
    e->executor->ops->adopt(e->executor, spec, row->pid, row->pid_start);
    e->executor->ops->stop(e->executor, spec->id, true);
}

/* Gives one restored worker to the scheduler, and lets the executor adopt the worker's process or pod. */
static int restore_worker(struct pl_engine *e, int64_t id, struct pl_err *err)
{
    struct pl_engine_worker_texts texts;
    struct pl_worker_spec spec = {.id = (uint64_t)id};
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_RESTORE_WORKER};
    struct worker_row row = {0};
    struct pl_estage *stage;
    struct pl_eworker *w;
    int r = read_worker(e, id, &row, err);

    r = r < 0 ? r : pl_engine_stage(e, (uint64_t)row.stage, &stage, err);
    if (r == PL_ENOTFOUND) {
        send_away(e, &spec, &row);
        return 0;
    }
    r = r < 0 ? r : pl_engine_add_worker(e, (uint64_t)id, stage, row.gpus, row.n_gpus, &w, err);
    if (r < 0)
        return r;
    snprintf(w->incarnation, sizeof w->incarnation, "%s", row.incarnation);
    /* the row has an incarnation, so the worker's first token was exchanged */
    if (pl_engine_incarnation_ok(row.incarnation))
        r = pl_worker_tokens_exchange(e->doors, (uint64_t)id, row.incarnation, err);
    if (r < 0)
        return r;
    snprintf(w->host, sizeof w->host, "%s", row.host);
    w->pod = row.pod;
    w->network_off = row.network_off;
    pl_engine_worker_spec(e, w, &texts, &spec);
    ev.worker.id = (uint64_t)id;
    ev.worker.stage = stage->stage;
    ev.worker.version = stage->version;
    ev.worker.gpus = row.gpus;
    ev.worker.n_gpus = row.n_gpus;
    ev.worker.starting = !row.incarnation[0];
    ev.worker.node = row.host;
    r = row.pod ? pl_engine_shape(e, stage, spec.gpu, &ev.worker.shape, err) : 0;
    r = r < 0 ? r : pl_engine_feed(e, &ev, err);
    if (r < 0) {
        pl_log_warn("engine", "worker %lld cannot be restored and is stopped: %s", (long long)id, err->msg);
        send_away(e, &spec, &row);
    } else {
        e->executor->ops->adopt(e->executor, &spec, row.pid, row.pid_start);
        pl_worker_record_begin(e, w, NULL, row.created_us);
    }
    return 0;
}

/* Writes to `out` those of the task's datums that are still leased. Datums that ended with a partial result,
 * or that have a newer history, are left out: a newer task may hold them. */
static size_t open_rows(const struct pl_ejob *j, const struct pl_sched_event *task, const struct pl_sched_range *in, size_t n,
                        struct pl_sched_range *out)
{
    size_t m = 0;

    for (size_t i = 0; i < n; i++) {
        for (uint32_t row = in[i].lo; row < in[i].hi && row < j->n_rows; row++) {
            if (j->settled[row] || !pl_job_attempts_of_row(j, row, task->task.failures, task->task.losses))
                continue;
            if (m && out[m - 1].hi == row)
                out[m - 1].hi++;
            else
                out[m++] = (struct pl_sched_range){row, row + 1};
        }
    }
    return m;
}

static void settle_rows(struct pl_ejob *j, const struct pl_sched_range *ranges, size_t n)
{
    for (size_t i = 0; i < n; i++)
        memset(j->settled + ranges[i].lo, 1, ranges[i].hi - ranges[i].lo);
}

/* Gives one restored lease to the scheduler. A lease whose job or worker was not restored is dropped. */
static int restore_task(struct pl_engine *e, int64_t id, struct pl_err *err)
{
    _cleanup_free_ struct pl_sched_range *ranges = NULL, *open = NULL;
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_RESTORE_TASK};
    struct pl_etask *t;
    struct pl_ejob *j;
    int64_t leased_us = 0;
    size_t n = 0, total = 0;
    int r;

    {
        const struct pl_db_reading rd = {NULL, e->conn};
        _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
        _cleanup_(json_decrefp) json_t *list = NULL;

        r = pl_sql_query(
            rd.conn, err, &rows,
            "SELECT l.fence, j.live, l.worker, l.rows, l.failures, l.losses, l.leased_us FROM lease l JOIN job j ON j.id = l.job "
            "WHERE l.task = ?",
            "i", id);
        r = r < 0 ? r : pl_sql_next(rd.conn, &rows, err);
        if (r <= 0)
            return r;
        ev.task.task = (uint64_t)id;
        ev.task.fence = (uint64_t)pl_col_int(&rows, 0);
        ev.task.job = (uint64_t)pl_col_int(&rows, 1);
        ev.task.worker = (uint64_t)pl_col_int(&rows, 2);
        list = pl_col_json(&rows, 3);
        ev.task.failures = (uint32_t)pl_col_int(&rows, 4);
        ev.task.losses = (uint32_t)pl_col_int(&rows, 5);
        leased_us = pl_col_int(&rows, 6);
        r = list ? pl_ranges_parse(list, &ranges, &n, err) : pl_err_nomem(err);
        if (r < 0)
            return r;
    }
    j = pl_engine_job(e, ev.task.job);
    if (!j || !j->planned || !pl_engine_worker(e, ev.task.worker))
        return 0;
    for (size_t i = 0; i < n; i++)
        total += ranges[i].hi - ranges[i].lo;
    open = calloc(total + 1, sizeof *open);
    t = calloc(1, sizeof *t);
    if (!open || !t) {
        free(t);
        return pl_err_nomem(err);
    }
    ev.task.n_rows = open_rows(j, &ev, ranges, n, open);
    ev.task.rows = open;
    r = ev.task.n_rows ? pl_engine_feed(e, &ev, err) : PL_ENOTFOUND;
    if (r < 0) {
        free(t);
        return 0; /* the lease is not restored, so its datums run again */
    }
    settle_rows(j, open, ev.task.n_rows);
    *t = (struct pl_etask){.id = ev.task.task, .fence = ev.task.fence, .worker = ev.task.worker, .job = pl_engine_job_ref(j)};
    t->failures = ev.task.failures;
    t->losses = ev.task.losses;
    /* assume that the worker knows of the task; if it does not, reporting the lease's end to it does no
     * harm */
    t->told = true;
    pl_worker_record_leased(e, t->worker, j, leased_us ? leased_us : pl_clock_wall_us());
    return pl_map_put(&e->tasks, &t->id, sizeof t->id, t, NULL, err);
}

static int restore_each(struct pl_engine *e, const char *sql, int (*one)(struct pl_engine *e, int64_t id, struct pl_err *err),
                        struct pl_err *err)
{
    _cleanup_free_ int64_t *ids = NULL;
    size_t n = 0;
    int r = read_ids(e, sql, NULL, &ids, &n, err);

    for (size_t i = 0; r >= 0 && i < n; i++)
        r = one(e, ids[i], err);
    return r;
}

/* ---- jobs that nothing else will end ----
 * Jobs whose pipeline was deleted, and jobs whose run has ended but whose own end was not written before the
 * daemon died. */

/* Reads the job's row, which is then written again in state killed. */
static int read_stray(struct pl_tx *tx, int64_t id, struct pl_job_args *ret, struct pl_rows *rows, struct pl_err *err)
{
    struct pl_conn *c = pl_tx_conn(tx);
    int r = pl_sql_query(
        c, err, rows,
        "SELECT run, project, stage, pipeline, version, base, code, inputs, warnings, counts, ms, bytes, created_us,"
        " coalesce(started_us, 0), NOT EXISTS (SELECT 1 FROM stage s WHERE s.id = job.version) FROM job WHERE id = ?",
        "i", id);

    r = r < 0 ? r : pl_sql_next(c, rows, err);
    if (r <= 0)
        return r;
    *ret = (struct pl_job_args){.run = pl_col_text(rows, 0),
                                .project = pl_col_text(rows, 1),
                                .stage = pl_col_text(rows, 2),
                                .pipeline = pl_col_text(rows, 3),
                                .version = pl_col_int(rows, 4),
                                .base = pl_col_text(rows, 5),
                                .code = pl_col_hash(rows, 6),
                                .inputs = pl_col_json(rows, 7),
                                .warnings = pl_col_json(rows, 8),
                                .counts = pl_col_json(rows, 9),
                                .ms = pl_col_json(rows, 10),
                                .bytes = pl_col_json(rows, 11),
                                .created_us = pl_col_int(rows, 12),
                                .started_us = pl_col_int(rows, 13)};
    ret->state = "killed";
    ret->reason = pl_col_int(rows, 14) ? "its pipeline was deleted" : "the daemon ended before it recorded how this job ended";
    return ret->inputs && ret->warnings && ret->counts && ret->ms && ret->bytes ? 1 : pl_err_nomem(err);
}

static int end_stray_tx(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    struct pl_job_args args = {0};
    int r = read_stray(tx, *(const int64_t *)arg, &args, &rows, err);

    r = r <= 0 ? r : pl_tx_job_end(tx, &args, err);
    json_decref(args.inputs);
    json_decref(args.warnings);
    json_decref(args.counts);
    json_decref(args.ms);
    json_decref(args.bytes);
    return r;
}

static int end_stray(struct pl_engine *e, int64_t id, struct pl_err *err)
{
    return pl_db_run(e->config.db, PL_TX_LOGGED, end_stray_tx, &id, err);
}

/* Frees the parts of jobs that are needed only while the state is restored. */
static void forget_settled(struct pl_engine *e)
{
    const struct pl_map_slot *slot;

    for (size_t i = 0; (slot = pl_map_next(&e->jobs, &i));) {
        struct pl_ejob *j = slot->value;

        free(TAKE_PTR(j->settled));
        free(TAKE_PTR(j->tried));
    }
}

int pl_engine_restore(struct pl_engine *e, struct pl_err *err)
{
    int r;

    r = restore_each(e,
                     "SELECT id FROM job WHERE final = 0 AND (NOT EXISTS (SELECT 1 FROM stage s WHERE s.id = job.version)"
                     " OR NOT EXISTS (SELECT 1 FROM run r WHERE r.id = job.run AND r.state = 'running'))",
                     end_stray, err);
    e->restoring = true;
    r = r < 0 ? r : restore_stages(e, err);
    r = r < 0 ? r : restore_runs(e, err);
    r = r < 0 ? r : restore_each(e, "SELECT id FROM worker ORDER BY id", restore_worker, err);
    /* newest lease first: the datums of an older lease may have been returned and leased again */
    r = r < 0 ? r : restore_each(e, "SELECT task FROM lease ORDER BY task DESC", restore_task, err);
    r = r < 0 ? r : pl_engine_feed(e, &(struct pl_sched_event){.kind = PL_SCHED_EV_RESTORE_DONE}, err);
    e->restoring = false;
    forget_settled(e);
    r = r < 0 ? r : pl_worker_records_restored(e, err);
    if (r >= 0)
        /* the network setting may have changed just before the daemon ended */
        pl_engine_network_changed(e, NULL);
    if (r >= 0 && e->executor->ops->sweep)
        e->executor->ops->sweep(e->executor);
    /* the steps above may have set old stage versions, which old jobs and workers use: set the current
     * versions, and remove the stages that do not exist any more */
    return r < 0 ? r : pl_engine_sync_stages(e, err);
}
