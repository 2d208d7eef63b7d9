/* job_attempts: the history of an unfinished job's datums: failed tries, losses with their workers, and ends
 * without a result, also those that are taken over from an earlier job. Each change is written to the database as a record, so that a restart continues with the
 * same history. Records name datums by row number (the scheduler's number of a datum that must run). */
#include "pipelined/engine/engine_internal.h"

#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"
#include "storage/system/log_line.h"

#include <inttypes.h>

/* History of one datum, while its job is restored. */
struct pl_erow_tried {
    uint32_t failures, losses;
    enum pl_tried_state state;
};

static const char *const states[] = {
    [PL_TRIED_WAITING] = "waiting", [PL_TRIED_FAILED] = "failed", [PL_TRIED_RECOVERED] = "recovered"};

int pl_job_attempts_write(struct pl_conn *c, int64_t job, const struct pl_etried *t, struct pl_err *err)
{
    int r = pl_sql_exec(c, err,
                        "INSERT INTO tried(job, rows, failures, losses, state, reason)"
                        " SELECT id, ?, ?, ?, ?, ? FROM job WHERE id = ? AND final = 0",
                        "siissi", t->rows, (int64_t)t->failures, (int64_t)t->losses, states[t->state], t->reason ? t->reason : "",
                        job);

    return r < 0 ? r : 0;
}

void pl_job_attempts_finish(struct pl_etried *t)
{
    free(t->rows);
    free(t->reason);
    *t = (struct pl_etried){0};
}

char *pl_ranges_text(const struct pl_sched_range *ranges, size_t n)
{
    json_t *list = json_array();
    char *text;

    for (size_t i = 0; i < n; i++)
        json_array_append_new(list, json_pack("[I, I]", (json_int_t)ranges[i].lo, (json_int_t)ranges[i].hi));
    text = pl_json_text(list, JSON_COMPACT);
    json_decref(list);
    return text;
}

int pl_ranges_parse(const json_t *list, struct pl_sched_range **ret, size_t *ret_n, struct pl_err *err)
{
    size_t n = json_array_size(list);
    struct pl_sched_range *ranges = calloc(n + 1, sizeof *ranges);

    if (!ranges)
        return pl_err_nomem(err);
    for (size_t i = 0; i < n; i++) {
        const json_t *pair = json_array_get(list, i);

        ranges[i].lo = (uint32_t)json_integer_value(json_array_get(pair, 0));
        ranges[i].hi = (uint32_t)json_integer_value(json_array_get(pair, 1));
    }
    *ret = ranges;
    *ret_n = n;
    return 0;
}

/* ---- writing changes ---- */

/* A change of history that is being written to the database. */
struct change {
    /* `task`: the task whose lease is deleted with this write; 0 = the lease was deleted already */
    int64_t job, task;
    struct pl_etried tried;
    json_t *attempts; /* rows of table `attempt` of the datums that ended with their worker; NULL = none */
};

static int change_tx(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    const struct change *g = arg;
    const json_t *one;
    size_t i;
    int r = g->task ? pl_sql_exec(pl_tx_conn(tx), err, "DELETE FROM lease WHERE task = ?", "i", g->task) : 0;

    if (r >= 0 && g->tried.rows)
        r = pl_job_attempts_write(pl_tx_conn(tx), g->job, &g->tried, err);
    json_array_foreach(g->attempts, i, one)
    {
        r = r < 0 ? r : pl_attempt_row_write(pl_tx_conn(tx), g->job, one, pl_tx_now_us(tx), err);
    }
    return PL_MIN(r, 0);
}

/* Frees the change. If the write failed, the lease stays in the database. After a restart, a newer lease of
 * the same datums takes precedence over that lease. */
static void change_done(void *arg, int r, const struct pl_err *err)
{
    struct change *g = arg;

    if (r < 0)
        pl_log_warn("engine", "cannot save the attempts of job %" PRId64 ": %s", g->job, err->msg);
    pl_job_attempts_finish(&g->tried);
    json_decref(g->attempts);
    free(g);
}

/* Makes the rows of table `attempt` of all datums of a lease that ended with its worker, in a new list, as far as the
 * job may have more of them. Which of the datums the worker had begun is not known: the first one, if any, so the time
 * is written to that one. */
