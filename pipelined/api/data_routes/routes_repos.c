/* Projects and their repos. */
#include "pipelined/api/server/api_context.h"

#include "pipelined/api/data_routes/gone_lookup.h"
#include "pipelined/api/graph_view/graph_view.h"
#include "pipelined/db/tx/repo_tx.h"
#include "pipelined/notify/notify.h"
#include "storage/base/clock.h"

#include <stdio.h>

/* ---- projects ---- */

#define PROJECT_SELECT "SELECT name, created_us, json_extract(options, '$.network') IS NOT 0 FROM project"

static json_t *project_json(const struct pl_rows *rows)
{
    return json_pack("{s:s, s:I, s:b}", "name", pl_col_text(rows, 0), "created_us", (json_int_t)pl_col_int(rows, 1), "network",
                     (int)pl_col_int(rows, 2));
}

static int read_project(struct pl_api *a, const char *name, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(rd.conn, err, &rows, PROJECT_SELECT " WHERE name = ?", "s", name);

    r = r < 0 ? r : pl_sql_next(rd.conn, &rows, err);
    if (r <= 0)
        return r < 0 ? r : pl_err_set(err, PL_ENOTFOUND, "project \"%s\" was deleted just now", name);
    *ret = project_json(&rows);
    return 0;
}

static int list_projects(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_api_read(a, req);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    _cleanup_(json_decrefp) json_t *items = json_array();
    char last[PL_NAME_MAX_BYTES + 1] = "";
    struct pl_api_page page;
    int r = pl_api_page_read(req, &page, err);

    r = r < 0 ? r
              : pl_sql_query(rd.conn, err, &rows, PROJECT_SELECT " WHERE name > ? AND readable(name, NULL) ORDER BY name LIMIT ?",
                             "si", page.after ? page.after : "", (int64_t)page.limit + 1);
    while (r >= 0 && (r = pl_sql_next(rd.conn, &rows, err)) > 0 && json_array_size(items) < page.limit) {
        snprintf(last, sizeof last, "%s", pl_col_text(&rows, 0));
        json_array_append_new(items, project_json(&rows));
    }
    if (r < 0)
        return r;
    *ret = pl_api_list("projects", TAKE_PTR(items), r > 0 ? last : NULL);
    return 0;
}

/* Refuses to create a project if the executor already has secrets for this project name. A deleted project
 * may have left them. If they were prepared in advance, the client says so (with_secrets) and this check
 * is skipped. The check does not apply to a project that exists; "default" always exists. */
static int check_secrets(struct pl_api *a, const char *project, struct pl_err *err)
{
    const struct pl_secret_op none = {.what = PL_SECRET_NONE, .project = project};
    int r;

    {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);

        r = pl_api_project(rd.conn, project, NULL);
    }
    return r == PL_ENOTFOUND ? a->config.engine->secrets(a->config.engine_self, &none, NULL, err) : 0;
}

/* Applies the request's field "network"; -1 = not given. Refuses "network": false if the daemon runs
 * stages without a sandbox and so cannot enforce it. */
static int read_network(const struct pl_api *a, int network, struct pl_repo_args *args, struct pl_err *err)
{
    args->set_network = network >= 0;
    args->network_off = network == 0;
    if (!args->network_off || !a->config.no_sandbox)
        return 0;
    return pl_err_field(err,
                        pl_err_set(err, PL_EINVAL,
                                   "network: false cannot be enforced in project \"%s\": this daemon runs stages without a "
                                   "sandbox (--sandbox none), and the network cannot be taken away from them; use bubblewrap",
                                   args->name),
                        "network");
}

/* Creates a project; refused if secrets for this project name exist, unless the request says with_secrets. */
static int create_project(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *body = NULL;
    struct pl_repo_args args = {0};
    int exist_ok = 0, with_secrets = 0, network = -1;
    int r = pl_api_body(req, &body, err, "{s:s, s?:b, s?:b, s?:b}", "name", &args.name, "exist_ok", &exist_ok, "with_secrets",
                        &with_secrets, "network", &network);

    args.exist_ok = exist_ok;
    r = r < 0 ? r : read_network(a, network, &args, err);
    if (r < 0)
        return r;
    pthread_rwlock_wrlock(&a->secrets);
    r = with_secrets ? 0 : check_secrets(a, args.name, err);
    r = r < 0 ? r : pl_db_run(a->config.db, PL_TX_LOGGED, pl_tx_project_create, &args, err);
    pthread_rwlock_unlock(&a->secrets);
    if (r < 0)
        return r;
    if (args.changed && args.set_network) /* the project may have existed already, with workers running */
        a->config.engine->network_changed(a->config.engine_self, args.name);
    *ret = json_pack("{s:s}", "name", args.name);
    return args.changed ? 201 : 200;
}

