/* GET /metrics: the daemon's figures for a monitoring system (metrics/metrics.h). Nothing is read from the database
 * or the store: all figures are counted where things happen. */
#include "pipelined/api/server/api_context.h"

#include "pipelined/api/transfer/upload_verify.h"
#include "pipelined/metrics/metric_text.h"

#define TEXT_MAX (1u << 20)

static void write_store(struct pl_api *a, struct pl_metric_text *t)
{
    static const char *const calls[] = {[PL_OBJECT_PUT] = "put",
                                        [PL_OBJECT_GET] = "get",
                                        [PL_OBJECT_SIZE] = "size",
                                        [PL_OBJECT_LIST] = "list",
                                        [PL_OBJECT_REMOVE] = "remove"};
    static const char *const results[] = {
        [PL_OBJECT_OK] = "ok", [PL_OBJECT_ABSENT] = "absent", [PL_OBJECT_REFUSED] = "refused", [PL_OBJECT_FAILED] = "failed"};
    struct pl_object_store *objects = pl_project_stores_objects(a->config.stores);
    struct pl_object_requests q;

    for (unsigned c = 0; c < PL_OBJECT_CALLS; c++)
        for (unsigned r = 0; r < PL_OBJECT_RESULTS; r++)
            pl_metric_add(t, PL_METRIC_STORE_CALLS, (double)pl_object_call_count(objects, c, r),
                          (const char *const[]){calls[c], results[r]});
    if (!pl_object_request_count(objects, &q))
        return;
    pl_metric_add_one(t, PL_METRIC_STORE_REQUESTS, NULL, (double)q.sent);
    pl_metric_add_one(t, PL_METRIC_STORE_RETRIES, NULL, (double)q.retries);
    pl_metric_add_one(t, PL_METRIC_STORE_REFUSALS, "forbidden", (double)q.forbidden);
    pl_metric_add_one(t, PL_METRIC_STORE_REFUSALS, "busy", (double)q.busy);
    pl_metric_add_one(t, PL_METRIC_STORE_REFUSALS, "error", (double)q.errors);
}

static void write_log(struct pl_api *a, struct pl_metric_text *t)
{
    struct pl_db_lag lag;

    pl_db_get_lag(a->config.db, &lag);
    pl_metric_add_one(t, PL_METRIC_LOG_POSITION, NULL, (double)lag.seq);
    pl_metric_add_one(t, PL_METRIC_LOG_CHECKPOINT_LAG, NULL, (double)(lag.seq - PL_MIN(lag.checkpoint, lag.seq)));
    pl_metric_add_one(t, PL_METRIC_LOG_QUEUE, NULL, (double)lag.queued);
    pl_metric_add_one(t, PL_METRIC_LOG_LAG, NULL, (double)lag.oldest_ms / 1000);
}

/* Free space of the daemon's folder, which is the last element of the list. */
static double free_bytes(struct pl_api *a)
{
    _cleanup_(json_decrefp) json_t *disks = pl_disk_watch_json(a->services.disks);

    return (double)json_integer_value(json_object_get(json_array_get(disks, json_array_size(disks) - 1), "free_bytes"));
}

static void write_daemon(struct pl_api *a, struct pl_metric_text *t)
{
    struct pl_loop_stats loop;
    struct pl_http_stats http, local = {0};

    pl_loop_get_stats(a->config.loop, &loop);
    pl_http_server_get_stats(a->server, &http);
    if (a->local)
        pl_http_server_get_stats(a->local, &local);
    pl_metric_add_one(t, PL_METRIC_DISK_FREE, NULL, free_bytes(a));
    pl_metric_add_one(t, PL_METRIC_LOOP_SLOW, NULL, (double)loop.slow_turns);
    pl_metric_add_one(t, PL_METRIC_LOOP_LONGEST, NULL, (double)loop.longest_us / 1e6);
    pl_metric_add_one(t, PL_METRIC_HTTP_REQUESTS, NULL, (double)(http.requests + local.requests));
    pl_metric_add_one(t, PL_METRIC_HTTP_CONNECTIONS, NULL, (double)(http.connections + local.connections));
}

/* Writes all metrics, in the order of the list. */
static int write_all(struct pl_api *a, struct pl_metric_text *t, struct pl_err *err)
{
    int r;

    pl_metric_add(t, PL_METRIC_BUILD, 1, (const char *const[]){a->config.version, a->config.executor});
    pl_metric_add_one(t, PL_METRIC_START_TIME, NULL, (double)a->started_us / 1e6);
    r = a->config.engine->metrics(a->config.engine_self, t, err);
    if (r < 0)
        return r;
    pl_metric_add_one(t, PL_METRIC_TRANSFER, "in", (double)atomic_load(&a->moved.bytes_in));
    pl_metric_add_one(t, PL_METRIC_TRANSFER, "out", (double)atomic_load(&a->moved.bytes_out));
    pl_metric_add_one(t, PL_METRIC_SIGNED_URLS, "get", (double)atomic_load(&a->moved.urls_get));
    pl_metric_add_one(t, PL_METRIC_SIGNED_URLS, "put", (double)atomic_load(&a->moved.urls_put));
    write_store(a, t);
    write_log(a, t);
    write_daemon(a, t);
    return pl_metric_text_end(t, err);
}

static void get_metrics(struct pl_api *a, struct pl_http_request *req)
{
    _cleanup_(pl_buf_finish) struct pl_buf text = {.max = TEXT_MAX};
    struct pl_metric_text t = {.out = &text, .plain = !pl_metric_wants_open(pl_http_header(req, "Accept"))};
    struct pl_err err = {0};

    if (write_all(a, &t, &err) < 0) {
        pl_http_reply_error(req, &err);
        return;
    }
    pl_http_reply_header(req, "Cache-Control", "no-store");
    pl_http_reply_buf(req, 200, t.plain ? PL_METRIC_TYPE_PLAIN : PL_METRIC_TYPE_OPEN, &text);
}

static const struct pl_api_route routes[] = {
    {.method = "GET",
     .pattern = "/metrics",
     .raw = get_metrics,
     .verb = PL_VERB_METRICS,
     .summary =
         "Returns the daemon's figures for a monitoring system, as OpenMetrics text. The lines of a job's metrics.jsonl are at "
         "`/api/v1/metrics`.",
     .reply = "application/openmetrics-text"},
};

const struct pl_api_table pl_api_routes_metrics = {.routes = routes, .n_routes = PL_ARRAY_SIZE(routes)};