static json_t *attempts_of(struct pl_engine *e, struct pl_ejob *j, const struct pl_sched_action *a, enum pl_attempt_end end)
{
    const struct pl_etotals before = j->totals;
    uint32_t *kept = a->lease.lost ? &j->lost_kept : &j->failed_kept;
    struct pl_attempt_source source = {.attempt = a->lease.failures + a->lease.lost,
                                       .fence = a->lease.fence,
                                       .worker = a->lease.worker};
    json_t *outcome = a->lease.n_rows && j->plan ? pl_worker_record_lost(e, a, j) : NULL, *list;

    if (!outcome)
        return NULL;
    list = json_array();
    source.pod = json_string_value(json_object_get(outcome, "pod"));
    source.started_us = pl_clock_wall_us() - json_integer_value(json_object_get(json_object_get(outcome, "ms"), "held")) * 1000;
    json_object_set_new(outcome, "state", json_string(a->lease.lost ? "lost" : "failed"));
    if (!a->lease.lost) {
        json_t *ms = json_object_get(outcome, "ms");

        /* the command ended the worker, so it ran; for how long it had waited before that is not known */
        json_object_set(ms, "compute", json_object_get(ms, "held"));
        pl_totals_add(&j->totals, outcome);
    }
    pl_engine_count_attempts(j, &before, a->lease.lost ? PL_ATTEMPT_LOST : end, a->lease.count);
    for (size_t i = 0; i < a->lease.n_rows; i++) {
        for (uint32_t row = a->lease.rows[i].lo; row < a->lease.rows[i].hi && *kept < PL_JOB_ATTEMPTS_KEPT; row++) {
            json_array_append_new(list, pl_attempt_row_make(j, j->rows[row], &source, outcome));
            if (++*kept, json_array_size(list) == 1) {
                json_t *rest = json_copy(outcome);

                json_object_del(rest, "ms");
                source.started_us = 0;
                json_decref(outcome);
                outcome = rest;
            }
        }
    }
    json_decref(outcome);
    pl_engine_job_changed(j);
    return list;
}

static void submit(struct pl_engine *e, const struct pl_sched_action *a, int64_t task, enum pl_tried_state state)
{
    struct pl_ejob *j = pl_engine_job(e, a->lease.job);
    struct change *g = calloc(1, sizeof *g);

    if (!g)
        return;
    g->job = j ? j->row : 0; /* the row id is 0 if the job has ended: its end deletes its records */
    g->task = task;
    g->tried = (struct pl_etried){.failures = a->lease.failures, .losses = a->lease.losses, .state = state};
    if (j && a->lease.n_rows)
        g->tried.rows = pl_ranges_text(a->lease.rows, a->lease.n_rows);
    if (a->lease.message && state == PL_TRIED_FAILED)
        g->tried.reason = strdup(a->lease.message);
    if (j && j->row)
        g->attempts = attempts_of(e, j, a, state == PL_TRIED_FAILED ? PL_ATTEMPT_FAILED : PL_ATTEMPT_RETRY);
    pl_engine_submit(e, PL_TX_UNLOGGED, change_tx, change_done, g);
}

void pl_engine_return_task(struct pl_engine *e, const struct pl_sched_action *a)
{
    pl_engine_drop_task(e, a->lease.worker, a->lease.task, a->lease.fence);
    pl_engine_log_loss(e, a);
    submit(e, a, (int64_t)a->lease.task, PL_TRIED_WAITING);
}

void pl_engine_give_up(struct pl_engine *e, const struct pl_sched_action *a)
{
    struct pl_ejob *j = pl_engine_job(e, a->lease.job);

    if (j)
        j->totals.failed += a->lease.count;
    submit(e, a, 0, PL_TRIED_FAILED);
}

/* ---- after a restart ---- */

/* Adds the job's own failed attempts to its totals. */
static int count_attempts(struct pl_ejob *j, struct pl_conn *c, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(
        c, err, &rows,
        "SELECT detail, oom FROM attempt WHERE job = ? AND state = 'failed' AND json_extract(detail, '$.run') IS NULL", "i",
        j->row);

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0) {
        _cleanup_(json_decrefp) json_t *row = pl_col_json(&rows, 0);

        if (!row)
            return pl_err_nomem(err);
        json_object_set_new(row, "oom", json_boolean(pl_col_int(&rows, 1)));
        pl_totals_add(&j->totals, row);
    }
    return r;
}

