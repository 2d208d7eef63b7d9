/* Results of a stage's jobs side by side: the figures of each datum's metrics.jsonl with the parameters that it had, the best
 * of them, and one figure as a curve. A result is one datum of one job. */
#include "pipelined/api/run_routes/job_json.h"

#include "pipelined/api/answer_routes/metric_lines.h"
#include "pipelined/metrics/run_figures.h"
#include "storage/base/map.h"

#define JOBS_LISTED    50    /* jobs of one page */
#define JOBS_EXAMINED  1000  /* jobs of the stage that one request looks through for those with metrics */
#define DATUMS_LISTED  200   /* results of one job; the others are counted */
#define FIGURES_LISTED 20000 /* of all results of a page, and no less than one job can have */
#define CURVE_POINTS   500

_Static_assert(FIGURES_LISTED >= DATUMS_LISTED * PL_RUN_FIGURES_MAX, "a page holds any job");

/* ---- one result ---- */

/* The figures of one datum. */
struct result {
    struct pl_hash datum;
    int64_t fence; /* of the newest lease: what an earlier one wrote is not counted */
    size_t lines, broken;
    struct pl_run_figures figures;
};

/* The results of one job, in the order in which their first line came. */
struct results {
    struct pl_arena *arena;
    struct result *list[DATUMS_LISTED];
    size_t n, more;         /* `more`: datums that are not listed */
    struct pl_map by_datum; /* datum → result; NULL = it is not listed */
};

static void results_finish(struct results *s)
{
    pl_map_finish(&s->by_datum, NULL);
    pl_arena_destroyp(&s->arena);
}

/* Finds or makes the datum's result. `*ret` NULL: there are too many. */
static int result_of(struct results *s, const struct pl_hash *datum, struct result **ret, struct pl_err *err)
{
    struct result *one = pl_map_get(&s->by_datum, datum->b, PL_HASH_BYTES);

    *ret = one;
    if (one)
        return 0;
    if (s->n == DATUMS_LISTED) {
        s->more = 1;
        return 0;
    }
    one = pl_arena_alloc(s->arena, sizeof *one);
    if (!one)
        return pl_err_nomem(err);
    one->datum = *datum;
    s->list[s->n++] = one;
    *ret = one;
    return pl_map_put(&s->by_datum, datum->b, PL_HASH_BYTES, one, NULL, err);
}

static void add_figures(struct result *one, const json_t *line)
{
    const double step = pl_metric_line_step(line, one->lines);
    const char *name;
    json_t *value;

    json_object_foreach((json_t *)line, name, value) if (json_is_number(value) && !pl_metric_is_place(name))
        pl_run_figures_add(&one->figures, name, (struct pl_point){step, json_number_value(value)});
}

static int add_line(void *self, const struct pl_metric_line *line, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *parsed = NULL;
    struct result *one;
    int r = result_of(self, &line->datum, &one, err);

    if (r < 0 || !one || line->fence < one->fence)
        return r;
    if (line->fence > one->fence) { /* the datum began again with another worker */
        memset(&one->figures, 0, sizeof one->figures);
        one->lines = one->broken = 0;
        one->fence = line->fence;
    }
    parsed = line->text ? json_loads(line->text, 0, NULL) : NULL;
    if (parsed)
        add_figures(one, parsed);
    else
        one->broken++;
    one->lines++;
    return 0;
}

/* ---- parameters ---- */

/* Adds the variables of the stage's `env` that are the same for all its datums. */
static int add_env(const json_t *env, json_t *params, struct pl_err *err)
{
    const char *name, *text;
    json_t *value;

    json_object_foreach((json_t *)env, name, value)
    {
        text = json_string_value(value);
        if (text && !strstr(text, "${") && json_object_set(params, name, value) < 0)
            return pl_err_nomem(err);
    }
    return 0;
}

/* Adds the combination of a `params` input. */
static int add_combination(const char *paths, json_t *params, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *found = pl_datum_params(paths);

    return found && json_object_update(params, found) < 0 ? pl_err_nomem(err) : 0;
}

