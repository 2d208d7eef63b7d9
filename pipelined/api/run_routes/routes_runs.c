/* Runs, jobs, datums and metrics: list, inspect, wait, stop, run again. */
#include "pipelined/api/run_routes/job_images.h"
#include "pipelined/api/run_routes/job_json.h"

#include "pipelined/db/pipelines/rerun.h"
#include "pipelined/db/retention/retention.h"
#include "pipelined/db/tx/job_tx.h"
#include "pipelined/plan/datum_table.h"
#include "pipelined/spec/spec.h"
#include "storage/tree/tree_walk.h"

#include <stdio.h>

#define WAIT_MS 25000

/* ---- runs ---- */

/* Finds a run by its id or a prefix of it. The ref "REPO@REF" is not accepted: the client resolves it to a
 * commit, whose id is also the id of its run. */
static int run_of(struct pl_conn *c, const char *text, struct pl_rows *rows, struct pl_err *err)
{
    char id[PL_ID_HEX + 1];
    int r = pl_db_run_find(c, text, id, err);

    r = r < 0 ? r : pl_sql_query(c, err, rows, "SELECT " PL_RUN_COLUMNS " FROM run WHERE id = ?", "s", id);
    r = r < 0 ? r : pl_sql_next(c, rows, err);
    return r < 0 ? r : r == 0 ? pl_err_set(err, PL_ENOTFOUND, "there is no run %s", text) : 0;
}

/* Checks write permission on every stage that has a job in the run. If the run has no jobs, checks write
 * permission on every repo that has a commit in the run. */
static int may_touch_run(struct pl_conn *c, const struct pl_http_request *req, const char *run, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows,
                         "SELECT project, stage FROM job WHERE run = ?1 UNION SELECT r.project, r.name FROM commit_ c"
                         " JOIN repo r ON r.id = c.repo WHERE c.run = ?1 AND NOT EXISTS (SELECT 1 FROM job WHERE run = ?1)",
                         "s", run);

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0)
        r = pl_api_may(req, PL_VERB_WRITE, pl_col_text(&rows, 0), pl_col_text(&rows, 1), err);
    return r;
}

/* Finds the run that the request names and checks that the principal may change it. PL_ENOTFOUND: no run has
 * this id, or the principal may see nothing of the run. */
static int find_own(struct pl_conn *c, const struct pl_http_request *req, char ret_id[PL_ID_HEX + 1], struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = run_of(c, pl_http_param(req, "run"), &rows, err);

    if (r < 0)
        return r;
    snprintf(ret_id, PL_ID_HEX + 1, "%s", pl_col_text(&rows, 0));
    return may_touch_run(c, req, ret_id, err);
}

static int stop_run(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    char id[PL_ID_HEX + 1];
    int r;

    {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_api_read(a, req);

        r = find_own(rd.conn, req, id, err);
    }
    r = r < 0 ? r : a->config.engine->stop(a->config.engine_self, id, NULL, NULL, "stopped by a user", err);
    if (r < 0)
        return r;
    *ret = json_pack("{s:s}", "stopped", id);
    return 0;
}

/* Runs the jobs of a run again: all, or those that failed. */
static int rerun(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *body = NULL;
    struct pl_rerun_args args = {0};
    char id[PL_ID_HEX + 1];
    int failed = 0, r = pl_api_body(req, &body, err, "{s?:b, s?:s}", "failed", &failed, "as", &args.as);

    if (r == 0) {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_api_read(a, req);

        r = find_own(rd.conn, req, id, err);
    }
    args.of = id;
    args.failed = failed;
    args.asker = pl_api_asker(req);
    r = r < 0 ? r : pl_db_run(a->config.db, PL_TX_LOGGED, pl_tx_rerun, &args, err);
    if (r == 0) {
        json_t *names = json_array();

        for (size_t i = 0; i < json_array_size(args.stages); i++)
            json_array_append(names, json_array_get(json_array_get(args.stages, i), 1));
        *ret = json_pack("{s:s, s:s, s:o}", "run", args.run, "of", id, "stages", names);
        a->config.engine->pipelines_changed(a->config.engine_self, args.run);
    }
    json_decref(args.stages);
    return r;
}

/* ---- wait: reply when the run has ended, or after WAIT_MS with its present state ---- */

/* Finds the run that replaced this one, from the reason "superseded by run <id>" of its jobs. Returns 1, or
 * 0. */