/* Applies a record to the datums that it names, replacing earlier records. Keeps the reason of the record
 * that contains the failed datum with the lowest number. */
static int take_record(struct pl_ejob *j, const struct pl_rows *record, uint32_t *first_failed, char **reason, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *list = pl_col_json(record, 0);
    _cleanup_free_ struct pl_sched_range *ranges = NULL;
    struct pl_erow_tried now = {.failures = (uint32_t)pl_col_int(record, 1), .losses = (uint32_t)pl_col_int(record, 2)};
    size_t n = 0;
    int r = list ? pl_ranges_parse(list, &ranges, &n, err) : pl_err_nomem(err);

    if (r < 0)
        return r;
    for (unsigned s = 0; s < PL_ARRAY_SIZE(states); s++)
        if (pl_streq(pl_col_text(record, 3), states[s]))
            now.state = s;
    for (size_t i = 0; i < n; i++)
        for (uint32_t row = ranges[i].lo; row < ranges[i].hi && row < j->n_rows; row++)
            j->tried[row] = now;
    if (now.state != PL_TRIED_FAILED || n == 0 || ranges[0].lo >= *first_failed)
        return 0;
    *first_failed = ranges[0].lo;
    free(*reason);
    *reason = strdup(pl_col_text(record, 4));
    return *reason ? 0 : pl_err_nomem(err);
}

static int load(struct pl_ejob *j, struct pl_conn *c, uint32_t *first_failed, char **reason, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows records = {0};
    int r = pl_sql_query(c, err, &records, "SELECT rows, failures, losses, state, reason FROM tried WHERE job = ? ORDER BY id",
                         "i", j->row);

    while (r >= 0 && (r = pl_sql_next(c, &records, err)) > 0) {
        if (!j->tried)
            j->tried = calloc((size_t)j->n_rows + 1, sizeof *j->tried);
        r = j->tried ? take_record(j, &records, first_failed, reason, err) : pl_err_nomem(err);
    }
    return r;
}

/* Marks datums that ended without a result as settled. Counts the failed ones, and describes the first failed
 * one in the event. */
static int settle(struct pl_ejob *j, uint32_t first_failed, const char *reason, struct pl_arena *arena, struct pl_sched_event *ev,
                  struct pl_err *err)
{
    for (uint32_t i = 0; i < j->n_rows; i++) {
        if (j->settled[i] || j->tried[i].state == PL_TRIED_WAITING)
            continue;
        j->settled[i] = 1;
        j->totals.recovered += j->tried[i].state == PL_TRIED_RECOVERED;
        ev->job.failed += j->tried[i].state == PL_TRIED_FAILED;
    }
    j->totals.failed += ev->job.failed;
    if (ev->job.failed > 0 && first_failed < j->n_rows) {
        char *label = pl_arena_alloc(arena, 256), *message = pl_arena_strdup(arena, reason);

        if (!label || !message)
            return pl_err_nomem(err);
        ev->job.first_failed = (struct pl_sched_row){.index = first_failed,
                                                     .failed = true,
                                                     .label = pl_plan_datum_text(j->plan, j->rows[first_failed], label, 256),
                                                     .message = message};
    }
    return 0;
}

/* Lists the waiting datums that have failures or losses, as ranges of equal history. */
static int waiting(const struct pl_ejob *j, struct pl_arena *arena, struct pl_sched_event *ev, struct pl_err *err)
{
    struct pl_sched_tried *list = NULL;
    size_t n = 0;

    for (int fill = 0; fill <= 1; fill++) {
        n = 0;
        for (uint32_t i = 0; i < j->n_rows; i++) {
            const struct pl_erow_tried *t = &j->tried[i];
            bool goes_on = i > 0 && !j->settled[i - 1] && t[0].failures == t[-1].failures && t[0].losses == t[-1].losses;

            if (j->settled[i] || t->failures + t->losses == 0)
                continue;
            if (fill && goes_on)
                list[n - 1].rows.hi++;
            else if (fill)
                list[n] = (struct pl_sched_tried){{i, i + 1}, t->failures, t->losses};
            n += !goes_on;
        }
        if (!fill && n > 0 && !(list = pl_arena_alloc(arena, n * sizeof *list)))
            return pl_err_nomem(err);
    }
    ev->job.tried = list;
    ev->job.n_tried = n;
    return 0;
}

