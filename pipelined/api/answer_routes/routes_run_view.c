/* Runs as people look at them: one page of the list, filtered, and one run. */
#include "pipelined/api/answer_routes/run_facts.h"
#include "pipelined/api/run_routes/job_json.h"

#include "pipelined/db/writer/name_lookup.h"
#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"

#include <stdio.h>

#define LOOKED_AT_MAX 2000u        /* most runs that one page looks at: it ends there although it is not full */
#define JOBS_MAX      20000u       /* most jobs that one page reads, likewise */
#define IDS_MAX       200u         /* most runs that a request names */
#define ETAS_MAX      10u          /* most runs of a page for which it is estimated when they end */
#define CHANGES_MS    40           /* time in which the changes of the pushes of a page are counted; the others have none */
#define SLACK_US      3600000000ll /* the clock may have been set back by so much while runs were made */

/* ---- filters ---- */

/* What one request asks for. Texts with several values are written ",a,b,"; "" = all. */
struct filter {
    char *states, *projects, *pipelines, *by;
    json_t *ids; /* array of ids; NULL = all */
    uint64_t since_us;
    const char *commit;
};

static void filter_finish(struct filter *f)
{
    free(f->states);
    free(f->projects);
    free(f->pipelines);
    free(f->by);
    json_decref(f->ids);
}

/* Reads an argument with values between commas as ",a,b,". */
static int read_words(const struct pl_http_request *req, const char *name, char **ret, struct pl_err *err)
{
    const char *text = pl_http_query(req, name), *comma = text && *text ? "," : "";

    if (asprintf(ret, "%s%s%s", comma, *comma ? text : "", comma) < 0) {
        *ret = NULL;
        return pl_err_nomem(err);
    }
    return 0;
}

static int check_states(const char *words, struct pl_err *err)
{
    static const char *const known[] = {"running", "success", "failure", "killed", "complete", "partly_failed"};

    for (const char *at = words; *at && at[1];) {
        const size_t n = strcspn(++at, ",");
        bool found = n == 0;

        for (size_t i = 0; i < PL_ARRAY_SIZE(known); i++)
            found = found || (strlen(known[i]) == n && strncmp(at, known[i], n) == 0);
        if (!found) {
            pl_err_set(err, PL_EINVAL,
                       "state \"%.*s\": use running, success, failure, killed, complete (success of every datum) or partly_failed"
                       " (success without some datums)",
                       (int)PL_MIN(n, 64u), at);
            return pl_err_field(err, PL_EINVAL, "state");
        }
        at += n;
    }
    return 0;
}

static int check_projects(struct pl_conn *c, const char *words, struct pl_err *err)
{
    char name[PL_NAME_MAX_BYTES + 2];
    int r = 0;

    for (const char *at = words; r == 0 && *at && at[1];) {
        const size_t n = strcspn(++at, ",");

        snprintf(name, sizeof name, "%.*s", (int)n, at);
        r = n > 0 ? pl_api_project_listed(c, name, err) : 0;
        at += n;
    }
    return r;
}

static int read_ids(const struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    const char *at = pl_http_query(req, "ids");
    int r = 0;

    if (!at || !*at)
        return 0;
    *ret = json_array();
    while (r >= 0 && *at) {
        const size_t n = strcspn(at, ",");

        if (json_array_size(*ret) == IDS_MAX) {
            pl_err_set(err, PL_EINVAL, "ids: at most %u runs", IDS_MAX);
            return pl_err_field(err, PL_EINVAL, "ids");
        }
        r = pl_json_add(*ret, json_stringn(at, n), err);
        at += n + (at[n] == ',');
    }
    return r;
}

