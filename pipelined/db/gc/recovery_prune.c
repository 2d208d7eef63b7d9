/* Checks for each job whether the records that its results and its log refer to exist. Trees that were found
 * complete are remembered in a mark. */
#include "pipelined/db/gc/recovery_prune.h"

#include "pipelined/db/gc/gc_roots.h"
#include "pipelined/db/gc/result_codec.h"
#include "storage/base/clock.h"
#include "storage/system/log_line.h"

struct looking {
    struct pl_db *db; /* NULL = logs only, dropped through `conn` */
    struct pl_project_stores *stores;
    struct pl_conn *conn;
    struct pl_gc_mark *mark; /* of the current project; a record marked in it exists, with everything below it */
    int64_t results, logs;   /* number of jobs whose results, and whose logs, were dropped */
};

/* ---- checks ---- */

/* True for errors that mean that a record does not exist or is damaged. After other errors it may exist. */
static bool is_gone(int r)
{
    return r == PL_ENOTFOUND || r == PL_ECORRUPT || r == PL_EFORMAT;
}

static int begin_mark(struct looking *l, struct pl_store *store, struct pl_err *err)
{
    _cleanup_(pl_gc_mark_destroyp) struct pl_gc_mark *mark = NULL;
    struct pl_gc_mark_config config = {.store = store};
    int r = l->mark ? 0 : pl_gc_mark_create(&config, &mark, err);

    if (r < 0 || l->mark)
        return r;
    r = pl_gc_mark_begin(mark, err);
    if (r == 0)
        l->mark = TAKE_PTR(mark);
    return r;
}

/* Destroys the mark after a missing record was found. The mark contains tree nodes above the missing record,
 * and a marked node would count as complete. */
static void forget_mark(struct looking *l)
{
    l->mark = pl_gc_mark_destroy(l->mark);
}

/* Says whether a record that the job's results refer to is missing. */
static int results_gone(struct looking *l, struct pl_store *store, int64_t job, bool *ret, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    struct pl_gc_mark_stats stats = {0};
    int r = begin_mark(l, store, err);

    r = r < 0 ? r : pl_sql_query(l->conn, err, &rows, "SELECT rows FROM result WHERE job = ?", "i", job);
    while (r >= 0 && !*ret && (r = pl_sql_next(l->conn, &rows, err)) > 0) {
        _cleanup_(json_decrefp) json_t *list = NULL;
        struct pl_err why = {0};

        r = pl_result_codec_column(&rows, 0, &list, err);
        if (r < 0)
            return r;
        r = pl_gc_mark_results(l->mark, list, &why);
        pl_gc_mark_stats(l->mark, &stats);
        *ret = is_gone(r) || stats.missing > 0;
        if (r < 0 && !*ret)
            *err = why;
        r = *ret ? 0 : r;
    }
    if (*ret)
        forget_mark(l);
    return PL_MIN(r, 0);
}

static int log_gone(struct looking *l, struct pl_store *store, int64_t job, bool *ret, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    struct pl_location at;
    int r = pl_sql_query(l->conn, err, &rows, "SELECT blob FROM log_segment WHERE job = ? AND length(blob) > 0", "i", job);

    while (r >= 0 && !*ret && (r = pl_sql_next(l->conn, &rows, err)) > 0) {
        struct pl_hash blob = pl_col_hash(&rows, 0);

        *ret = pl_store_locate(store, &blob, &at, NULL) < 0;
    }
    return PL_MIN(r, 0);
}

/* ---- drops ---- */

struct gone {
    int64_t job;
    bool results, log;
};

static int drop(struct pl_conn *c, const struct gone *g, struct pl_err *err)
{
    int r = 0;

    if (g->results)
        r = pl_sql_exec(c, err, "DELETE FROM result WHERE job = ?", "i", g->job);
    if (g->results && r >= 0)
        r = pl_sql_exec(c, err, "UPDATE job SET kept = 0 WHERE id = ?", "i", g->job);
    if (g->log && r >= 0)
        r = pl_sql_exec(c, err, "DELETE FROM log_segment WHERE job = ?", "i", g->job);
    if (g->log && r >= 0)
        r = pl_sql_exec(c, err,
                        "INSERT INTO log_segment(job, id, worker, blob, raw_bytes, created_us) VALUES (?, 0, '', x'', 0, ?)",
                        "ii", g->job, pl_clock_wall_us());
    return PL_MIN(r, 0);
}

