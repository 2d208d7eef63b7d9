/* What waits for resources, in the order in which it is served. */
#include "pipelined/api/run_routes/job_json.h"
#include "pipelined/api/server/api_context.h"

#include "pipelined/text/json_text.h"

/* Adds since when the job waits. */
static int add_since(struct pl_conn *c, json_t *entry, struct pl_err *err)
{
    int64_t since_us = 0;
    int r = pl_sql_int(c, err, &since_us, "SELECT " PL_JOB_WAITS_SINCE " FROM job j WHERE run = ? AND project = ? AND stage = ?",
                       "sss", pl_json_str(entry, "run"), pl_json_str(entry, "project"), pl_json_str(entry, "stage"));

    if (r < 0 && r != PL_ENOTFOUND) /* a job that was created just now may have no row yet */
        return r;
    return json_object_set_new(entry, "since_us", r < 0 ? json_null() : json_integer(since_us)) < 0 ? pl_err_nomem(err) : 0;
}

static int get_queue(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *live = a->config.engine->queue(a->config.engine_self, NULL, NULL, NULL);
    json_t *list = json_object_get(live, "queue"), *entry;
    int64_t hidden = 0;
    size_t i;
    int r = 0;

    for (i = json_array_size(list); i-- > 0;) {
        entry = json_array_get(list, i);
        if (!pl_access_may_read(pl_http_context(req), pl_json_str(entry, "project"), pl_json_str(entry, "stage"))) {
            json_array_remove(list, i);
            hidden++;
        }
    }
    json_array_foreach(list, i, entry)
    {
        r = r < 0 ? r : pl_wait_explain(req, entry, json_object_get(live, "gpus"), err);
    }
    if (r == 0) {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_api_read(a, req);

        json_array_foreach(list, i, entry)
        {
            r = r < 0 ? r : add_since(rd.conn, entry, err);
        }
    }
    if (r < 0)
        return r;
    *ret = json_pack("{s:O, s:I}", "queue", list, "hidden", (json_int_t)hidden);
    return *ret ? 0 : pl_err_nomem(err);
}

static const struct pl_api_route routes[] = {
    {.method = "GET",
     .pattern = "/api/v1/queue",
     .json = get_queue,
     .verb = PL_VERB_LIST,
     .summary = "Lists the jobs that have datums to run and no worker, at most 256, in the order in which they are served: those "
                "that wait for GPUs, then for CPU, then for pods, then those whose workers start or can never start. `start` "
                "says what would let it start; `holders` who has what it wants. `hidden` counts jobs of stages that may not be "
                "read.",
     .reply = "Queue"},
};

static const struct pl_api_schema schemas[] = {
    {"Queue", "queue:QueueEntry[] hidden:integer"},
    {"QueueEntry", "project:string stage:string run:string since_us:integer? reason:string for:string ahead:integer want:Want "
                   "free:integer? of:integer? free_on_one_node:integer? holders:WaitHolder[] start:string"},
    {"Want", "gpus:integer cpu_milli:integer memory_bytes:integer? product:string[]? resource:string? gpu_memory_mib:integer? "
             "compute:string?"},
    {"WaitHolder", "gpus:integer project:string? stage:string? run:string? namespace:string? pod:string? node:string? "
                   "computing:integer? idle_since_us:integer?"},
    {"Waits", "for:string ahead:integer want:Want free:integer? of:integer? holders:WaitHolder[] start:string"},
};

PL_API_TABLE(queue, routes, schemas);