static int update_project(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *body = NULL;
    struct pl_repo_args args = {.name = pl_http_param(req, "project")};
    char target[PL_NAME_MAX_BYTES + 32];
    int network = -1;
    int r = pl_api_body(req, &body, err, "{s:b}", "network", &network);

    r = r < 0 ? r : read_network(a, network, &args, err);
    r = r < 0 ? r : pl_db_run(a->config.db, PL_TX_LOGGED, pl_tx_project_update, &args, err);
    if (r < 0)
        return r;
    a->config.engine->network_changed(a->config.engine_self, args.name);
    if (args.changed) {
        snprintf(target, sizeof target, "%s network %s", args.name, network ? "on" : "off");
        pl_audit_write(a->services.audit, req, pl_http_context(req), "update project", target);
    }
    return read_project(a, args.name, ret, err);
}

/* Deletes a project, or in a dry run only says whether that is possible: its secrets first, so that a later project of the same name cannot get them if the
 * daemon ends in between. Both steps can be repeated. */
static int remove_project(struct pl_api *a, const char *name, bool dry_run, json_t **ret_stay, int64_t *ret_notifications,
                          struct pl_err *err)
{
    const struct pl_secret_op secrets = {.what = PL_SECRET_DELETE, .project = name};
    struct pl_repo_args args = {.name = name, .look = true};
    int r = pl_db_run(a->config.db, PL_TX_LOGGED, pl_tx_project_delete, &args, err);

    *ret_notifications = args.loss.notifications;
    if (r < 0 || dry_run)
        return r;
    r = r < 0 ? r : a->config.engine->secrets(a->config.engine_self, &secrets, ret_stay, err);
    if (r < 0)
        return r;
    args.look = false;
    r = pl_db_run(a->config.db, PL_TX_LOGGED, pl_tx_project_delete, &args, err);
    if (r < 0)
        return pl_err_wrap(err, r, "the project's secrets were deleted, but the project was not");
    pl_notify_changed(a->config.notify); /* its rules went with it */
    return 0;
}

static int delete_project(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    int64_t notifications = 0;
    json_t *stay = NULL;
    int r;

    pthread_rwlock_wrlock(&a->secrets);
    r = remove_project(a, pl_http_param(req, "project"), pl_http_query_flag(req, "dry_run"), &stay, &notifications, err);
    pthread_rwlock_unlock(&a->secrets);
    if (r < 0) {
        json_decref(stay);
        return r;
    }
    *ret = json_pack("{s:o, s:I}", "warnings", stay ? stay : json_array(), "notifications", (json_int_t)notifications);
    return *ret ? 0 : pl_err_nomem(err);
}

/* ---- repos ---- */

static void repo_key(const char *project, const char *repo, char out[2 * PL_NAME_MAX_BYTES + 2])
{
    snprintf(out, 2 * PL_NAME_MAX_BYTES + 2, "%s/%s", project, repo);
}

/* Which stages write and read the repos: `self` of the functions below is "PROJECT/REPO" → the repo's JSON, for the repos that are
 * asked for. */
static bool is_asked_for(const void *self, const char *project, const char *pipeline, const char *stage)
{
    char key[2 * PL_NAME_MAX_BYTES + 2];

    (void)pipeline;
    repo_key(project, stage, key); /* a stage writes the repo of its name */
    return json_object_get(self, key);
}

/* Takes a use; those of one stage follow each other. */
static int add_use(void *self, const struct pl_graph_use *use, struct pl_err *err)
{
    char key[2 * PL_NAME_MAX_BYTES + 2];
    json_t *of, *stage;
    int r;

    repo_key(use->from_repo ? use->from_project : use->project, use->from_repo ? use->from_repo : use->stage, key);
    of = json_object_get(self, key);
    if (!of)
        return 0;
    stage = json_pack("{s:s, s:s, s:s}", "project", use->project, "stage", use->stage, "pipeline", use->pipeline);
    if (!use->from_repo) {
        r = json_object_set_new(of, "made_by", stage);
        r = r < 0 ? r : json_object_set_new(of, "stale", json_boolean(use->stale));
        return r < 0 || json_object_set_new(of, "freshness", pl_graph_freshness_json(use->fresh)) < 0 ? pl_err_nomem(err) : 0;
    }
    of = json_object_get(of, "used_by");
    if (json_array_size(of) > 0 && json_equal(json_array_get(of, json_array_size(of) - 1), stage)) {
        json_decref(stage); /* it reads the repo by two inputs */
        return 0;
    }
    return json_array_append_new(of, stage) < 0 ? pl_err_nomem(err) : 0;
}