static int filter_read(const struct pl_http_request *req, struct filter *f, struct pl_err *err)
{
    int r = read_words(req, "state", &f->states, err);

    r = r < 0 ? r : check_states(f->states, err);
    r = r < 0 ? r : read_words(req, "project", &f->projects, err);
    r = r < 0 ? r : read_words(req, "pipeline", &f->pipelines, err);
    r = r < 0 ? r : read_words(req, "by", &f->by, err);
    r = r < 0 ? r : read_ids(req, &f->ids, err);
    f->commit = pl_http_query(req, "commit");
    return r < 0 ? r : pl_http_query_u64(req, "since", 0, INT64_MAX, &f->since_us, err);
}

/* ---- the runs of a page ---- */

/* Runs of stages whose spec or code came from the git commit ?7, which may be the first digits of one. */
#define OF_GIT_COMMIT                                                                                                            \
    "(SELECT j.run FROM pipeline_version v JOIN stage s ON s.pipeline = v.pipeline AND s.version = v.version"                    \
    " JOIN job j ON j.project = s.project AND j.stage = s.name AND j.version = s.id"                                             \
    " WHERE substr(json_extract(v.origin, '$.commit'), 1, length(?7)) = ?7"                                                      \
    " AND readable(j.project, j.stage) OR substr(json_extract(s.git, '$.head'), 1, length(?7)) = ?7"                             \
    " AND readable(j.project, j.stage))"
/* Whether every datum of a run that succeeded was good. */
#define HOW_GOOD                                                                                                                 \
    "iif(EXISTS (SELECT 1 FROM job j WHERE j.run = run.id AND json_extract(j.counts, '$.failed') > 0"                            \
    " AND readable(j.project, j.stage)), 'partly_failed',"                                                                       \
    " 'complete')"
#define OF_STATE                                                                                                                 \
    "(?2 = '' OR instr(?2, ',' || state || ',') OR (state = 'success' AND (instr(?2, ',complete,') OR"                           \
    " instr(?2, ',partly_failed,')) AND instr(?2, ',' || " HOW_GOOD " || ',')))"
/* A run belongs to the project and pipeline of each of its jobs, and to the projects of its commits and of the stages that it
 * was asked for: these are known from its start, jobs a moment later. */
#define JOB_THERE    "(?4 = '' OR instr(?4, ',' || j.project || ',')) AND (?5 = '' OR instr(?5, ',' || j.pipeline || ',')) AND "
#define COMMIT_THERE "instr(?4, ',' || r.project || ',') AND "
#define STAGE_THERE  "instr(?4, ',' || json_extract(s.value, '$[0]') || ',') AND "
#define OF_PLACE                                                                                                                 \
    "((?4 = '' AND ?5 = '') OR EXISTS " PL_RUN_OF_JOBS(JOB_THERE) " OR (?5 = '' AND (EXISTS " PL_RUN_OF_COMMITS(                 \
        COMMIT_THERE) " OR EXISTS " PL_RUN_OF_STAGES(STAGE_THERE) ")))"
#define BY "(?6 = '' OR instr(?6, ',' || " PL_RUN_AUTHOR " || ','))"
/* Columns: ord, id, created_us, whether it passes. */
#define CANDIDATES   "SELECT ord, id, created_us, " OF_STATE " AND " OF_PLACE " AND " BY " AND " PL_RUN_SEEN " FROM run WHERE "
#define NEWEST_FIRST " ORDER BY ord DESC LIMIT ?3"

/* One page while it is made. */
struct page {
    struct pl_api_page ask;
    struct filter filter;
    int64_t before; /* `ord` of the run after which the page begins */
    uint64_t jobs;  /* that were read */
    unsigned etas;  /* that were made */
    int64_t next;   /* `ord` after which the next page begins; 0 = there is none */
    json_t *runs;
};

static int add_run(struct pl_conn *c, struct page *p, const char *id, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    json_t *run;
    int r = pl_sql_query(c, err, &rows, "SELECT " PL_RUN_COLUMNS " FROM run WHERE id = ?", "s", id);

    r = r < 0 ? r : pl_sql_next(c, &rows, err);
    if (r <= 0)
        return r;
    run = pl_run_row_json(&rows);
    r = pl_json_add(p->runs, run, err);
    r = r < 0 ? r : pl_run_facts_add(c, run, &p->jobs, err);
    if (r >= 0 && p->etas < ETAS_MAX && pl_col_int(&rows, 6) == 0) {
        r = pl_run_eta_add(c, run, err);
        p->etas++;
    }
    return r;
}