/* ---- one job ---- */

struct job {
    int64_t id;
    json_t *base; /* what all its results have in common */
    json_t *env;
};

static json_t *point_json(const struct pl_point *p)
{
    return json_pack("{s:f, s:f}", "step", p->step, "value", p->value);
}

static json_t *figures_json(const struct pl_run_figures *f)
{
    json_t *list = json_array();

    for (size_t i = 0; list && i < f->n; i++) {
        const struct pl_run_figure *one = &f->list[i];

        if (json_array_append_new(list, json_pack("{s:s, s:I, s:o, s:o, s:o}", "name", one->name, "count", (json_int_t)one->n,
                                                  "last", point_json(&one->last), "min", point_json(&one->least), "max",
                                                  point_json(&one->largest))) < 0)
            json_decrefp(&list);
    }
    return list;
}

static int add_result(struct pl_conn *c, const struct job *j, const struct result *one, json_t *list, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *params = json_object(), *combination = json_object();
    _cleanup_free_ char *paths = NULL;
    json_t *out = params && combination ? json_pack("{s:o, s:I, s:I, s:o, s:O, s:O}", "datum", pl_api_hash_json(&one->datum),
                                                    "lines", (json_int_t)one->lines, "broken", (json_int_t)one->broken, "figures",
                                                    figures_json(&one->figures), "params", params, "combination", combination)
                                        : NULL;
    int r = out && json_object_update(out, j->base) == 0 ? 0 : pl_err_nomem(err);

    r = r < 0 ? r
              : pl_sql_text(c, err, &paths,
                            "SELECT coalesce(max(json_extract(detail, '$.paths')), '') FROM attempt WHERE job = ? AND datum = ?",
                            "ih", j->id, &one->datum);
    r = r < 0 ? r : add_env(j->env, params, err);
    r = r < 0 ? r : add_combination(paths, combination, err);
    if (r == 0 && json_object_update(params, combination) < 0)
        r = pl_err_nomem(err);
    if (r == 0 && json_object_set_new(out, "paths", json_string(paths)) < 0)
        r = pl_err_nomem(err);
    if (r < 0) {
        json_decref(out);
        return r;
    }
    return pl_json_add(list, out, err);
}

static int add_results(struct pl_api *a, const struct job *j, const struct results *s, json_t *list, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    int r = 0;

    for (size_t i = 0; r == 0 && i < s->n; i++)
        r = add_result(rd.conn, j, s->list[i], list, err);
    return r;
}

/* What a page may still read and list. */
struct room {
    size_t lines, figures;
};

static size_t count_figures(const struct results *s)
{
    size_t n = 0;

    for (size_t i = 0; i < s->n; i++)
        n += s->list[i]->figures.n;
    return n;
}

/* Adds the results of one job, and takes off the room what they need. Returns 1, or 0 if the room is too small for all of
 * them, and nothing is added; there is always enough for the page's `first` job, of which only the newest lines count. */
static int add_job(struct pl_api *a, const struct job *j, bool first, struct room *room, json_t *list, struct pl_err *err)
{
    _cleanup_(results_finish) struct results s = {.arena = pl_arena_create(0)};
    size_t read = 0;
    bool cut = false;
    size_t figures;
    int r = s.arena ? pl_metric_lines_read(a, j->id, NULL, room->lines, add_line, &s, &read, &cut, err) : pl_err_nomem(err);

    figures = count_figures(&s);
    if (r == 0 && !first && (cut || figures > room->figures))
        return 0;
    room->lines -= PL_MIN(read, room->lines);
    room->figures -= PL_MIN(figures, room->figures);
    if (r == 0 && (json_object_set_new(j->base, "cut", json_boolean(cut)) < 0 ||
                   json_object_set_new(j->base, "more_datums", json_boolean(s.more > 0)) < 0))
        r = pl_err_nomem(err);
    r = r < 0 ? r : add_results(a, j, &s, list, err);
    return r < 0 ? r : 1;
}

