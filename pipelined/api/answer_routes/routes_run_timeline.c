/* The timeline of a run: what each worker of its stages did. */
#include "pipelined/api/answer_routes/run_timeline.h"
#include "pipelined/api/run_routes/job_json.h"

#include "pipelined/db/writer/name_lookup.h"
#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"

#include <stdlib.h>

#define PX_DEFAULT      1000u
#define STAGES_MAX      1000   /* most stages, by their begin */
#define LIVE_MAX        50u    /* most unfinished jobs whose workers of now are asked for */
#define WORKERS_MAX     2000u  /* most workers of a stage */
#define WORKERS_ALL_MAX 20000u /* most workers of all stages */
#define LANES_MAX       40u    /* more workers of a stage are one crowd */
#define ATTEMPTS_MAX    30000  /* most attempts of all stages */
#define SPANS_MAX       50000  /* most spans of all lanes: with more lanes a pixel is wider */

struct attempt {
    int64_t worker;
    struct pl_attempt_times times;
};

/* One stage while its part of the reply is made. */
struct stage {
    int64_t job;
    bool over;
    uint64_t attempts, kept; /* all, and those that were read */
    struct attempt *list;    /* `kept` of them, by worker and time */
    json_t *workers;         /* rows as in `workers` of a job, with times */
    json_t *out;
};

struct timeline {
    struct pl_timeline_view view;
    int64_t now_us;
    char run[PL_ID_HEX + 1];
    struct stage *stages;
    size_t n;
    size_t workers, attempts; /* that were read */
    struct pl_phase_span *spans;
    int64_t gpu_ms[3]; /* held, computing, idle; times the number of GPUs */
    bool more;         /* there are more stages, workers or attempts than are shown */
};

static void timeline_finish(struct timeline *t)
{
    for (size_t i = 0; i < t->n; i++) {
        free(t->stages[i].list);
        json_decref(t->stages[i].workers);
        json_decref(t->stages[i].out);
    }
    free(t->stages);
    free(t->spans);
}

/* ---- reading ---- */

static int read_view(const struct pl_http_request *req, int64_t created_us, int64_t finished_us, struct timeline *t,
                     struct pl_err *err)
{
    const int64_t end_us = finished_us ? finished_us : PL_MAX(t->now_us, created_us + 1);
    uint64_t from, to, px;
    int r = pl_http_query_u64(req, "from", (uint64_t)created_us, INT64_MAX, &from, err);

    r = r < 0 ? r : pl_http_query_u64(req, "to", (uint64_t)PL_MAX(end_us, created_us + 1), INT64_MAX, &to, err);
    r = r < 0 ? r : pl_http_query_u64(req, "px", PX_DEFAULT, PL_TIMELINE_PX_MAX, &px, err);
    if (r < 0)
        return r;
    if (px == 0)
        return pl_err_field(err, pl_err_set(err, PL_EINVAL, "px is 0: use 1 to %u", PL_TIMELINE_PX_MAX), "px");
    if (from >= to)
        return pl_err_field(err,
                            pl_err_set(err, PL_EINVAL, "from %llu is not before to %llu: both are microseconds since 1970",
                                       (unsigned long long)from, (unsigned long long)to),
                            "from");
    if (to - from > PL_TIMELINE_MAX_US)
        return pl_err_field(err, pl_err_set(err, PL_EINVAL, "from and to are more than 50 years apart"), "to");
    t->view = (struct pl_timeline_view){(int64_t)from, (int64_t)to, (uint32_t)px};
    return 0;
}

static int read_stages(struct pl_conn *c, struct timeline *t, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows,
                         "SELECT j.id, j.project, j.stage, j.state, j.final, json_extract(j.counts, '$.attempts')"
                         " FROM job j WHERE j.run = ? AND readable(j.project, j.stage) ORDER BY j.id LIMIT ?",
                         "si", t->run, (int64_t)STAGES_MAX + 1);

    t->stages = calloc(STAGES_MAX, sizeof *t->stages);
    r = r < 0 || t->stages ? r : pl_err_nomem(err);
    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0) {
        struct stage *s = &t->stages[t->n];

        if (t->n == STAGES_MAX) {
            t->more = true;
            return 0;
        }
        t->n++;
        *s =
            (struct stage){.job = pl_col_int(&rows, 0), .over = pl_col_int(&rows, 4), .attempts = (uint64_t)pl_col_int(&rows, 5)};
        s->workers = json_array();
        s->out = json_pack("{s:s, s:s, s:s}", "project", pl_col_text(&rows, 1), "stage", pl_col_text(&rows, 2), "state",
                           pl_col_text(&rows, 3));
        r = s->workers && s->out ? r : pl_err_nomem(err);
    }
    return PL_MIN(r, 0);
}

