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

/* Adds the texts that the query gives to the reply, as the list `key`. */
static int add_names(struct pl_conn *c, struct pl_rows *rows, json_t *reply, const char *key, struct pl_err *err)
{
    json_t *names = json_array();
    int r = json_object_set_new(reply, key, names) < 0 ? pl_err_nomem(err) : 0;

    while (r >= 0 && (r = pl_sql_next(c, rows, err)) > 0)
        if ((r = pl_json_add(names, json_string(pl_col_text(rows, 0)), err)) < 0)
            break;
    return PL_MIN(r, 0);
}

/* Adds the repo's branches that stages read, and its other branches, to the reply. No other branches are listed if a user had
 * created this one before. */
static int add_branches(struct pl_api_services *s, const char *project, const char *repo, const char *branch, json_t *reply,
                        struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(s->db);
    _cleanup_(pl_rows_finish) struct pl_rows read = {0}, others = {0};
    char prefix[2 * PL_NAME_MAX_BYTES + 3];
    int r;

    /* PROJECT/REPO@BRANCH, as inputs are written in effective specs */
    snprintf(prefix, sizeof prefix, "%s/%s@", project, repo);
    r = pl_sql_query(rd.conn, err, &read,
                     "SELECT DISTINCT substr(t.value, length(?1) + 1) FROM stage s, json_tree(s.spec, '$.input') t"
                     " WHERE s.current = 1 AND t.key = 'repo' AND substr(t.value, 1, length(?1)) = ?1 ORDER BY 1 LIMIT 100",
                     "s", prefix);
    r = r < 0 ? r : add_names(rd.conn, &read, reply, "stages_read", err);
    r = r < 0 ? r
              : pl_sql_query(rd.conn, err, &others,
                             "SELECT o.name FROM repo r JOIN branch b ON b.repo = r.id JOIN commit_ c ON c.id = b.head"
                             " JOIN branch o ON o.repo = r.id AND o.name <> b.name"
                             " WHERE r.project = ? AND r.name = ? AND b.name = ? AND b.created_us >= c.created_us"
                             " ORDER BY o.id DESC LIMIT 100",
                             "sss", project, repo, branch);
    return r < 0 ? r : add_names(rd.conn, &others, reply, "branches", err);
}

void pl_branch_push_add_branches(struct pl_api_services *s, const char *project, const char *repo, const char *branch,
                                 json_t *reply)
{
    if (!reply || add_branches(s, project, repo, branch, reply, NULL) >= 0)
        return;
    /* the push has succeeded: it is not failed for a hint */
    json_object_del(reply, "stages_read");
    json_object_del(reply, "branches");
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
    if (result.made_branch)
        pl_branch_push_add_branches(s, args.project, args.repo, args.branch, *ret);
    return result.changed ? 201 : 200;
}
