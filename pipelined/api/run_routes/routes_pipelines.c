/* Pipelines. A spec is sent as text, with the tree roots of its code folders; everything is checked before
 * anything is stored. */
#include "pipelined/api/run_routes/job_json.h"

#include "pipelined/api/graph_view/graph_view.h"
#include "pipelined/db/pipelines/manual_run.h"
#include "pipelined/db/pipelines/pipeline_draft.h"
#include "pipelined/db/pipelines/pipeline_state.h"
#include "pipelined/db/pipelines/update_cost.h"
#include "pipelined/source/source.h"
#include "storage/system/log_line.h"

#include <stdio.h>

#define SPEC_BODY_MAX (12u << 20)

/* ---- create and update ---- */

static json_t *set_reply(const struct pl_pipeline_draft *d)
{
    if (d->args.stopped)
        json_array_append_new(d->warnings,
                              json_sprintf("pipeline \"%s\" is stopped and does not run: pipelinectl start pipeline %s",
                                           d->spec->pipeline, d->spec->pipeline));
    return json_pack("{s:s, s:s, s:I, s:b, s:s, s:O, s:I, s:o}", "project", d->spec->project, "pipeline", d->spec->pipeline,
                     "version", (json_int_t)d->args.version, "changed", (int)d->args.changed, "run", d->args.run, "stages",
                     d->args.changes, "gpu_s", (json_int_t)d->args.gpu_s, "warnings", json_incref(d->warnings));
}

/* Creates or updates a pipeline, or says what an update would do. */
static int set_pipeline(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_pipeline_draft_finish) struct pl_pipeline_draft d = {
        .host = a->config.pipelines, .who = pl_http_context(req), .filename = "spec.json", .effort = pl_request_effort(req)};
    _cleanup_(json_decrefp) json_t *body = NULL;
    const char *project = NULL;
    int update = 0, dry_run = 0, yes = 0, strict = 0, detach = 0, r;
    struct pl_err why = {0};
    json_t *code = NULL;

    r = pl_api_body(req, &body, err, "{s:s, s?:s, s?:s, s?:o, s?:b, s?:b, s?:b, s?:b, s?:b}", "spec", &d.text, "filename",
                    &d.filename, "project", &project, "code", &code, "update", &update, "dry_run", &dry_run, "yes", &yes,
                    "strict", &strict, "detach", &detach);
    d.args.update = update;
    d.args.dry_run = dry_run;
    d.args.detach = detach;
    d.args.confirmed = yes || !update;
    r = r < 0 ? r : pl_pipeline_draft_parse(&d, project, err);
    r = r < 0 ? r : pl_sources_check_inputs(a->config.sources, d.spec, err);
    r = r < 0 ? r : pl_pipeline_draft_code(&d, code, err);
    r = r < 0 ? r : pl_pipeline_draft_ready(&d, strict, err);
    r = r < 0 ? r : pl_db_run(a->config.db, PL_TX_LOGGED, pl_tx_pipeline_set, &d.args, err);
    if (r < 0 && !(dry_run && r == PL_ECANCELED))
        return r;
    r = pl_pipeline_draft_name_files(&d, &why);
    if (r < 0) /* the update itself is made */
        pl_log_warn("api", "pipeline %s/%s: the changed files cannot be named: %s", d.spec->project, d.spec->pipeline, why.msg);
    *ret = set_reply(&d);
    if (!dry_run && d.args.changed)
        a->config.engine->pipelines_changed(a->config.engine_self, d.args.run);
    if (!dry_run && d.args.follows)
        pl_sources_changed(a->config.sources);
    return 0;
}

/* ---- what is out of date ---- */

/* The freshness of the stages of some pipelines. */
struct stages_read {
    json_t *pipelines; /* "PROJECT/PIPELINE" → true: those that are wanted */
    json_t *fresh;     /* "PROJECT/STAGE" → the freshness as JSON */
};

