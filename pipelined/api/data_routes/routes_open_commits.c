/* Open commits: start, list, put into, finish, flush. They are read by their id and deleted through the
 * routes of finished commits. */
#include "pipelined/api/server/api_context.h"

#include "pipelined/api/data_routes/commit_view.h"
#include "pipelined/api/data_routes/upload_request.h"
#include "pipelined/api/transfer/branch_push.h"
#include "storage/tree_edit/tree_ops.h"

#include <stdio.h>

/* Opens the open commits stored in DIR/open. */
static int open_commits(struct pl_api *a, struct pl_err *err)
{
    _cleanup_free_ char *dir = NULL;
    struct pl_open_commits_config config = {.db = a->config.db,
                                            .heads = a->services.heads,
                                            .stores = a->config.stores,
                                            .pool = a->config.pool,
                                            .finished = a->services.run_created,
                                            .self = a->services.engine};

    if (asprintf(&dir, "%s/open", a->config.data_dir) < 0) {
        dir = NULL;
        return pl_err_nomem(err);
    }
    config.dir = dir;
    return pl_open_commits_open(&config, &a->services.opens, err);
}

static int start_commit(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *body = NULL;
    _cleanup_(pl_open_commit_unrefp) struct pl_open_commit *c = NULL;
    struct pl_open_commit_args args = {.project = pl_http_param(req, "project"),
                                       .repo = pl_http_param(req, "repo"),
                                       .branch = pl_http_param(req, "branch"),
                                       .message = "",
                                       .author = "",
                                       .owner = ((const struct pl_principal *)pl_http_context(req))->name};
    int r = pl_api_body(req, &body, err, "{s?:s, s?:s}", "message", &args.message, "author", &args.author);

    args.author = pl_branch_push_author(req, args.author);
    r = r < 0 ? r : pl_branch_push_admit(&a->services, req, err);
    r = r < 0 ? r : pl_open_commits_start(a->services.opens, &args, &c, err);
    r = r < 0 ? r : pl_commit_view_open_json(req, c, false, ret, err);
    return r < 0 ? r : 201;
}

struct listing {
    const struct pl_http_request *req;
    json_t *items;
};

static int add_one(void *self, struct pl_open_commit *c)
{
    struct listing *to = self;
    json_t *o;
    int r = pl_commit_view_open_json(to->req, c, false, &o, NULL);

    return r < 0 ? r : json_array_append_new(to->items, o) < 0 ? PL_ENOMEM : 0;
}

static int list_open(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *items = json_array();
    struct listing to = {req, items};
    int r = pl_branch_push_check(&a->services, req, NULL, err);

    if (r == PL_EOUTPUT) /* an output repo has no open commits: the list is empty */
        r = 0;
    r = r < 0 ? r
              : pl_open_commits_each(a->services.opens, pl_http_param(req, "project"), pl_http_param(req, "repo"), add_one, &to);
    if (r == PL_ENOMEM)
        return pl_err_nomem(err);
    if (r < 0)
        return r;
    *ret = pl_api_list("commits", TAKE_PTR(items), NULL);
    return 0;
}

/* Replies to a request to finish a commit that is no longer open, because the client lost the first reply
 * or another client finished it. The reply is the commit that was made, the branch's head if the open
 * commit changed nothing, or else the reason why no commit was made. */
static int finished_before(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_api_read(a, req);
    const char *project = pl_http_param(req, "project"), *repo = pl_http_param(req, "repo"), *id = pl_http_param(req, "commit");
    struct pl_push_result result = {.changed = true};
    struct pl_commit_row row;
    struct pl_open_commit_end end;

    if (pl_db_commit_named(rd.conn, project, repo, id, &row, NULL) == 0 && strncmp(row.run, id, strlen(id)) == 0) {
        memcpy(result.commit, row.run, sizeof row.run);
        result.root = row.root;
        result.files = row.files;
        result.bytes = row.bytes;
        *ret = pl_branch_push_json(project, repo, row.branch, &result, 0);
        return 200;
    }
    if (pl_open_commit_end_find(rd.conn, project, repo, id, &end, NULL) < 0)
        return pl_err_set(err, PL_ENOTFOUND, "repo \"%s\" has no open commit \"%s\"", repo, id);
    if (!end.unchanged)
        return pl_err_set(err, PL_ENOTFOUND, "%s", end.reason);
    result = (struct pl_push_result){0};
    memcpy(result.commit, end.head, sizeof end.head);
    if (*end.head && pl_db_commit_named(rd.conn, project, repo, end.head, &row, NULL) == 0) {
        result.root = row.root;
        result.files = row.files;
        result.bytes = row.bytes;
    }
    *ret = pl_branch_push_json(project, repo, end.branch, &result, 0);
    return 200;
}