static int read_page(struct pl_conn *c, struct page *p, struct pl_err *err)
{
    const struct filter *f = &p->filter;
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    _cleanup_free_ char *ids = f->ids ? pl_json_text(f->ids, JSON_COMPACT) : NULL;
    /* runs that have not ended have an index of their own; those of a git commit are found from its stages */
    const char *sql = f->ids                    ? CANDIDATES "id IN (SELECT value FROM json_each(?8)) AND ord < ?1" NEWEST_FIRST
                      : f->commit && *f->commit ? CANDIDATES "id IN " OF_GIT_COMMIT " AND ord < ?1 AND ?8 IS NULL" NEWEST_FIRST
                      : pl_streq(f->states, ",running,") ? CANDIDATES "state = 'running' AND ord < ?1 AND ?8 IS NULL" NEWEST_FIRST
                                                         : CANDIDATES "ord < ?1 AND ?8 IS NULL" NEWEST_FIRST;
    const int64_t since_us = (int64_t)f->since_us;
    size_t looked_at = 0;
    int r = f->ids && !ids ? pl_err_nomem(err)
                           : pl_sql_query(c, err, &rows, sql, "isisssss", p->before, f->states, (int64_t)LOOKED_AT_MAX,
                                          f->projects, f->pipelines, f->by, f->commit, ids);

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0) {
        if (pl_col_int(&rows, 2) < since_us - SLACK_US)
            return 0;
        looked_at++;
        if (pl_col_int(&rows, 3) && pl_col_int(&rows, 2) >= since_us)
            r = add_run(c, p, pl_col_text(&rows, 1), err);
        if (json_array_size(p->runs) == p->ask.limit || p->jobs >= JOBS_MAX || looked_at == LOOKED_AT_MAX) {
            p->next = pl_col_int(&rows, 0);
            break;
        }
    }
    return PL_MIN(r, 0);
}

/* Counts what pushes changed, as far as there is time. Holds no database reader. */
static int add_changes(struct pl_api *a, const struct pl_http_request *req, json_t *runs, struct pl_err *err)
{
    struct pl_effort effort = pl_request_effort(req);
    json_t *run;
    size_t i;
    int r = 0;

    effort.until_ms = pl_clock_mono_ms() + CHANGES_MS;
    json_array_foreach(runs, i, run)
    {
        if (r >= 0 && pl_clock_mono_ms() < effort.until_ms)
            r = pl_run_changes_add(a, run, &effort, err);
        pl_run_facts_finish(run);
    }
    return r;
}

static int list_runs(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    struct page p = {.runs = json_array()};
    char next[32];
    int r = p.runs ? pl_api_page_read(req, &p.ask, err) : pl_err_nomem(err);

    r = r < 0 ? r : pl_api_page_number(&p.ask, INT64_MAX, &p.before, err);
    r = r < 0 ? r : filter_read(req, &p.filter, err);
    if (r >= 0) {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_api_read(a, req);

        r = r < 0 ? r : check_projects(rd.conn, p.filter.projects, err);
        r = r < 0 ? r : read_page(rd.conn, &p, err);
    }
    r = r < 0 ? r : add_changes(a, req, p.runs, err);
    filter_finish(&p.filter);
    if (r < 0) {
        json_decref(p.runs);
        return r;
    }
    snprintf(next, sizeof next, "%lld", (long long)p.next);
    *ret = pl_api_list("runs", p.runs, p.next ? next : NULL);
    return 0;
}

/* ---- one run ---- */

