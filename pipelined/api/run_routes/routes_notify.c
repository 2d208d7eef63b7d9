/* Notifications: rules that send events of a project to a URL. */
#include "pipelined/api/server/api_context.h"

#include "pipelined/db/tx/notify_tx.h"
#include "pipelined/notify/notify.h"
#include "pipelined/text/json_text.h"

#include <stdio.h>

#define COLUMNS                                                                                                                  \
    "SELECT n.name, n.project, n.spec, n.created_us, " PL_NOTIFY_STATE_COLUMNS                                                   \
    " FROM notify n LEFT JOIN notify_state s ON s.name = n.name"

/* Hides what may be a secret in the URL: all that follows the host. */
static int hide_url(json_t *settings, struct pl_err *err)
{
    const char *url = pl_json_str(settings, "url"), *host = strstr(url, "://");
    const size_t len = host ? (size_t)(host - url) + 3 + strcspn(host + 3, "/?") : 0;

    return url[len] && json_object_set_new(settings, "url", json_sprintf("%.*s/…", (int)len, url)) < 0 ? pl_err_nomem(err) : 0;
}

/* Makes the reply about the rule in `rows`. Its URL is shown in full to those who may change it. */
static int rule_json(const struct pl_http_request *req, const struct pl_rows *rows, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *settings = pl_col_json(rows, 2), *out = NULL;
    struct pl_notify_state s = {0};
    int r = settings ? pl_notify_state_read(rows, 4, &s, err) : pl_err_nomem(err);

    pl_notify_state_finish(&s);
    if (r == 0 && !pl_principal_may(pl_http_context(req), PL_VERB_DEFINE, pl_col_text(rows, 1), NULL))
        r = hide_url(settings, err);
    if (r < 0)
        return r;
    out = json_pack("{s:s, s:s, s:I, s:s, s:I, s:I, s:o, s:I, s:s, s:o, s:s, s:i}", "name", pl_col_text(rows, 0), "project",
                    pl_col_text(rows, 1), "created_us", (json_int_t)pl_col_int(rows, 3), "state", s.failures ? "failing" : "ok",
                    "sent", (json_int_t)s.sent, "given_up", (json_int_t)s.given_up, "sent_us", pl_api_time_or_null(s.sent_us),
                    "sent_ms", (json_int_t)s.sent_ms, "sent_event", s.sent_event, "error_us", pl_api_time_or_null(s.error_us),
                    "error", s.error, "failures", (int)s.failures);
    if (!out || json_object_update_missing(out, settings) < 0)
        return pl_err_nomem(err);
    *ret = TAKE_PTR(out);
    return 0;
}

/* Lists one page of rules, by name. */
static int list_rules(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_api_read(a, req);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    _cleanup_(json_decrefp) json_t *list = json_array();
    char last[PL_NAME_MAX_BYTES + 1] = "";
    struct pl_api_page page;
    const char *project;
    size_t n = 0;
    int r = pl_api_page_read(req, &page, err);

    r = r < 0 ? r : pl_api_project_filter(req, rd.conn, &project, err);
    r = r < 0 ? r
              : pl_sql_query(rd.conn, err, &rows,
                             COLUMNS " WHERE (?1 IS NULL OR n.project = ?1) AND n.name > coalesce(?2, '') AND"
                                     " readable(n.project, NULL) ORDER BY n.name LIMIT ?3",
                             "ssi", project, page.after, (int64_t)page.limit);
    while (r >= 0 && (r = pl_sql_next(rd.conn, &rows, err)) > 0) {
        json_t *rule = NULL;

        r = rule_json(req, &rows, &rule, err);
        r = r < 0 ? r : pl_json_add(list, rule, err);
        if (r < 0)
            return r;
        snprintf(last, sizeof last, "%s", pl_col_text(&rows, 0));
        n++;
    }
    if (r < 0)
        return r;
    *ret = pl_api_list("notifications", TAKE_PTR(list), n == page.limit ? last : NULL);
    return *ret ? 0 : pl_err_nomem(err);
}

/* Finds the rule that the request names, and checks that its principal may do `verb` in the rule's project. To those who may
 * not see it, it does not exist. `ret_settings` and `ret_cursor` may be NULL. */
