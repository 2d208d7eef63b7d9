/* Converts database rows to JSON, and finds jobs by stage and run. */
#include "pipelined/api/run_routes/job_json.h"

#include "pipelined/failure/error_line.h"
#include "pipelined/gpus/gpu_queue.h"
#include "pipelined/plan/datum_identity.h"
#include "pipelined/plan/enum_key.h"
#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"

#include <stdio.h>

struct pl_run_asker pl_api_asker(const struct pl_http_request *req)
{
    const struct pl_principal *who = pl_http_context(req);

    return (struct pl_run_asker){.who = who->name, .agent = pl_http_header(req, "User-Agent")};
}

json_t *pl_run_row_json(const struct pl_rows *rows)
{
    const char *trace = pl_col_text(rows, 7), *author = pl_col_text(rows, 8), *agent = pl_col_text(rows, 9);

    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:I, s:o, s:s*, s:s*, s:s*}", "id", pl_col_text(rows, 0), "state",
                     pl_col_text(rows, 1), "reason", pl_col_text(rows, 2), "message", pl_col_text(rows, 3), "cause",
                     pl_col_text(rows, 4), "created_us", (json_int_t)pl_col_int(rows, 5), "finished_us",
                     pl_api_time_or_null(pl_col_int(rows, 6)), "traceparent", *trace ? trace : NULL, "author",
                     *author ? author : NULL, "agent", *agent ? agent : NULL);
}

static json_t *datums_json(const json_t *counts)
{
    json_t *out = json_pack("{s:I, s:I, s:I, s:I}", "total", (json_int_t)pl_json_int(counts, "total"), "reused",
                            (json_int_t)pl_json_int(counts, "reused"), "done", (json_int_t)pl_json_int(counts, "done"), "failed",
                            (json_int_t)pl_json_int(counts, "failed"));

    if (pl_json_int(counts, "recovered"))
        json_object_set_new(out, "recovered", json_integer(pl_json_int(counts, "recovered")));
    if (pl_json_int(counts, "lost"))
        json_object_set_new(out, "lost", json_integer(pl_json_int(counts, "lost")));
    return out;
}

/* Makes the JSON of a job's GPU usage; null for a job on CPUs. A figure that no driver library measured is
 * null, never 0. */
static json_t *gpu_json(const json_t *ms)
{
    const bool measured = pl_json_int(ms, "gpu_measured") > 0;
    json_t *out;

    if (pl_json_int(ms, "gpus") == 0)
        return json_null();
    out = json_pack("{s:I, s:I, s:I, s:I}", "held_ms", (json_int_t)pl_json_int(ms, "gpu"), "lost_ms",
                    (json_int_t)pl_json_int(ms, "gpu_lost"), "waiting_ms", (json_int_t)pl_json_int(ms, "gpu_wait"), "measured_ms",
                    (json_int_t)pl_json_int(ms, "gpu_measured"));
    json_object_set_new(out, "used_ms", measured ? json_integer(pl_json_int(ms, "gpu_used")) : json_null());
    json_object_set_new(out, "mem_peak",
                        pl_json_int(ms, "gpu_mem_peak") > 0 ? json_integer(pl_json_int(ms, "gpu_mem_peak")) : json_null());
    return out;
}

/* Returns "gpu" or "cpu": the device that the job's commands ran on; before the first command, the device
 * that the stage requests. NULL: it may be either, or no command will run. */
static const char *device_of(const struct pl_rows *rows, const json_t *counts, const json_t *ms)
{
    _cleanup_(json_decrefp) json_t *asked = pl_col_json(rows, 20);

    if (pl_json_int(ms, "gpus") > 0)
        return "gpu";
    if (pl_json_int(counts, "attempts") > 0 || !json_is_object(asked))
        return "cpu";
    return pl_col_int(rows, 18) == 0 && !json_is_false(json_object_get(asked, "required")) ? "gpu" : NULL;
}