/* Adds to the JSON of repos which stages write and read them, as far as the principal may see these, and whether the outputs are out
 * of date. All stages are read, because a stage depends on those before it; the words are made of those that write these repos. */
static int add_uses(struct pl_api *a, const struct pl_http_request *req, struct pl_conn *c, json_t *repos, struct pl_err *err)
{
    const struct pl_graph_ask ask = {.readable = pl_access_may_read, .who = pl_http_context(req), .words = is_asked_for};
    _cleanup_(pl_graph_view_unrefp) struct pl_graph_view *view = NULL;
    _cleanup_(json_decrefp) json_t *by_name = json_object();
    char key[2 * PL_NAME_MAX_BYTES + 2];
    json_t *one;
    size_t i;
    int r = by_name ? 0 : pl_err_nomem(err);

    json_array_foreach(repos, i, one)
    {
        repo_key(pl_json_str(one, "project"), pl_json_str(one, "name"), key);
        if (r == 0 && (json_object_set(by_name, key, one) < 0 || json_object_set_new(one, "stale", json_false()) < 0 ||
                       json_object_set_new(one, "used_by", json_array()) < 0))
            r = pl_err_nomem(err);
    }
    r = r < 0 || json_array_size(repos) == 0 ? r : pl_graph_view_get(a->graphs, c, &view, err);
    return r < 0 || !view ? r : pl_graph_uses(view, c, &ask, add_use, by_name, err);
}

#define REPO_KIND "iif(" PL_REPO_KEPT ", 'input', r.kind)"
/* The columns of a repo's JSON; commit, files and bytes are those of the newest of its branches' heads. */
#define REPO_SELECT                                                                                                              \
    "SELECT r.project, r.name, " REPO_KIND ", r.description, r.created_us, c.run, c.branch, c.files, c.bytes,"                   \
    " coalesce(json_extract(r.options, '$.commit_window_ms'), 0), coalesce(json_extract(r.options, '$.durable'), 'local'),"      \
    " coalesce(json_extract(r.options, '$.keep'), '{}'), iif(json_type(r.options, '$.git') IS NULL, 'null',"                     \
    " json_patch(json_extract(r.options, '$.git'), json_object('state', coalesce(t.state, 'new'), 'error',"                      \
    " coalesce(t.error, ''), 'commit', coalesce(t.seen, ''), 'applied', coalesce(c.git, ''), 'warnings',"                        \
    " json(coalesce(t.warnings, '[]')), 'looked_us', t.looked_us, 'changed_us', t.changed_us))),"                                \
    " c.created_us, coalesce(c.author, ''), substr(coalesce(c.message, ''), 1, 200)"                                             \
    " FROM repo r LEFT JOIN repo_state t ON t.repo = r.id"                                                                       \
    " LEFT JOIN commit_ c ON c.id = (SELECT max(head) FROM branch WHERE repo = r.id)"

static json_t *repo_json(const struct pl_rows *rows)
{
    json_t *git = pl_col_json(rows, 12);

    if (json_is_null(git)) {
        json_decref(git);
        git = NULL;
    }
    return json_pack("{s:s, s:s, s:s, s:s, s:I, s:s, s:s, s:I, s:I, s:I, s:s, s:o, s:o*, s:o, s:s, s:s}", "project",
                     pl_col_text(rows, 0), "name", pl_col_text(rows, 1), "kind", pl_col_text(rows, 2), "description",
                     pl_col_text(rows, 3), "created_us", (json_int_t)pl_col_int(rows, 4), "commit", pl_col_text(rows, 5),
                     "branch", pl_col_text(rows, 6), "files", (json_int_t)pl_col_int(rows, 7), "bytes",
                     (json_int_t)pl_col_int(rows, 8), "commit_window_ms", (json_int_t)pl_col_int(rows, 9), "durable",
                     pl_col_text(rows, 10), "keep", pl_col_json(rows, 11), "git", git, "commit_us",
                     pl_api_time_or_null(pl_col_int(rows, 13)), "author", pl_col_text(rows, 14), "message",
                     pl_col_text(rows, 15));
}

