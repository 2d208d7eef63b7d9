/* The daemon's own state: status and GPUs. */
#include "pipelined/api/data_routes/commit_view.h"
#include "pipelined/api/run_routes/job_json.h"

#include "pipelined/api/transfer/upload_verify.h"

#include "pipelined/text/json_text.h"
#include "storage/system/io.h"

#include <stdio.h>

#define BUCKET_CA_BYTES (64u << 10)

/* ---- status ---- */

static int64_t count(struct pl_conn *c, const char *sql)
{
    int64_t n = 0;

    return pl_sql_int(c, NULL, &n, sql, "") < 0 ? 0 : n;
}

static json_t *counts_json(struct pl_conn *c)
{
    return json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "repos",
                     (json_int_t)count(c, "SELECT count(*) FROM repo WHERE readable(project, name)"), "pipelines",
                     (json_int_t)count(c, "SELECT count(*) FROM pipeline WHERE readable(project, NULL)"), "pipelines_stopped",
                     (json_int_t)count(c, "SELECT count(*) FROM pipeline WHERE stopped <> '' AND readable(project, NULL)"),
                     "runs_running", (json_int_t)count(c, "SELECT count(*) FROM run WHERE state = 'running'"), "runs_failed",
                     (json_int_t)count(c, "SELECT count(*) FROM run WHERE state = 'failure'"), "jobs_unfinished",
                     (json_int_t)count(c, "SELECT count(*) FROM job WHERE final = 0 AND readable(project, stage)"), "commits",
                     (json_int_t)count(c, "SELECT count(*) FROM commit_"));
}

/* Makes the JSON of the free disk space: the space of the daemon's folder, and the list of all watched
 * folders. The daemon's folder is the last element of the list that the disk watch returns. */
static json_t *disk_json(struct pl_api *a)
{
    json_t *disks = pl_disk_watch_json(a->services.disks), *data = json_array_get(disks, json_array_size(disks) - 1);

    return json_pack("{s:O, s:O, s:o}", "free_bytes", json_object_get(data, "free_bytes"), "total_bytes",
                     json_object_get(data, "total_bytes"), "places", disks);
}

/* Returns the CA certificates with which clients verify the server of the bucket's presigned URLs. Returns
 * NULL if the daemon has no CA file, or the file cannot be read or is larger than BUCKET_CA_BYTES. Clients
 * then use the CA certificates of their own system. If these cannot verify the server, clients transfer packs
 * through the daemon. */
static json_t *bucket_ca(struct pl_object_store *objects)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {.max = BUCKET_CA_BYTES};
    const char *file = pl_object_ca(objects);

    if (!file || pl_io_read_file(file, &text, NULL) < 0)
        return NULL;
    return json_stringn((const char *)text.data, text.len);
}

/* Makes the JSON about packs: whether the bucket supports presigned URLs, bytes sent through the daemon or offered,
 * and results of verification. */
static json_t *packs_json(struct pl_api *a)
{
    struct pl_object_store *objects = pl_project_stores_objects(a->config.stores);
    unsigned caps = pl_object_caps(objects);
    struct pl_upload_verify_stats s;

    pl_upload_verify_get_stats(a->read_back, &s);
    return json_pack("{s:o*, s:b, s:b, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "ca",
                     caps & (PL_OBJECT_SIGNED_GET | PL_OBJECT_SIGNED_PUT) ? bucket_ca(objects) : NULL, "signed_get",
                     (caps & PL_OBJECT_SIGNED_GET) != 0, "signed_put", (caps & PL_OBJECT_SIGNED_PUT) != 0, "bytes_in",
                     (json_int_t)atomic_load(&a->moved.bytes_in), "bytes_out", (json_int_t)atomic_load(&a->moved.bytes_out),
                     "bytes_offered", (json_int_t)atomic_load(&a->moved.bytes_offered), "urls_get",
                     (json_int_t)atomic_load(&a->moved.urls_get), "urls_put", (json_int_t)atomic_load(&a->moved.urls_put),
                     "unread", (json_int_t)s.unread, "read_back", (json_int_t)s.good, "quarantined", (json_int_t)s.quarantined);
}

static bool readable_at(const struct pl_http_request *req, const json_t *o)
{
    return pl_access_may_read(pl_http_context(req), pl_json_text_at(o, "project"), pl_json_text_at(o, "stage"));
}

/* Hides who uses a node's GPUs: each stage that the principal may not read is replaced by the number of GPUs
 * that it uses. Pods of other systems are shown to operators only. */
static void hide_holders(const struct pl_http_request *req, json_t *rows)
{
    const bool operates = pl_principal_may(pl_http_context(req), PL_VERB_OPERATE, NULL, NULL);
    json_t *row, *holder;
    size_t i, k;

    json_array_foreach(rows, i, row)
    {
        json_array_foreach(json_object_get(row, "by"), k, holder)
        {
            const bool ours = pl_json_text_at(holder, "stage") != NULL;

            if (ours ? !readable_at(req, holder) : !operates)
                json_array_set_new(json_object_get(row, "by"), k, json_pack("{s:O}", "count", json_object_get(holder, "count")));
        }
    }
}