/* How many workers of this stage there is still room for. */
static size_t room_of(const struct timeline *t, const struct stage *s)
{
    return PL_MIN(WORKERS_MAX - PL_MIN(json_array_size(s->workers), (size_t)WORKERS_MAX), WORKERS_ALL_MAX - t->workers);
}

/* Reads the workers that served a job and have gone on. A pod with GPUs tells by how long it held them when a node took it. */
static int read_workers(struct pl_conn *c, struct timeline *t, struct stage *s, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows,
                         "SELECT worker, iif(lost, 'lost', 'ended'), pod, node, started_us, ended_us, reason, tasks, gpus, gpu_ms"
                         " FROM job_worker WHERE job = ?1 AND ended_us > ?2 AND started_us < ?3 ORDER BY started_us, id LIMIT ?4",
                         "iiii", s->job, t->view.from_us, t->view.to_us, (int64_t)room_of(t, s) + 1);

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0) {
        if (room_of(t, s) == 0) {
            t->more = true;
            break;
        }
        t->workers++;
        r = pl_json_add(s->workers,
                        json_pack("{s:I, s:s, s:s, s:s, s:I, s:I, s:s, s:I, s:I, s:I}", "worker",
                                  (json_int_t)pl_col_int(&rows, 0), "state", pl_col_text(&rows, 1), "pod", pl_col_text(&rows, 2),
                                  "node", pl_col_text(&rows, 3), "started_us", (json_int_t)pl_col_int(&rows, 4), "ended_us",
                                  (json_int_t)pl_col_int(&rows, 5), "reason", pl_col_text(&rows, 6), "tasks",
                                  (json_int_t)pl_col_int(&rows, 7), "gpus", (json_int_t)pl_col_int(&rows, 8), "gpu_ms",
                                  (json_int_t)pl_col_int(&rows, 9)),
                        err);
    }
    return PL_MIN(r, 0);
}

static int by_worker_and_time(const void *a, const void *b)
{
    const struct attempt *x = a, *y = b;

    if (x->worker != y->worker)
        return (x->worker > y->worker) - (x->worker < y->worker);
    return (x->times.from_us > y->times.from_us) - (x->times.from_us < y->times.from_us);
}

#define DETAIL(path) "json_extract(detail, '$." path "')"

/* Reads the job's own attempts: one with a run was taken over from the job of an earlier run. */
static int read_attempts(struct pl_conn *c, struct timeline *t, struct stage *s, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    const size_t room = ATTEMPTS_MAX - t->attempts;
    int r = pl_sql_query(
        c, err, &rows,
        "SELECT " DETAIL("worker") ", " DETAIL("started_us") ", " DETAIL("ms.held") ", " DETAIL("ms.wait") ", " DETAIL(
            "ms.fetch") ", " DETAIL("ms.compute") ", " DETAIL("ms.upload") " FROM attempt WHERE job = ? "
                                                                           "AND " DETAIL("run") " IS NULL "
                                                                                                "LIMIT ?",
        "ii", s->job, (int64_t)room);

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0) {
        if ((s->kept & (s->kept - 1)) == 0) { /* room for the next power of two */
            struct attempt *list = realloc(s->list, (s->kept ? 2 * s->kept : 1) * sizeof *list);

            if (!list)
                return pl_err_nomem(err);
            s->list = list;
        }
        s->list[s->kept++] =
            (struct attempt){pl_col_int(&rows, 0),
                             {pl_col_int(&rows, 1), pl_col_int(&rows, 2) * 1000, pl_col_int(&rows, 3) * 1000,
                              pl_col_int(&rows, 4) * 1000, pl_col_int(&rows, 5) * 1000, pl_col_int(&rows, 6) * 1000}};
    }
    t->attempts += s->kept;
    if (s->kept > 1)
        qsort(s->list, s->kept, sizeof *s->list, by_worker_and_time);
    return PL_MIN(r, 0);
}

