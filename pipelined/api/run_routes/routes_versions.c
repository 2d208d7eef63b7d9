/* Versions of a pipeline: the list of them, and what differs between two. */
#include "pipelined/api/run_routes/job_json.h"

#include "pipelined/db/pipelines/pipeline_draft.h"
#include "pipelined/plan/version_diff.h"

#include <stdio.h>

#define VERSIONS_PAGE_MAX 100u /* versions of one page: of each, the stages are compared with those of the one before */

/* ---- one version ---- */

#define OLDER   "s.pipeline = v.pipeline AND s.version = v.version - 1"
#define THIS    "s.pipeline = v.pipeline AND s.version = v.version"
#define OTHER   "FROM stage o WHERE o.pipeline = s.pipeline AND o.name = s.name AND o.version = "
#define DIFFERS "(o.spec <> s.spec OR o.code_identity <> s.code_identity OR o.code_root IS NOT s.code_root)"
/* The columns of version_json. */
#define VERSION                                                                                                                  \
    "SELECT v.version, v.created_us, v.version = p.version, v.filename, v.origin, v.run,"                                        \
    " (SELECT count(*) FROM stage s WHERE " THIS "),"                                                                            \
    " (SELECT count(*) FROM stage s WHERE " THIS " AND NOT EXISTS (SELECT 1 " OTHER "v.version - 1)),"                           \
    " (SELECT count(*) FROM stage s WHERE " THIS " AND EXISTS (SELECT 1 " OTHER "v.version - 1 AND " DIFFERS ")),"               \
    " (SELECT count(*) FROM stage s WHERE " OLDER " AND NOT EXISTS (SELECT 1 " OTHER "v.version))"                               \
    " FROM pipeline p JOIN pipeline_version v ON v.pipeline = p.id WHERE p.project = ?1 AND p.name = ?2"

/* Makes the JSON of a version; NULL: out of memory. */
static json_t *version_json(const struct pl_rows *rows)
{
    _cleanup_(json_decrefp) json_t *origin = pl_col_json(rows, 4), *shown = origin ? pl_api_origin_json(origin) : NULL,
                                   *out = NULL;
    const bool git = json_object_size(shown) > 0;

    if (!shown)
        return NULL;
    out = json_pack("{s:I, s:I, s:b, s:s, s:s, s:s, s:s, s:I, s:I, s:I, s:I}", "version", (json_int_t)pl_col_int(rows, 0),
                    "created_us", (json_int_t)pl_col_int(rows, 1), "current", (int)pl_col_int(rows, 2), "filename",
                    pl_col_text(rows, 3), "by", pl_json_str(origin, git ? "author" : "by"), "message",
                    pl_json_str(origin, "message"), "run", pl_col_text(rows, 5), "stages", (json_int_t)pl_col_int(rows, 6), "new",
                    (json_int_t)pl_col_int(rows, 7), "changed", (json_int_t)pl_col_int(rows, 8), "removed",
                    (json_int_t)pl_col_int(rows, 9));
    if (!out || (git && json_object_set(out, "origin", shown) < 0))
        return NULL;
    return TAKE_PTR(out);
}

/* Lists one page of the versions, newest first. */
static int list_versions(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    _cleanup_(json_decrefp) json_t *list = json_array();
    const char *project = pl_http_param(req, "project"), *name = pl_http_param(req, "pipeline");
    struct pl_api_page page;
    int64_t before = 0, last = 0;
    char next[32];
    bool more;
    int r = pl_api_page_read(req, &page, err);

    page.limit = r < 0 ? 0 : PL_MIN(page.limit, (size_t)VERSIONS_PAGE_MAX);
    r = r < 0 ? r : pl_api_page_number(&page, INT64_MAX, &before, err);
    r = r < 0 ? r
              : pl_sql_query(rd.conn, err, &rows, VERSION " AND v.version < ?3 ORDER BY v.version DESC LIMIT ?4", "ssii", project,
                             name, before, (int64_t)page.limit);
    while (r >= 0 && (r = pl_sql_next(rd.conn, &rows, err)) > 0) {
        last = pl_col_int(&rows, 0);
        r = pl_json_add(list, version_json(&rows), err);
    }
    if (r == 0 && json_array_size(list) == 0 && before == INT64_MAX)
        r = pl_api_no_version(rd.conn, project, name, 0, err);
    if (r < 0)
        return r;
    snprintf(next, sizeof next, "%lld", (long long)last);
    more = json_array_size(list) == page.limit && last > 1;
    *ret = pl_api_list("versions", TAKE_PTR(list), more ? next : NULL);
    return *ret ? 0 : pl_err_nomem(err);
}