/* ---- which jobs ---- */

struct jobs {
    struct job list[JOBS_LISTED];
    size_t n;
    int64_t next; /* jobs with lower ids were not looked at; 0 = there are none */
};

static void jobs_finish(struct jobs *s)
{
    for (size_t i = 0; i < s->n; i++) {
        json_decref(s->list[i].base);
        json_decref(s->list[i].env);
    }
}

#define JOB_COLUMNS                                                                                                              \
    "SELECT j.id, j.run, j.state, j.created_us, coalesce(j.started_us, 0), coalesce(j.finished_us, 0),"                          \
    " coalesce((SELECT version FROM stage WHERE id = j.version), 0), coalesce(json_extract(j.ms, '$.gpu'), 0),"                  \
    " coalesce((SELECT as_branch FROM run WHERE id = j.run), ''), j.output,"                                                     \
    " coalesce((SELECT json_extract(spec, '$.env') FROM stage WHERE id = j.version), '{}'),"                                     \
    " EXISTS (SELECT 1 FROM metric WHERE job = j.id)"                                                                            \
    " FROM job j WHERE j.project = ?1 AND j.stage = ?2 AND j.id < ?3 ORDER BY j.id DESC LIMIT ?4"

static int take_job(const struct pl_rows *rows, struct jobs *ret, struct pl_err *err)
{
    struct job *j = &ret->list[ret->n++];

    j->id = pl_col_int(rows, 0);
    j->env = pl_col_json(rows, 10);
    j->base =
        json_pack("{s:s, s:s, s:I, s:o, s:o, s:I, s:I, s:s, s:s}", "run", pl_col_text(rows, 1), "state", pl_col_text(rows, 2),
                  "created_us", (json_int_t)pl_col_int(rows, 3), "started_us", pl_api_time_or_null(pl_col_int(rows, 4)),
                  "finished_us", pl_api_time_or_null(pl_col_int(rows, 5)), "version", (json_int_t)pl_col_int(rows, 6), "gpu_ms",
                  (json_int_t)pl_col_int(rows, 7), "as", pl_col_text(rows, 8), "output", pl_col_text(rows, 9));
    return j->base && j->env ? 0 : pl_err_nomem(err);
}

/* Finds the next jobs of the stage that have metrics, newest first, or only that of `run`. */
static int find_jobs(struct pl_api *a, const struct pl_http_request *req, const struct pl_api_page *page, struct jobs *ret,
                     struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    const char *project = pl_http_param(req, "project"), *stage = pl_http_param(req, "stage"), *run = pl_http_query(req, "run");
    const size_t most = PL_MIN(page->limit, (size_t)JOBS_LISTED);
    char id[PL_ID_HEX + 1];
    int64_t before = INT64_MAX, seen = 0, job = 0;
    int r = pl_api_page_number(page, INT64_MAX, &before, err);

    r = r < 0 || run ? r : pl_api_stage_check(rd.conn, project, stage, err);
    if (r == 0 && run) {
        r = pl_api_job_find(rd.conn, project, stage, run, &job, id, err);
        before = job + 1;
    }
    r = r < 0
            ? r
            : pl_sql_query(rd.conn, err, &rows, JOB_COLUMNS, "ssii", project, stage, before, (int64_t)(run ? 1 : JOBS_EXAMINED));
    while (r >= 0 && ret->n < most && (r = pl_sql_next(rd.conn, &rows, err)) > 0) {
        seen++;
        ret->next = pl_col_int(&rows, 0);
        if (pl_col_int(&rows, 11))
            r = take_job(&rows, ret, err);
    }
    if (run || (ret->n < most && seen < JOBS_EXAMINED))
        ret->next = 0;
    return r < 0 ? r : 0;
}

/* ---- what the results have in common, and the best ---- */

