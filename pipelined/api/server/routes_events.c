/* The event stream, and pages of the event table. Each subscriber gets only events that its principal may
 * see. */
#include "pipelined/api/server/api_context.h"

#include "pipelined/text/json_text.h"
#include "storage/base/clock.h"
#include "storage/system/log_line.h"

#define OLDER_BYTES ((size_t)64 << 10)

/* Fails with PL_ENOTFOUND if events directly after `after` were already deleted from the table. */
static int check_kept(struct pl_conn *c, int64_t after, struct pl_err *err)
{
    int64_t first = 0;
    int r = pl_sql_int(c, err, &first, "SELECT coalesce(min(id), 1) FROM event", "");

    return r < 0               ? r
           : after < first - 1 ? pl_err_set(err, PL_ENOTFOUND, "events before %lld are no longer kept", (long long)first)
                               : 0;
}

/* ---- permissions on events ---- */

/* Returns true if the principal may read the stage or repo, or else the project, that the event names. Events
 * that name neither (of runs and workers) are visible only to principals that may read everything. */
static bool may_see(const struct pl_principal *who, const json_t *data)
{
    const char *project = pl_json_text_at(data, "project"), *repo = pl_json_text_at(data, "repo");

    return pl_access_may_read(who, project, repo ? repo : pl_json_text_at(data, "stage"));
}

static bool sees_all(const struct pl_principal *who)
{
    return pl_access_may_read(who, NULL, NULL);
}

/* Implements pl_sse_options.wants: true if the subscriber may see the event. `filter` is the subscriber's
 * principal. */
static bool wants(void *self, const void *filter, const char *type, const char *data)
{
    _cleanup_(json_decrefp) json_t *o = NULL;

    (void)self;
    (void)type;
    if (sees_all(filter))
        return true;
    o = json_loads(data, JSON_DECODE_ANY, NULL);
    return o && may_see(filter, o);
}

/* Implements pl_sse_options.over: true if the token or user of the subscriber's principal is no longer
 * valid. */
static bool over(void *self, const void *filter)
{
    (void)self;
    return !pl_principal_stands(filter, pl_clock_wall_us());
}

static void drop_filter(void *filter)
{
    pl_principal_unref(filter);
}

/* ---- the stream ---- */

/* Implements pl_sse_options.older: formats the events of the table that follow event `after`, up to about
 * OLDER_BYTES bytes. */
static int older(void *self, uint64_t after, void *filter, struct pl_buf *out, uint64_t *ret_last, struct pl_err *err)
{
    struct pl_api *a = self;
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = check_kept(rd.conn, (int64_t)after, err);

    *ret_last = after;
    r = r < 0
            ? r
            : pl_sql_query(rd.conn, err, &rows, "SELECT id, type, data FROM event WHERE id > ? ORDER BY id", "i", (int64_t)after);
    while (r >= 0 && out->len < OLDER_BYTES && (r = pl_sql_next(rd.conn, &rows, err)) > 0) {
        uint64_t id = (uint64_t)pl_col_int(&rows, 0);

        if (wants(self, filter, pl_col_text(&rows, 1), pl_col_text(&rows, 2)))
            r = pl_sse_format(out, id, pl_col_text(&rows, 1), pl_col_text(&rows, 2), err);
        *ret_last = id;
    }
    return PL_MIN(r, 0);
}

int pl_api_events_open(struct pl_api *a, struct pl_err *err)
{
    struct pl_sse_options options = {.self = a, .older = older, .wants = wants, .over = over, .drop_filter = drop_filter};
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    int64_t last = 0;
    int r = pl_sql_int(rd.conn, err, &last, "SELECT coalesce(max(id), 0) FROM event", "");

    options.last_id = (uint64_t)last;
    return r < 0 ? r : pl_sse_hub_create(&options, &a->hub, err);
}

void pl_api_event(struct pl_api *a, int64_t id, int64_t at_us, const char *type, const char *data)
{
    struct pl_err err = {0};

    (void)at_us;
    if (pl_sse_hub_publish(a->hub, (uint64_t)id, type, data, &err) < 0)
        pl_log_warn("api", "event %lld was not sent to subscribers: %s", (long long)id, err.msg);
    /* a commit that was made from an open commit is announced by a commit event, without a run event */
    if (pl_streq(type, "run") || (pl_streq(type, "commit") && strstr(data, "\"change\"")))
        pl_run_waiters_wake(a->waits);
}

/* Gives a page of events, oldest first: those after `since`, or without it the newest. */
static int page_events(struct pl_api *a, const struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    _cleanup_(json_decrefp) json_t *items = json_array();
    const struct pl_principal *who = pl_http_context(req);
    struct pl_api_page page;
    uint64_t since = 0;
    int64_t last = 0;
    int r = pl_api_page_read(req, &page, err);

    r = r < 0 ? r : pl_http_query_u64(req, "since", 0, INT64_MAX, &since, err);
    if (r == 0 && pl_http_query(req, "since"))
        r = pl_sql_query(rd.conn, err, &rows, "SELECT id, at_us, type, data FROM event WHERE id > ? ORDER BY id LIMIT ?", "ii",
                         (int64_t)since, (int64_t)page.limit);
    else if (r == 0)
        r = pl_sql_query(rd.conn, err, &rows,
                         "SELECT * FROM (SELECT id, at_us, type, data FROM event ORDER BY id DESC LIMIT ?) ORDER BY id", "i",
                         (int64_t)page.limit);
    while (r >= 0 && (r = pl_sql_next(rd.conn, &rows, err)) > 0) {
        json_t *data = pl_col_json(&rows, 3);

        last = pl_col_int(&rows, 0);
        if (sees_all(who) || may_see(who, data))
            json_array_append_new(items,
                                  json_pack("{s:I, s:I, s:s, s:O}", "id", (json_int_t)last, "at_us",
                                            (json_int_t)pl_col_int(&rows, 1), "type", pl_col_text(&rows, 2), "data", data));
        json_decref(data);
    }
    if (r < 0)
        return r;
    *ret = json_pack("{s:O, s:I}", "events", items, "last", (json_int_t)(last ? last : (int64_t)since));
    return 0;
}

static void get_events(struct pl_api *a, struct pl_http_request *req)
{
    const char *accept = pl_http_header(req, "Accept");
    struct pl_err err = {0};
    json_t *page = NULL;

    if (!accept || !strstr(accept, "application/json"))
        pl_sse_hub_subscribe(a->hub, req, pl_principal_ref(pl_http_context(req)));
    else if (page_events(a, req, &page, &err) < 0)
        pl_http_reply_error(req, &err);
    else
        pl_http_reply_json(req, 200, page);
}

static const struct pl_api_route routes[] = {
    {"GET", "/api/v1/events", .raw = get_events, .verb = PL_VERB_LIST,
     .summary = "Follows events (server-sent events; Last-Event-ID or since continues after an event). With Accept: "
                "application/json returns a page of them, oldest first: those after since, or else the newest.",
     .query = "since:integer limit:integer", .reply = "Events"},
};
static const struct pl_api_schema schemas[] = {
    {"Event", "id:integer at_us:integer type:string data:any"},
    {"Events", "events:Event[] last:integer"},
};
PL_API_TABLE(events, routes, schemas);