static void stages_read_finish(struct stages_read *s)
{
    json_decref(s->pipelines);
    json_decref(s->fresh);
}

static bool is_wanted(const void *self, const char *project, const char *pipeline, const char *stage)
{
    const struct stages_read *s = self;
    char key[2 * PL_NAME_MAX_BYTES + 2];

    (void)stage;
    snprintf(key, sizeof key, "%s/%s", project, pipeline);
    return json_object_get(s->pipelines, key) != NULL;
}

static int take_use(void *self, const struct pl_graph_use *use, struct pl_err *err)
{
    struct stages_read *s = self;
    char key[2 * PL_NAME_MAX_BYTES + 2];

    if (use->from_repo || !is_wanted(s, use->project, use->pipeline, use->stage))
        return 0;
    snprintf(key, sizeof key, "%s/%s", use->project, use->stage);
    return json_object_set_new(s->fresh, key, pl_graph_freshness_json(use->fresh)) < 0 ? pl_err_nomem(err) : 0;
}

/* Reads the freshness of the current stages of these pipelines ([{"project", "name"}…]) that the principal may see. */
static int read_stages(struct pl_api *a, const struct pl_http_request *req, struct pl_conn *c, const json_t *pipelines,
                       struct stages_read *ret, struct pl_err *err)
{
    const struct pl_graph_ask ask = {.readable = pl_access_may_read, .who = pl_http_context(req), .words = is_wanted};
    _cleanup_(pl_graph_view_unrefp) struct pl_graph_view *view = NULL;
    char key[2 * PL_NAME_MAX_BYTES + 2];
    const json_t *one;
    size_t i;
    int r;

    ret->pipelines = json_object();
    ret->fresh = json_object();
    r = ret->pipelines && ret->fresh ? pl_graph_view_get(a->graphs, c, &view, err) : pl_err_nomem(err);
    json_array_foreach((json_t *)(uintptr_t)pipelines, i, one)
    {
        snprintf(key, sizeof key, "%s/%s", pl_json_str(one, "project"), pl_json_str(one, "name"));
        if (r == 0 && json_object_set_new(ret->pipelines, key, json_true()) < 0)
            r = pl_err_nomem(err);
    }
    return r < 0 ? r : pl_graph_uses(view, c, &ask, take_use, ret, err);
}

/* Adds the freshness of the stages, and the number of those that are out of date, to a pipeline at its current version. */
static int add_freshness(const struct stages_read *s, json_t *pipeline, struct pl_err *err)
{
    json_int_t stale = 0;
    char key[2 * PL_NAME_MAX_BYTES + 2];
    json_t *one, *fresh;
    size_t i;

    json_array_foreach(json_object_get(pipeline, "stages"), i, one)
    {
        snprintf(key, sizeof key, "%s/%s", pl_json_str(pipeline, "project"), pl_json_str(one, "name"));
        fresh = json_object_get(s->fresh, key);
        stale += *pl_json_str(fresh, "text") != '\0';
        if (fresh && json_object_set(one, "freshness", fresh) < 0)
            return pl_err_nomem(err);
    }
    return json_object_set_new(pipeline, "stale", json_integer(stale)) < 0 ? pl_err_nomem(err) : 0;
}

/* ---- run ---- */

/* The price of a run while the stages come, each after those that it reads. */
struct pricing {
    struct pl_conn *c;
    const struct pl_manual_run_args *args;
    json_t *begins;     /* "PROJECT/STAGE" → true: stages with which the run begins */
    json_t *in;         /* "PROJECT/STAGE" → whether the output may be a new one, of each stage that is in the run */
    json_t *prices;     /* the reply's */
    bool has_stage;     /* one was told; below is what is known of it, and its inputs still come */
    bool reads_run;     /* a stage that it reads is in the run */
    bool reads_changed; /* and may get a new output there */
    struct pl_graph_use stage;
    struct pl_freshness is;
};

static void pricing_finish(struct pricing *p)
{
    json_decref(p->begins);
    json_decref(p->in);
    json_decref(p->prices);
}

