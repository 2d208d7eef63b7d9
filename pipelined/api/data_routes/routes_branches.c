/* Branches of a repo. */
#include "pipelined/api/server/api_context.h"

#include "pipelined/db/tx/repo_tx.h"

#include <stdio.h>

#define BRANCH_SELECT                                                                                                            \
    "SELECT b.name, b.created_us, c.run, c.files, c.bytes, c.created_us FROM branch b LEFT JOIN commit_ c ON c.id = b.head "     \
    "WHERE b.repo = ?"

static json_t *branch_json(const struct pl_rows *rows)
{
    return json_pack("{s:s, s:I, s:s, s:I, s:I, s:o}", "name", pl_col_text(rows, 0), "created_us",
                     (json_int_t)pl_col_int(rows, 1), "commit", pl_col_text(rows, 2), "files", (json_int_t)pl_col_int(rows, 3),
                     "bytes", (json_int_t)pl_col_int(rows, 4), "moved_us", pl_api_time_or_null(pl_col_int(rows, 5)));
}

/* Lists one page of branches by name. */
static int list_branches(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    _cleanup_(json_decrefp) json_t *items = json_array();
    char last[PL_NAME_MAX_BYTES + 1] = "";
    struct pl_repo_row repo;
    struct pl_api_page page;
    int r = pl_api_page_read(req, &page, err);

    r = r < 0 ? r : pl_db_repo_find(rd.conn, pl_http_param(req, "project"), pl_http_param(req, "repo"), &repo, err);
    r = r < 0 ? r
              : pl_sql_query(rd.conn, err, &rows, BRANCH_SELECT " AND b.name > ? ORDER BY b.name LIMIT ?", "isi", repo.id,
                             page.after ? page.after : "", (int64_t)page.limit + 1);
    while (r >= 0 && (r = pl_sql_next(rd.conn, &rows, err)) > 0 && json_array_size(items) < page.limit) {
        snprintf(last, sizeof last, "%s", pl_col_text(&rows, 0));
        json_array_append_new(items, branch_json(&rows));
    }
    if (r < 0)
        return r;
    *ret = pl_api_list("branches", TAKE_PTR(items), r > 0 ? last : NULL);
    return 0;
}