json_t *pl_job_row_json(const struct pl_rows *rows, bool whole)
{
    _cleanup_(json_decrefp) json_t *counts = pl_col_json(rows, 13), *ms = pl_col_json(rows, 14), *origin = pl_col_json(rows, 21);
    struct pl_hash code = pl_col_hash(rows, 10);
    /* a version of 0 means that the pipeline was deleted */
    json_t *version = pl_col_int(rows, 5) ? json_integer(pl_col_int(rows, 5)) : json_null();
    json_t *out = json_pack("{s:s, s:s, s:s, s:s, s:o, s:s, s:s, s:o, s:o, s:O, s:o, s:s?, s:s, s:I, s:o, s:o}", "run",
                            pl_col_text(rows, 1), "project", pl_col_text(rows, 2), "stage", pl_col_text(rows, 3), "pipeline",
                            pl_col_text(rows, 4), "version", version, "state", pl_col_text(rows, 6), "reason",
                            pl_col_text(rows, 7), "warnings", pl_col_json(rows, 12), "datums", datums_json(counts), "ms", ms,
                            "bytes", pl_col_json(rows, 15), "device", device_of(rows, counts, ms), "output", pl_col_text(rows, 9),
                            "created_us", (json_int_t)pl_col_int(rows, 16), "started_us",
                            pl_api_time_or_null(pl_col_int(rows, 17)), "finished_us", pl_api_time_or_null(pl_col_int(rows, 18)));

    json_object_set_new(out, "gpu", gpu_json(ms));
    json_object_set_new(out, "mem_peak",
                        pl_json_int(ms, "max_rss_kb") > 0 ? json_integer(pl_json_int(ms, "max_rss_kb") * 1024) : json_null());
    if (*pl_col_text(rows, 19))
        json_object_set_new(out, "as", json_string(pl_col_text(rows, 19)));
    if (json_object_get(origin, "source"))
        json_object_set_new(out, "origin", pl_api_origin_json(origin));
    if (whole) {
        json_object_set_new(out, "base", json_string(pl_col_text(rows, 8)));
        json_object_set_new(out, "code", pl_api_hash_json(&code));
        json_object_set_new(out, "inputs", pl_col_json(rows, 11));
        json_object_set_new(out, "attempts", json_integer(pl_json_int(counts, "attempts")));
        if (json_object_get(counts, "planned"))
            json_object_set_new(out, "planned", json_integer(pl_json_int(counts, "planned")));
    }
    return out;
}

static void insert_first(json_t *list, const json_t *more)
{
    json_t *one;
    size_t i;

    json_array_foreach((json_t *)(uintptr_t)more, i, one) json_array_insert(list, i, one);
}

void pl_job_add_live(struct pl_api *a, json_t *job)
{
    static const char *const figures[] = {"waiting", "leased", "workers"};
    _cleanup_(json_decrefp) json_t *live = NULL;
    json_t *datums = json_object_get(job, "datums");

    if (!job || !json_is_null(json_object_get(job, "finished_us")))
        return;
    live = a->config.engine->job_live(a->config.engine_self, json_string_value(json_object_get(job, "run")),
                                      json_string_value(json_object_get(job, "project")),
                                      json_string_value(json_object_get(job, "stage")));
    for (size_t i = 0; live && i < PL_ARRAY_SIZE(figures); i++)
        json_object_set(datums, figures[i], json_object_get(live, figures[i]));
    if (json_object_get(live, "device"))
        json_object_set(job, "device", json_object_get(live, "device"));
    if (json_object_get(job, "workers")) /* those that serve it now, before those that ended */
        insert_first(json_object_get(job, "workers"), json_object_get(live, "served_by"));
}

int pl_wait_explain(const struct pl_http_request *req, json_t *entry, const json_t *gpus, struct pl_err *err)
{
    const struct pl_gpu_queue_reader reader = {.now_us = pl_clock_wall_us(),
                                               .may_see = pl_access_may_read,
                                               .who = pl_http_context(req),
                                               .sees_pods = pl_principal_may(pl_http_context(req), PL_VERB_OPERATE, NULL, NULL)};

    return pl_gpu_queue_explain(entry, gpus, &reader, err);
}

