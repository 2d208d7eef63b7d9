/* Sources: git repositories whose specs become pipelines. */
#include "pipelined/api/server/api_context.h"

#include "pipelined/db/pipelines/source_tx.h"
#include "pipelined/source/source.h"
#include "pipelined/source/webhooks.h"
#include "pipelined/text/json_text.h"

#define COLUMNS                                                                                                                  \
    "SELECT s.name, s.project, s.spec, s.created_us, coalesce(t.state, 'new'), coalesce(t.error, ''), coalesce(t.seen, ''),"     \
    " coalesce(t.applied, ''), coalesce(t.details, '{}'), coalesce(t.looked_us, 0), coalesce(t.changed_us, 0)"                   \
    " FROM source s LEFT JOIN source_state t ON t.name = s.name"

/* Returns the URL for webhooks of the source. */
static json_t *hook_url(const struct pl_api *a, const char *name)
{
    size_t len = strlen(a->url);

    while (len > 0 && a->url[len - 1] == '/')
        len--;
    return json_sprintf("%.*s/hooks/%s", (int)len, a->url, name);
}

/* Checks that a secret that a setting names has the key. */
static int check_key(struct pl_api *a, const char *project, const char *field, const char *name, const char *key,
                     struct pl_err *err)
{
    const struct pl_secret_op op = {.what = PL_SECRET_READ, .project = project, .name = name};
    json_t *values = NULL;
    bool there;
    int r = *name ? a->config.engine->secrets(a->config.engine_self, &op, &values, err) : 0;

    if (!*name || (r < 0 && r != PL_ENOTFOUND))
        return r;
    there = json_object_get(values, key) != NULL;
    pl_secret_values_erase(values);
    json_decref(values);
    if (there)
        return 0;
    r = pl_err_set(err, PL_EINVAL, "%s: project \"%s\" has no secret \"%s\" with a key \"%s\"", field, project, name, key);
    r = pl_err_field(err, r, field);
    return pl_err_hint(err, r, "pipelinectl create secret %s -f %s=FILE", name, key);
}

/* Checks the secret for webhooks, if it is among the settings `given`, and whether statuses can be posted by the complete settings. */
static int check_secrets(struct pl_api *a, const char *project, const json_t *given, const json_t *settings, struct pl_err *err)
{
    const char *status = pl_json_str(settings, "status");
    int r = check_key(a, project, "hook_secret", pl_json_str(given, "hook_secret"), PL_WEBHOOK_SECRET_KEY, err);

    if (r < 0 || !*status || pl_streq(status, "off") ||
        !(json_object_get(given, "status") || json_object_get(given, "secret") || json_object_get(given, "git")))
        return r;
    r = pl_sources_check_status(a->config.sources, settings, err);
    return r < 0 ? r : check_key(a, project, "status", pl_json_str(settings, "secret"), PL_STATUS_TOKEN_KEY, err);
}

static void add_warning(json_t *source, json_t *text)
{
    json_t *warnings = json_object_get(source, "warnings");

    if (!warnings) {
        warnings = json_array();
        json_object_set_new(source, "warnings", warnings);
    }
    json_array_append_new(warnings, text);
}

/* Adds a warning for a status that could not be posted. */
static void warn_unposted(json_t *source, const json_t *note)
{
    const char *error = pl_json_str(note, "error");

    if (*error)
        add_warning(source,
                    json_sprintf("the status of commit %.12s could not be posted: %s", pl_json_str(note, "commit"), error));
}

/* Adds warnings about statuses and previews. */
static void warn_all(json_t *source)
{
    const char *previews = pl_json_str(source, "preview_warning");
    const json_t *one;
    size_t i;

    if (*previews)
        add_warning(source, json_sprintf("previews: %s", previews));
    (void)json_object_del(source, "preview_warning");
    warn_unposted(source, json_object_get(source, "posted"));
    json_array_foreach(json_object_get(source, "previews"), i, one)
    {
        warn_unposted(source, one);
    }
}

/* `looks`: number of the last completed look, read before the row: what a look recorded is then in the row. `whole`: with the
 * text around mistakes. */