static int drop_tx(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    return drop(pl_tx_conn(tx), arg, err);
}

static int look_at(struct looking *l, struct pl_store *store, int64_t job, struct pl_err *err)
{
    struct gone gone = {.job = job};
    int r = l->db ? results_gone(l, store, job, &gone.results, err) : 0;

    r = r < 0 ? r : log_gone(l, store, job, &gone.log, err);
    if (r < 0)
        return pl_err_wrap(err, r, "results of job %lld", (long long)job);
    l->results += gone.results;
    l->logs += gone.log;
    if (!gone.results && !gone.log)
        return 0;
    return l->db ? pl_db_run(l->db, PL_TX_UNLOGGED, drop_tx, &gone, err) : drop(l->conn, &gone, err);
}

/* ---- all jobs ---- */

/* Visits the jobs by id with one short query each, so that no read transaction lasts. */
static int each_job(struct looking *l, const char *project, struct pl_err *err)
{
    struct pl_store *store;
    int64_t job = 0;
    int r = pl_project_stores_get(l->stores, project, &store, err);

    while (r == 0) {
        r = pl_sql_int(
            l->conn, err, &job,
            "SELECT j.id FROM job j WHERE j.project = ? AND j.id > ? AND (EXISTS (SELECT 1 FROM result WHERE job = j.id)"
            " OR EXISTS (SELECT 1 FROM log_segment WHERE job = j.id)) ORDER BY j.id LIMIT 1",
            "si", project, job);
        r = r < 0 ? r : look_at(l, store, job, err);
    }
    forget_mark(l);
    return r == PL_ENOTFOUND ? 0 : r;
}

static int each_project(struct looking *l, struct pl_err *err)
{
    _cleanup_free_ char *project = strdup("");
    int r = project ? 0 : pl_err_nomem(err);

    while (r == 0) {
        char *next = NULL;

        r = pl_sql_text(l->conn, err, &next, "SELECT project FROM job WHERE project > ? ORDER BY project LIMIT 1", "s", project);
        if (r < 0)
            break;
        free(project);
        project = next;
        r = each_job(l, project, err);
    }
    return r == PL_ENOTFOUND ? 0 : r;
}

static int is_regained(struct pl_db *db, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(db);
    int64_t is = 0;
    int r = pl_sql_int(rd.conn, err, &is, "SELECT EXISTS (SELECT 1 FROM meta WHERE key = 'regained')", "");

    return r < 0 ? r : is != 0;
}

static int note_done(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    (void)arg;
    return PL_MIN(pl_sql_exec(pl_tx_conn(tx), err, "DELETE FROM meta WHERE key = 'regained'", ""), 0);
}

int pl_recovery_prune_results(struct pl_db *db, struct pl_project_stores *stores, struct pl_err *err)
{
    struct looking l = {.db = db, .stores = stores};
    int r = is_regained(db, err);

    if (r <= 0)
        return r;
    r = pl_db_own_reader(db, &l.conn, err);
    r = r < 0 ? r : each_project(&l, err);
    pl_conn_close(l.conn);
    r = r < 0 ? r : pl_db_run(db, PL_TX_UNLOGGED, note_done, NULL, err);
    if (r < 0)
        return pl_err_wrap(err, r, "cannot check the results that the recovery restored");
    if (l.results || l.logs)
        pl_log_warn("recover",
                    "dropped the results of %lld jobs and the logs of %lld: their data was removed after the checkpoint",
                    (long long)l.results, (long long)l.logs);
    return 0;
}

int pl_recovery_prune_logs(struct pl_conn *conn, struct pl_project_stores *stores, struct pl_err *err)
{
    struct looking l = {.stores = stores, .conn = conn};
    int r = each_project(&l, err);

    return r < 0 ? pl_err_wrap(err, r, "cannot check the logs that the recovery restored") : 0;
}