static int superseded_by(struct pl_conn *c, const char *run, char ret[PL_ID_HEX + 1], struct pl_err *err)
{
    _cleanup_free_ char *by = NULL;
    int r = pl_sql_text(c, err, &by,
                        "SELECT substr(reason, length('superseded by run ') + 1, 32) FROM job WHERE run = ? AND state = 'killed'"
                        " AND reason LIKE 'superseded by run %' LIMIT 1",
                        "s", run);

    if (r == PL_ENOTFOUND)
        return 0;
    r = r < 0 ? r : pl_db_run_find(c, by, ret, err);
    return r < 0 ? r : 1;
}

/* Makes the reply for a commit that is still open: the commit's run begins when the commit is finished. */
static int not_begun(const char *id, json_t **ret)
{
    *ret = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:n, s:b}", "id", id, "state", "running", "reason",
                     "its commit is open: the run begins when it is finished", "message", "", "cause", "push", "created_us",
                     (json_int_t)0, "finished_us", "done", 0);
    return 0;
}

/* Makes the reply for an open commit that ended without a finished commit, and so without a run. The reply's
 * `done` is true. If the open commit changed nothing, `unchanged_at` is the id of the head commit, which has
 * the same content. */
static int never_began(struct pl_conn *c, const char *id, json_t **ret)
{
    struct pl_open_commit_end end;

    if (pl_open_commit_end_find(c, NULL, NULL, id, &end, NULL) < 0)
        return PL_ENOTFOUND;
    *ret = json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:n, s:b, s:s?}", "id", end.commit, "state",
                     end.unchanged ? "success" : "killed", "reason", end.reason, "message", "", "cause", "push", "created_us",
                     (json_int_t)0, "finished_us", "done", 1, "unchanged_at", end.unchanged ? end.head : NULL);
    return *ret ? 1 : PL_ENOMEM;
}

/* Checks whether the request's run has ended (pl_run_waiters_fn). */
static int look_at_run(void *self, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    struct pl_api *a = self;
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_api_read(a, req);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    char next[PL_ID_HEX + 1];
    json_t *out;
    bool done;
    int r;

    if (pl_open_commits_has(a->services.opens, rd.conn, pl_http_param(req, "run")))
        return not_begun(pl_http_param(req, "run"), ret);
    r = run_of(rd.conn, pl_http_param(req, "run"), &rows, err);
    if (r == PL_ENOTFOUND && never_began(rd.conn, pl_http_param(req, "run"), ret) > 0)
        return 1;
    if (r < 0)
        return r;
    done = !pl_streq(pl_col_text(&rows, 1), "running");
    out = pl_run_row_json(&rows);
    json_object_set_new(out, "done", json_boolean(done));
    if (done && superseded_by(rd.conn, pl_col_text(&rows, 0), next, NULL) > 0)
        json_object_set_new(out, "superseded_by", json_string(next));
    *ret = out;
    return done;
}

static int open_waits(struct pl_api *a, struct pl_err *err)
{
    return pl_run_waiters_create(a->config.loop, a->config.pool, look_at_run, a, &a->waits, err);
}

static void wait_run(struct pl_api *a, struct pl_http_request *req)
{
    struct pl_err err = {0};
    uint64_t ms = WAIT_MS;

    if (pl_http_query_u64(req, "timeout_ms", WAIT_MS, WAIT_MS, &ms, &err) < 0)
        pl_http_reply_error(req, &err);
    else
        pl_run_waiters_add(a->waits, req, ms);
}

/* ---- jobs ---- */

/* Refuses a state that no job can have. */
static int check_job_state(const char *state, struct pl_err *err)
{
    static const char *const known[] = {"created", "starting", "running", "finishing",
                                        "success", "failure",  "killed",  "unrunnable"};

    for (size_t i = 0; i < PL_ARRAY_SIZE(known); i++)
        if (!state || pl_streq(state, known[i]))
            return 0;
    return pl_err_field(err,
                        pl_err_set(err, PL_EINVAL,
                                   "state \"%.64s\": use created, starting, running, finishing, success, failure, killed or "
                                   "unrunnable",
                                   state),
                        "state");
}