/* Adds the price of the stage whose inputs have come. One that never had a job has no price, one of a stopped pipeline gets no job. */
static int price_stage(struct pricing *p, struct pl_err *err)
{
    struct pl_freshness_price price = {.datums = -1};
    struct pl_stage_past past;
    json_t *again = NULL;
    char key[2 * PL_NAME_MAX_BYTES + 2];
    bool begins;
    int r;

    if (!p->has_stage || p->stage.stopped)
        return 0;
    snprintf(key, sizeof key, "%s/%s", p->stage.project, p->stage.stage);
    begins = json_object_get(p->begins, key) != NULL;
    if (!begins && !p->reads_run)
        return 0;
    r = pl_stage_past_read(p->c, p->stage.project, p->stage.stage, &past, err);
    if (r == 0 && past.datums >= 0) {
        price = pl_freshness_price(&p->is, past.datums, p->args->force && begins, p->reads_changed);
        again = pl_stage_past_json(&past, price.datums, price.at_most, price.estimated);
        r = again ? 0 : pl_err_nomem(err);
    }
    r = r < 0 ? r
              : pl_json_add(p->prices,
                            json_pack("{s:s, s:s, s:s, s:O*}", "project", p->stage.project, "pipeline", p->stage.pipeline,
                                      "stage", p->stage.stage, "again", again),
                            err);
    json_decref(again);
    if (r == 0 && json_object_set_new(p->in, key, json_boolean(price.datums != 0 || p->is.why != 0)) < 0)
        r = pl_err_nomem(err);
    return r;
}

static int take_priced(void *self, const struct pl_graph_use *use, struct pl_err *err)
{
    struct pricing *p = self;
    char key[2 * PL_NAME_MAX_BYTES + 2];
    const json_t *from;
    int r;

    if (!use->from_repo) {
        r = price_stage(p, err);
        p->has_stage = true;
        p->reads_run = p->reads_changed = false;
        p->stage = *use;
        p->is = use->fresh->is;
        return r;
    }
    snprintf(key, sizeof key, "%s/%s", use->from_project, use->from_repo);
    from = use->from_stage ? json_object_get(p->in, key) : NULL;
    p->reads_run |= from != NULL;
    p->reads_changed |= json_is_true(from);
    return 0;
}

static bool without_words(const void *self, const char *project, const char *pipeline, const char *stage)
{
    (void)self, (void)project, (void)pipeline, (void)stage;
    return false;
}

/* Answers what a run would do with the stages with which it begins and with all that follow, in any pipeline. */
static int price_run(struct pl_api *a, const struct pl_http_request *req, const struct pl_manual_run_args *args, json_t **ret,
                     struct pl_err *err)
{
    const struct pl_graph_ask ask = {
        .readable = pl_access_may_read, .who = pl_http_context(req), .in_order = true, .words = without_words};
    _cleanup_(pl_graph_view_unrefp) struct pl_graph_view *view = NULL;
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    _cleanup_(pricing_finish) struct pricing p = {
        .c = rd.conn, .args = args, .begins = json_object(), .in = json_object(), .prices = json_array()};
    char key[2 * PL_NAME_MAX_BYTES + 2];
    const json_t *pair;
    size_t i;
    int r = p.begins && p.in && p.prices ? pl_graph_view_get(a->graphs, rd.conn, &view, err) : pl_err_nomem(err);

    json_array_foreach(args->stages, i, pair)
    {
        snprintf(key, sizeof key, "%s/%s", json_string_value(json_array_get(pair, 0)),
                 json_string_value(json_array_get(pair, 1)));
        if (r == 0 && json_object_set_new(p.begins, key, json_true()) < 0)
            r = pl_err_nomem(err);
    }
    r = r < 0 ? r : pl_graph_uses(view, rd.conn, &ask, take_priced, &p, err);
    r = r < 0 ? r : price_stage(&p, err);
    if (r == 0)
        *ret = json_incref(p.prices);
    return r;
}