/* ---- what differs ---- */

/* A version with its stages. Version 0 has none: it is what was before the first. */
struct side {
    json_t *json; /* version_json; NULL for version 0 */
    json_t *specs;
    struct pl_version_stage *items; /* with texts and specs in `specs`, [[name, spec]…] */
    size_t n, cap;
};

static void side_finish(struct side *s)
{
    json_decref(s->json);
    json_decref(s->specs);
    free(s->items);
}

static int add_stage(struct side *s, const char *project, const struct pl_rows *rows, struct pl_err *err)
{
    json_t *pair = json_pack("[s, o]", pl_col_text(rows, 0), pl_col_json(rows, 1));

    if (pl_json_add(s->specs, pair, err) < 0)
        return pl_err_nomem(err);
    if (s->n == s->cap) {
        const size_t cap = s->cap ? 2 * s->cap : 16;
        struct pl_version_stage *more = realloc(s->items, cap * sizeof *more);

        if (!more)
            return pl_err_nomem(err);
        s->items = more;
        s->cap = cap;
    }
    s->items[s->n++] = (struct pl_version_stage){.project = project,
                                                 .name = json_string_value(json_array_get(pair, 0)),
                                                 .spec = json_array_get(pair, 1),
                                                 .code_root = pl_col_hash(rows, 2),
                                                 .identity = pl_col_hash(rows, 3)};
    return 0;
}

static int read_side(struct pl_conn *c, const char *project, const char *name, int64_t version, struct side *s,
                     struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0}, stages = {0};
    int r;

    if (version == 0)
        return 0;
    s->specs = json_array();
    r = pl_sql_query(c, err, &rows, VERSION " AND v.version = ?3", "ssi", project, name, version);
    r = r < 0 ? r : pl_sql_next(c, &rows, err);
    if (r == 0)
        return pl_api_no_version(c, project, name, version, err);
    if (r < 0)
        return r;
    s->json = version_json(&rows);
    if (!s->json || !s->specs)
        return pl_err_nomem(err);
    r = pl_sql_query(c, err, &stages,
                     "SELECT s.name, s.spec, s.code_root, s.code_identity FROM stage s JOIN pipeline p ON p.id = s.pipeline"
                     " WHERE p.project = ? AND p.name = ? AND s.version = ? ORDER BY s.position",
                     "ssi", project, name, version);
    while (r >= 0 && (r = pl_sql_next(c, &stages, err)) > 0)
        r = add_stage(s, project, &stages, err);
    return r;
}

/* Reads which versions are asked for: `to`, the current one if it is not given, and `from`, the one before it. */
static int read_range(struct pl_conn *c, const struct pl_http_request *req, uint64_t *ret_from, uint64_t *ret_to,
                      struct pl_err *err)
{
    const char *project = pl_http_param(req, "project"), *name = pl_http_param(req, "pipeline");
    int64_t newest = 0;
    int r = pl_sql_int(c, err, &newest, "SELECT version FROM pipeline WHERE project = ? AND name = ?", "ss", project, name);

