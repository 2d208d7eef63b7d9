/* What needs attention, the worst first: failed stages, specs that are not accepted, full disks, jobs that wait. */
#include "pipelined/api/run_routes/job_json.h"
#include "pipelined/api/server/api_context.h"

#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"

#define WAIT_US     (5 * 60 * 1000000ll) /* a job that has waited for so long needs attention */
#define KIND_LISTED 100                  /* most entries of one kind, the newest; `more` counts the others */

/* Each kind has one query. Columns: project, stage, run, since when, sentence, number of failed datums, number of all
 * datums. Of a stage only the newest result counts: the last of its newest 100 jobs that ended with one. Runs on a branch
 * of their own are experiments and do not count. */
#define ENDED_LAST                                                                                                               \
    " FROM stage s JOIN job j ON j.id = (SELECT id FROM (SELECT id, state, run FROM job WHERE project = s.project"               \
    " AND stage = s.name AND final = 1 ORDER BY id DESC LIMIT 100) WHERE state IN ('success', 'failure')"                        \
    " AND NOT EXISTS (SELECT 1 FROM run r WHERE r.id = run AND r.as_branch IS NOT NULL) LIMIT 1)"                                \
    " WHERE s.current = 1 AND readable(s.project, s.name)"
#define FAILED "coalesce(json_extract(j.counts, '$.failed'), 0)"
#define TOTAL  "coalesce(json_extract(j.counts, '$.total'), 0)"
static const struct need_kind {
    const char *name, *sql;
} kinds[] = {
    {"failed",
     "SELECT j.project, j.stage, j.run, coalesce(j.finished_us, 0) AS since, j.stage || ' failed: ' || j.reason, " FAILED
     ", " TOTAL ENDED_LAST " AND j.state = 'failure'"},
    {"source",
     "SELECT s.project, '', '', t.changed_us AS since, 'the specs of ' || s.name || iif(t.state = 'unreachable',"
     " ' cannot be fetched: ', ' are not accepted: ') || t.error, 0, 0 FROM source_state t JOIN source s ON s.name = t.name"
     " WHERE t.state IN ('invalid', 'unreachable') AND NOT coalesce(json_extract(s.spec, '$.paused'), 0)"
     " AND readable(s.project, NULL)"},
    {"source",
     "SELECT r.project, r.name, '', t.changed_us AS since, 'repo ' || r.name || ' cannot be filled from git: ' || t.error,"
     " 0, 0 FROM repo_state t JOIN repo r ON r.id = t.repo WHERE t.state IN ('invalid', 'unreachable')"
     " AND readable(r.project, r.name)"},
    {"partly_failed",
     "SELECT j.project, j.stage, j.run, coalesce(j.finished_us, 0) AS since, " FAILED " || ' of ' || " TOTAL
     " || ' datums of ' || j.stage || ' failed', " FAILED ", " TOTAL ENDED_LAST " AND j.state = 'success' AND " FAILED " > 0"},
    /* a job that waits for another stage or an earlier run waits for what is under way */
    {"waiting",
     "SELECT j.project, j.stage, j.run, " PL_JOB_WAITS_SINCE " AS since, j.stage || iif(j.reason LIKE 'a worker %', ': ', ' is ')"
     " || j.reason, 0, " TOTAL " FROM job j WHERE j.final = 0 AND (j.reason LIKE 'starting %: %' OR j.reason LIKE"
     " 'a worker failed to start %' OR j.reason LIKE 'waiting %') AND j.reason NOT LIKE 'waiting for stage %'"
     " AND j.reason NOT LIKE 'waiting for its turn%' AND readable(j.project, j.stage)"},
};

/* Adds the entries of one kind, the oldest first. */
static int add_kind(struct pl_conn *c, const struct need_kind *kind, int64_t before_us, json_t *list, int64_t *more,
                    struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf sql = {0};
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    const size_t at = json_array_size(list);
    int64_t all = 0;
    int r = pl_buf_addf(&sql, err,
                        "WITH need(project, stage, run, since, text, failed, total) AS (%s)"
                        " SELECT *, (SELECT count(*) FROM need WHERE since < ?1) FROM need WHERE since < ?1"
                        " ORDER BY since DESC LIMIT ?2",
                        kind->sql);

    r = r < 0 ? r : pl_buf_add(&sql, "", 1, err);
    r = r < 0 ? r : pl_sql_query(c, err, &rows, (const char *)sql.data, "ii", before_us, (int64_t)KIND_LISTED);
    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0) {
        json_t *one = json_pack("{s:s, s:s, s:s, s:s, s:I, s:s, s:I, s:I}", "kind", kind->name, "project", pl_col_text(&rows, 0),
                                "stage", pl_col_text(&rows, 1), "run", pl_col_text(&rows, 2), "since_us",
                                (json_int_t)pl_col_int(&rows, 3), "text", pl_col_text(&rows, 4), "failed",
                                (json_int_t)pl_col_int(&rows, 5), "total", (json_int_t)pl_col_int(&rows, 6));

        all = pl_col_int(&rows, 7);
        if (!one || json_array_insert_new(list, at, one) < 0)
            r = pl_err_nomem(err);
    }
    *more += PL_MAX(all - KIND_LISTED, 0);
    return r;
}