/* Makes the live state: workers and GPUs, without those that the principal may not read. Why the cluster cannot be used
 * names its API server and what that says, so it is shown to operators only; others see since when. */
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
    hide_holders(req, json_object_get(json_object_get(live, "gpus"), "nodes"));
    if (!pl_principal_may(pl_http_context(req), PL_VERB_OPERATE, NULL, NULL))
        (void)json_object_del(json_object_get(live, "outage"), "reason");
    return live;
}

struct stalled {
    const struct pl_http_request *req;
    json_t *list;
};

static int add_stalled(void *self, struct pl_open_commit *c)
{
    const struct pl_open_commit_file_head *h = pl_open_commit_head(c);
    struct stalled *s = self;
    json_t *o;
    int r;

    if (!pl_access_may_read(pl_http_context(s->req), h->project, h->repo))
        return 0;
    r = pl_commit_view_open_json(s->req, c, false, &o, NULL);
    return r < 0 ? r : json_array_append_new(s->list, o) < 0 ? PL_ENOMEM : 0;
}

static json_t *clock_json(struct pl_api *a)
{
    const struct pl_clock_view now = pl_clock_trust_look(pl_db_clock(a->config.db));

    return json_pack("{s:b, s:I, s:I}", "doubted", now.doubted, "wall_us", (json_int_t)now.wall_us, "trusted_us",
                     (json_int_t)now.now_us);
}

/* Replies with the daemon's status. */
/* True for a user who may read the pipelines of some project: who tries their stages has to know what the daemon's sandbox
 * shows. It has paths and variables of the machine, which are nobody else's business. */
static bool sees_stages(struct pl_conn *c, const struct pl_principal *who)
{
    int64_t one;

    return who->kind != PL_PRINCIPAL_WORKER &&
           (pl_principal_may(who, PL_VERB_READ_PIPELINES, "default", NULL) || /* which may have no row yet */
            pl_sql_int(c, NULL, &one, "SELECT 1 FROM project WHERE readable(name, NULL) LIMIT 1", "") == 0);
}

static int get_status(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    json_t *counts, *live = live_json(a, req);
    struct stalled stalled = {req, json_array()};

    if (pl_opens_stalled(a->services.opens, add_stalled, &stalled) < 0) {
        json_decref(stalled.list);
        json_decref(live);
        return pl_err_nomem(err);
    }
    {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_api_read(a, req);

        counts = counts_json(rd.conn);
        if (!sees_stages(rd.conn, pl_http_context(req)))
            (void)json_object_del(live, "sandbox");
    }
    *ret =
        json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:o, s:o, s:o, s:o, s:o, s:o}", "version", a->config.version, "store",
                  a->config.store_url, "store_id", pl_db_store_id(a->config.db), "executor", a->config.executor, "data_dir",
                  a->config.data_dir, "url", a->url, "s3_url", a->config.s3_url ? a->config.s3_url(a->config.gateway_self) : "",
                  "log_seq", (json_int_t)pl_db_log_seq(a->config.db), "counts", counts, "disk", disk_json(a), "packs",
                  packs_json(a), "stalled", stalled.list, "clock", clock_json(a), "live", live);
    return 0;
}

static int get_gpus(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    json_t *live = live_json(a, req), *gpus = json_object_get(live, "gpus");

    (void)err;
    *ret = gpus ? json_incref(gpus) : json_pack("{s:[], s:[]}", "gpus", "nodes");
    json_decref(live);
    return 0;
}

static const struct pl_api_route routes[] = {
    {.method = "GET",
     .pattern = "/api/v1/status",
     .json = get_status,
     .verb = PL_VERB_STATUS,
     .summary = "Returns the daemon's status: version, store, counts, and what runs.",
     .reply = "Status"},
    {.method = "GET",
     .pattern = "/api/v1/gpus",
     .json = get_gpus,
     .verb = PL_VERB_STATUS,
     .summary = "Returns the GPUs: `nodes` has, for each node and product, their number and who holds how many; `gpus` has the "
                "slots of a single machine.",
     .reply = "Gpus"},
};

static const struct pl_api_schema schemas[] = {
    {"Status",
     "version:string store:string store_id:string executor:string data_dir:string url:string s3_url:string log_seq:integer "
     "counts:object disk:object packs:object stalled:Commit[] clock:object"
     " live:object"},
    {"Gpu", "slot:integer product:string uuid:string? memory_mib:integer? used_mib:integer? compute:string? utilisation:integer? "
            "state:string "
            "by:object? computing:boolean? idle_since_us:integer?"},
    {"GpuHolder", "count:integer project:string? stage:string? run:string? namespace:string? pod:string? devices:object? "
                  "utilisation:any? used_mib:integer? unhealthy:integer? computing:integer? idle_since_us:integer?"},
    {"GpuMemory", "allocated:integer total:integer"},
    {"GpuNode", "node:string address:string? resource:string product:string? capacity:integer allocated:integer by:GpuHolder[] "
                "gpus:GpuMemory[]? pending:integer? unhealthy:integer? unhealthy_held:integer?"},
    {"Gpus", "node:string? driver:string? gpus:Gpu[] nodes:GpuNode[] not_measured:string?"},
};

PL_API_TABLE(status, routes, schemas);