int pl_job_add_waits(struct pl_api *a, const struct pl_http_request *req, json_t *job, struct pl_err *err)
{
    static const char *const shown[] = {"for", "ahead", "want", "free", "of", "holders", "start"};
    _cleanup_(json_decrefp) json_t *live = NULL;
    json_t *entry, *waits;
    int r;

    if (!job || !json_is_null(json_object_get(job, "finished_us")))
        return 0;
    live = a->config.engine->queue(a->config.engine_self, pl_json_str(job, "run"), pl_json_str(job, "project"),
                                   pl_json_str(job, "stage"));
    entry = json_array_get(json_object_get(live, "queue"), 0);
    if (!entry)
        return 0;
    r = pl_wait_explain(req, entry, json_object_get(live, "gpus"), err);
    if (r < 0)
        return r;
    waits = json_object();
    for (size_t i = 0; i < PL_ARRAY_SIZE(shown); i++)
        if (json_object_get(entry, shown[i]))
            json_object_set(waits, shown[i], json_object_get(entry, shown[i]));
    return json_object_set_new(job, "waits", waits) < 0 ? pl_err_nomem(err) : 0;
}

int pl_job_workers_add(struct pl_conn *c, int64_t job, json_t *out, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    json_t *list = json_array();
    int64_t lost = 0;
    int r = json_object_set_new(out, "workers", list) < 0 ? pl_err_nomem(err) : 0;

    r = r < 0 ? r : pl_sql_int(c, err, &lost, "SELECT count(*) FROM job_worker WHERE job = ? AND lost = 1", "i", job);
    json_object_set_new(out, "workers_lost", json_integer(lost));
    r = r < 0 ? r
              : pl_sql_query(c, err, &rows,
                             "SELECT worker, lost, pod, node, started_us, ended_us, reason, tasks, held, gpus, gpu_ms"
                             " FROM job_worker WHERE job = ? ORDER BY lost DESC, id DESC LIMIT ?",
                             "ii", job, (int64_t)PL_JOB_WORKERS_LISTED);
    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0)
        json_array_append_new(list, json_pack("{s:I, s:s, s:s*, s:s, s:I, s:I, s:s, s:I, s:o, s:I, s:I}", "worker",
                                              (json_int_t)pl_col_int(&rows, 0), "state", pl_col_int(&rows, 1) ? "lost" : "ended",
                                              "pod", *pl_col_text(&rows, 2) ? pl_col_text(&rows, 2) : NULL, "node",
                                              pl_col_text(&rows, 3), "started_us", (json_int_t)pl_col_int(&rows, 4), "ended_us",
                                              (json_int_t)pl_col_int(&rows, 5), "reason", pl_col_text(&rows, 6), "tasks",
                                              (json_int_t)pl_col_int(&rows, 7), "held", pl_col_json(&rows, 8), "gpus",
                                              (json_int_t)pl_col_int(&rows, 9), "gpu_ms", (json_int_t)pl_col_int(&rows, 10)));
    return PL_MIN(r, 0);
}

void pl_jobs_add_live(struct pl_api *a, json_t *jobs)
{
    json_t *job;
    size_t i;

    json_array_foreach(jobs, i, job) pl_job_add_live(a, job);
}

int pl_api_stage_check(struct pl_conn *c, const char *project, const char *stage, struct pl_err *err)
{
    int64_t one;
    int r = pl_sql_int(c, err, &one,
                       "SELECT 1 FROM stage WHERE project = ?1 AND name = ?2"
                       " UNION ALL SELECT 1 FROM job WHERE project = ?1 AND stage = ?2 LIMIT 1",
                       "ss", project, stage);

    return r == PL_ENOTFOUND ? pl_err_set(err, r, "there is no stage \"%s\" in project %s", stage, project) : r;
}