static json_t *source_json(struct pl_api *a, const struct pl_rows *rows, uint64_t looks, bool whole)
{
    _cleanup_(json_decrefp) json_t *settings = pl_col_json(rows, 2), *details = pl_col_json(rows, 8);
    const char *state = json_is_true(json_object_get(settings, "paused")) ? "paused" : pl_col_text(rows, 4);
    json_t *out = json_pack("{s:s, s:s, s:I, s:s, s:s, s:s, s:s, s:o, s:o, s:I}", "name", pl_col_text(rows, 0), "project",
                            pl_col_text(rows, 1), "created_us", (json_int_t)pl_col_int(rows, 3), "state", state, "error",
                            pl_col_text(rows, 5), "commit", pl_col_text(rows, 6), "applied", pl_col_text(rows, 7), "looked_us",
                            pl_api_time_or_null(pl_col_int(rows, 9)), "changed_us", pl_api_time_or_null(pl_col_int(rows, 10)),
                            "looks", (json_int_t)looks);

    if (!out || !settings || !details || json_object_update_missing(out, settings) < 0 ||
        json_object_update_missing(out, details) < 0) {
        json_decref(out);
        return NULL;
    }
    warn_all(out);
    if (!whole)
        (void)json_object_del(out, "problems");
    if (*pl_json_str(settings, "hook_secret"))
        json_object_set_new(out, "hook", hook_url(a, pl_col_text(rows, 0)));
    return out;
}

/* Lists one page of sources, by name. */
static int list_sources(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
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
                             COLUMNS " WHERE (?1 IS NULL OR s.project = ?1) AND s.name > coalesce(?2, '') AND"
                                     " readable(s.project, NULL) ORDER BY s.name LIMIT ?3",
                             "ssi", project, page.after, (int64_t)page.limit);
    while (r >= 0 && (r = pl_sql_next(rd.conn, &rows, err)) > 0) {
        r = pl_json_add(list, source_json(a, &rows, pl_sources_looks(a->config.sources, pl_col_text(&rows, 0)), false), err);
        if (r < 0)
            return r;
        snprintf(last, sizeof last, "%s", pl_col_text(&rows, 0));
        n++;
    }
    if (r < 0)
        return r;
    *ret = pl_api_list("sources", TAKE_PTR(list), n == page.limit ? last : NULL);
    return *ret ? 0 : pl_err_nomem(err);
}

/* Finds the source that the request names, and checks that its principal may do `verb` in the source's project. To those
 * who may not see it, it does not exist. */
static int find_source(struct pl_api *a, const struct pl_http_request *req, enum pl_verb verb, json_t **ret, struct pl_err *err)
{
    const char *name = pl_http_param(req, "source");
    const uint64_t looks = pl_sources_looks(a->config.sources, name);
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(rd.conn, err, &rows, COLUMNS " WHERE s.name = ?", "s", name);

    r = r < 0 ? r : pl_sql_next(rd.conn, &rows, err);
    if (r < 0)
        return r;
    if (r == 0 || !pl_principal_may(pl_http_context(req), PL_VERB_READ_PIPELINES, pl_col_text(&rows, 1), NULL)) {
        r = pl_err_set(err, PL_ENOTFOUND, "source \"%s\" does not exist", name);
        return pl_err_hint(err, r, "pipelinectl list source");
    }
    r = pl_api_may(req, verb, pl_col_text(&rows, 1), NULL, err);
    if (r < 0)
        return r;
    *ret = source_json(a, &rows, looks, true);
    return *ret ? 0 : pl_err_nomem(err);
}

static int inspect_source(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    return find_source(a, req, PL_VERB_READ_PIPELINES, ret, err);
}

static int create_source(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *body = NULL, *settings = NULL;
    struct pl_source_args args = {.project = "default"};
    json_t *given = NULL;
    int r = pl_api_body(req, &body, err, "{s:s, s?:s, s:o}", "name", &args.name, "project", &args.project, "settings", &given);

    r = r < 0 ? r : pl_api_may(req, PL_VERB_DEFINE, args.project, NULL, err);
    r = r < 0 ? r : pl_sources_check(a->config.sources, given, false, &settings, err);
    r = r < 0 ? r : check_secrets(a, args.project, settings, settings, err);
    args.spec = settings;
    r = r < 0 ? r : pl_db_run(a->config.db, PL_TX_LOGGED, pl_tx_source_set, &args, err);
    json_decref(args.after);
    if (r < 0)
        return r;
    *ret = json_pack("{s:s, s:s, s:I}", "name", args.name, "project", args.project, "look",
                     (json_int_t)pl_sources_look(a->config.sources, args.name, false));
    return *ret ? 201 : pl_err_nomem(err);
}