static int finish_commit(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *body = NULL;
    _cleanup_(pl_open_commit_unrefp) struct pl_open_commit *c = NULL;
    const struct pl_open_commit_file_head *head;
    const char *message = "";
    struct pl_push_result result;
    int r = pl_api_body(req, &body, err, "{s?:s}", "message", &message);

    r = r < 0 ? r
              : pl_open_commits_find(a->services.opens, pl_http_param(req, "project"), pl_http_param(req, "repo"),
                                     pl_http_param(req, "commit"), true, &c, err);
    if (r == PL_ENOTFOUND)
        return finished_before(a, req, ret, err);
    r = r < 0 ? r : pl_open_commit_finish(c, message, &result, err);
    if (r < 0)
        return r;
    head = pl_open_commit_head(c);
    *ret = pl_branch_push_json(head->project, head->repo, head->branch, &result, 0);
    if (result.made_branch)
        pl_branch_push_add_branches(&a->services, head->project, head->repo, head->branch, *ret);
    return result.changed ? 201 : 200;
}

static int flush_branch(struct pl_api *a, struct pl_http_request *req, json_t **ret, struct pl_err *err)
{
    (void)ret;
    return pl_open_commits_flush(a->services.opens, pl_http_param(req, "project"), pl_http_param(req, "repo"),
                                 pl_http_param(req, "branch"), err);
}

static const struct pl_api_route routes[] = {
    {"POST", "/api/v1/repos/{project}/{repo}/branches/{branch}/open", start_commit, .body = PL_BODY_JSON, .verb = PL_VERB_WRITE,
     .summary = "Starts an open commit on the branch's head; files are put into it until it is finished.", .request = "NewOpen",
     .reply = "OpenCommit"},
    {"GET", "/api/v1/repos/{project}/{repo}/open", list_open, .verb = PL_VERB_READ,
     .summary = "Lists the open commits of a repo, the oldest first.", .reply = "OpenCommits"},
    {"PUT", "/api/v1/repos/{project}/{repo}/open/{commit}/files/{path...}", .raw = pl_upload_file_to_open, .body = PL_BODY_STREAM,
     .verb = PL_VERB_WRITE,
     .summary = "Puts one file into an open commit, named by its id, a prefix of the id, or its branch; replies when the file is "
                "durable.",
     .query = "exec:boolean message", .request = "application/octet-stream", .reply = "Pushed"},
    {"POST", "/api/v1/repos/{project}/{repo}/open/{commit}/ops", .raw = pl_upload_ops_to_open, .body = PL_BODY_STREAM,
     .body_max = PL_PUSH_BODY_MAX, .verb = PL_VERB_WRITE,
     .summary = "Applies operations to an open commit, all or none; replies when they are durable.", .query = "session message",
     .request = PL_TREE_OPS_MEDIA_TYPE, .reply = "Pushed"},
    {"POST", "/api/v1/repos/{project}/{repo}/open/{commit}/finish", finish_commit, .body = PL_BODY_JSON, .verb = PL_VERB_WRITE,
     .summary = "Finishes an open commit, which becomes a commit with its run; refused if another commit has changed "
                "one of its paths since it was started. If it was finished before, returns that result again.",
     .request = "FinishOpen", .reply = "Pushed"},
    {"POST", "/api/v1/repos/{project}/{repo}/branches/{branch}/flush", flush_branch, .body = PL_BODY_JSON, .verb = PL_VERB_WRITE,
     .summary = "Finishes the branch's open commit that collects changes during commit_window, if there is one, so that the "
                "branch's head has all changes acknowledged before.",
     .reply = "Nothing"},
};
static const struct pl_api_schema schemas[] = {
    {"NewOpen", "message:string? author:string?"},
    {"FinishOpen", "message:string?"},
    {"OpenCommit", "id:string project:string repo:string branch:string parent:string state:string message:string author:string"
                   " owner:string? mine:boolean? created_us:integer operations:integer gathers:boolean blocked:string"
                   " blocked_us:integer set_aside:boolean"},
    {"OpenCommits", "commits:OpenCommit[] next:string?"},
};
PL_API_TABLE_OPENED(open, routes, schemas, open_commits);