int pl_api_job_find(struct pl_conn *c, const char *project, const char *stage, const char *run, int64_t *ret_id,
                    char ret_run[PL_ID_HEX + 1], struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    char found[PL_ID_HEX + 1];
    int64_t id;
    int r = *run ? pl_db_run_text_check(run, err) : 0;

    r = r < 0 ? r
              : pl_sql_query(
                    c, err, &rows,
                    *run ? "SELECT id, run FROM job WHERE +project = ?1 AND +stage = ?2 AND run >= ?3 AND run < ?3 || 'g' LIMIT 2"
                         : "SELECT id, run FROM job WHERE project = ?1 AND stage = ?2 ORDER BY id DESC LIMIT 1",
                    *run ? "sss" : "ss", project, stage, run);
    r = r < 0 ? r : pl_sql_next(c, &rows, err);
    if (r < 0)
        return r;
    if (r == 0 && (r = pl_api_stage_check(c, project, stage, err)) < 0)
        return r;
    if (r == 0 && *run)
        return pl_err_set(err, PL_ENOTFOUND, "stage \"%s\" of project \"%s\" has no job in run %s", stage, project, run);
    if (r == 0)
        return pl_err_set(err, PL_ENOTFOUND, "stage \"%s\" of project \"%s\" has no job", stage, project);
    id = pl_col_int(&rows, 0);
    snprintf(found, sizeof found, "%s", pl_col_text(&rows, 1));
    r = pl_sql_next(c, &rows, err);
    if (r > 0)
        return pl_err_set(err, PL_ECONFLICT, "\"%s\" is a prefix of several run ids: give more digits", run);
    if (r < 0)
        return r;
    *ret_id = id;
    strcpy(ret_run, found);
    return 0;
}

/* ---- inputs of a stage's spec ---- */

static const json_t *leaf_of(const json_t *node, size_t *at, size_t wanted)
{
    const json_t *child, *found, *children = json_object_get(node, "cross");
    size_t i;

    if (json_object_get(node, "repo") || json_object_get(node, "params"))
        return (*at)++ == wanted ? node : NULL;
    json_array_foreach(children ? children : json_object_get(node, "union"), i, child)
    {
        found = leaf_of(child, at, wanted);
        if (found)
            return found;
    }
    return NULL;
}

const json_t *pl_job_input_leaf(const json_t *stage, size_t index)
{
    size_t at = 0;

    return leaf_of(json_object_get(stage, "input"), &at, index);
}

int pl_job_input_files(const json_t *leaf, struct pl_glob_set **ret, struct pl_err *err)
{
    const json_t *files = json_object_get(leaf, "files");
    const size_t n = json_array_size(files);
    _cleanup_free_ const char **patterns = calloc(n + 1, sizeof *patterns);

    *ret = NULL;
    if (!patterns)
        return pl_err_nomem(err);
    for (size_t i = 0; i < n; i++)
        patterns[i] = json_string_value(json_array_get(files, i));
    return n ? pl_glob_set_compile(patterns, n, ret, err) : 0;
}

void pl_job_datum_id(const uint8_t *key, size_t len, const json_t *inputs, struct pl_hash *ret)
{
    struct pl_cursor c = pl_cursor_of(key, len);
    struct pl_datum_leaf leaves[PL_SPEC_LEAVES_MAX];
    struct pl_input in[PL_SPEC_LEAVES_MAX];
    struct pl_enum_match match;
    size_t n = 0;

    for (; n < PL_SPEC_LEAVES_MAX && pl_enum_key_next(&c, &match); n++) {
        const json_t *one = json_array_get(inputs, match.leaf);
        const char *repo = pl_json_str(one, "repo");

        in[n] = (struct pl_input){.kind = *repo ? PL_INPUT_LEAF : PL_INPUT_PARAMS,
                                  .project = pl_json_str(one, "project"),
                                  .repo = repo,
                                  .branch = pl_json_str(one, "branch"),
                                  .name = pl_json_str(one, "name"),
                                  .environment = json_is_true(json_object_get(one, "environment"))};
        leaves[n] = (struct pl_datum_leaf){.input = &in[n], .path = match.path, .path_len = match.path_len};
    }
    pl_datum_id(leaves, n, ret);
}

/* ---- datums ---- */

