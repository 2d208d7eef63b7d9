/* Commits of a repo: list, inspect, delete; and their creation by a push of operations. */
#include "pipelined/api/server/api_context.h"

#include "pipelined/api/data_routes/commit_view.h"
#include "pipelined/api/data_routes/gone_lookup.h"
#include "pipelined/api/data_routes/upload_request.h"
#include "pipelined/db/tx/commit_tx.h"
#include "storage/tree_edit/tree_ops.h"

#include <stdio.h>

#define COMMIT_SELECT                                                                                                            \
    "SELECT c.run, r.project, r.name, c.branch, c.parent, c.root, c.files, c.bytes, c.message, c.author, c.stage, c.generation," \
    " c.created_us, c.provenance, c.code, c.id, c.git FROM commit_ c JOIN repo r ON r.id = c.repo"

static json_t *commit_json(const struct pl_rows *rows)
{
    struct pl_hash root = pl_col_hash(rows, 5), code = pl_col_hash(rows, 14);
    char hex[PL_HASH_HEX + 1];

    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:I, s:s, s:s, s:s, s:I, s:I, s:o, s:o, s:s, s:s*}", "id",
                     pl_col_text(rows, 0), "project", pl_col_text(rows, 1), "repo", pl_col_text(rows, 2), "branch",
                     pl_col_text(rows, 3), "parent", pl_col_text(rows, 4), "root", pl_hash_hex(&root, hex), "files",
                     (json_int_t)pl_col_int(rows, 6), "bytes", (json_int_t)pl_col_int(rows, 7), "message", pl_col_text(rows, 8),
                     "author", pl_col_text(rows, 9), "stage", pl_col_text(rows, 10), "generation",
                     (json_int_t)pl_col_int(rows, 11), "created_us", (json_int_t)pl_col_int(rows, 12), "provenance",
                     pl_col_json(rows, 13), "code", pl_api_hash_json(&code), "state", "finished", "git",
                     *pl_col_text(rows, 16) ? pl_col_text(rows, 16) : NULL);
}

/* ---- list ---- */

/* Lists all commits of the repo, newest first, in the order of the log. */
static int list_all(struct pl_conn *c, int64_t repo, int64_t before, size_t limit, json_t *items, struct pl_err *err)
{
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(c, err, &rows, COMMIT_SELECT " WHERE c.repo = ? AND c.id < ? ORDER BY c.id DESC LIMIT ?", "iii", repo,
                         before, (int64_t)limit);

    while (r >= 0 && (r = pl_sql_next(c, &rows, err)) > 0)
        json_array_append_new(items, commit_json(&rows));
    return r;
}

/* Lists a commit and its parents: the history of a branch. */
static int list_chain(struct pl_conn *c, int64_t repo, const char *from, size_t limit, json_t *items, struct pl_err *err)
{
    char run[PL_ID_HEX + 1];
    int r = 1;

    snprintf(run, sizeof run, "%s", from);
    while (r > 0 && *run && json_array_size(items) < limit) {
        _cleanup_(pl_rows_finish) struct pl_rows rows = {0};

        r = pl_sql_query(c, err, &rows, COMMIT_SELECT " WHERE c.repo = ? AND c.run = ?", "is", repo, run);
        r = r < 0 ? r : pl_sql_next(c, &rows, err);
        if (r <= 0)
            break;
        json_array_append_new(items, commit_json(&rows));
        snprintf(run, sizeof run, "%s", pl_col_text(&rows, 4));
    }
    return PL_MIN(r, 0);
}

/* Reads one page, plus one commit that shows whether another page follows. */
static int list_page(struct pl_conn *c, const struct pl_http_request *req, const struct pl_api_page *page, json_t *items,
                     struct pl_err *err)
{
    const char *project = pl_http_param(req, "project"), *name = pl_http_param(req, "repo"),
               *branch = pl_http_query(req, "branch");
    struct pl_commit_row after = {.id = INT64_MAX}, head;
    struct pl_repo_row repo;
    int r = pl_db_repo_find(c, project, name, &repo, err);

    if (r == 0 && page->after)
        r = pl_db_commit_named(c, project, name, page->after, &after, err);
    if (r < 0)
        return r;
    if (!branch || !*branch)
        return list_all(c, repo.id, after.id, page->limit + 1, items, err);
    if (page->after)
        return list_chain(c, repo.id, after.parent, page->limit + 1, items, err);
    r = pl_db_branch_head(c, repo.id, branch, &head, err);
    if (r > 0)
        return list_chain(c, repo.id, head.run, page->limit + 1, items, err);
    if (r == 0) {
        int64_t id;

        r = pl_sql_int(c, err, &id, "SELECT id FROM branch WHERE repo = ? AND name = ?", "is", repo.id, branch);
        if (r == PL_ENOTFOUND)
            r = pl_err_set(err, r, "repo \"%s\" has no branch \"%s\"", name, branch);
    }
    return r;
}