static int find_rule(struct pl_api *a, const struct pl_http_request *req, enum pl_verb verb, json_t **ret, json_t **ret_settings,
                     int64_t *ret_cursor, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    const char *name = pl_http_param(req, "notification");
    int r = pl_sql_query(rd.conn, err, &rows, COLUMNS " WHERE n.name = ?", "s", name);

    r = r < 0 ? r : pl_sql_next(rd.conn, &rows, err);
    if (r < 0)
        return r;
    if (r == 0 || !pl_principal_may(pl_http_context(req), PL_VERB_READ_PIPELINES, pl_col_text(&rows, 1), NULL)) {
        r = pl_err_set(err, PL_ENOTFOUND, "notification \"%s\" does not exist", name);
        return pl_err_hint(err, r, "pipelinectl list notify");
    }
    r = pl_api_may(req, verb, pl_col_text(&rows, 1), NULL, err);
    r = r < 0 ? r : rule_json(req, &rows, ret, err);
    if (r == 0 && ret_cursor)
        *ret_cursor = pl_col_int(&rows, 4);
    if (r == 0 && ret_settings && !(*ret_settings = pl_col_json(&rows, 2)))
        r = pl_err_nomem(err);
    return r;
}

static int inspect_rule(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *rule = NULL, *settings = NULL;
    int64_t cursor = 0, waiting = 0;
    int r = find_rule(a, req, PL_VERB_READ_PIPELINES, &rule, &settings, &cursor, err);

    r = r < 0 ? r : pl_notify_waiting(a->config.notify, pl_json_str(rule, "project"), settings, cursor, &waiting, err);
    if (r == 0 && json_object_set_new(rule, "waiting", json_integer(waiting)) < 0)
        r = pl_err_nomem(err);
    *ret = TAKE_PTR(rule);
    return r;
}

/* Refuses events of the whole daemon to those who may not read everything. */
static int check_wide(const struct pl_http_request *req, const json_t *settings, struct pl_err *err)
{
    if (!pl_notify_wants_all(settings) || pl_access_may_read(pl_http_context(req), NULL, NULL))
        return 0;
    return pl_err_field(
        err,
        pl_err_set(err, PL_EFORBIDDEN,
                   "on: events of type store.low, worker, gc, fsck and recovered are about the whole daemon: only "
                   "users who may read all projects can have them sent"),
        "on");
}

static int create_rule(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *body = NULL, *settings = NULL;
    struct pl_notify_args args = {.project = "default"};
    json_t *given = NULL;
    int r = pl_api_body(req, &body, err, "{s:s, s?:s, s:o}", "name", &args.name, "project", &args.project, "settings", &given);

    r = r < 0 ? r : pl_api_may(req, PL_VERB_DEFINE, args.project, NULL, err);
    r = r < 0 ? r : pl_notify_check(a->config.notify, given, NULL, &settings, err);
    r = r < 0 ? r : check_wide(req, settings, err);
    args.spec = settings;
    r = r < 0 ? r : pl_db_run(a->config.db, PL_TX_LOGGED, pl_tx_notify_set, &args, err);
    if (r < 0)
        return r;
    pl_notify_changed(a->config.notify);
    *ret = json_pack("{s:s, s:s}", "name", args.name, "project", args.project);
    return *ret ? 201 : pl_err_nomem(err);
}

/* A change of a rule, for merge_settings. */
struct change {
    struct pl_api *api;
    const struct pl_http_request *req;
};

/* Implements pl_notify_args.merge. */
static int merge_settings(void *self, const json_t *given, const json_t *before, json_t **ret, struct pl_err *err)
{
    const struct change *change = self;
    _cleanup_(json_decrefp) json_t *settings = NULL;
    int r = pl_notify_check(change->api->config.notify, given, before, &settings, err);

    r = r < 0 ? r : check_wide(change->req, settings, err);
    if (r == 0)
        *ret = TAKE_PTR(settings);
    return r;
}

static int update_rule(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *body = NULL, *rule = NULL;
    struct change change = {.api = a, .req = req};
    struct pl_notify_args args = {
        .name = pl_http_param(req, "notification"), .update = true, .merge = merge_settings, .self = &change};
    json_t *given = NULL;
    int r = pl_api_body(req, &body, err, "{s:o}", "settings", &given);

    r = r < 0 ? r : find_rule(a, req, PL_VERB_DEFINE, &rule, NULL, NULL, err);
    args.spec = given;
    args.project = pl_json_str(rule, "project");
    r = r < 0 ? r : pl_db_run(a->config.db, PL_TX_LOGGED, pl_tx_notify_set, &args, err);
    if (r < 0)
        return r;
    pl_notify_changed(a->config.notify);
    json_decref(TAKE_PTR(rule));
    r = find_rule(a, req, PL_VERB_DEFINE, &rule, NULL, NULL, err);
    *ret = TAKE_PTR(rule);
    return r;
}