/* True if less is better, as far as the name tells: losses and errors. */
static bool less_is_better(const char *metric)
{
    static const char *const parts[] = {"loss", "err", "rmse", "mae", "mse", "perplexity", "ppl", "wer", "cer", "nll", "latency"};

    for (size_t i = 0; i < PL_ARRAY_SIZE(parts); i++)
        if (strcasestr(metric, parts[i]))
            return true;
    return false;
}

/* Lists the names of all figures, in the order in which they come, and those of which less is better. */
static int add_names(const json_t *results, json_t *names, json_t *lower, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *seen = json_object();
    const json_t *result, *figure;
    size_t i, k;

    json_array_foreach(results, i, result)
    {
        json_array_foreach(json_object_get(result, "figures"), k, figure)
        {
            const char *name = json_string_value(json_object_get(figure, "name"));

            if (name && !json_object_get(seen, name) &&
                (json_object_set_new(seen, name, json_true()) < 0 || json_array_append_new(names, json_string(name)) < 0 ||
                 (less_is_better(name) && json_array_append_new(lower, json_string(name)) < 0)))
                return pl_err_nomem(err);
        }
    }
    return 0;
}

/* Lists the parameters whose value is not the same in all results. */
static int add_differing(const json_t *results, json_t *names, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *all = json_object();
    const json_t *result;
    const char *name;
    json_t *value;
    size_t i;

    json_array_foreach(results, i, result) if (json_object_update_missing(all, json_object_get(result, "params")) <
                                               0) return pl_err_nomem(err);
    json_object_foreach(all, name, value)
    {
        bool same = true;

        json_array_foreach(results, i, result) same &=
            json_equal(value, json_object_get(json_object_get(result, "params"), name)) != 0;
        if (!same && json_array_append_new(names, json_string(name)) < 0)
            return pl_err_nomem(err);
    }
    return 0;
}

/* Returns the result whose best value of `metric` is the best of all, with that value; JSON null if none has it. */
static json_t *best_json(const json_t *results, const char *metric, bool max)
{
    const json_t *result, *figure, *best = NULL, *of = NULL;
    size_t i, k;

    json_array_foreach(results, i, result)
    {
        json_array_foreach(json_object_get(result, "figures"), k, figure)
        {
            const json_t *point = json_object_get(figure, max ? "max" : "min");
            double value = json_number_value(json_object_get(point, "value"));
            double so_far = json_number_value(json_object_get(best, "value"));

            if (pl_streq(json_string_value(json_object_get(figure, "name")), metric) &&
                (!best || (max ? value > so_far : value < so_far))) {
                best = point;
                of = result;
            }
        }
    }
    return best ? json_pack("{s:O, s:O, s:O, s:O}", "run", json_object_get(of, "run"), "datum", json_object_get(of, "datum"),
                            "step", json_object_get(best, "step"), "value", json_object_get(best, "value"))
                : json_null();
}

/* ---- routes ---- */

/* Reads `goal`; without it the name of the metric decides. */
static int read_goal(const struct pl_http_request *req, const char *metric, bool *ret_max, struct pl_err *err)
{
    const char *goal = pl_http_query(req, "goal");

    *ret_max = goal ? pl_streq(goal, "max") : !less_is_better(metric);
    if (!goal || pl_streq(goal, "max") || pl_streq(goal, "min"))
        return 0;
    return pl_err_field(err, pl_err_set(err, PL_EINVAL, "goal is \"%s\": use min or max", goal), "goal");
}

static int describe(const struct pl_http_request *req, json_t *out, struct pl_err *err)
{
    const json_t *results = json_object_get(out, "results");
    json_t *names = json_object_get(out, "metrics");
    int r = add_names(results, names, json_object_get(out, "lower"), err);
    const char *wanted = pl_http_query(req, "metric"), *metric;
    bool max = false;

    r = r < 0 ? r : add_differing(results, json_object_get(out, "differ"), err);
    metric = wanted ? wanted : json_string_value(json_array_get(names, 0));
    metric = metric ? metric : "";
    r = r < 0 ? r : read_goal(req, metric, &max, err);
    if (r == 0 && (json_object_set_new(out, "metric", json_string(metric)) < 0 ||
                   json_object_set_new(out, "goal", json_string(max ? "max" : "min")) < 0 ||
                   json_object_set_new(out, "best", best_json(results, metric, max)) < 0))
        r = pl_err_nomem(err);
    return r;
}

