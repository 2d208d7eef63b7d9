/* The daemon itself: status, GPUs, fsck. */
#include "job_json.h"

#include "storage/base/clock.h"
#include "storage/dataset/fsck.h"

#include <stdio.h>
#include <sys/statvfs.h>

/* ---- status ---- */

static int64_t count(struct pl_conn *c, const char *sql)
{
    int64_t n = 0;

    return pl_sql_int(c, NULL, &n, sql, "") < 0 ? 0 : n;
}

static json_t *counts_json(struct pl_conn *c)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I}", "repos",
                     (json_int_t)count(c, "SELECT count(*) FROM repo WHERE readable(project, name)"), "pipelines",
                     (json_int_t)count(c, "SELECT count(*) FROM pipeline WHERE readable(project, NULL)"), "runs_running",
                     (json_int_t)count(c, "SELECT count(*) FROM run WHERE state = 'running'"), "runs_failed",
                     (json_int_t)count(c, "SELECT count(*) FROM run WHERE state = 'failure'"), "jobs_unfinished",
                     (json_int_t)count(c, "SELECT count(*) FROM job WHERE final = 0 AND readable(project, stage)"), "commits",
                     (json_int_t)count(c, "SELECT count(*) FROM commit_"));
}

static json_t *disk_json(const struct pl_api *a)
{
    struct statvfs fs;

    if (statvfs(a->config.data_dir, &fs) < 0)
        return json_object();
    return json_pack("{s:I, s:I}", "free_bytes", (json_int_t)fs.f_bavail * (json_int_t)fs.f_frsize, "total_bytes",
                     (json_int_t)fs.f_blocks * (json_int_t)fs.f_frsize);
}

static bool readable_at(const struct pl_http_request *req, const json_t *o)
{
    return pl_api_readable(pl_http_context(req), pl_api_text_at(o, "project"), pl_api_text_at(o, "stage"));
}

/* Workers and GPUs, without whose they are where the asker may not read that. */
static json_t *live_json(struct pl_api *a, const struct pl_http_request *req)
{
    json_t *live = a->config.engine->live(a->config.engine_self), *workers = json_object_get(live, "workers"), *one;
    size_t i;

    for (i = json_array_size(workers); i-- > 0;)
        if (!readable_at(req, json_array_get(workers, i)))
            json_array_remove(workers, i);
    json_array_foreach(json_object_get(json_object_get(live, "gpus"), "gpus"), i, one)
    {
        if (json_object_size(json_object_get(one, "by")) && !readable_at(req, json_object_get(one, "by")))
            json_object_set_new(one, "by", json_object());
    }
    return live;
}

static int get_status(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    json_t *counts, *live = live_json(a, req);

    (void)err;
    {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_api_read(a, req);

        counts = counts_json(rd.conn);
    }
    *ret = json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:o, s:o, s:o}", "version", a->config.version, "store",
                     a->config.store_url, "store_id", pl_db_store_id(a->config.db), "executor", a->config.executor, "data_dir",
                     a->config.data_dir, "url", a->url, "log_seq", (json_int_t)pl_db_log_seq(a->config.db), "counts", counts,
                     "disk", disk_json(a), "live", live);
    return 0;
}

static int get_gpus(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    json_t *live = live_json(a, req), *gpus = json_object_get(live, "gpus");

    (void)err;
    *ret = gpus ? json_incref(gpus) : json_pack("{s:[]}", "gpus");
    json_decref(live);
    return 0;
}

/* ---- fsck ---- */

struct checking {
    struct pl_api *api;
    const struct pl_http_request *req;
    json_t *findings;
    struct pl_fsck_report sum;
};

#define FINDINGS_MAX 1000

static json_t *text_or_null(const char *s)
{
    return s ? json_string(s) : json_null();
}

static int note_finding(void *self, const struct pl_fsck_finding *f, struct pl_err *err)
{
    struct checking *c = self;

    (void)err;
    if (json_array_size(c->findings) < FINDINGS_MAX)
        json_array_append_new(c->findings, json_pack("{s:s, s:o, s:o, s:o, s:o}", "what", f->what, "pack",
                                                     f->pack ? pl_api_hash_json(f->pack) : json_null(), "id",
                                                     f->id ? pl_api_hash_json(f->id) : json_null(), "commit",
                                                     text_or_null(f->commit), "path", text_or_null(f->path)));
    return 0;
}

static bool is_unwanted(void *self)
{
    const struct checking *c = self;

    return atomic_load(&c->api->draining) || pl_http_request_gone(c->req);
}