static int run_pipeline(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *body = NULL, *names = json_array();
    struct pl_manual_run_args args = {.project = pl_http_param(req, "project"), .pipeline = pl_http_param(req, "pipeline")};
    json_t *prices = NULL;
    int force = 0, dry_run = 0;
    int r = pl_api_body(req, &body, err, "{s?:s, s?:b, s?:b}", "stage", &args.stage, "force", &force, "dry_run", &dry_run);

    args.force = force;
    args.dry_run = dry_run;
    args.asker = pl_api_asker(req);
    /* the run must read all puts that were acknowledged before this request; a dry run ends no commit, which would set off a run */
    r = r < 0 || dry_run ? r : pl_open_commits_flush_inputs(a->services.opens, args.project, args.pipeline, err);
    r = r < 0 ? r : pl_db_run(a->config.db, PL_TX_LOGGED, pl_tx_manual_run, &args, err);
    if (dry_run && r == PL_ECANCELED)
        r = price_run(a, req, &args, &prices, err);
    for (size_t i = 0; r == 0 && i < json_array_size(args.stages); i++)
        if (json_array_append(names, json_array_get(json_array_get(args.stages, i), 1)) < 0)
            r = pl_err_nomem(err);
    json_decref(args.stages);
    if (r < 0)
        return r;
    *ret = json_pack("{s:s, s:O, s:o*}", "run", args.run, "stages", names, "prices", prices);
    if (!dry_run)
        a->config.engine->pipelines_changed(a->config.engine_self, args.run);
    return *ret ? 0 : pl_err_nomem(err);
}

/* ---- stop, start ---- */

static int set_state(struct pl_api *a, struct pl_http_request *req, bool stop, json_t **ret, struct pl_err *err)
{
    struct pl_pipeline_state_args args = {.project = pl_http_param(req, "project"),
                                          .name = pl_http_param(req, "pipeline"),
                                          .stop = stop};
    /* the run of a start must read all puts that were acknowledged before this request */
    int r = stop ? 0 : pl_open_commits_flush_inputs(a->services.opens, args.project, args.name, err);

    r = r < 0 ? r : pl_db_run(a->config.db, PL_TX_LOGGED, pl_tx_pipeline_state, &args, err);
    if (r < 0)
        return r;
    if (args.changed)
        a->config.engine->pipelines_changed(a->config.engine_self, args.run);
    *ret = json_pack("{s:s, s:s, s:s, s:b, s:s}", "project", args.project, "pipeline", args.name, "state",
                     stop ? "stopped" : "running", "changed", (int)args.changed, "run", args.run);
    return *ret ? 0 : pl_err_nomem(err);
}

static int stop_pipeline(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    return set_state(a, req, true, ret, err);
}

static int start_pipeline(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    return set_state(a, req, false, ret, err);
}

/* ---- list, inspect, delete ---- */

/* Lists the repos that an input reads: REPO, and PROJECT/REPO of another project than `project`. */
static void add_inputs(const json_t *node, const char *project, json_t *out)
{
    const char *repo = json_string_value(json_object_get(node, "repo"));
    const json_t *child, *children = json_object_get(node, "cross");
    const size_t len = strlen(project);
    char name[2 * PL_NAME_MAX_BYTES + 2];
    size_t i;

    if (!children)
        children = json_object_get(node, "union");
    json_array_foreach(children, i, child) add_inputs(child, project, out);
    if (!repo)
        return;
    snprintf(name, sizeof name, "%s", strncmp(repo, project, len) == 0 && repo[len] == '/' ? repo + len + 1 : repo);
    name[strcspn(name, "@")] = '\0';
    json_array_append_new(out, json_string(name));
}