/* Reads the run and its stages. */
static int read_run(struct pl_api *a, const struct pl_http_request *req, struct timeline *t, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_api_read(a, req);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_db_run_find(rd.conn, pl_http_param(req, "run"), t->run, err);

    r = r < 0
            ? r
            : pl_sql_query(rd.conn, err, &rows, "SELECT created_us, coalesce(finished_us, 0) FROM run WHERE id = ?", "s", t->run);
    r = r < 0 ? r : pl_sql_next(rd.conn, &rows, err);
    if (r <= 0)
        return r < 0 ? r : pl_err_set(err, PL_ENOTFOUND, "there is no run %s", t->run);
    r = read_view(req, pl_col_int(&rows, 0), pl_col_int(&rows, 1), t, err);
    return r < 0 ? r : read_stages(rd.conn, t, err);
}

/* Reads what the stages' workers did. Others may have the database reader between two stages. */
static int read_all(struct pl_api *a, const struct pl_http_request *req, struct timeline *t, struct pl_err *err)
{
    int r = read_run(a, req, t, err);

    for (size_t i = 0; r >= 0 && i < t->n; i++) {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);

        r = read_workers(rd.conn, t, &t->stages[i], err);
        r = r < 0 ? r : read_attempts(rd.conn, t, &t->stages[i], err);
        t->stages[i].attempts = PL_MAX(t->stages[i].attempts, t->stages[i].kept); /* it may have gone on since it was read */
    }
    return r;
}

/* Adds the workers that serve jobs now. Holds no database reader: the engine may wait for one. */
static int add_live(struct pl_api *a, struct timeline *t, struct pl_err *err)
{
    unsigned asked = 0;
    int r = 0;

    for (size_t i = 0; r >= 0 && i < t->n; i++) {
        struct stage *s = &t->stages[i];
        _cleanup_(json_decrefp) json_t *live = NULL;
        const json_t *one;
        size_t k;

        if (s->over || asked == LIVE_MAX)
            continue;
        asked++;
        live = a->config.engine->job_live(a->config.engine_self, t->run, pl_json_str(s->out, "project"),
                                          pl_json_str(s->out, "stage"));
        json_array_foreach(json_object_get(live, "served_by"), k, one)
        {
            if (pl_json_int(one, "started_us") >= t->view.to_us)
                continue;
            if (room_of(t, s) == 0) {
                t->more = true;
                break;
            }
            t->workers++;
            r = json_array_append(s->workers, (json_t *)(uintptr_t)one) < 0 ? pl_err_nomem(err) : 0;
        }
    }
    return r;
}

/* ---- drawing ---- */

static struct pl_worker_times times_of(const struct timeline *t, const struct stage *s, const json_t *w, bool has_attempts)
{
    const bool live = json_is_null(json_object_get(w, "ended_us")), pod = *pl_json_str(w, "pod") != '\0';
    const int64_t from_us = pl_json_int(w, "started_us"), to_us = live ? t->now_us : pl_json_int(w, "ended_us"),
                  gpus = pl_json_int(w, "gpus");
    struct pl_worker_times times = {.from_us = from_us, .to_us = to_us, .has_gpus = gpus > 0};

    times.unplaced = pod && !*pl_json_str(w, "node");
    if (pod && gpus > 0)
        times.placed_us = PL_MAX(to_us - pl_json_int(w, "gpu_ms") * 1000 / gpus, from_us);
    times.working = live && pl_streq(pl_json_str(w, "state"), "running");
    times.incomplete = s->kept < s->attempts && (has_attempts || pl_json_int(w, "tasks") > 0);
    return times;
}

/* Adds what a worker did to the totals of GPUs. */
static void count_gpus(struct timeline *t, int64_t gpus, const int64_t ms[PL_PHASES])
{
    int64_t held = 0, busy = ms[PL_PHASE_COMPUTE] + ms[PL_PHASE_WORK];

    for (unsigned i = PL_PHASE_START; i < PL_PHASES; i++)
        held += ms[i];
    t->gpu_ms[0] += gpus * held;
    t->gpu_ms[1] += gpus * busy;
    t->gpu_ms[2] += gpus * (held - busy);
}

/* Draws one worker into t->spans; returns the number of spans. */
static size_t draw_worker(struct timeline *t, const struct stage *s, const json_t *w, int64_t ms[PL_PHASES],
                          struct pl_attempt_times *attempts)
{
    const struct attempt key = {.worker = pl_json_int(w, "worker"), .times.from_us = INT64_MIN};
    struct pl_worker_times times;
    size_t at = 0, high = s->kept, n = 0;