static int read_branch(struct pl_api *a, const struct pl_http_request *req, const char *name, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(a->config.db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    const char *repo_name = pl_http_param(req, "repo");
    struct pl_repo_row repo;
    int r = pl_db_repo_find(rd.conn, pl_http_param(req, "project"), repo_name, &repo, err);

    r = r < 0 ? r : pl_sql_query(rd.conn, err, &rows, BRANCH_SELECT " AND b.name = ?", "is", repo.id, name);
    r = r < 0 ? r : pl_sql_next(rd.conn, &rows, err);
    if (r <= 0)
        return r < 0 ? r : pl_err_set(err, PL_ENOTFOUND, "repo \"%s\" has no branch \"%s\"", repo_name, name);
    *ret = branch_json(&rows);
    return 0;
}

static int inspect_branch(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    return read_branch(a, req, pl_http_param(req, "branch"), ret, err);
}

/* Runs the transaction, wakes the stages that it starts, and answers with the branch. */
static int set_branch(struct pl_api *a, const struct pl_http_request *req, pl_tx_fn tx, struct pl_branch_args *args, json_t **ret,
                      struct pl_err *err)
{
    int r = pl_db_run(a->config.db, PL_TX_LOGGED, tx, args, err);

    if (r == 0 && *args->started)
        a->config.engine->run_created(a->config.engine_self, args->started);
    return r < 0 ? r : read_branch(a, req, args->name, ret, err);
}

static int create_branch(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *body = NULL;
    struct pl_branch_args args = {.project = pl_http_param(req, "project"), .repo = pl_http_param(req, "repo"), .from = ""};
    int force = false;
    int r = pl_api_body(req, &body, err, "{s:s, s?:s, s?:b}", "name", &args.name, "from", &args.from, "force", &force);

    args.force = force;
    /* what a branch that is moved gathers belongs to the commit that it leaves */
    r = r < 0 || !force ? r : pl_open_commits_flush(a->services.opens, args.project, args.repo, args.name, err);
    r = r < 0 ? r : set_branch(a, req, pl_tx_branch_create, &args, ret, err);
    return r < 0 ? r : 201;
}

static int move_branch(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *body = NULL;
    struct pl_branch_args args = {.project = pl_http_param(req, "project"),
                                  .repo = pl_http_param(req, "repo"),
                                  .name = pl_http_param(req, "branch")};
    int r = pl_api_body(req, &body, err, "{s:s}", "head", &args.from);

    r = r < 0 ? r : pl_open_commits_flush(a->services.opens, args.project, args.repo, args.name, err);
    return r < 0 ? r : set_branch(a, req, pl_tx_branch_move, &args, ret, err);
}

static int delete_branch(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    struct pl_branch_args args = {.project = pl_http_param(req, "project"),
                                  .repo = pl_http_param(req, "repo"),
                                  .name = pl_http_param(req, "branch"),
                                  .force = pl_http_query_flag(req, "force"),
                                  .told = {pl_access_may_read, pl_http_context(req)},
                                  .dry_run = pl_http_query_flag(req, "dry_run")};
    /* finish the branch's open commit first: if it were finished after the branch is deleted, it would create
     * the branch again */
    int r = args.dry_run ? 0 : pl_open_commits_flush(a->services.opens, args.project, args.repo, args.name, err);

    r = r < 0 ? r : pl_db_run(a->config.db, PL_TX_LOGGED, pl_tx_branch_delete, &args, err);
    if (r < 0 && !(args.dry_run && r == PL_ECANCELED))
        return r;
    /* without memory for the numbers the delete has happened all the same */
    r = pl_open_commits_loss(a->services.opens, args.project, args.repo, args.name, &args.loss, err);
    if (r < 0 && args.dry_run)
        return r;
    *ret = pl_delete_loss_json(&args.loss);
    return *ret ? 0 : pl_err_nomem(err);
}

static const struct pl_api_route routes[] = {
    {"GET", "/api/v1/repos/{project}/{repo}/branches", list_branches, .verb = PL_VERB_READ,
     .summary = "Lists a repo's branches by name.", .query = "after limit:integer", .reply = "Branches"},
    {"POST", "/api/v1/repos/{project}/{repo}/branches", create_branch, .body = PL_BODY_JSON, .verb = PL_VERB_WRITE,
     .summary =
         "Creates a branch, at the commit that \"from\" names or without a commit; stages that read it run. With \"force\" a "
         "branch that exists is moved there.",
     .request = "NewBranch", .reply = "Branch"},
    {"GET", "/api/v1/repos/{project}/{repo}/branches/{branch}", inspect_branch, .verb = PL_VERB_READ,
     .summary = "Describes a branch.", .reply = "Branch"},
    {"PATCH", "/api/v1/repos/{project}/{repo}/branches/{branch}", move_branch, .body = PL_BODY_JSON, .verb = PL_VERB_WRITE,
     .summary = "Moves a branch to the commit that \"head\" names, a branch, a commit or one before it; stages that read it run. "
                "Its commits stay, but for those that the repo's rule drops when no branch leads to them. Branches of outputs "
                "and of git inputs are refused.",
     .request = "BranchHead", .reply = "Branch"},
    {"DELETE", "/api/v1/repos/{project}/{repo}/branches/{branch}", delete_branch, .verb = PL_VERB_WRITE,
     .summary =
         "Deletes a branch; refused while a stage reads it, unless force. Its commits stay, but for `commits` of them that "
         "the repo's rule no longer keeps without it, and `open_commits` with `operations` that were started on it can no longer "
         "be finished. With `dry_run` it only says how many.",
     .query = "force:boolean dry_run:boolean", .reply = "DeleteLoss"},
};
static const struct pl_api_schema schemas[] = {
    {"Branch", "name:string created_us:integer commit:string files:integer bytes:integer moved_us:integer?"},
    {"Branches", "branches:Branch[] next:string?"},
    {"NewBranch", "name:string from:string? force:boolean?"},
    {"BranchHead", "head:string"},
};
PL_API_TABLE(branches, routes, schemas);
