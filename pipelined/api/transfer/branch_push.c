/* Implements pushes to a branch: the checks before the body is received, the transaction, and the JSON of the
 * reply. */
#include "pipelined/api/transfer/branch_push.h"

#include "pipelined/db/tx/commit_tx.h"
#include "pipelined/text/json_text.h"
#include "storage/base/path.h"

#include <stdio.h>

int pl_branch_push_check(struct pl_api_services *s, const struct pl_http_request *req, struct pl_repo_row *ret,
                         struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(s->db);
    const char *name = pl_http_param(req, "repo");
    struct pl_repo_row repo;
    int r = pl_db_repo_find(rd.conn, pl_http_param(req, "project"), name, &repo, err);

    if (r == 0 && pl_repo_read_only(&repo))
        r = pl_db_refuse_write(rd.conn, pl_http_param(req, "project"), name, err);
    if (r == 0 && ret)
        *ret = repo;
    return r;
}

int pl_branch_push_admit(struct pl_api_services *s, const struct pl_http_request *req, struct pl_err *err)
{
    return pl_branch_push_admit_bytes(s, req, (uint64_t)PL_MAX(pl_http_body_length(req), 0), err);
}

int pl_branch_push_admit_bytes(struct pl_api_services *s, const struct pl_http_request *req, uint64_t bytes, struct pl_err *err)
{
    const struct pl_principal *who = pl_http_context(req);

    return who->kind == PL_PRINCIPAL_WORKER ? 0 : pl_disk_watch_admit(s->disks, bytes, err);
}

static const char *text_or_empty(const char *text)
{
    return text ? text : "";
}

const char *pl_branch_push_author(const struct pl_http_request *req, const char *named)
{
    const struct pl_principal *who = pl_http_context(req);

    if (named && *named)
        return named;
    return who->kind == PL_PRINCIPAL_USER ? who->name : "";
}

json_t *pl_branch_push_json(const char *project, const char *repo, const char *branch, const struct pl_push_result *result,
                            uint64_t new_bytes)
{
    char root[PL_HASH_HEX + 1];

    return json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:b, s:s, s:I, s:I, s:I}", "project", project, "repo", repo, "branch",
                     branch, "commit", result->commit, "run", result->changed ? result->commit : "", "changed", result->changed,
                     "open", 0, "root", pl_hash_hex(&result->root, root), "files", (json_int_t)result->files, "bytes",
                     (json_int_t)result->bytes, "new_bytes", (json_int_t)new_bytes);
}

/* Lists the branches of the repo that stages read, and adds them to the reply. The client of a push that made another branch
 * can then tell the user. */
static int add_read_branches(struct pl_api_services *s, const struct pl_push_args *a, json_t *reply, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(s->db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    json_t *names = json_array();
    char prefix[2 * PL_NAME_MAX_BYTES + 3];
    int r = json_object_set_new(reply, "stages_read", names) < 0 ? pl_err_nomem(err) : 0;

    /* PROJECT/REPO@BRANCH, as inputs are written in effective specs */
    snprintf(prefix, sizeof prefix, "%s/%s@", a->project, a->repo);
    r = r < 0
            ? r
            : pl_sql_query(rd.conn, err, &rows,
                           "SELECT DISTINCT substr(t.value, length(?1) + 1) FROM stage s, json_tree(s.spec, '$.input') t"
                           " WHERE s.current = 1 AND t.key = 'repo' AND substr(t.value, 1, length(?1)) = ?1 ORDER BY 1 LIMIT 100",
                           "s", prefix);
    while (r >= 0 && (r = pl_sql_next(rd.conn, &rows, err)) > 0)
        if ((r = pl_json_add(names, json_string(pl_col_text(&rows, 0)), err)) < 0)
            break;
    return PL_MIN(r, 0);
}

int pl_branch_push(struct pl_api_services *s, const struct pl_http_request *req, const void *ops, size_t n, uint64_t new_bytes,
                   json_t **ret, struct pl_err *err)
{
    struct pl_effort effort = pl_request_effort(req);
    struct pl_push_args args = {.project = pl_http_param(req, "project"),
                                .repo = pl_http_param(req, "repo"),
                                .branch = pl_http_param(req, "branch"),
                                .base = text_or_empty(pl_http_query(req, "base")),
                                .message = text_or_empty(pl_http_query(req, "message")),
                                .author = pl_branch_push_author(req, pl_http_query(req, "author")),
                                .ops = ops,
                                .ops_len = n,
                                .effort = &effort};
    struct pl_push_result result;
    int r = pl_db_push(s->db, s->stores, &args, &result, err);

    if (r < 0)
        return r;
    if (result.changed)
        s->run_created(s->engine, result.commit);
    *ret = pl_branch_push_json(args.project, args.repo, args.branch, &result, new_bytes);
    if (*ret && result.made_branch && add_read_branches(s, &args, *ret, err) < 0)
        json_object_del(*ret, "stages_read"); /* the push has succeeded: it is not failed for a hint */
    return result.changed ? 201 : 200;
}