/* Refuses a stage that there never was. */
static int check_stage(struct pl_conn *c, const char *project, const char *stage, struct pl_err *err)
{
    _cleanup_free_ char *names = NULL;
    int64_t one;
    int r = !stage
                ? 0
                : pl_sql_int(c, err, &one,
                             "SELECT 1 FROM stage WHERE name = ?1 AND project = coalesce(?2, project) AND readable(project, name)"
                             " UNION ALL SELECT 1 FROM job WHERE stage = ?1 AND project = coalesce(?2, project)"
                             " AND readable(project, stage) LIMIT 1",
                             "ss", stage, project);

    if (r != PL_ENOTFOUND)
        return r;
    r = pl_err_field(err,
                     pl_err_set(err, r, "there is no stage \"%.64s\"%s%.64s", stage, project ? " in project " : "",
                                project ? project : ""),
                     "stage");
    if (pl_sql_text(c, NULL, &names,
                    "SELECT group_concat(name, ', ') FROM (SELECT DISTINCT name FROM stage WHERE current = 1 AND"
                    " project = coalesce(?, project) AND readable(project, name) ORDER BY name LIMIT 20) HAVING count(*) > 0",
                    "s", project) == 0)
        r = pl_err_hint(err, r, "There are: %s", names);
    return r;
}

static int read_jobs(struct pl_api *a, const struct pl_http_request *req, json_t *list, int64_t *ret_next, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_api_read(a, req);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    const char *run = pl_http_query(req, "run"), *stage = pl_http_query(req, "stage"), *state = pl_http_query(req, "state"),
               *project;
    char id[PL_ID_HEX + 1] = "";
    struct pl_api_page page;
    int64_t before = 0, last = 0;
    int r = pl_api_page_read(req, &page, err);

    r = r < 0 ? r : pl_api_page_number(&page, INT64_MAX, &before, err);
    r = r < 0 ? r : check_job_state(state, err);
    r = r < 0 ? r : pl_api_project_filter(req, rd.conn, &project, err);
    r = r < 0 ? r : check_stage(rd.conn, project, stage, err);
    if (r == 0 && run)
        r = pl_db_run_find(rd.conn, run, id, err);
    r = r < 0
            ? r
            : pl_sql_query(rd.conn, err, &rows,
                           PL_JOB_COLUMNS
                           " FROM job j WHERE j.id < ?1 AND (?2 = '' OR j.run = ?2) AND (?3 IS NULL OR j.stage = ?3)"
                           " AND (?4 IS NULL OR j.state = ?4) AND (?5 IS NULL OR j.project = ?5) AND readable(j.project, j.stage)"
                           " ORDER BY j.id DESC LIMIT ?6",
                           "issssi", before, id, stage, state, project, (int64_t)page.limit);
    while (r >= 0 && (r = pl_sql_next(rd.conn, &rows, err)) > 0) {
        json_array_append_new(list, pl_job_row_json(&rows, false));
        last = pl_col_int(&rows, 0);
    }
    *ret_next = r == 0 && json_array_size(list) == page.limit ? last : 0;
    return r;
}

static int list_jobs(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *list = json_array();
    char text[32];
    int64_t next;
    int r = read_jobs(a, req, list, &next, err);

    if (r < 0)
        return r;
    pl_jobs_add_live(a, list);
    snprintf(text, sizeof text, "%lld", (long long)next);
    *ret = pl_api_list("jobs", TAKE_PTR(list), next ? text : NULL);
    return 0;
}

static int find_job(struct pl_conn *c, struct pl_http_request *req, int64_t *ret_id, char ret_run[PL_ID_HEX + 1],
                    struct pl_err *err)
{
    return pl_api_job_find(c, pl_http_param(req, "project"), pl_http_param(req, "stage"), pl_http_param(req, "run"), ret_id,
                           ret_run, err);
}

static int read_job(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    char run[PL_ID_HEX + 1];
    int64_t id = 0;
    int r = find_job(rd.conn, req, &id, run, err);

    r = r < 0 ? r : pl_sql_query(rd.conn, err, &rows, PL_JOB_COLUMNS " FROM job j WHERE j.id = ?", "i", id);
    r = r < 0 ? r : pl_sql_next(rd.conn, &rows, err);
    if (r < 0)
        return r;
    *ret = pl_job_row_json(&rows, true);
    r = pl_job_workers_add(rd.conn, id, *ret, err);
    return r < 0 ? r : pl_job_images_add(rd.conn, id, *ret, err); /* the caller releases `*ret` also after an error */
}