/* Every commit of a project, by its name. */
static int read_roots(struct pl_conn *c, const char *project, struct pl_fsck_root **ret, size_t *ret_n, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    struct pl_fsck_root *roots = NULL, *grown;
    size_t n = 0, cap = 0;
    char *label;
    int r = pl_sql_query(
        c, err, &rows,
        "SELECT r.name, c.run, c.object FROM commit_ c JOIN repo r ON r.id = c.repo WHERE r.project = ? ORDER BY c.id", "s",
        project);

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0) {
        if (n == cap) {
            cap = cap ? cap * 2 : 64;
            grown = realloc(roots, cap * sizeof *roots);
            if (!grown) {
                r = pl_err_nomem(err);
                break;
            }
            roots = grown;
        }
        if (asprintf(&label, "%s/%s@%.8s", project, pl_col_text(&rows, 0), pl_col_text(&rows, 1)) < 0) {
            r = pl_err_nomem(err);
            break;
        }
        roots[n++] = (struct pl_fsck_root){label, pl_col_hash(&rows, 2)};
    }
    *ret = roots;
    *ret_n = n;
    return r;
}

static int check_project(struct pl_api *a, const char *project, bool full, struct checking *c, struct pl_err *err)
{
    struct pl_fsck_options options = {.full = full, .finding = note_finding, .stop = is_unwanted, .self = c};
    struct pl_fsck_report report = {0};
    struct pl_fsck_root *roots = NULL;
    struct pl_store *store;
    size_t n = 0;
    int r = pl_stores_get(a->config.stores, project, &store, err);

    if (r < 0)
        return r;
    {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);

        r = read_roots(rd.conn, project, &roots, &n, err);
    }
    r = r < 0 ? r : pl_fsck(store, roots, n, &options, &report, err);
    for (size_t i = 0; i < n; i++)
        free((char *)roots[i].label);
    free(roots);
    c->sum.packs += report.packs;
    c->sum.records += report.records;
    c->sum.commits += report.commits;
    c->sum.nodes += report.nodes;
    c->sum.files += report.files;
    c->sum.findings += report.findings;
    return r;
}

static int project_names(struct pl_api *a, json_t *ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(rd.conn, err, &rows, "SELECT name FROM project ORDER BY name", "");

    while (r >= 0 && (r = pl_sql_next(rd.conn, &rows, err)) > 0)
        json_array_append_new(ret, json_string(pl_col_text(&rows, 0)));
    return r;
}

static int check_all(struct checking *c, bool full, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *names = json_array();
    const json_t *name;
    size_t i;
    int r = project_names(c->api, names, err);

    json_array_foreach(names, i, name)
    {
        r = r < 0 ? r : check_project(c->api, json_string_value(name), full, c, err);
    }
    return r;
}

static json_t *report_json(const struct checking *c, bool full, int64_t ms)
{
    return json_pack("{s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:O, s:I}", "ok", c->sum.findings == 0, "full", (int)full, "packs",
                     (json_int_t)c->sum.packs, "records", (json_int_t)c->sum.records, "commits", (json_int_t)c->sum.commits,
                     "nodes", (json_int_t)c->sum.nodes, "files", (json_int_t)c->sum.files, "found", (json_int_t)c->sum.findings,
                     "findings", c->findings, "ms", (json_int_t)ms);
}

/* It may read the whole store: one at a time, and for nobody's sake none. */
static int run_fsck(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *findings = json_array();
    struct checking c = {.api = a, .req = req, .findings = findings};
    bool full = pl_http_query_flag(req, "full");
    int64_t began = pl_clock_mono_ms();
    int r;

    if (atomic_exchange(&a->checking, true))
        return pl_err_hint(err, pl_err_set(err, PL_EBUSY, "a check is running already"),
                           "Wait for its end, or end who asked for it.");
    r = check_all(&c, full, err);
    atomic_store(&a->checking, false);
    if (r == 0)
        *ret = report_json(&c, full, pl_clock_mono_ms() - began);
    return r;
}

static const struct pl_api_route routes[] = {
    {.method = "GET",
     .pattern = "/api/v1/status",
     .json = get_status,
     .verb = PL_VERB_STATUS,
     .summary = "The daemon: version, store, what it holds, what runs.",
     .reply = "Status"},
    {.method = "GET",
     .pattern = "/api/v1/gpus",
     .json = get_gpus,
     .verb = PL_VERB_STATUS,
     .summary = "GPU slots: product, memory, who holds them.",
     .reply = "Gpus"},
    {.method = "POST",
     .pattern = "/api/v1/fsck",
     .json = run_fsck,
     .verb = PL_VERB_OPERATE,
     .summary =
         "Checks that everything is there that the commits need; `full` hashes every record. One at a time; it ends when the "
         "client goes.",
     .query = "full:boolean",
     .reply = "FsckReport"},
};

static const struct pl_api_schema schemas[] = {
    {"Status", "version:string store:string store_id:string executor:string data_dir:string url:string log_seq:integer "
               "counts:object disk:object"
               " live:object"},
    {"Gpu", "slot:integer product:string uuid:string? memory_mib:integer? used_mib:integer? utilisation:integer? state:string "
            "by:object?"},
    {"Gpus", "node:string? driver:string? gpus:Gpu[]"},
    {"FsckFinding", "what:string pack:string? id:string? commit:string? path:string?"},
    {"FsckReport",
     "ok:boolean full:boolean packs:integer records:integer commits:integer nodes:integer files:integer found:integer"
     " findings:FsckFinding[] ms:integer"},
};

PL_API_TABLE(status, routes, schemas);