static int list_commits(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    _cleanup_(json_decrefp) json_t *items = json_array();
    char next[PL_ID_HEX + 1] = "";
    struct pl_api_page page;
    int r = pl_api_page_read(req, &page, err);

    r = r < 0 ? r : list_page(rd.conn, req, &page, items, err);
    if (r < 0)
        return r;
    if (json_array_size(items) > page.limit) { /* the extra commit exists: there is another page */
        json_array_remove(items, page.limit);
        snprintf(next, sizeof next, "%s", json_string_value(json_object_get(json_array_get(items, page.limit - 1), "id")));
    }
    *ret = pl_api_list("commits", TAKE_PTR(items), *next ? next : NULL);
    return 0;
}

/* ---- one commit ---- */

/* Describes an open commit. With the query argument `pack` its content is first written to packs, so that
 * its root can be read like that of a finished commit. */
static int inspect_open(const struct pl_http_request *req, struct pl_open_commit *c, json_t **ret, struct pl_err *err)
{
    struct pl_hash root;
    int r = pl_http_query_flag(req, "pack") ? pl_open_commit_pack(c, &root, err) : 0;

    return r < 0 ? r : pl_commit_view_open_json(req, c, true, ret, err);
}

static int inspect_finished(struct pl_api *a, const struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    struct pl_commit_row row;
    int r = pl_db_commit_named(rd.conn, pl_http_param(req, "project"), pl_http_param(req, "repo"), pl_http_param(req, "ref"),
                               &row, err);

    r = r < 0 ? r : pl_sql_query(rd.conn, err, &rows, COMMIT_SELECT " WHERE c.id = ?", "i", row.id);
    r = r < 0 ? r : pl_sql_next(rd.conn, &rows, err);
    if (r <= 0)
        return r < 0 ? r : pl_err_set(err, PL_ENOTFOUND, "commit %s was deleted just now", row.run);
    *ret = commit_json(&rows);
    return 0;
}

static int inspect_commit(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_open_commit_unrefp) struct pl_open_commit *c = NULL;
    int r = inspect_finished(a, req, ret, err);

    if (r == PL_ENOTFOUND && pl_commit_view_open_named(a, req, pl_http_param(req, "ref"), &c, NULL) == 0)
        return inspect_open(req, c, ret, err);
    return pl_gone_commit(a, req, pl_http_param(req, "ref"), r, err);
}

static int delete_commit(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    struct pl_commit_delete_args args = {.project = pl_http_param(req, "project"),
                                         .repo = pl_http_param(req, "repo"),
                                         .run = pl_http_param(req, "ref")};
    _cleanup_(pl_open_commit_unrefp) struct pl_open_commit *c = NULL;
    int r = pl_db_run(a->config.db, PL_TX_LOGGED, pl_tx_commit_delete, &args, err);

    (void)ret;
    if (r == PL_ENOTFOUND && pl_commit_view_open_named(a, req, args.run, &c, NULL) == 0)
        return pl_open_commit_abort(c, "deleted by a user", err);
    if (r == 0 && *args.started)
        a->config.engine->run_created(a->config.engine_self, args.started);
    return r;
}

static const struct pl_api_route routes[] = {
    {"GET", "/api/v1/repos/{project}/{repo}/commits", list_commits, .verb = PL_VERB_READ,
     .summary = "Lists commits, newest first: of a branch through its parents, else all of the repo.",
     .query = "branch after limit:integer", .reply = "Commits"},
    {"GET", "/api/v1/repos/{project}/{repo}/commits/{ref}", inspect_commit, .verb = PL_VERB_READ,
     .summary = "Describes the commit that a branch, an id or a prefix of an id names; ^n goes back n parents. An open commit "
                "too: with pack, its content is put into packs first, so that its root can be read.",
     .query = "pack:boolean", .reply = "Commit"},
    {"DELETE", "/api/v1/repos/{project}/{repo}/commits/{ref}", delete_commit, .verb = PL_VERB_WRITE,
     .summary = "Deletes a commit of an input repo on which no other commit is based, or an open commit; its branch falls back "
                "to the parent, and the stages that read the branch run.",
     .reply = "Nothing"},
    {"POST", "/api/v1/repos/{project}/{repo}/branches/{branch}/commits", .raw = pl_upload_ops_to_branch, .body = PL_BODY_STREAM,
     .body_max = PL_PUSH_BODY_MAX, .verb = PL_VERB_WRITE,
     .summary = "Applies operations to the branch's head and commits; with base, refused if one of the paths has changed since "
                "that commit. Without base, in a repo with commit_window: adds them to the branch's open commit that "
                "collects changes during commit_window.",
     .query = "base message author session", .request = PL_TREE_OPS_MEDIA_TYPE, .reply = "Pushed"},
};
static const struct pl_api_schema schemas[] = {
    {"Source", "project:string repo:string branch:string commit:string"},
    {"Commit",
     "id:string project:string repo:string branch:string parent:string root:string files:integer bytes:integer message:string"
     " author:string stage:string? generation:integer? created_us:integer provenance:Source[]? code:string? git:string? "
     "state:string"
     " owner:string? mine:boolean? operations:integer? gathers:boolean? blocked:string? blocked_us:integer? set_aside:boolean?"},
    {"Commits", "commits:Commit[] next:string?"},
    {"Pushed", "project:string repo:string branch:string commit:string run:string changed:boolean open:boolean gathers:boolean?"
               " root:string? files:integer? bytes:integer? new_bytes:integer stages_read:string[]? branches:string[]?"},
};
PL_API_TABLE(commits, routes, schemas);