/* Adds disks that are short of space; to operators only, because others cannot do anything about them. */
static int add_disks(struct pl_api *a, const struct pl_http_request *req, json_t *list, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *disks = pl_disk_watch_json(a->services.disks);
    const json_t *disk;
    size_t i;
    int r = disks ? 0 : pl_err_nomem(err);

    if (!pl_principal_may(pl_http_context(req), PL_VERB_OPERATE, NULL, NULL))
        return r;
    json_array_foreach(disks, i, disk)
    {
        const char *state = pl_json_str(disk, "state");

        if (r < 0 || pl_streq(state, "ok"))
            continue;
        r = pl_json_add(list,
                        json_pack("{s:s, s:s, s:s, s:s, s:I, s:o}", "kind", "disk", "project", "", "stage", "", "run", "",
                                  "since_us", json_integer_value(json_object_get(disk, "since_us")), "text",
                                  json_sprintf("the disk of %s (%s) is %s: %lld MiB are free", pl_json_str(disk, "path"),
                                               pl_json_str(disk, "of"), state,
                                               (long long)json_integer_value(json_object_get(disk, "free_bytes")) >> 20)),
                        err);
    }
    return r;
}

/* ---- GPUs that are held and do nothing ---- */

static bool was_told(const json_t *list, size_t from, const json_t *holder)
{
    for (size_t i = from; i < json_array_size(list); i++)
        if (json_equal(json_object_get(json_array_get(list, i), "holder"), holder))
            return true;
    return false;
}

static json_t *idle_text(const json_t *entry, const json_t *holder)
{
    const json_int_t held = json_integer_value(json_object_get(holder, "gpus")),
                     wanted = json_integer_value(json_object_get(json_object_get(entry, "want"), "gpus"));
    const char *stage = pl_json_str(holder, "stage");

    return json_sprintf("%s%s%s holds %lld GPU%s and does nothing with %s, while %s waits for %lld",
                        *stage ? stage : pl_json_str(holder, "namespace"), *stage ? "" : "/",
                        *stage ? "" : pl_json_str(holder, "pod"), (long long)held, held == 1 ? "" : "s",
                        held == 1 ? "it" : "them", pl_json_str(entry, "stage"), (long long)wanted);
}

/* Adds who holds GPUs that the entry waits for and has done nothing with them since before `before_us`, unless the reader
 * may not know of it. */
static int add_idle_of(const struct pl_http_request *req, json_t *entry, const json_t *gpus, int64_t before_us, json_t *list,
                       size_t from, struct pl_err *err)
{
    json_t *holder;
    size_t i;
    int r = pl_wait_explain(req, entry, gpus, err);

    json_array_foreach(json_object_get(entry, "holders"), i, holder)
    {
        const json_int_t since_us = json_integer_value(json_object_get(holder, "idle_since_us"));

        if (r < 0 || since_us == 0 || since_us >= before_us || was_told(list, from, holder))
            continue;
        r = pl_json_add(list,
                        json_pack("{s:s, s:O, s:O, s:O, s:I, s:o, s:O}", "kind", "idle_gpu", "project",
                                  json_object_get(entry, "project"), "stage", json_object_get(entry, "stage"), "run",
                                  json_object_get(entry, "run"), "since_us", since_us, "text", idle_text(entry, holder), "holder",
                                  holder),
                        err);
    }
    return r;
}

/* Adds GPUs that are held idle while a stage waits for one, each with the stage that is served first. */
static int add_idle_gpus(struct pl_api *a, const struct pl_http_request *req, int64_t before_us, json_t *list, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *live = a->config.engine->queue(a->config.engine_self, NULL, NULL, NULL);
    const size_t from = json_array_size(list);
    json_t *entry;
    size_t i;
    int r = 0;

    json_array_foreach(json_object_get(live, "queue"), i, entry)
    {
        const char *what = pl_json_str(entry, "for");

        if (r == 0 && (pl_streq(what, "gpu") || pl_streq(what, "pod")) && json_array_size(list) < from + KIND_LISTED &&
            json_integer_value(json_object_get(json_object_get(entry, "want"), "gpus")) > 0 &&
            pl_access_may_read(pl_http_context(req), pl_json_str(entry, "project"), pl_json_str(entry, "stage")))
            r = add_idle_of(req, entry, json_object_get(live, "gpus"), before_us, list, from, err);
    }
    return r;
}

static int list_needs(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *list = json_array();
    int64_t more = 0, now_us = pl_clock_wall_us();
    int r = list ? add_disks(a, req, list, err) : pl_err_nomem(err);

    r = r < 0 ? r : add_idle_gpus(a, req, now_us - WAIT_US, list, err);
    if (r >= 0) {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_api_read(a, req);

        for (size_t i = 0; r >= 0 && i < PL_ARRAY_SIZE(kinds); i++)
            r = add_kind(rd.conn, &kinds[i], pl_streq(kinds[i].name, "waiting") ? now_us - WAIT_US : INT64_MAX, list, &more, err);
    }
    if (r < 0)
        return r;
    *ret = json_pack("{s:O, s:I}", "needs", list, "more", (json_int_t)more);
    return *ret ? 0 : pl_err_nomem(err);
}

static const struct pl_api_route routes[] = {
    {.method = "GET",
     .pattern = "/api/v1/needs",
     .json = list_needs,
     .verb = PL_VERB_LIST,
     .summary =
         "Lists what needs somebody, the worst kind first and in each kind the oldest: disks without space (to operators), "
         "GPUs that were held for five minutes and did nothing while a stage waits for them, stages whose newest result failed, "
         "sources whose specs are not accepted, stages of whose newest result some "
         "datums failed, jobs that have waited for more than five minutes. Of each kind at most 100; `more` counts the "
         "others.",
     .reply = "Needs"},
};

static const struct pl_api_schema schemas[] = {
    {"Needs", "needs:Need[] more:integer"},
    {"Need", "kind:string project:string stage:string run:string since_us:integer text:string failed:integer? total:integer? "
             "holder:WaitHolder?"},
};

PL_API_TABLE(needs, routes, schemas);