static json_t *stage_json(const struct pl_rows *rows, bool whole)
{
    json_t *spec = pl_col_json(rows, 2), *inputs = json_array(), *out;
    struct pl_hash code = pl_col_hash(rows, 4);
    bool gpu = json_is_object(json_object_get(spec, "gpu"));

    add_inputs(json_object_get(spec, "input"), pl_col_text(rows, 5), inputs);
    out = json_pack("{s:s, s:s, s:o, s:b}", "name", pl_col_text(rows, 0), "branch", pl_col_text(rows, 1), "inputs", inputs, "gpu",
                    (int)gpu);
    if (whole) {
        json_object_set(out, "spec", spec);
        json_object_set_new(out, "git", pl_col_json(rows, 3));
        json_object_set_new(out, "code", pl_api_hash_json(&code));
    }
    json_decref(spec);
    return out;
}

static int stages_json(struct pl_conn *c, int64_t pipeline, int64_t version, bool whole, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    json_t *list = json_array();
    int r = pl_sql_query(
        c, err, &rows,
        "SELECT name, branch, spec, git, code_identity, project FROM stage WHERE pipeline = ? AND version = ? ORDER BY position",
        "ii", pipeline, version);

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0)
        json_array_append_new(list, stage_json(&rows, whole));
    if (r < 0) {
        json_decref(list);
        return r;
    }
    *ret = list;
    return 0;
}

static int pipeline_json(struct pl_conn *c, const struct pl_rows *rows, bool whole, json_t **ret, struct pl_err *err)
{
    const char *stopped = pl_col_text(rows, 7);
    json_t *stages = NULL;
    int r = stages_json(c, pl_col_int(rows, 0), pl_col_int(rows, 3), whole, &stages, err);

    if (r < 0)
        return r;
    *ret = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:s, s:s, s:s*, s:o}", "project", pl_col_text(rows, 1), "name",
                     pl_col_text(rows, 2), "version", (json_int_t)pl_col_int(rows, 3), "current", (json_int_t)pl_col_int(rows, 8),
                     "created_us", (json_int_t)pl_col_int(rows, 4), "updated_us", (json_int_t)pl_col_int(rows, 5), "source",
                     pl_col_text(rows, 6), "state", *stopped ? "stopped" : "running", "stopped_by", *stopped ? stopped : NULL,
                     "stages", stages);
    return 0;
}

#define PIPELINE_COLUMNS "SELECT id, project, name, version, created_us, updated_us, source, stopped, version FROM pipeline"
/* The same of a version that is not the current one, too. */
#define VERSION_COLUMNS                                                                                                          \
    "SELECT p.id, p.project, p.name, v.version, p.created_us, iif(v.version = p.version, p.updated_us, v.created_us), p.source," \
    " p.stopped, p.version FROM pipeline p JOIN pipeline_version v ON v.pipeline = p.id"

/* Lists one page of pipelines with their stages. */
static int list_pipelines(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_api_read(a, req);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    const char *project;
    _cleanup_(stages_read_finish) struct stages_read stages = {0};
    struct pl_api_page page;
    json_t *list = json_array(), *one;
    int64_t after = 0;
    char last[32] = "";
    size_t n = 0, i;
    int r = pl_api_page_read(req, &page, err);

    r = r < 0 ? r : pl_api_page_number(&page, 0, &after, err);
    r = r < 0 ? r : pl_api_project_filter(req, rd.conn, &project, err);
    r = r < 0 ? r
              : pl_sql_query(rd.conn, err, &rows,
                             PIPELINE_COLUMNS " WHERE (?1 IS NULL OR project = ?1) AND id > ?2 AND readable(project, NULL)"
                                              " ORDER BY id LIMIT ?3",
                             "sii", project, after, (int64_t)page.limit);
    while (r >= 0 && (r = pl_sql_next(rd.conn, &rows, err)) > 0) {
        r = pipeline_json(rd.conn, &rows, false, &one, err);
        if (r < 0)
            break;
        json_array_append_new(list, one);
        snprintf(last, sizeof last, "%lld", (long long)pl_col_int(&rows, 0));
        n++;
    }
    r = r < 0 ? r : read_stages(a, req, rd.conn, list, &stages, err);
    json_array_foreach(list, i, one)
    {
        r = r < 0 ? r : add_freshness(&stages, one, err);
    }
    if (r < 0) {
        json_decref(list);
        return r;
    }
    *ret = pl_api_list("pipelines", list, n == page.limit ? last : NULL);
    return 0;
}

