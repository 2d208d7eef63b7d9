/* What the GPUs did: their history in the last 24 hours. */
#include "pipelined/api/server/api_context.h"

#include "pipelined/gpus/gpu_history.h"
#include "pipelined/gpus/gpu_ledger.h"
#include "storage/base/clock.h"

#define DAY_US         (24 * 3600 * 1000000ll)
#define POINTS_DEFAULT 240
#define SPAN_US        PL_GPU_STATE_MAX_US /* no span is longer */

static int read_range(const struct pl_http_request *req, struct pl_gpu_history_config *ret, struct pl_err *err)
{
    uint64_t from, to, points;
    const int64_t now_us = pl_clock_wall_us();
    int r = pl_http_query_u64(req, "to", (uint64_t)now_us, INT64_MAX, &to, err);

    r = r < 0 ? r : pl_http_query_u64(req, "from", to > DAY_US ? to - DAY_US : 0, INT64_MAX, &from, err);
    r = r < 0 ? r : pl_http_query_u64(req, "px", POINTS_DEFAULT, PL_GPU_HISTORY_POINTS_MAX, &points, err);
    if (r < 0)
        return r;
    if (from >= to)
        return pl_err_set(err, PL_EINVAL, "from is %llu and to is %llu: from must be earlier than to", (unsigned long long)from,
                          (unsigned long long)to);
    if (points == 0)
        return pl_err_set(err, PL_EINVAL, "px is 0: use 1 to %u", PL_GPU_HISTORY_POINTS_MAX);
    *ret = (struct pl_gpu_history_config){.from_us = (int64_t)from,
                                          .to_us = (int64_t)to,
                                          .points = (unsigned)points,
                                          .may_see = pl_access_may_read,
                                          .who = pl_http_context(req)};
    return 0;
}

/* Adds the rows of the database that begin before `until_us`. */
static int add_rows(struct pl_api *a, const struct pl_gpu_history_config *range, int64_t until_us, struct pl_gpu_history *h,
                    struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(rd.conn, err, &rows,
                         "SELECT from_us, to_us, series FROM gpu_span WHERE from_us >= ? AND from_us < ? ORDER BY from_us", "ii",
                         range->from_us - SPAN_US, PL_MIN(range->to_us, until_us));

    while (r >= 0 && (r = pl_sql_next(rd.conn, &rows, err)) > 0) {
        _cleanup_(json_decrefp) json_t *series = pl_col_json(&rows, 2);

        r = pl_gpu_history_add(h, pl_col_int(&rows, 0), pl_col_int(&rows, 1), series, err);
    }
    return PL_MIN(r, 0);
}

static int64_t span_at(const json_t *span, const char *key)
{
    return json_integer_value(json_object_get(span, key));
}

static int get_history(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    /* The newest spans are read before the database, so that none is in neither. They have no gap, and the database may
     * have the last one as it was some seconds ago. */
    _cleanup_(json_decrefp) json_t *newest = a->config.engine->gpu_spans(a->config.engine_self);
    _cleanup_(pl_gpu_history_destroyp) struct pl_gpu_history *h = NULL;
    struct pl_gpu_history_config range;
    json_t *span;
    size_t i;
    int r = read_range(req, &range, err);

    r = r < 0 ? r : pl_gpu_history_create(&range, &h, err);
    r = r < 0 ? r
              : add_rows(a, &range, json_array_size(newest) > 0 ? span_at(json_array_get(newest, 0), "from_us") : INT64_MAX, h,
                         err);
    json_array_foreach(newest, i, span)
    {
        r = r < 0 ? r
                  : pl_gpu_history_add(h, span_at(span, "from_us"), span_at(span, "to_us"), json_object_get(span, "series"), err);
    }
    if (r < 0)
        return r;
    *ret = pl_gpu_history_json(h);
    return *ret ? 0 : pl_err_nomem(err);
}

static const struct pl_api_route routes[] = {
    {.method = "GET",
     .pattern = "/api/v1/gpus/history",
     .json = get_history,
     .costly = true,
     .verb = PL_VERB_STATUS,
     .summary =
         "Returns what the GPUs did between `from` and `to` (microseconds since 1970; the last 24 hours, which is how long "
         "it is kept) as curves of `px` steps (240), in GPU-milliseconds: per slot, or per node and product, the "
         "capacity, the time held, of that computing datums and idle, and where it is measured how busy; and per stage "
         "what it held. `known_ms` is the part of each step of which there is a record.",
     .query = "from:integer to:integer px:integer",
     .reply = "GpuHistory"},
};

static const struct pl_api_schema schemas[] = {
    {"GpuHistory", "from_us:integer to_us:integer points:integer known_ms:integer[] series:GpuSeries[] stages:GpuStageTime[] "
                   "total:GpuTotal"},
    {"GpuSeries", "node:string product:string slot:integer? capacity:integer[] held:integer[] used:integer[] idle:integer[] "
                  "measured:integer[] busy:integer[]"},
    {"GpuStageTime", "project:string? stage:string? held_ms:integer used_ms:integer idle_ms:integer held:integer[]"},
    {"GpuTotal", "capacity_ms:integer held_ms:integer used_ms:integer idle_ms:integer measured_ms:integer busy_ms:integer"},
};

PL_API_TABLE(gpus, routes, schemas);
