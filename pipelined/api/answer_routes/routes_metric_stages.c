/* Which stages wrote metrics.jsonl lately, with the last line of each of their newest jobs. */
#include "pipelined/api/server/api_context.h"

#define STAGES_EXAMINED 200 /* stages that one request looks at */
#define JOBS_EXAMINED   60  /* newest jobs of a stage among which those with metrics are found */
#define JOBS_LISTED     12

/* The newest jobs of a stage that have metrics, with the last line that is a JSON object. */
#define JOBS_SQL                                                                                                                 \
    "SELECT run, state, created_us, line FROM (SELECT j.run, j.state, j.created_us, (SELECT data FROM metric WHERE job = j.id"   \
    " AND data <> 'null' ORDER BY id DESC LIMIT 1) AS line FROM (SELECT id, run, state, created_us FROM job WHERE project = ?1"  \
    " AND stage = ?2 ORDER BY id DESC LIMIT ?3) j) WHERE line IS NOT NULL LIMIT ?4"

/* Adds the stage, if it has metrics. */
static int add_stage(struct pl_conn *c, const char *project, const char *stage, const char *pipeline, json_t *list,
                     struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    _cleanup_(json_decrefp) json_t *jobs = json_array();
    int r = pl_sql_query(c, err, &rows, JOBS_SQL, "ssii", project, stage, (int64_t)JOBS_EXAMINED, (int64_t)JOBS_LISTED);

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0)
        r = pl_json_add(jobs,
                        json_pack("{s:s, s:s, s:I, s:o}", "run", pl_col_text(&rows, 0), "state", pl_col_text(&rows, 1),
                                  "created_us", (json_int_t)pl_col_int(&rows, 2), "line", pl_col_json(&rows, 3)),
                        err);
    if (r < 0 || json_array_size(jobs) == 0)
        return PL_MIN(r, 0);
    return pl_json_add(list,
                       json_pack("{s:s, s:s, s:s, s:O}", "project", project, "stage", stage, "pipeline", pipeline, "jobs", jobs),
                       err);
}

/* Splits the position "PROJECT/STAGE". */
static int read_after(const struct pl_api_page *page, char project[PL_NAME_MAX_BYTES + 1], const char **ret_stage,
                      struct pl_err *err)
{
    const char *slash = page->after ? strchr(page->after, '/') : NULL;

    project[0] = '\0';
    *ret_stage = slash ? slash + 1 : "";
    if (!page->after)
        return 0;
    if (!slash || slash - page->after > PL_NAME_MAX_BYTES)
        return pl_api_page_refuse(page, err);
    snprintf(project, PL_NAME_MAX_BYTES + 1, "%.*s", (int)(slash - page->after), page->after);
    return 0;
}

static int list_stages(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_api_read(a, req);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    _cleanup_(json_decrefp) json_t *list = json_array();
    char project[PL_NAME_MAX_BYTES + 1], next[2 * PL_NAME_MAX_BYTES + 2] = "";
    struct pl_api_page page;
    const char *stage;
    size_t seen = 0;
    int r = pl_api_page_read(req, &page, err);

    r = r < 0 ? r : read_after(&page, project, &stage, err);
    r = r < 0 ? r
              : pl_sql_query(
                    rd.conn, err, &rows,
                    "SELECT s.project, s.name, p.name FROM stage s JOIN pipeline p ON p.id = s.pipeline WHERE s.current = 1"
                    " AND (s.project, s.name) > (?1, ?2) AND readable(s.project, s.name)"
                    " ORDER BY s.project, s.name LIMIT ?3",
                    "ssi", project, stage, (int64_t)PL_MIN(page.limit, (size_t)STAGES_EXAMINED));
    while (r >= 0 && (r = pl_sql_next(rd.conn, &rows, err)) > 0) {
        snprintf(next, sizeof next, "%s/%s", pl_col_text(&rows, 0), pl_col_text(&rows, 1));
        seen++;
        r = add_stage(rd.conn, pl_col_text(&rows, 0), pl_col_text(&rows, 1), pl_col_text(&rows, 2), list, err);
    }
    if (r < 0)
        return r;
    *ret = pl_api_list("stages", TAKE_PTR(list), seen == PL_MIN(page.limit, (size_t)STAGES_EXAMINED) ? next : NULL);
    return 0;
}

static const struct pl_api_route routes[] = {
    {.method = "GET",
     .pattern = "/api/v1/metrics",
     .json = list_stages,
     .verb = PL_VERB_LIST,
     .summary =
         "Lists the stages that wrote metrics.jsonl lately, each with the last line of at most 12 of its newest 60 jobs, newest "
         "first. `limit` counts the stages that are looked at, at most 200.",
     .query = "after limit:integer",
     .reply = "MetricStages"},
};

static const struct pl_api_schema schemas[] = {
    {"MetricStages", "stages:MetricStage[] next:string?"},
    {"MetricStage", "project:string stage:string pipeline:string jobs:MetricStageJob[]"},
    {"MetricStageJob", "run:string state:string created_us:integer line:object"},
};

PL_API_TABLE(metric_stages, routes, schemas);