/* What is read with one version of a pipeline. */
struct version {
    bool has_spec;
    struct pl_hash spec; /* as written */
    json_t *defaults;    /* as recorded (pl_spec_default_paths); NULL = not known */
};

static void version_finish(struct version *v)
{
    json_decref(v->defaults);
}

/* Finds the version's spec, its file name and its origin. */
static int find_spec(struct pl_conn *c, int64_t id, int64_t version, struct version *ret, json_t *out, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    _cleanup_(json_decrefp) json_t *origin = NULL, *shown = NULL;
    int r =
        pl_sql_query(c, err, &rows, "SELECT user_spec, filename, origin FROM pipeline_version WHERE pipeline = ? AND version = ?",
                     "ii", id, version);

    r = r < 0 ? r : pl_sql_next(c, &rows, err);
    if (r <= 0)
        return r;
    origin = pl_col_json(&rows, 2);
    shown = pl_api_origin_json(origin);
    if (json_object_set_new(out, "filename", json_string(pl_col_text(&rows, 1))) < 0 || !shown ||
        (json_object_size(shown) > 0 && json_object_set(out, "origin", shown) < 0))
        return pl_err_nomem(err);
    ret->spec = pl_col_hash(&rows, 0);
    ret->defaults = json_incref(json_object_get(origin, "defaults"));
    ret->has_spec = true;
    return 0;
}

static int add_spec_text(struct pl_api *a, const char *project, const struct pl_hash *spec, json_t *out, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {0};
    struct pl_store *store;
    int r = pl_project_stores_get(a->config.stores, project, &store, err);

    r = r < 0 ? r : pl_store_get(store, spec, PL_REC_BLOB, &text, err);
    if (r == 0 && json_object_set_new(out, "spec", json_stringn(text.len ? (const char *)text.data : "", text.len)) < 0)
        r = pl_err_nomem(err);
    return r;
}

/* Adds to each stage where its fields come from. */
static int add_origins(const struct version *v, json_t *out, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *stages = json_object(), *origins = NULL;
    const json_t *text = json_object_get(out, "spec");
    json_t *one;
    size_t i;
    int r;

    json_array_foreach(json_object_get(out, "stages"), i, one)
    {
        if (json_object_set(stages, pl_json_str(one, "name"), json_object_get(one, "spec")) < 0)
            return pl_err_nomem(err);
    }
    r = pl_spec_origins(json_string_value(text), json_string_length(text), stages, v->defaults, &origins, err);
    json_array_foreach(json_object_get(out, "stages"), i, one)
    {
        if (r == 0 && json_object_set(one, "origins", json_object_get(origins, pl_json_str(one, "name"))) < 0)
            r = pl_err_nomem(err);
    }
    return r;
}

/* Reads the rows of one version of the pipeline; `version` 0 is the current one. */
static int read_pipeline(struct pl_api *a, const struct pl_http_request *req, int64_t version, struct version *ret_version,
                         json_t **ret, struct pl_err *err)
{
    const char *project = pl_http_param(req, "project"), *name = pl_http_param(req, "pipeline");
    _cleanup_(stages_read_finish) struct stages_read stages = {0};
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    _cleanup_(json_decrefp) json_t *out = NULL, *list = NULL;
    int r = pl_sql_query(rd.conn, err, &rows,
                         VERSION_COLUMNS " AND v.version = iif(?3 = 0, p.version, ?3) WHERE p.project = ?1 AND p.name = ?2",
                         "ssi", project, name, version);

    r = r < 0 ? r : pl_sql_next(rd.conn, &rows, err);
    if (r == 0)
        return pl_api_no_version(rd.conn, project, name, version, err);
    r = r < 0 ? r : pipeline_json(rd.conn, &rows, true, &out, err);
    r = r < 0 ? r : find_spec(rd.conn, pl_col_int(&rows, 0), pl_col_int(&rows, 3), ret_version, out, err);
    if (r == 0 && pl_col_int(&rows, 3) == pl_col_int(&rows, 8)) {
        list = json_pack("[O]", out);
        r = list ? read_stages(a, req, rd.conn, list, &stages, err) : pl_err_nomem(err);
        r = r < 0 ? r : add_freshness(&stages, out, err);
    }
    if (r == 0)
        *ret = TAKE_PTR(out);
    return r;
}