static int inspect_job(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    int r = read_job(a, req, ret, err);

    if (r == 0)
        pl_job_add_live(a, *ret);
    return r < 0 ? r : pl_job_add_waits(a, req, *ret, err);
}

/* Replies with the spec and code that the job ran. The pipeline may have been changed since; the reply does
 * not show these changes. */
static int job_spec(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    char run[PL_ID_HEX + 1];
    struct pl_hash code;
    json_t *spec;
    int64_t id = 0;
    bool off = false;
    int r = find_job(rd.conn, req, &id, run, err);

    r = r < 0 ? r : pl_db_network_off(rd.conn, pl_http_param(req, "project"), &off, err);
    r = r < 0 ? r
              : pl_sql_query(rd.conn, err, &rows,
                             "SELECT j.pipeline, s.version, s.spec, s.code_root FROM job j JOIN stage s ON s.id = j.version"
                             " WHERE j.id = ?",
                             "i", id);
    r = r < 0 ? r : pl_sql_next(rd.conn, &rows, err);
    if (r == 0)
        r = pl_err_set(err, PL_ENOTFOUND, "the pipeline of job %s of run %.8s was deleted", pl_http_param(req, "stage"), run);
    if (r < 0)
        return r;
    code = pl_col_hash(&rows, 3);
    spec = pl_col_json(&rows, 2);
    if (off) /* the workers of this project have no network, whatever the spec says */
        json_object_set_new(spec, "network", json_false());
    *ret = json_pack("{s:s, s:s, s:I, s:o, s:o}", "run", run, "pipeline", pl_col_text(&rows, 0), "version",
                     (json_int_t)pl_col_int(&rows, 1), "spec", spec, "code_root", pl_api_hash_json(&code));
    return 0;
}

static int stop_job(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    const char *project = pl_http_param(req, "project"), *stage = pl_http_param(req, "stage");
    char run[PL_ID_HEX + 1];
    int64_t id = 0;
    int r;

    {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);

        r = find_job(rd.conn, req, &id, run, err);
    }
    r = r < 0 ? r : a->config.engine->stop(a->config.engine_self, run, project, stage, "stopped by a user", err);
    if (r < 0)
        return r;
    *ret = json_pack("{s:s, s:s}", "stopped", stage, "run", run);
    return 0;
}

/* ---- metrics ---- */

static int list_metrics(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    const char *asked = pl_http_query(req, "run");
    char run[PL_ID_HEX + 1], last[32] = "";
    json_t *list = json_array();
    struct pl_api_page page;
    int64_t id = 0, after = 0;
    size_t n = 0;
    int r = pl_api_page_read(req, &page, err);

    r = r < 0 ? r : pl_api_page_number(&page, -1, &after, err);
    r = r < 0 ? r
              : pl_api_job_find(rd.conn, pl_http_param(req, "project"), pl_http_param(req, "stage"), asked ? asked : "", &id, run,
                                err);
    r = r < 0 ? r
              : pl_sql_query(
                    rd.conn, err, &rows,
                    "SELECT id, datum, at_us, data FROM metric WHERE job = ? AND id > ? AND data <> 'null' ORDER BY id LIMIT ?",
                    "iii", id, after, (int64_t)page.limit);
    while (r >= 0 && (r = pl_sql_next(rd.conn, &rows, err)) > 0) {
        struct pl_hash datum = pl_col_hash(&rows, 1);

        json_array_append_new(list, json_pack("{s:I, s:o, s:I, s:o}", "id", (json_int_t)pl_col_int(&rows, 0), "datum",
                                              pl_api_hash_json(&datum), "at_us", (json_int_t)pl_col_int(&rows, 2), "line",
                                              pl_col_json(&rows, 3)));
        snprintf(last, sizeof last, "%lld", (long long)pl_col_int(&rows, 0));
        n++;
    }
    if (r < 0) {
        json_decref(list);
        return r;
    }
    *ret = pl_api_list("metrics", list, n == page.limit ? last : NULL);
    return 0;
}