static int add_jobs(struct pl_conn *c, json_t *run, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    json_t *list = json_array();
    int r = json_object_set_new(run, "jobs", list) < 0 ? pl_err_nomem(err) : 0;

    r = r < 0 ? r
              : pl_sql_query(c, err, &rows,
                             PL_JOB_COLUMNS " FROM job j WHERE j.run = ? AND readable(j.project, j.stage) ORDER BY j.id", "s",
                             json_string_value(json_object_get(run, "id")));
    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0)
        r = pl_json_add(list, pl_job_row_json(&rows, true), err);
    return PL_MIN(r, 0);
}

static int read_run(struct pl_api *a, const struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_api_read(a, req);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    char id[PL_ID_HEX + 1];
    uint64_t jobs = 0;
    int r = pl_db_run_find(rd.conn, pl_http_param(req, "run"), id, err);

    r = r < 0 ? r : pl_sql_query(rd.conn, err, &rows, "SELECT " PL_RUN_COLUMNS " FROM run WHERE id = ?", "s", id);
    r = r < 0 ? r : pl_sql_next(rd.conn, &rows, err);
    if (r <= 0)
        return r < 0 ? r : pl_err_set(err, PL_ENOTFOUND, "there is no run %s", id);
    *ret = pl_run_row_json(&rows);
    r = *ret ? add_jobs(rd.conn, *ret, err) : pl_err_nomem(err);
    r = r < 0 ? r : pl_run_facts_add(rd.conn, *ret, &jobs, err);
    return r < 0 ? r : pl_run_eta_add(rd.conn, *ret, err);
}

/* The caller releases `*ret` also after an error. */
static int inspect_run(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    struct pl_effort effort = pl_request_effort(req);
    int r = read_run(a, req, ret, err);

    r = r < 0 ? r : pl_run_changes_add(a, *ret, &effort, err);
    if (r < 0)
        return r;
    pl_run_facts_finish(*ret);
    pl_jobs_add_live(a, json_object_get(*ret, "jobs"));
    return 0;
}

static const struct pl_api_route routes[] = {
    {.method = "GET",
     .pattern = "/api/v1/runs",
     .json = list_runs,
     .verb = PL_VERB_LIST,
     .summary =
         "Lists runs, newest first. `state`, `project`, `pipeline` and `by` (the author) take several values between commas; "
         "`state` also takes complete (success of every datum) and partly_failed (success without some datums). `since`: "
         "only runs from that time on, in microseconds since 1970. `commit`: runs of stages whose spec or code came from that "
         "commit of git. `ids`: these runs, at most 200. A run is found by `pipeline` once it has a job there. A page ends "
         "after 2,000 runs that were looked at, so it may have fewer runs than `limit` although `next` says that there are "
         "more.",
     .query = "state project pipeline by since:integer commit ids after limit:integer",
     .reply = "RunList"},
    {.method = "GET",
     .pattern = "/api/v1/runs/{run}",
     .json = inspect_run,
     .verb = PL_VERB_LIST,
     .summary = "Returns one run with its jobs.",
     .reply = "Run"},
};

static const struct pl_api_schema schemas[] = {
    {"Run", "id:string state:string reason:string message:string cause:string created_us:integer finished_us:integer? "
            "traceparent:string? author:string? agent:string? pipelines:RunPipeline[]? stages:RunStage[]? states:object? "
            "datums:Datums? pushed:RunPush? eta:RunEta? jobs:Job[]? done:boolean? superseded_by:string? unchanged_at:string?"},
    {"RunPipeline", "project:string pipeline:string"},
    {"RunStage", "project:string stage:string state:string reason:string failed:integer"},
    {"RunPush", "project:string repo:string branch:string commit:string parent:string files:integer bytes:integer "
                "added:integer? changed:integer? removed:integer? changed_bytes:integer? more:boolean?"},
    {"RunEta", "took_ms:integer ends_us:integer runs:integer by:string"},
    {"RunList", "runs:Run[] next:string?"},
};

PL_API_TABLE(run_view, routes, schemas);