static int inspect_pipeline(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(version_finish) struct version v = {0};
    _cleanup_(json_decrefp) json_t *out = NULL;
    const char *project = pl_http_param(req, "project");
    uint64_t version = 0;
    int r = pl_http_query_u64(req, "version", 0, PL_VERSION_MAX, &version, err);

    r = r < 0 ? r : read_pipeline(a, req, (int64_t)version, &v, &out, err);
    if (r == 0 && v.has_spec)
        r = add_spec_text(a, project, &v.spec, out, err);
    if (r == 0 && v.has_spec && pl_http_query_flag(req, "origins"))
        r = add_origins(&v, out, err);
    if (r == 0)
        *ret = TAKE_PTR(out);
    return r;
}

static int delete_pipeline(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    struct pl_pipeline_delete_args args = {.project = pl_http_param(req, "project"),
                                           .name = pl_http_param(req, "pipeline"),
                                           .keep_repos = pl_http_query_flag(req, "keep_repos"),
                                           .force = pl_http_query_flag(req, "force"),
                                           .told = {pl_access_may_read, pl_http_context(req)},
                                           .dry_run = pl_http_query_flag(req, "dry_run")};
    int r = pl_db_run(a->config.db, PL_TX_LOGGED, pl_tx_pipeline_delete, &args, err);

    if (r < 0 && !(args.dry_run && r == PL_ECANCELED))
        return r;
    if (!args.dry_run)
        a->config.engine->pipelines_changed(a->config.engine_self, "");
    *ret = json_pack("{s:s, s:s, s:o}", "project", args.project, "deleted", args.name, "took", pl_delete_loss_json(&args.loss));
    return *ret ? 0 : pl_err_nomem(err);
}