int pl_job_attempts_load(struct pl_ejob *j, struct pl_conn *c, struct pl_arena *arena, struct pl_sched_event *ev,
                         struct pl_err *err)
{
    _cleanup_free_ char *reason = NULL;
    uint32_t first_failed = UINT32_MAX;
    int r = count_attempts(j, c, err);

    r = r < 0 ? r : load(j, c, &first_failed, &reason, err);
    if (r < 0 || !j->tried)
        return r;
    r = settle(j, first_failed, reason, arena, ev, err);
    return r < 0 ? r : waiting(j, arena, ev, err);
}

bool pl_job_attempts_of_row(const struct pl_ejob *j, uint32_t row, uint32_t failures, uint32_t losses)
{
    const struct pl_erow_tried none = {0}, *t = j->tried ? &j->tried[row] : &none;

    return t->failures == failures && t->losses == losses;
}

static int forget_tx(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    return PL_MIN(pl_sql_exec(pl_tx_conn(tx), err, "DELETE FROM tried WHERE job = ?", "i", *(const int64_t *)arg), 0);
}

int pl_job_attempts_forget(struct pl_ejob *j, struct pl_err *err)
{
    return pl_db_run(j->engine->config.db, PL_TX_UNLOGGED, forget_tx, &j->row, err);
}

/* ---- rows that the run leaves untried ---- */

int pl_job_untried_read(struct pl_ejob *j, struct pl_conn *c, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows,
                         "SELECT json_extract(e.value, '$[2]'), coalesce(run.of_run, '') FROM run, json_each(run.stages) e"
                         " WHERE run.id = ? AND json_extract(e.value, '$[0]') = ? AND json_extract(e.value, '$[1]') = ?"
                         " AND json_type(e.value, '$[2]') = 'object'",
                         "sss", j->run, j->stage->project, j->stage->def->name);

    r = r < 0 ? r : pl_sql_next(c, &rows, err);
    if (r <= 0)
        return r;
    j->untried.ids = pl_col_json(&rows, 0);
    snprintf(j->untried.of, sizeof j->untried.of, "%s", pl_col_text(&rows, 1));
    return j->untried.ids ? 0 : pl_err_nomem(err);
}

/* Adds a row that is above all rows of the set. */
static int add_row(struct pl_erow_set *set, uint32_t row, struct pl_err *err)
{
    struct pl_sched_range *grown;

    set->count++;
    if (set->n && set->items[set->n - 1].hi == row) {
        set->items[set->n - 1].hi++;
        return 0;
    }
    grown = realloc(set->items, (set->n + 1) * sizeof *grown);
    if (!grown)
        return pl_err_nomem(err);
    set->items = grown;
    set->items[set->n++] = (struct pl_sched_range){row, row + 1};
    return 0;
}

/* Maps the ids of one list to `set`. */
static int map_ids(struct pl_map *m, const json_t *ids, struct pl_erow_set *set, struct pl_err *err)
{
    const json_t *id;
    size_t i;
    int r = 0;

    json_array_foreach(ids, i, id)
    {
        struct pl_hash hash;

        r = r < 0 ? r : pl_hash_parse(json_string_value(id) ? json_string_value(id) : "", &hash, err);
        r = r < 0 ? r : pl_map_put(m, hash.b, sizeof hash.b, set, NULL, err);
    }
    return r;
}

int pl_job_untried_find(struct pl_ejob *j, struct pl_err *err)
{
    struct pl_euntried *u = &j->untried;
    struct pl_map sets = {0};
    int r;

    if (!u->ids)
        return 0;
    r = map_ids(&sets, json_object_get(u->ids, "failed"), &u->failed, err);
    r = r < 0 ? r : map_ids(&sets, json_object_get(u->ids, "recovered"), &u->recovered, err);
    for (uint32_t row = 0; r >= 0 && row < j->n_rows; row++) {
        struct pl_erow_set *set;
        struct pl_hash id;

        pl_plan_datum_id(j->plan, j->rows[row], &id);
        set = pl_map_get(&sets, id.b, sizeof id.b);
        r = set ? add_row(set, row, err) : 0;
        r = r < 0 || !set ? r : add_row(&u->all, row, err);
    }
    pl_map_finish(&sets, NULL);
    return r;
}

/* Copies the attempts of one datum from the earlier job. They name the run in which they were made, and no worker, for none
 * of this job made them. */