static int update_source(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *body = NULL, *settings = NULL, *source = NULL, *after = NULL;
    struct pl_source_args args = {.name = pl_http_param(req, "source"), .update = true};
    json_t *given = NULL;
    int r = pl_api_body(req, &body, err, "{s:o}", "settings", &given);

    r = r < 0 ? r : find_source(a, req, PL_VERB_DEFINE, &source, err);
    r = r < 0 ? r : pl_sources_check(a->config.sources, given, true, &settings, err);
    after = r < 0 ? NULL : json_copy(source);
    if (r == 0 && (!after || json_object_update(after, settings) < 0))
        r = pl_err_nomem(err);
    r = r < 0 ? r : check_secrets(a, pl_json_str(source, "project"), settings, after, err);
    args.spec = settings;
    r = r < 0 ? r : pl_db_run(a->config.db, PL_TX_LOGGED, pl_tx_source_set, &args, err);
    json_decref(args.after);
    if (r < 0)
        return r;
    pl_sources_changed(a->config.sources);
    json_decref(source);
    source = NULL;
    r = find_source(a, req, PL_VERB_DEFINE, &source, err);
    *ret = TAKE_PTR(source);
    return r;
}

static int ask_look(struct pl_api *a, struct pl_http_request *req, bool compare, json_t **ret, struct pl_err *err)
{
    const char *name = pl_http_param(req, "source");
    _cleanup_(json_decrefp) json_t *source = NULL;
    int r = find_source(a, req, PL_VERB_DEFINE, &source, err);

    if (r < 0)
        return r;
    *ret = json_pack("{s:s, s:I}", "name", name, "look", (json_int_t)pl_sources_look(a->config.sources, name, compare));
    return *ret ? 202 : pl_err_nomem(err);
}

static int sync_source(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    return ask_look(a, req, false, ret, err);
}

static int compare_source(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    return ask_look(a, req, true, ret, err);
}

static int show_comparison(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *source = NULL;
    int r = find_source(a, req, PL_VERB_READ_PIPELINES, &source, err);

    if (r < 0)
        return r;
    *ret = pl_sources_compared(a->config.sources, pl_http_param(req, "source"));
    if (*ret)
        return 0;
    r = pl_err_set(err, PL_ENOTFOUND, "source \"%s\" was not compared since the daemon's start", pl_http_param(req, "source"));
    return pl_err_hint(err, r, "pipelinectl diff source %s", pl_http_param(req, "source"));
}

static int delete_source(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    struct pl_source_args args = {.name = pl_http_param(req, "source"), .force = pl_http_query_flag(req, "force")};
    _cleanup_(json_decrefp) json_t *source = NULL;
    int r = find_source(a, req, PL_VERB_DEFINE, &source, err);

    (void)ret;
    r = r < 0 ? r : pl_db_run(a->config.db, PL_TX_LOGGED, pl_tx_source_delete, &args, err);
    if (r == 0)
        pl_sources_changed(a->config.sources);
    return r;
}

/* ---- repos that follow git ---- */

/* Asks for a look at the repository of a repo. */
static int sync_repo(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    const char *project = pl_http_param(req, "project"), *repo = pl_http_param(req, "repo");
    uint64_t look = pl_sources_look_repo(a->config.sources, project, repo);

    if (look == 0) {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
        struct pl_repo_row row;
        int r = pl_db_repo_find(rd.conn, project, repo, &row, err);

        return r < 0 ? r : pl_err_set(err, PL_EINVAL, "repo \"%s\" does not follow a git repository", repo);
    }
    *ret = json_pack("{s:I}", "look", (json_int_t)look);
    return *ret ? 202 : pl_err_nomem(err);
}

static int show_looks(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    *ret = json_pack("{s:I}", "looks",
                     (json_int_t)pl_sources_looks_repo(a->config.sources, pl_http_param(req, "project"),
                                                       pl_http_param(req, "repo")));
    return *ret ? 0 : pl_err_nomem(err);
}