/* The position "project/name" of the last repo on the previous page. */
struct place {
    char project[PL_NAME_MAX_BYTES + 1];
    const char *name;
};

static int read_place(const char *after, struct place *ret, struct pl_err *err)
{
    const char *slash = after ? strchr(after, '/') : NULL;

    *ret = (struct place){.name = ""};
    if (!after)
        return 0;
    if (!slash || slash - after > PL_NAME_MAX_BYTES)
        return pl_err_field(
            err, pl_err_set(err, PL_EINVAL, "\"%.120s\" is not a position in this list: use the \"next\" of a page", after),
            "after");
    snprintf(ret->project, sizeof ret->project, "%.*s", (int)(slash - after), after);
    ret->name = slash + 1;
    return 0;
}

/* Lists one page of the repos that the principal may read, by name. With `pushed`, only the first page: input
 * repos, the one with the newest commit first, those without commits last. */
static int list_repos(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_api_read(a, req);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    _cleanup_(json_decrefp) json_t *items = json_array();
    const char *project = pl_http_query(req, "project");
    char last[2 * PL_NAME_MAX_BYTES + 2] = "";
    bool pushed = pl_http_query_flag(req, "pushed"), more;
    struct pl_api_page page;
    struct place place;
    int r = pl_api_page_read(req, &page, err);

    if (r == 0 && pushed && page.after)
        r = pl_err_field(
            err, pl_err_set(err, PL_EINVAL, "a list with \"pushed\" has one page: leave \"after\" out, or raise \"limit\""),
            "after");
    r = r < 0 || !project ? r : pl_api_may(req, PL_VERB_READ_PIPELINES, project, NULL, err);
    r = r < 0 || !project ? r : pl_api_project_listed(rd.conn, project, err);
    r = r < 0 ? r : read_place(page.after, &place, err);
    r = r < 0 ? r
              : pl_sql_query(rd.conn, err, &rows,
                             REPO_SELECT " WHERE (?1 IS NULL OR r.project = ?1) AND (r.project, r.name) > (?2, ?3)"
                                         " AND readable(r.project, r.name) AND (NOT ?5 OR " REPO_KIND " = 'input')"
                                         " ORDER BY iif(?5, coalesce(c.id, 0), 0) DESC, r.project, r.name LIMIT ?4",
                             "sssii", project, place.project, place.name, (int64_t)page.limit + 1, (int64_t)pushed);
    while (r >= 0 && (r = pl_sql_next(rd.conn, &rows, err)) > 0 && json_array_size(items) < page.limit) {
        snprintf(last, sizeof last, "%s/%s", pl_col_text(&rows, 0), pl_col_text(&rows, 1));
        json_array_append_new(items, repo_json(&rows));
    }
    more = r > 0 && !pushed;
    r = r < 0 ? r : add_uses(a, req, rd.conn, items, err);
    if (r < 0)
        return r;
    *ret = pl_api_list("repos", TAKE_PTR(items), more ? last : NULL);
    return 0;
}

/* Reads a repo. `with_uses`: also who writes and reads it, for which the state of all stages is read. */
static int read_repo(struct pl_api *a, const struct pl_http_request *req, const char *project, const char *name, bool with_uses,
                     json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *list = NULL;
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    struct pl_repo_row row;
    /* for a missing repo the error suggests a similar name */
    int r = pl_db_repo_find(rd.conn, project, name, &row, err);

    r = r < 0 ? r : pl_sql_query(rd.conn, err, &rows, REPO_SELECT " WHERE r.id = ?", "i", row.id);
    r = r < 0 ? r : pl_sql_next(rd.conn, &rows, err);
    if (r <= 0)
        return r < 0 ? r : pl_err_set(err, PL_ENOTFOUND, "repo \"%s\" was deleted just now", name);
    list = json_pack("[o]", repo_json(&rows));
    r = !list ? pl_err_nomem(err) : with_uses ? add_uses(a, req, rd.conn, list, err) : 0;
    if (r == 0)
        *ret = json_incref(json_array_get(list, 0));
    return r;
}