    while (at < high) { /* the first attempt of the worker */
        const size_t middle = (at + high) / 2;

        if (by_worker_and_time(&s->list[middle], &key) < 0)
            at = middle + 1;
        else
            high = middle;
    }
    for (; at < s->kept && s->list[at].worker == key.worker; at++)
        attempts[n++] = s->list[at].times;
    times = times_of(t, s, w, n > 0);
    n = pl_timeline_lane(&times, attempts, n, &t->view, t->spans, ms);
    count_gpus(t, pl_json_int(w, "gpus"), ms);
    return n;
}

static json_t *spans_json(const struct pl_phase_span *spans, size_t n)
{
    json_t *list = json_array();

    for (size_t i = 0; i < n; i++)
        if (json_array_append_new(list, json_pack("{s:s, s:I, s:I}", "phase", pl_phase_names[spans[i].phase], "from_us",
                                                  (json_int_t)spans[i].from_us, "to_us", (json_int_t)spans[i].to_us)) < 0) {
            json_decref(list);
            return NULL;
        }
    return list;
}

static json_t *ms_json(const int64_t ms[PL_PHASES])
{
    json_t *out = json_object();

    for (unsigned i = 0; i < PL_PHASES; i++)
        if (ms[i] > 0)
            json_object_set_new(out, pl_phase_names[i], json_integer(ms[i]));
    return out;
}

static int add_lane(struct timeline *t, struct stage *s, const json_t *w, struct pl_attempt_times *attempts, struct pl_err *err)
{
    int64_t ms[PL_PHASES];
    const size_t n = draw_worker(t, s, w, ms, attempts);

    return pl_json_add(json_object_get(s->out, "lanes"),
                       json_pack("{s:O, s:O, s:s, s:s, s:O, s:O?, s:O, s:O, s:O, s:o, s:o}", "worker",
                                 json_object_get(w, "worker"), "state", json_object_get(w, "state"), "pod", pl_json_str(w, "pod"),
                                 "node", pl_json_str(w, "node"), "started_us", json_object_get(w, "started_us"), "ended_us",
                                 json_object_get(w, "ended_us"), "reason", json_object_get(w, "reason"), "tasks",
                                 json_object_get(w, "tasks"), "gpus", json_object_get(w, "gpus"), "ms", ms_json(ms), "spans",
                                 spans_json(t->spans, n)),
                       err);
}

/* Adds how many workers there were, and how many of them were busy, as steps. */
static int add_crowd(struct timeline *t, struct stage *s, struct pl_attempt_times *attempts, struct pl_err *err)
{
    _cleanup_free_ uint32_t *there = calloc(2 * (size_t)t->view.px, sizeof *there);
    uint32_t *busy = there ? there + t->view.px : NULL;
    json_t *steps = json_array();
    const json_t *w;
    int64_t ms[PL_PHASES];
    size_t i;
    int r = there && steps && json_object_set_new(s->out, "crowd", steps) == 0 ? 0 : pl_err_nomem(err);

    if (r < 0)
        return r;
    json_array_foreach(s->workers, i, w)
        pl_timeline_crowd_add(&t->view, t->spans, draw_worker(t, s, w, ms, attempts), there, busy);
    for (uint32_t px = 0, next; r >= 0 && px < t->view.px; px = next) {
        const int64_t width_us = t->view.to_us - t->view.from_us;

        for (next = px + 1; next < t->view.px && there[next] == there[px] && busy[next] == busy[px];)
            next++;
        if (there[px])
            r = pl_json_add(steps,
                            json_pack("{s:I, s:I, s:i, s:i}", "from_us",
                                      (json_int_t)(t->view.from_us + width_us * px / t->view.px), "to_us",
                                      (json_int_t)(t->view.from_us + width_us * next / t->view.px), "workers", (int)there[px],
                                      "busy", (int)busy[px]),
                            err);
    }
    return r;
}