static int list_jobs(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(jobs_finish) struct jobs jobs = {0};
    _cleanup_(json_decrefp) json_t *out = json_pack("{s:[], s:[], s:[], s:[]}", "metrics", "lower", "differ", "results");
    struct room room = {PL_METRIC_LINES_MAX, FIGURES_LISTED};
    size_t i = 0;
    struct pl_api_page page;
    int r = out ? pl_api_page_read(req, &page, err) : pl_err_nomem(err);

    r = r < 0 ? r : find_jobs(a, req, &page, &jobs, err);
    for (; r == 0 && i < jobs.n && room.lines > 0; i++) {
        r = add_job(a, &jobs.list[i], i == 0, &room, json_object_get(out, "results"), err);
        if (r <= 0)
            break;
        r = 0;
    }
    if (r == 0 && i > 0 && i < jobs.n)
        jobs.next = jobs.list[i - 1].id; /* the page is full: the next one goes on here */
    r = r < 0 ? r : describe(req, out, err);
    if (r == 0 && jobs.next && json_object_set_new(out, "next", json_sprintf("%lld", (long long)jobs.next)) < 0)
        r = pl_err_nomem(err);
    if (r == 0)
        *ret = TAKE_PTR(out);
    return r;
}

/* Collects the points of one figure of one datum. */
struct curve {
    const char *metric;
    bool any; /* no line of a datum was taken yet, and that of the first line is wanted */
    struct pl_hash datum;
    int64_t fence;
    size_t lines, broken;
    struct pl_buf points; /* struct pl_point */
};

static int add_point(void *self, const struct pl_metric_line *line, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *parsed = line->text ? json_loads(line->text, 0, NULL) : NULL;
    const json_t *value = json_object_get(parsed, self ? ((struct curve *)self)->metric : "");
    struct curve *c = self;
    struct pl_point p;

    if (c->any) {
        c->datum = line->datum;
        c->any = false;
    }
    if (!pl_hash_eq(&c->datum, &line->datum) || line->fence < c->fence)
        return 0;
    if (line->fence > c->fence) {
        pl_buf_clear(&c->points);
        c->lines = c->broken = 0;
        c->fence = line->fence;
    }
    p = (struct pl_point){pl_metric_line_step(parsed, c->lines), json_number_value(value)};
    c->lines++;
    c->broken += !parsed;
    return json_is_number(value) ? pl_buf_add(&c->points, &p, sizeof p, err) : 0;
}

static json_t *curve_json(struct curve *c, const char *run, size_t most, bool cut)
{
    struct pl_point *points = (struct pl_point *)(void *)c->points.data;
    const size_t n = points ? pl_curve_thin(points, c->points.len / sizeof *points, most) : 0;
    json_t *steps = json_array(), *values = json_array();

    for (size_t i = 0; i < n; i++) {
        json_array_append_new(steps, json_real(points[i].step));
        json_array_append_new(values, json_real(points[i].value));
    }
    return json_pack("{s:s, s:o, s:s, s:I, s:I, s:I, s:b, s:o, s:o}", "run", run, "datum", pl_api_hash_json(&c->datum), "metric",
                     c->metric, "lines", (json_int_t)c->lines, "broken", (json_int_t)c->broken, "count",
                     (json_int_t)(c->points.len / sizeof *points), "cut", (int)cut, "steps", steps, "values", values);
}