json_t *pl_datum_params(const char *paths)
{
    const char *at = strncmp(paths, "params={", 8) == 0 ? paths : strstr(paths, ", params={");
    json_t *found = at ? json_loads(strchr(at, '{'), JSON_DISABLE_EOF_CHECK, NULL) : NULL;

    if (json_is_object(found))
        return found;
    json_decref(found);
    return NULL;
}

int pl_job_has_params(struct pl_conn *c, int64_t job, bool *ret, struct pl_err *err)
{
    int64_t n = 0;
    int r = pl_sql_int(c, err, &n,
                       "SELECT count(*) FROM job j, json_each(j.inputs) i WHERE j.id = ?"
                       " AND coalesce(json_extract(i.value, '$.repo'), '') = ''",
                       "i", job);

    *ret = n > 0;
    return r;
}

json_t *pl_attempt_row_json(const struct pl_rows *rows, bool params, bool whole)
{
    struct pl_hash datum = pl_col_hash(rows, 0);
    json_t *detail = pl_col_json(rows, 8), *out, *values;
    json_int_t gpus;

    out = json_pack("{s:o, s:I, s:s, s:I, s:I, s:b, s:b, s:s, s:I, s:I}", "id", pl_api_hash_json(&datum), "attempt",
                    (json_int_t)pl_col_int(rows, 1), "state", pl_col_text(rows, 2), "exit_code", (json_int_t)pl_col_int(rows, 3),
                    "signal", (json_int_t)pl_col_int(rows, 4), "oom", (int)pl_col_int(rows, 5), "timed_out",
                    (int)pl_col_int(rows, 6), "reason", pl_col_text(rows, 7), "finished_us", (json_int_t)pl_col_int(rows, 9),
                    "fence", (json_int_t)pl_col_int(rows, 11));
    json_object_update_missing(out, detail);
    gpus = json_integer_value(json_object_get(detail, "gpus"));
    if (gpus > 0)
        json_object_set_new(out, "gpu_ms",
                            json_integer(gpus * json_integer_value(json_object_get(json_object_get(detail, "ms"), "held"))));
    values = params ? pl_datum_params(pl_json_str(detail, "paths")) : NULL;
    if (values)
        json_object_set_new(out, "params", values);
    json_decref(detail);
    if (whole) {
        const char *tail = pl_col_text(rows, 10);
        const struct pl_error_line line = pl_error_line(tail);

        json_object_set_new(out, "tail", json_string(tail));
        if (pl_streq(pl_col_text(rows, 2), "failed") && line.len > 0)
            json_object_set_new(out, "tail_line", json_integer((json_int_t)line.number));
    }
    return out;
}

/* ---- versions of a pipeline ---- */

json_t *pl_api_origin_json(const json_t *origin)
{
    _cleanup_(json_decrefp) json_t *out = json_object();
    const json_t *value;
    const char *key;

    if (!json_object_get(origin, "source"))
        return TAKE_PTR(out);
    json_object_foreach((json_t *)(uintptr_t)origin, key, value)
    {
        if (!pl_streq(key, "defaults") && json_object_set(out, key, (json_t *)(uintptr_t)value) < 0)
            return NULL;
    }
    return TAKE_PTR(out);
}

int pl_api_no_version(struct pl_conn *c, const char *project, const char *pipeline, int64_t version, struct pl_err *err)
{
    int64_t newest = 0;
    int r = pl_sql_int(c, err, &newest, "SELECT version FROM pipeline WHERE project = ? AND name = ?", "ss", project, pipeline);

    if (r == PL_ENOTFOUND || (r == 0 && version == 0))
        return pl_err_set(err, PL_ENOTFOUND, "pipeline \"%s\" does not exist in project \"%s\"", pipeline, project);
    if (r < 0)
        return r;
    r = pl_err_set(err, PL_ENOTFOUND, "pipeline \"%s\" has no version %lld: its newest is %lld", pipeline, (long long)version,
                   (long long)newest);
    return pl_err_hint(err, r, "pipelinectl list version %s", pipeline);
}