/* Reads "commit_window", a duration; NULL = not given. */
static int read_window(const char *text, struct pl_repo_args *args, struct pl_err *err)
{
    int r = text ? pl_duration_parse(text, &args->commit_window_ms, err) : 0;

    args->set_window = text;
    return r < 0 ? pl_err_field(err, r, "commit_window") : 0;
}

/* Reads "keep", an object; NULL = not given. */
static int read_keep(const json_t *object, struct pl_retention_rule *keep, struct pl_repo_args *args, struct pl_err *err)
{
    int r = object ? pl_retention_read(object, keep, err) : 0;

    args->keep = object ? keep : NULL;
    return r;
}

/* Creates an input repo with its options. */
static int create_repo(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *body = NULL;
    struct pl_repo_args args = {.project = "default", .description = ""};
    const char *window = NULL;
    json_t *rule = NULL;
    struct pl_retention_rule keep;
    int exist_ok = 0;
    int r = pl_api_body(req, &body, err, "{s?:s, s:s, s?:s, s?:b, s?:s, s?:s, s?:o}", "project", &args.project, "name",
                        &args.name, "description", &args.description, "exist_ok", &exist_ok, "commit_window", &window, "durable",
                        &args.durable, "keep", &rule);

    r = r < 0 ? r : read_window(window, &args, err);
    r = r < 0 ? r : read_keep(rule, &keep, &args, err);
    r = r < 0 ? r : pl_name_check("project", args.project, err);
    r = r < 0 ? r : pl_api_may(req, PL_VERB_DEFINE, args.project, NULL, err);
    if (r < 0)
        return r;
    args.exist_ok = exist_ok;
    r = pl_db_run(a->config.db, PL_TX_LOGGED, pl_tx_repo_create, &args, err);
    r = r < 0 ? r : read_repo(a, req, args.project, args.name, false, ret, err);
    return r < 0 ? r : args.changed ? 201 : 200;
}

static int inspect_repo(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    int r = read_repo(a, req, pl_http_param(req, "project"), pl_http_param(req, "repo"), true, ret, err);

    return pl_gone_commit(a, req, NULL, r, err);
}

static int update_repo(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *body = NULL;
    struct pl_repo_args args = {.project = pl_http_param(req, "project"), .name = pl_http_param(req, "repo")};
    const char *window = NULL;
    json_t *rule = NULL;
    struct pl_retention_rule keep;
    int r = pl_api_body(req, &body, err, "{s?:s, s?:s, s?:s, s?:o}", "description", &args.description, "commit_window", &window,
                        "durable", &args.durable, "keep", &rule);

    r = r < 0 ? r : read_window(window, &args, err);
    r = r < 0 ? r : read_keep(rule, &keep, &args, err);
    r = r < 0 ? r : pl_db_run(a->config.db, PL_TX_LOGGED, pl_tx_repo_update, &args, err);
    return r < 0 ? r : read_repo(a, req, args.project, args.name, false, ret, err);
}

static int delete_repo(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    struct pl_repo_args args = {.project = pl_http_param(req, "project"),
                                .name = pl_http_param(req, "repo"),
                                .force = pl_http_query_flag(req, "force"),
                                .told = {pl_access_may_read, pl_http_context(req)},
                                .dry_run = pl_http_query_flag(req, "dry_run")};
    int r = pl_db_run(a->config.db, PL_TX_LOGGED, pl_tx_repo_delete, &args, err);

    if (r < 0 && !(args.dry_run && r == PL_ECANCELED))
        return r;
    /* without memory for the numbers the delete has happened all the same */
    r = pl_open_commits_loss(a->services.opens, args.project, args.name, NULL, &args.loss, err);
    if (r < 0 && args.dry_run)
        return r;
    *ret = pl_delete_loss_json(&args.loss);
    if (args.dry_run)
        return 0;
    pl_open_commits_drop_repo(a->services.opens, args.project, args.name, args.id);
    if (a->config.repo_deleted)
        a->config.repo_deleted(a->config.gateway_self, args.id);
    return 0;
}

