/* Garbage collection: start one, show its progress, stop it. */
#include "pipelined/api/server/api_context.h"

#include <stdio.h>

#define WAIT_MAX_MS 25000

/* Creates the garbage collector. Call it after the open commits were created, because the collector asks
 * them which packs they need. */
static int open_gc(struct pl_api *a, struct pl_err *err)
{
    char index[4200];
    struct pl_gc_config config = {.db = a->config.db,
                                  .stores = a->config.stores,
                                  .opens = a->services.opens,
                                  .keep = a->config.gc_keep,
                                  .keeper = a->config.gateway_self,
                                  .index_dir = index,
                                  .every_ms = a->config.gc_every_ms};

    snprintf(index, sizeof index, "%s/index", a->config.data_dir);
    return pl_gc_create(&config, &a->gc, err);
}

static json_t *report_json(const struct pl_gc_report *r)
{
    json_t *repos = r->repos ? json_incref(r->repos) : json_array();

    return json_pack(
        "{s:I, s:b, s:b, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:o, s:o, s:s, s:o}",
        "number", (json_int_t)r->number, "running", (int)r->running, "dry_run", (int)r->dry_run, "phase", r->phase, "project",
        r->project, "done", (json_int_t)r->done, "all", (json_int_t)r->all, "packs", (json_int_t)r->packs, "bytes",
        (json_int_t)r->bytes, "live_bytes", (json_int_t)r->live_bytes, "freed_packs", (json_int_t)r->freed_packs, "freed_bytes",
        (json_int_t)r->freed_bytes, "copied_packs", (json_int_t)r->copied_packs, "copied_bytes", (json_int_t)r->copied_bytes,
        "waiting_packs", (json_int_t)r->waiting_packs, "waiting_bytes", (json_int_t)r->waiting_bytes, "commits",
        (json_int_t)r->commits, "missing", (json_int_t)r->missing, "started", pl_api_time_or_null(r->started_us), "finished",
        pl_api_time_or_null(r->finished_us), "error", r->error.msg, "repos", repos);
}

static int report(struct pl_api *a, json_t **ret, struct pl_err *err)
{
    struct pl_gc_report r;

    pl_gc_report(a->gc, &r);
    *ret = report_json(&r);
    pl_gc_report_finish(&r);
    return *ret ? 0 : pl_err_nomem(err);
}

static int begin_gc(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *body = NULL;
    uint64_t number = 0;
    int dry_run = 0;
    int r = pl_api_body(req, &body, err, "{s?:b}", "dry_run", &dry_run);

    r = r < 0 ? r : pl_gc_begin(a->gc, dry_run, &number, err);
    if (r < 0)
        return r;
    *ret = json_pack("{s:I}", "number", (json_int_t)number);
    return 202;
}

static int get_gc(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    uint64_t number = 0, wait_ms = 0;
    int r = pl_http_query_u64(req, "number", 0, UINT64_MAX, &number, err);

    r = r < 0 ? r : pl_http_query_u64(req, "wait_ms", 0, WAIT_MAX_MS, &wait_ms, err);
    if (r < 0)
        return r;
    if (wait_ms)
        pl_gc_wait(a->gc, number, (int64_t)wait_ms);
    return report(a, ret, err);
}

static int stop_gc(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    (void)req;
    pl_gc_stop(a->gc);
    return report(a, ret, err);
}

static const struct pl_api_route routes[] = {
    {.method = "POST",
     .pattern = "/api/v1/gc",
     .json = begin_gc,
     .body = PL_BODY_JSON,
     .verb = PL_VERB_OPERATE,
     .summary = "Starts to remove data that nothing needs any more; `dry_run` only finds out how much. One collection at a time: "
                "while one runs, its number is returned.",
     .request = "NewGc",
     .reply = "GcNumber"},
    {.method = "GET",
     .pattern = "/api/v1/gc",
     .json = get_gc,
     .verb = PL_VERB_OPERATE,
     .summary = "Returns what the running collection does, or what the last one did; with `wait_ms` (at most 25000) waits that "
                "long for the end of the collection `number`.",
     .query = "number:integer wait_ms:integer",
     .reply = "Gc"},
    {.method = "DELETE",
     .pattern = "/api/v1/gc",
     .json = stop_gc,
     .verb = PL_VERB_OPERATE,
     .summary = "Stops the running collection; what it has done stays, and the next one continues from there.",
     .reply = "Gc"},
};
static const struct pl_api_schema schemas[] = {
    {"NewGc", "dry_run:boolean?"},
    {"GcNumber", "number:integer"},
    {"Gc", "number:integer running:boolean dry_run:boolean phase:string project:string done:integer all:integer packs:integer "
           "bytes:integer live_bytes:integer freed_packs:integer freed_bytes:integer copied_packs:integer copied_bytes:integer "
           "waiting_packs:integer waiting_bytes:integer commits:integer missing:integer started:integer? finished:integer? "
           "error:string repos:GcRepo[]"},
    {"GcRepo", "project:string repo:string commits:integer bytes:integer"},
};
PL_API_TABLE_OPENED(gc, routes, schemas, open_gc);