static int find_curve(struct pl_api *a, const struct pl_http_request *req, struct curve *c, int64_t *ret_job,
                      char ret_run[PL_ID_HEX + 1], struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    const char *run = pl_http_query(req, "run"), *datum = pl_http_query(req, "datum");
    int r = datum ? pl_err_field(err, pl_hash_parse(datum, &c->datum, err), "datum") : 0;

    c->any = !datum;
    c->metric = pl_http_query(req, "metric");
    if (r == 0 && (!c->metric || !*c->metric))
        r = pl_err_field(err, pl_err_set(err, PL_EINVAL, "metric is missing: name one of the job's metrics"), "metric");
    return r < 0 ? r
                 : pl_api_job_find(rd.conn, pl_http_param(req, "project"), pl_http_param(req, "stage"), run ? run : "", ret_job,
                                   ret_run, err);
}

static int get_curve(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    struct curve c = {0};
    char run[PL_ID_HEX + 1];
    uint64_t most = CURVE_POINTS;
    int64_t job = 0;
    size_t read;
    bool cut = false;
    int r = find_curve(a, req, &c, &job, run, err);

    r = r < 0 ? r : pl_http_query_u64(req, "points", CURVE_POINTS, CURVE_POINTS, &most, err);
    if (r == 0 && most < PL_CURVE_POINTS_MIN)
        r = pl_err_field(
            err, pl_err_set(err, PL_EINVAL, "points is %u: use %u to %u", (unsigned)most, PL_CURVE_POINTS_MIN, CURVE_POINTS),
            "points");
    r = r < 0 ? r : pl_metric_lines_read(a, job, c.any ? NULL : &c.datum, PL_METRIC_LINES_MAX, add_point, &c, &read, &cut, err);
    if (r == 0) {
        *ret = curve_json(&c, run, most, cut);
        r = *ret ? 0 : pl_err_nomem(err);
    }
    pl_buf_finish(&c.points);
    return r;
}

static const struct pl_api_route routes[] = {
    {.method = "GET",
     .pattern = "/api/v1/metrics/{project}/{stage}/jobs",
     .json = list_jobs,
     .verb = PL_VERB_READ,
     .costly = true,
     .summary =
         "Lists the results of the stage's jobs that wrote metrics.jsonl, newest job first: a result is one datum of one job, "
         "with its parameters (`combination`: those of a `params` input alone) and the last, least and largest value of each "
         "figure. `differ` names the parameters that are "
         "not the same in all results of the page, `best` its result with the best value of `metric` by `goal`: min or max, "
         "by default what the metric's name suggests: `lower` names those of which less is better. Lines that are no JSON object "
         "are counted in `broken`. `cut`: only the "
         "newest lines of the job were read. A page ends before 20,000 figures; `next` goes on.",
     .query = "run metric goal after limit:integer",
     .reply = "MetricJobs"},
    {.method = "GET",
     .pattern = "/api/v1/metrics/{project}/{stage}/curve",
     .json = get_curve,
     .verb = PL_VERB_READ,
     .costly = true,
     .summary =
         "Returns the values of `metric` in the stage's newest job, or in that of `run`, of one datum, by default that of the "
         "first line. Of more than `points` values (8 to 500) those are kept that show every peak.",
     .query = "metric run datum points:integer",
     .reply = "MetricCurve"},
};

static const struct pl_api_schema schemas[] = {
    {"MetricJobs", "metrics:string[] lower:string[] differ:string[] metric:string goal:string results:MetricResult[] "
                   "best:MetricBest? next:string?"},
    {"MetricResult", "run:string state:string as:string output:string version:integer created_us:integer started_us:integer? "
                     "finished_us:integer? gpu_ms:integer datum:string paths:string params:object combination:object "
                     "lines:integer broken:integer "
                     "cut:boolean more_datums:boolean figures:MetricFigure[]"},
    {"MetricFigure", "name:string count:integer last:MetricPoint min:MetricPoint max:MetricPoint"},
    {"MetricPoint", "step:number value:number"},
    {"MetricBest", "run:string datum:string step:number value:number"},
    {"MetricCurve", "run:string datum:string metric:string lines:integer broken:integer count:integer cut:boolean steps:number[] "
                    "values:number[]"},
};

PL_API_TABLE(metric_jobs, routes, schemas);