static const struct pl_api_route routes[] = {
    {.method = "POST",
     .pattern = "/api/v1/repos/{project}/{repo}/sync",
     .json = sync_repo,
     .verb = PL_VERB_WRITE,
     .summary = "Looks now at the git repository that the repo follows. The look is completed when `looks` is `look` or more.",
     .reply = "RepoLook"},
    {.method = "GET",
     .pattern = "/api/v1/repos/{project}/{repo}/sync",
     .json = show_looks,
     .verb = PL_VERB_READ,
     .summary =
         "Returns the number of the last completed look at the git repository that the repo follows, since the daemon's start.",
     .reply = "RepoLooks"},
    {.method = "GET",
     .pattern = "/api/v1/sources",
     .json = list_sources,
     .verb = PL_VERB_LIST,
     .summary = "Lists the git repositories that are followed, and what was last seen of them.",
     .query = "project after limit:integer",
     .reply = "SourceList"},
    {.method = "POST",
     .pattern = "/api/v1/sources",
     .json = create_source,
     .body = PL_BODY_JSON,
     .verb = PL_VERB_DEFINE,
     .asks = true,
     .somewhere = true,
     .summary = "Follows a git repository: the specs at the tip of its branch become pipelines of the project. `look` is the "
                "number of the first look at it.",
     .request = "SourceCreate",
     .reply = "SourceLook"},
    {.method = "GET",
     .pattern = "/api/v1/sources/{source}",
     .json = inspect_source,
     .verb = PL_VERB_READ_PIPELINES,
     .asks = true,
     .summary = "Returns one source. `looks` is the number of the last completed look, `applied` the commit whose specs run, "
                "`commit` the one at the branch's tip. While its specs are refused, `problems` has the mistakes with the lines "
                "around them.",
     .reply = "GitSource"},
    {.method = "PATCH",
     .pattern = "/api/v1/sources/{source}",
     .json = update_source,
     .body = PL_BODY_JSON,
     .verb = PL_VERB_DEFINE,
     .asks = true,
     .somewhere = true,
     .summary = "Changes the settings that are given; with `paused` the repository is looked at only on request.",
     .request = "SourceUpdate",
     .reply = "GitSource"},
    {.method = "POST",
     .pattern = "/api/v1/sources/{source}/sync",
     .json = sync_source,
     .verb = PL_VERB_DEFINE,
     .asks = true,
     .somewhere = true,
     .summary = "Looks at the repository now. The look is completed when the source's `looks` is `look` or more.",
     .reply = "SourceLook"},
    {.method = "POST",
     .pattern = "/api/v1/sources/{source}/diff",
     .json = compare_source,
     .verb = PL_VERB_DEFINE,
     .asks = true,
     .somewhere = true,
     .summary = "Finds out what a look at the repository would change, and changes nothing. The result is there when the "
                "source's `looks` is `look` or more.",
     .reply = "SourceLook"},
    {.method = "GET",
     .pattern = "/api/v1/sources/{source}/diff",
     .json = show_comparison,
     .verb = PL_VERB_READ_PIPELINES,
     .asks = true,
     .summary =
         "Returns what the last comparison found: each pipeline of the commit at the branch's tip, how it would change, and "
         "which datums would run again.",
     .reply = "SourceDiff"},
    {.method = "DELETE",
     .pattern = "/api/v1/sources/{source}",
     .json = delete_source,
     .verb = PL_VERB_DEFINE,
     .asks = true,
     .somewhere = true,
     .summary = "Stops following the repository. Its pipelines stay and are set by hand from then on. Refused while git inputs "
                "name the source (unless force).",
     .query = "force:boolean",
     .reply = "Nothing"},
};

static const struct pl_api_schema schemas[] = {
    {"SourceSettings",
     "git:string? branch:string? path:string? interval:string? secret:string? prune:string? hook_secret:string? status:string? "
     "preview:boolean? paused:boolean?"},
    {"SourceCreate", "name:string project:string? settings:SourceSettings"},
    {"SourceUpdate", "settings:SourceSettings"},
    {"SourceLook", "name:string project:string? look:integer"},
    {"GitSource", "name:string project:string git:string branch:string path:string interval:string secret:string? prune:string "
                  "hook_secret:string hook:string? status:string? preview:boolean? paused:boolean state:string "
                  "error:string commit:string applied:string created_us:integer looked_us:integer? changed_us:integer? "
                  "looks:integer subject:string? author:string? at:integer? pipelines:string[]? warnings:string[]? "
                  "errors:string[]? problems:SourceProblem[]? posted:PostedStatus? previews:SourcePreview[]?"},
    /* first: the number of the first of `lines`; mark: the character of the line that is meant, from 1 */
    {"SourceProblem",
     "path:string line:integer column:integer field:string text:string first:integer lines:string[] mark:integer"},
    {"PostedStatus", "commit:string state:string text:string done:boolean error:string? tries:integer again_us:integer"},
    {"SourcePreview",
     "branch:string at_us:integer stale:boolean? commit:string state:string text:string done:boolean error:string? "
     "tries:integer again_us:integer"},
    {"SourceDiff", "commit:string error:string prune:string pipelines:PipelineDiff[] left:string[]? pruned:string[]? "
                   "warnings:string[]? errors:string[]? problems:SourceProblem[]?"},
    {"PipelineDiff", "pipeline:string path:string change:string stages:StageChange[]"},
    {"RepoLook", "look:integer"},
    {"RepoLooks", "looks:integer"},
    {"SourceList", "sources:GitSource[] next:string?"},
};
PL_API_TABLE(sources, routes, schemas);