static const struct pl_api_route routes[] = {
    {.method = "GET",
     .pattern = "/api/v1/pipelines",
     .json = list_pipelines,
     .costly = true,
     .verb = PL_VERB_LIST,
     .summary = "Lists pipelines with their stages, and which of these are out of date: `stale` is their number.",
     .query = "project after limit:integer",
     .reply = "PipelineList"},
    {.method = "POST",
     .pattern = "/api/v1/pipelines",
     .json = set_pipeline,
     .body = PL_BODY_JSON,
     .body_max = SPEC_BODY_MAX,
     .costly = true,
     .verb = PL_VERB_DEFINE,
     .asks = true,
     .somewhere = true,
     .summary = "Creates a pipeline, or with `update` changes one; with `dry_run` only reports what would happen. An update "
                "whose jobs may take more than `confirm_above` needs `yes`.",
     .request = "PipelineSet",
     .reply = "PipelineSetReply"},
    {.method = "GET",
     .pattern = "/api/v1/pipelines/{project}/{pipeline}",
     .json = inspect_pipeline,
     .verb = PL_VERB_READ_PIPELINES,
     .summary = "Returns one pipeline: its spec as written, its stages with their effective specs and code. `version`: those of "
                "an earlier version. `origins`: for each field of the effective specs, whether it is written in the `stage`, or "
                "comes from the defaults of the `spec`, the `project`, the `cluster` or the `language`; `unknown` if that was "
                "not recorded.",
     .query = "version:integer origins:boolean",
     .reply = "Pipeline"},
    {.method = "POST",
     .pattern = "/api/v1/pipelines/{project}/{pipeline}/run",
     .json = run_pipeline,
     .body = PL_BODY_JSON,
     .verb = PL_VERB_DEFINE,
     .summary = "Starts a run of the pipeline, or of one stage and the stages after it, over the present content of their "
                "inputs; `force` processes every datum again. `dry_run` makes no run: `run` is empty, and `prices` says for each "
                "stage that would be in it, of this pipeline or of another one that follows, how many datums would run `again`, "
                "as for an update. Puts that wait for the end of a commit do not count.",
     .request = "PipelineRun",
     .reply = "PipelineRunReply"},
    {.method = "POST",
     .pattern = "/api/v1/pipelines/{project}/{pipeline}/stop",
     .json = stop_pipeline,
     .verb = PL_VERB_DEFINE,
     .summary = "Stops a pipeline: its running jobs are killed, and its stages get no more until it is started. It keeps its "
                "version and its outputs, and may be updated.",
     .reply = "PipelineState"},
    {.method = "POST",
     .pattern = "/api/v1/pipelines/{project}/{pipeline}/start",
     .json = start_pipeline,
     .verb = PL_VERB_DEFINE,
     .summary = "Starts a stopped pipeline with a run over the present content of its inputs.",
     .reply = "PipelineState"},
    {.method = "DELETE",
     .pattern = "/api/v1/pipelines/{project}/{pipeline}",
     .json = delete_pipeline,
     .verb = PL_VERB_DEFINE,
     .summary =
         "Deletes a pipeline with its output repos, and says what went with them; with `keep_repos` they stay as input repos. "
         "With `dry_run` it only says what would go.",
     .query = "keep_repos:boolean force:boolean dry_run:boolean",
     .reply = "PipelineDeleted"},
};

static const struct pl_api_schema schemas[] = {
    {"Stage", "name:string branch:string inputs:string[] gpu:boolean spec:object? git:object? code:string? origins:object? "
              "freshness:Freshness?"},
    /* state: current, stale, updating (a run brings it up to date), empty (no output yet, and nothing to make it from); why: code,
     * spec, input, skipped, upstream, missing; datums: to run, if that is known without planning a run; command: what mends it */
    {"Freshness", "state:string why:string[] text:string command:string datums:integer? run:string?"},
    {"Pipeline", "project:string name:string version:integer current:integer created_us:integer updated_us:integer source:string "
                 "state:string stopped_by:string? stale:integer? stages:Stage[] filename:string? spec:string? origin:GitOrigin?"},
    {"GitOrigin", "source:string url:string branch:string commit:string path:string author:string message:string at:integer"},
    {"PipelineList", "pipelines:Pipeline[] next:string?"},
    {"PipelineSet", "spec:string filename:string? project:string? code:object? update:boolean? dry_run:boolean? yes:boolean? "
                    "strict:boolean? detach:boolean?"},
    {"RunAgain", "datums:integer of:integer at_most:boolean estimated:boolean gpu_s:integer? worker_s:integer?"},
    {"ChangedFiles", "changed:string[] count:integer"},
    {"StageChange", "stage:string change:string what:string? files:ChangedFiles? again:RunAgain?"},
    {"PipelineSetReply",
     "project:string pipeline:string version:integer changed:boolean run:string stages:StageChange[] gpu_s:integer "
     "warnings:string[]"},
    {"PipelineRun", "stage:string? force:boolean? dry_run:boolean?"},
    {"RunPrice", "project:string pipeline:string stage:string again:RunAgain?"},
    {"PipelineRunReply", "run:string stages:string[] prices:RunPrice[]?"},
    {"PipelineState", "project:string pipeline:string state:string changed:boolean run:string"},
    {"PipelineDeleted", "project:string deleted:string took:DeleteLoss"},
};

PL_API_TABLE(pipelines, routes, schemas);