static int test_rule(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *rule = NULL, *settings = NULL;
    int r = find_rule(a, req, PL_VERB_DEFINE, &rule, &settings, NULL, err);

    return r < 0 ? r
                 : pl_notify_test(a->config.notify, pl_json_str(rule, "name"), pl_json_str(rule, "project"), settings, ret, err);
}

static int delete_rule(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    struct pl_notify_args args = {.name = pl_http_param(req, "notification")};
    _cleanup_(json_decrefp) json_t *rule = NULL;
    int r = find_rule(a, req, PL_VERB_DEFINE, &rule, NULL, NULL, err);

    (void)ret;
    r = r < 0 ? r : pl_db_run(a->config.db, PL_TX_LOGGED, pl_tx_notify_delete, &args, err);
    if (r == 0)
        pl_notify_changed(a->config.notify);
    return r;
}

static const struct pl_api_route routes[] = {
    {.method = "GET",
     .pattern = "/api/v1/notifications",
     .json = list_rules,
     .verb = PL_VERB_LIST,
     .summary = "Lists the rules that send events to URLs, and how far each has come.",
     .query = "project after limit:integer",
     .reply = "NotificationList"},
    {.method = "POST",
     .pattern = "/api/v1/notifications",
     .json = create_rule,
     .body = PL_BODY_JSON,
     .verb = PL_VERB_DEFINE,
     .asks = true,
     .somewhere = true,
     .summary = "Sends events of the project to a URL from now on. `on` is a list of TYPE or TYPE.STATE, such as job.failure.",
     .request = "NotificationCreate",
     .reply = "NotificationName"},
    {.method = "GET",
     .pattern = "/api/v1/notifications/{notification}",
     .json = inspect_rule,
     .verb = PL_VERB_READ_PIPELINES,
     .asks = true,
     .summary = "Returns one rule: its last delivery, its last failed attempt, and how many events wait (at most 10,000 are "
                "counted). Of its URL, those who may not change it see the host.",
     .reply = "Notification"},
    {.method = "PATCH",
     .pattern = "/api/v1/notifications/{notification}",
     .json = update_rule,
     .body = PL_BODY_JSON,
     .verb = PL_VERB_DEFINE,
     .asks = true,
     .somewhere = true,
     .summary = "Changes the settings that are given. Events that wait are sent with the new ones, at once.",
     .request = "NotificationUpdate",
     .reply = "Notification"},
    {.method = "POST",
     .pattern = "/api/v1/notifications/{notification}/test",
     .json = test_rule,
     .costly = true,
     .verb = PL_VERB_DEFINE,
     .asks = true,
     .somewhere = true,
     .summary = "Sends a test now, once, and says what came of it. `error` is empty if it was delivered.",
     .reply = "NotificationTest"},
    {.method = "DELETE",
     .pattern = "/api/v1/notifications/{notification}",
     .json = delete_rule,
     .verb = PL_VERB_DEFINE,
     .asks = true,
     .somewhere = true,
     .summary = "Ends the deliveries of a rule; events that wait are not sent.",
     .reply = "Nothing"},
};

static const struct pl_api_schema schemas[] = {
    {"NotificationSettings", "on:string[]? url:string? format:string? secret:string? repo:string?"},
    {"NotificationCreate", "name:string project:string? settings:NotificationSettings"},
    {"NotificationUpdate", "settings:NotificationSettings"},
    {"NotificationName", "name:string project:string"},
    {"Notification", "name:string project:string on:string[] url:string format:string secret:string repo:string state:string "
                     "created_us:integer sent:integer given_up:integer waiting:integer? failures:integer sent_us:integer? "
                     "sent_ms:integer sent_event:string error_us:integer? error:string"},
    {"NotificationTest", "status:integer ms:integer error:string"},
    {"NotificationList", "notifications:Notification[] next:string?"},
};
PL_API_TABLE(notify, routes, schemas);