static int copy_attempts(struct pl_ejob *j, struct pl_conn *c, int64_t job, const struct pl_hash *datum, struct pl_err *err)
{
    int r = pl_sql_exec(c, err,
                        "INSERT OR IGNORE INTO attempt(job, datum, attempt, fence, state, exit_code, signal, oom, timed_out,"
                        " reason, tail, detail, finished_us) SELECT ?1, a.datum, a.attempt, a.fence, a.state, a.exit_code,"
                        " a.signal, a.oom, a.timed_out, a.reason, a.tail,"
                        " json_remove(json_set(a.detail, '$.run', coalesce(json_extract(a.detail, '$.run'), ?2)), '$.worker'),"
                        " a.finished_us"
                        " FROM attempt a JOIN job b ON b.id = a.job WHERE b.run = ?2 AND b.project = ?3 AND b.stage = ?4"
                        " AND a.datum = ?5",
                        "isssb", job, j->untried.of, j->stage->project, j->stage->def->name, datum->b, (size_t)PL_HASH_BYTES);
    return PL_MIN(r, 0);
}

/* Reads what the job says of its first failed row. */
static int read_message(struct pl_ejob *j, struct pl_conn *c, int64_t job, struct pl_err *err)
{
    _cleanup_(pl_arena_destroyp) struct pl_arena *arena = pl_arena_create(0);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    _cleanup_(json_decrefp) json_t *attempt = NULL;
    struct pl_hash id;
    int r;

    pl_plan_datum_id(j->plan, j->rows[j->untried.failed.items[0].lo], &id);
    r = arena ? pl_sql_query(c, err, &rows,
                             "SELECT reason, tail, coalesce(exit_code, 0) FROM attempt WHERE job = ? AND datum = ?"
                             " ORDER BY attempt DESC, fence DESC LIMIT 1",
                             "ib", job, id.b, (size_t)PL_HASH_BYTES)
              : pl_err_nomem(err);
    r = r < 0 ? r : pl_sql_next(c, &rows, err);
    if (r <= 0)
        return r;
    attempt = json_pack("{s:s, s:s, s:I}", "reason", pl_col_text(&rows, 0), "tail", pl_col_text(&rows, 1), "exit_code",
                        (json_int_t)pl_col_int(&rows, 2));
    free(j->untried.message);
    j->untried.message = attempt ? strdup(pl_result_message(attempt, arena)) : NULL;
    return j->untried.message ? 0 : pl_err_nomem(err);
}

static int write_ended(struct pl_conn *c, int64_t job, const struct pl_erow_set *set, enum pl_tried_state state, char *reason,
                       struct pl_err *err)
{
    const struct pl_etried tried = {.rows = pl_ranges_text(set->items, set->n), .state = state, .reason = reason};
    int r = set->n == 0 ? 0 : tried.rows ? pl_job_attempts_write(c, job, &tried, err) : pl_err_nomem(err);

    free(tried.rows);
    return r;
}

int pl_job_untried_write(struct pl_ejob *j, struct pl_conn *c, int64_t job, struct pl_err *err)
{
    struct pl_euntried *u = &j->untried;
    int64_t kept = 0;
    int r = 0;

    if (u->all.n == 0)
        return 0;
    for (size_t i = 0; r >= 0 && i < u->all.n; i++) {
        for (uint32_t row = u->all.items[i].lo; r >= 0 && row < u->all.items[i].hi; row++) {
            struct pl_hash id;

            pl_plan_datum_id(j->plan, j->rows[row], &id);
            r = copy_attempts(j, c, job, &id, err);
        }
    }
    r = r < 0 || u->failed.n == 0 ? r : read_message(j, c, job, err);
    r = r < 0 ? r : write_ended(c, job, &u->failed, PL_TRIED_FAILED, u->message, err);
    r = r < 0 ? r : write_ended(c, job, &u->recovered, PL_TRIED_RECOVERED, NULL, err);
    r = r < 0 ? r : pl_sql_int(c, err, &kept, "SELECT count(*) FROM attempt WHERE job = ? AND state = 'failed'", "i", job);
    u->kept = (uint32_t)kept;
    return PL_MIN(r, 0);
}

void pl_job_untried_finish(struct pl_euntried *u)
{
    json_decref(u->ids);
    free(u->all.items);
    free(u->failed.items);
    free(u->recovered.items);
    free(u->message);
    *u = (struct pl_euntried){0};
}