static const struct pl_api_route routes[] = {
    {"GET", "/api/v1/projects", list_projects, .verb = PL_VERB_LIST, .summary = "Lists projects by name.",
     .query = "after limit:integer", .reply = "Projects"},
    {"POST", "/api/v1/projects", create_project, .body = PL_BODY_JSON, .verb = PL_VERB_OPERATE,
     .summary = "Creates a project; if secrets for its name exist already, only `with_secrets`.", .request = "NewProject",
     .reply = "ProjectName"},
    {"PATCH", "/api/v1/projects/{project}", update_project, .body = PL_BODY_JSON, .audits = true, .verb = PL_VERB_DELETE_PROJECT,
     .summary = "Sets what a project's stages may do: with `network` false new workers have no network, whatever the spec says, "
                "and workers that have one get no more work.",
     .request = "ProjectChange", .reply = "Project"},
    {"DELETE", "/api/v1/projects/{project}", delete_project, .verb = PL_VERB_DELETE_PROJECT,
     .summary = "Deletes a project that has no repos and pipelines, with its notifications and secrets; `warnings` lists the "
                "secrets that stay. With `dry_run` it only says how many notifications would go.",
     .query = "dry_run:boolean", .reply = "ProjectDeleted"},
    {"GET", "/api/v1/repos", list_repos, .verb = PL_VERB_LIST,
     .summary =
         "Lists repos by project and name, each with the newest of its branches' heads (message: its first 200 characters), "
         "the stage that writes it, the stages that read it, and whether it is older than what it was made from. With `pushed` "
         "it lists the first `limit` of the input repos, the one with the newest commit first.",
     .query = "project after limit:integer pushed:boolean", .reply = "Repos"},
    {"POST", "/api/v1/repos", create_repo, .body = PL_BODY_JSON, .verb = PL_VERB_DEFINE, .asks = true, .somewhere = true,
     .summary = "Creates an input repo, and the project \"default\" if needed.", .request = "NewRepo", .reply = "RepoItself"},
    {"GET", "/api/v1/repos/{project}/{repo}", inspect_repo, .verb = PL_VERB_READ, .summary = "Describes a repo.",
     .reply = "Repo"},
    {"PATCH", "/api/v1/repos/{project}/{repo}", update_repo, .body = PL_BODY_JSON, .verb = PL_VERB_WRITE,
     .summary = "Sets description and options of a repo; fields that are not given stay.", .request = "RepoChange",
     .reply = "RepoItself"},
    {"DELETE", "/api/v1/repos/{project}/{repo}", delete_repo, .verb = PL_VERB_REMOVE,
     .summary =
         "Deletes a repo with its branches, commits and open commits, and says what went; refused while a stage reads it (unless "
         "force) or writes it. With `dry_run` it only says what would go.",
     .query = "force:boolean dry_run:boolean", .reply = "DeleteLoss"},
};
static const struct pl_api_schema schemas[] = {
    {"Nothing", ""},
    {"DeleteLoss", "repos:integer commits:integer files:integer bytes:integer open_commits:integer? operations:integer?"},
    {"Project", "name:string created_us:integer network:boolean"},
    {"ProjectChange", "network:boolean"},
    {"ProjectName", "name:string"},
    {"Projects", "projects:Project[] next:string?"},
    {"NewProject", "name:string exist_ok:boolean? with_secrets:boolean? network:boolean?"},
    {"ProjectDeleted", "warnings:string[] notifications:integer"},
    {"Repo",
     "project:string name:string kind:string description:string created_us:integer commit:string branch:string files:integer"
     " bytes:integer commit_window_ms:integer durable:string keep:Keep git:RepoGit? commit_us:integer? author:string"
     " message:string stale:boolean freshness:Freshness? made_by:RepoStage? used_by:RepoStage[]"},
    {"RepoItself",
     "project:string name:string kind:string description:string created_us:integer commit:string branch:string files:integer"
     " bytes:integer commit_window_ms:integer durable:string keep:Keep git:RepoGit? commit_us:integer? author:string"
     " message:string"},
    {"RepoStage", "project:string stage:string pipeline:string"},
    {"RepoGit", "source:string? url:string? branch:string? secret:string? state:string error:string commit:string applied:string"
                " warnings:string[] looked_us:integer? changed_us:integer?"},
    {"Keep", "commits:integer? days:integer? results:integer? logs:integer?"},
    {"Repos", "repos:Repo[] next:string?"},
    {"NewRepo",
     "project:string? name:string description:string? exist_ok:boolean? commit_window:string? durable:string? keep:Keep?"},
    {"RepoChange", "description:string? commit_window:string? durable:string? keep:Keep?"},
};
PL_API_TABLE(repos, routes, schemas);