    if (r == PL_ENOTFOUND)
        return pl_api_no_version(c, project, name, 0, err);
    r = r < 0 ? r : pl_http_query_u64(req, "to", (uint64_t)newest, PL_VERSION_MAX, ret_to, err);
    return r < 0 ? r : pl_http_query_u64(req, "from", *ret_to ? *ret_to - 1 : 0, PL_VERSION_MAX, ret_from, err);
}

/* Names the files of the code that differ. Without them the rest is still right. */
static void name_files(struct pl_api *a, const char *project, json_t *list)
{
    json_t *entry;
    size_t i;

    json_array_foreach(list, i, entry)
    {
        if (json_object_get(entry, "code"))
            (void)!pl_pipeline_name_changed_files(a->config.stores, project, entry, NULL);
    }
}

static int diff_versions(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(side_finish) struct side from = {0}, to = {0};
    const char *project = pl_http_param(req, "project"), *name = pl_http_param(req, "pipeline");
    uint64_t first = 0, second = 0;
    json_t *list = NULL;
    size_t same = 0;
    int r;

    { /* a store may ask the bucket for code: the database reader is given back before */
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);

        r = read_range(rd.conn, req, &first, &second, err);
        /* `to` first: without a `from`, an error names the version that was asked for */
        r = r < 0 ? r : read_side(rd.conn, project, name, (int64_t)second, &to, err);
        r = r < 0 ? r : read_side(rd.conn, project, name, (int64_t)first, &from, err);
    }
    r = r < 0 ? r
              : pl_version_diff((struct pl_version_stages){from.items, from.n}, (struct pl_version_stages){to.items, to.n}, &list,
                                &same, err);
    if (r < 0)
        return r;
    name_files(a, project, list);
    *ret = json_pack("{s:s, s:s, s:O*, s:O*, s:o, s:I}", "project", project, "pipeline", name, "from", from.json, "to", to.json,
                     "stages", list, "same", (json_int_t)same);
    return *ret ? 0 : pl_err_nomem(err);
}

static const struct pl_api_route routes[] = {
    {.method = "GET",
     .pattern = "/api/v1/pipelines/{project}/{pipeline}/versions",
     .json = list_versions,
     .costly = true,
     .verb = PL_VERB_READ_PIPELINES,
     .summary = "Lists the versions of a pipeline, newest first: when, by whom and from which git commit they were set, the run "
                "that they started, and how many stages were new, changed or removed. A page has at most 100.",
     .query = "after limit:integer",
     .reply = "PipelineVersionList"},
    {.method = "GET",
     .pattern = "/api/v1/pipelines/{project}/{pipeline}/diff",
     .json = diff_versions,
     .costly = true,
     .verb = PL_VERB_READ_PIPELINES,
     .summary = "Returns what differs between two versions, stage by stage: the fields with the values of both, the files of the "
                "code, and whether `none`, `some` or `all` of the datums run anew. `to` is the current version if it is not "
                "given, `from` the one before `to`; 0 is what was before the first.",
     .query = "from:integer to:integer",
     .reply = "PipelineVersionDiff"},
};

static const struct pl_api_schema schemas[] = {
    {"PipelineVersion", "version:integer created_us:integer current:boolean filename:string by:string message:string run:string "
                        "origin:GitOrigin? stages:integer new:integer changed:integer removed:integer"},
    {"PipelineVersionList", "versions:PipelineVersion[] next:string?"},
    /* before, after: absent where the version has no such field; content: that of the code folder differs */
    {"FieldChange", "field:string before:any? after:any? again:string content:boolean?"},
    /* again: absent for a stage that was removed; because: stages that it reads and that run anew */
    {"VersionStageChange",
     "stage:string change:string again:string? because:string[]? fields:FieldChange[]? files:ChangedFiles?"},
    /* same: how many stages are the same in both versions and run nothing anew */
    {"PipelineVersionDiff", "project:string pipeline:string from:PipelineVersion? to:PipelineVersion? "
                            "stages:VersionStageChange[] same:integer"},
};
PL_API_TABLE(versions, routes, schemas);