static const struct pl_api_route routes[] = {
    {.method = "GET",
     .pattern = "/api/v1/runs/{run}/wait",
     .raw = wait_run,
     .verb = PL_VERB_LIST,
     .summary = "Replies when the run has ended, at the latest after 25 s; `done` says whether it has. For an open commit that "
                "changed nothing when it was finished, `unchanged_at` is its branch's commit, \"\" if the branch has none.",
     .query = "timeout_ms:integer",
     .reply = "Run"},
    {.method = "POST",
     .pattern = "/api/v1/runs/{run}/stop",
     .json = stop_run,
     .verb = PL_VERB_WRITE,
     .asks = true,
     .summary = "Stops every job of the run.",
     .reply = "Stopped"},
    {.method = "POST",
     .pattern = "/api/v1/runs/{run}/rerun",
     .json = rerun,
     .body = PL_BODY_JSON,
     .verb = PL_VERB_WRITE,
     .asks = true,
     .summary = "Runs the run's jobs again over the commits that they read: every datum, or with `failed` what did not succeed. "
                "With `as` the outputs go to that branch of the stages' repos, and no further stages run.",
     .request = "Rerun",
     .reply = "RerunReply"},
    {.method = "GET",
     .pattern = "/api/v1/jobs",
     .json = list_jobs,
     .verb = PL_VERB_LIST,
     .summary = "Lists jobs, newest first.",
     .query = "run stage state project after limit:integer",
     .reply = "JobList"},
    {.method = "GET",
     .pattern = "/api/v1/jobs/{project}/{stage}/{run}",
     .json = inspect_job,
     .verb = PL_VERB_READ,
     .summary = "Returns one job.",
     .reply = "Job"},
    {.method = "GET",
     .pattern = "/api/v1/jobs/{project}/{stage}/{run}/spec",
     .json = job_spec,
     .verb = PL_VERB_READ,
     .summary = "Returns the stage as the job ran it: its effective spec and the tree of its code.",
     .reply = "JobSpec"},
    {.method = "POST",
     .pattern = "/api/v1/jobs/{project}/{stage}/{run}/stop",
     .json = stop_job,
     .verb = PL_VERB_WRITE,
     .summary = "Stops a job.",
     .reply = "Stopped"},
    {.method = "GET",
     .pattern = "/api/v1/metrics/{project}/{stage}",
     .json = list_metrics,
     .verb = PL_VERB_READ,
     .summary = "Lists the lines of a job's metrics.jsonl, in order.",
     .query = "run after limit:integer",
     .reply = "MetricList"},
};

static const struct pl_api_schema schemas[] = {
    {"Rerun", "failed:boolean? as:string?"},
    {"RerunReply", "run:string of:string stages:string[]"},
    {"Datums", "total:integer reused:integer done:integer failed:integer recovered:integer? lost:integer? waiting:integer? "
               "leased:integer? "
               "workers:integer?"},
    {"Job",
     "run:string project:string stage:string pipeline:string version:integer? state:string reason:string warnings:string[] "
     "datums:Datums"
     " ms:object bytes:object device:string? gpu:JobGpu? mem_peak:integer? output:string created_us:integer started_us:integer? "
     "finished_us:integer? "
     "base:string?"
     " images:string[]? code:string? inputs:object[]? attempts:integer? planned:integer? as:string? "
     "origin:GitOrigin? workers:JobWorker[]? workers_lost:integer? waits:Waits?"},
    {"JobWorker", "worker:integer state:string pod:string? node:string started_us:integer ended_us:integer? reason:string "
                  "tasks:integer held:any gpus:integer gpu_ms:integer"},
    {"JobGpu", "held_ms:integer lost_ms:integer waiting_ms:integer measured_ms:integer used_ms:integer? mem_peak:integer?"},
    {"JobList", "jobs:Job[] next:string?"},
    {"JobSpec", "run:string pipeline:string version:integer spec:object code_root:string?"},
    {"Stopped", "stopped:string run:string?"},
    {"Attempt",
     "id:string attempt:integer state:string exit_code:integer signal:integer oom:boolean timed_out:boolean reason:string"
     " started_us:integer? finished_us:integer fence:integer paths:string? ms:object? bytes:object? rusage:object? gpu:object? "
     "gpus:integer? gpu_ms:integer? node:string? worker:integer? pod:string? run:string? params:object? "
     "image_id:string? tail:string? tail_line:integer?"},
    {"DatumList", "datums:Attempt[] next:string?"},
    {"DatumAttempts", "id:string try:string run:string? attempts:Attempt[]"},
    {"MetricLine", "id:integer datum:string at_us:integer line:object"},
    {"MetricList", "metrics:MetricLine[] next:string?"},
};

PL_API_TABLE_OPENED(runs, routes, schemas, open_waits);