static int draw_all(struct timeline *t, struct pl_err *err)
{
    size_t lanes = 0, most = 1;
    _cleanup_free_ struct pl_attempt_times *attempts = NULL;
    int r = 0;

    for (size_t i = 0; i < t->n; i++) {
        lanes += PL_MIN(json_array_size(t->stages[i].workers), LANES_MAX);
        most = PL_MAX(most, t->stages[i].kept);
        t->more = t->more || t->attempts == ATTEMPTS_MAX;
    }
    t->view.px = PL_MAX(PL_MIN(t->view.px, (uint32_t)(SPANS_MAX / PL_MAX(lanes, 1u))), 1u);
    t->spans = calloc(t->view.px + 1, sizeof *t->spans);
    attempts = calloc(most, sizeof *attempts);
    if (!t->spans || !attempts)
        return pl_err_nomem(err);
    for (size_t i = 0; r >= 0 && i < t->n; i++) {
        struct stage *s = &t->stages[i];
        const json_t *w;
        size_t k;

        json_object_set_new(s->out, "workers", json_integer((json_int_t)json_array_size(s->workers)));
        json_object_set_new(s->out, "attempts", json_integer((json_int_t)s->attempts));
        json_object_set_new(s->out, "kept", json_integer((json_int_t)s->kept));
        r = json_object_set_new(s->out, "lanes", json_array()) < 0 ? pl_err_nomem(err) : 0;
        if (r >= 0 && json_array_size(s->workers) > LANES_MAX)
            r = add_crowd(t, s, attempts, err);
        else
            json_array_foreach(s->workers, k, w) r = r < 0 ? r : add_lane(t, s, w, attempts, err);
    }
    return r;
}

static int get_timeline(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(timeline_finish) struct timeline t = {.now_us = pl_clock_wall_us()};
    json_t *stages = NULL;
    int r = read_all(a, req, &t, err);

    r = r < 0 ? r : add_live(a, &t, err);
    r = r < 0 ? r : draw_all(&t, err);
    r = r < 0 || (stages = json_array()) ? r : pl_err_nomem(err);
    for (size_t i = 0; r >= 0 && i < t.n; i++)
        r = json_array_append(stages, t.stages[i].out) < 0 ? pl_err_nomem(err) : 0;
    if (r < 0) {
        json_decref(stages);
        return r;
    }
    *ret = json_pack("{s:s, s:I, s:I, s:I, s:i, s:o, s:b, s:{s:I, s:I, s:I}}", "run", t.run, "now_us", (json_int_t)t.now_us,
                     "from_us", (json_int_t)t.view.from_us, "to_us", (json_int_t)t.view.to_us, "px", (int)t.view.px, "stages",
                     stages, "more", (int)t.more, "gpu", "held_ms", (json_int_t)t.gpu_ms[0], "computing_ms",
                     (json_int_t)t.gpu_ms[1], "idle_ms", (json_int_t)t.gpu_ms[2]);
    return *ret ? 0 : pl_err_nomem(err);
}

static const struct pl_api_route routes[] = {
    {.method = "GET",
     .pattern = "/api/v1/runs/{run}/timeline",
     .json = get_timeline,
     .verb = PL_VERB_LIST,
     .costly = true,
     .summary =
         "Returns what each worker of the run's stages did between `from` and `to` (microseconds since 1970; the run's begin and "
         "end): spans that follow each other, none narrower than one of `px` pixels (at most 4,000; fewer if there are many "
         "workers). Phases: wait (its pod has no node), start (its image is pulled, it has no datum yet), fetch, compute, "
         "upload, "
         "idle, idle_gpu (it holds GPUs and has no datum), work (details are not kept, or not known yet). A stage with more than "
         "40 workers has a `crowd` instead of lanes: how many there were, and were busy. `gpu`: times the number of GPUs.",
     .query = "from:integer to:integer px:integer",
     .reply = "RunTimeline"},
};

static const struct pl_api_schema schemas[] = {
    {"RunTimeline", "run:string now_us:integer from_us:integer to_us:integer px:integer stages:TimelineStage[] more:boolean "
                    "gpu:TimelineGpu"},
    {"TimelineGpu", "held_ms:integer computing_ms:integer idle_ms:integer"},
    {"TimelineStage",
     "project:string stage:string state:string workers:integer attempts:integer kept:integer lanes:TimelineLane[] "
     "crowd:TimelineStep[]?"},
    {"TimelineLane", "worker:integer state:string pod:string node:string started_us:integer ended_us:integer? reason:string "
                     "tasks:integer gpus:integer ms:object spans:TimelineSpan[]"},
    {"TimelineSpan", "phase:string from_us:integer to_us:integer"},
    {"TimelineStep", "from_us:integer to_us:integer workers:integer busy:integer"},
};

PL_API_TABLE(run_timeline, routes, schemas);
