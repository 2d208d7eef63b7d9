/* Buckets: parses their names, checks permissions, opens views of their files, and starts puts into open
 * commits. */
#include "pipelined/s3gateway/gateway/gateway_internal.h"

#include "pipelined/api/access/access.h"
#include "pipelined/api/transfer/open_commit_put.h"

#include <stdio.h>

#define ADMIN_KEY "pipelined" /* access key of the daemon's own token, DIR/token */

int pl_s3_authenticate(struct pl_s3_request *q, const char *access_key, char ret_secret[PL_S3_SECRET_MAX + 1], struct pl_err *err)
{
    int r;

    if (pl_streq(access_key, ADMIN_KEY)) {
        snprintf(ret_secret, PL_S3_SECRET_MAX + 1, "%s", q->services->token);
        q->who = pl_principal_ref(q->s3->daemon);
        return 0;
    }
    r = pl_access_s3_key(q->services->access, access_key, ret_secret, &q->who, err);
    return r == PL_EAUTH ? pl_s3_error(err, PL_S3_INVALID_ACCESS_KEY) : r;
}

/* ---- names ---- */

#define PARTS_MAX 4

static int bad_name(const char *bucket, struct pl_err *err)
{
    return pl_err_set(err, PL_S3_INVALID_BUCKET_NAME,
                      "\"%.260s\" is not a bucket name: buckets are REPO, BRANCH.REPO[.PROJECT], COMMIT.BRANCH.REPO[.PROJECT].",
                      bucket);
}

static bool is_commit(const char *text, size_t least)
{
    size_t n = strlen(text);

    return n >= least && n <= PL_ID_HEX && strspn(text, "0123456789abcdef") == n;
}

int pl_s3_target_name(const char *bucket, struct pl_s3_target *ret, struct pl_err *err)
{
    char text[PL_S3_BUCKET_MAX + 1], *part[PARTS_MAX + 1] = {NULL}, *next = text;
    struct pl_s3_target t = {.project = "default", .branch = "master"};
    const char *branch = NULL, *repo, *project = NULL;
    size_t n = 0, at = 0;

    snprintf(text, sizeof text, "%s", bucket);
    while (next && n <= PARTS_MAX)
        part[n++] = strsep(&next, ".");
    if (n > PARTS_MAX)
        return bad_name(bucket, err);
    /* no branch or repo may have a name of 32 hex digits, so such a first part can only be a commit id */
    if ((n == 3 && is_commit(part[0], PL_ID_HEX)) || (n == 4 && is_commit(part[0], PL_COMMIT_REF_PREFIX_DIGITS)))
        snprintf(t.commit, sizeof t.commit, "%s", part[at++]);
    else if (n == 4)
        return bad_name(bucket, err);
    if (n - at > 1)
        branch = part[at++];
    repo = part[at++];
    if (at < n)
        project = part[at];
    if (pl_name_check("repo", repo, NULL) < 0 || (branch && pl_name_check("branch", branch, NULL) < 0) ||
        (project && pl_name_check("project", project, NULL) < 0))
        return bad_name(bucket, err);
    snprintf(t.repo, sizeof t.repo, "%s", repo);
    if (branch)
        snprintf(t.branch, sizeof t.branch, "%s", branch);
    if (project)
        snprintf(t.project, sizeof t.project, "%s", project);
    *ret = t;
    return 0;
}

void pl_s3_bucket_name(const char *project, const char *repo, const char *branch, char ret[PL_S3_BUCKET_MAX + 1])
{
    if (!pl_streq(project, "default"))
        snprintf(ret, PL_S3_BUCKET_MAX + 1, "%s.%s.%s", branch, repo, project);
    else if (!pl_streq(branch, "master"))
        snprintf(ret, PL_S3_BUCKET_MAX + 1, "%s.%s", branch, repo);
    else
        snprintf(ret, PL_S3_BUCKET_MAX + 1, "%s", repo);
}

/* ---- look-up ---- */

static int no_bucket(struct pl_err *err, int r)
{
    return r == PL_ENOTFOUND ? pl_s3_error(err, PL_S3_NO_SUCH_BUCKET) : r;
}

static int find_commit(struct pl_s3_request *q, struct pl_s3_target *t, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(q->services->db);
    struct pl_commit_row commit;
    int r = pl_db_commit_named(rd.conn, t->project, t->repo, t->commit, &commit, err);

    if (r == 0)
        memcpy(t->commit, commit.run, sizeof t->commit);
    return r;
}

/* Finds the repo and commit of a target. Branch master is a bucket even before its first commit; any other
 * branch must exist. */
static int find_rows(struct pl_s3_request *q, struct pl_s3_target *t, struct pl_err *err)
{
    struct pl_head_cache_entry head;
    int r = pl_head_cache_get(q->services->heads, t->project, t->repo, t->branch, &head, err);

    if (r < 0)
        return no_bucket(err, r);
    t->row = head.repo;
    if (*t->commit)
        return no_bucket(err, find_commit(q, t, err));
    return head.branch || pl_streq(t->branch, "master") ? 0 : no_bucket(err, PL_ENOTFOUND);
}

int pl_s3_check_verb(struct pl_s3_request *q, enum pl_verb verb, const char *project, const char *repo, struct pl_err *err)
{
    int r = pl_principal_check(q->who, verb, project, repo, err);

    q->forbidden = r == PL_EFORBIDDEN;
    return r;
}

int pl_s3_target_of(struct pl_s3_request *q, const char *bucket, enum pl_verb verb, struct pl_s3_target *ret, struct pl_err *err)
{
    struct pl_s3_target t;
    int r = pl_s3_target_name(bucket, &t, err);

    r = r < 0 ? r : pl_s3_check_verb(q, verb, t.project, t.repo, err);
    r = r < 0 ? r : find_rows(q, &t, err);
    if (r == 0 && verb != PL_VERB_READ && *t.commit)
        r = pl_err_set(err, PL_S3_METHOD_NOT_ALLOWED, "A commit cannot be changed: write to bucket %s.%s.%s.", t.branch, t.repo,
                       t.project);
    if (r == 0 && verb == PL_VERB_WRITE && pl_repo_read_only(&t.row)) {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(q->services->db);

        r = pl_db_refuse_write(rd.conn, t.project, t.repo, err);
    }
    r = r < 0 ? r : pl_project_stores_get(q->services->stores, t.project, &t.store, err);
    if (r == 0)
        *ret = t;
    return r;
}

int pl_s3_target(struct pl_s3_request *q, enum pl_verb verb, struct pl_err *err)
{
    int r = pl_s3_target_of(q, q->bucket, verb, &q->target, err);

    if (r == 0 && verb != PL_VERB_READ && !q->hold.store)
        pl_store_hold(q->target.store, &q->hold);
    return r;
}

/* ---- views ---- */

static int commit_view(struct pl_s3_request *q, const struct pl_s3_target *t, const char *id, struct pl_branch_view *ret,
                       struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(q->services->db);
    struct pl_commit_row commit;
    int r = pl_id_ok(id) ? pl_db_commit_named(rd.conn, t->project, t->repo, id, &commit, err) : PL_ENOTFOUND;

    if (r < 0)
        return r == PL_ENOTFOUND ? pl_s3_error(err, PL_S3_NO_SUCH_VERSION) : r;
    pl_branch_view_of_commit(&commit, t->store, ret);
    return 0;
}

/* Returns true if `version` is the id of an open commit in the view. The view then ends with this commit:
 * later open commits are dropped from it. */
static bool is_gathering(struct pl_branch_view *v, const char *version)
{
    for (size_t i = 0; i < v->n_opens; i++) {
        if (!pl_streq(pl_open_commit_head(v->opens[i])->commit, version))
            continue;
        while (v->n_opens > i + 1)
            pl_open_commit_unref(v->opens[--v->n_opens]);
        return true;
    }
    return false;
}

int pl_s3_view(struct pl_s3_request *q, const struct pl_s3_target *t, const char *version, struct pl_branch_view *ret,
               struct pl_err *err)
{
    bool newest = !version || !*version || pl_streq(version, "null");
    int r;

    if (*t->commit)
        return newest || pl_streq(version, t->commit) ? commit_view(q, t, t->commit, ret, err)
                                                      : pl_s3_error(err, PL_S3_NO_SUCH_VERSION);
    r = pl_branch_view_init(q->services->heads, t->row.output ? NULL : q->services->opens, t->store, t->repo, t->branch, ret,
                            err);
    if (r == PL_ENOTFOUND)
        return pl_s3_error(err, PL_S3_NO_SUCH_BUCKET);
    if (r < 0 || newest || is_gathering(ret, version))
        return r;
    pl_branch_view_finish(ret);
    return commit_view(q, t, version, ret, err);
}

int pl_s3_open_commit_put(struct pl_s3_request *q, int (*put)(void *self, struct pl_open_commit *c, struct pl_err *err),
                          void *self, struct pl_err *err)
{
    const struct pl_s3_target *t = &q->target;
    struct pl_open_commit_args args = {.project = t->project,
                                       .repo = t->repo,
                                       .branch = t->branch,
                                       .message = "by S3",
                                       .author = q->who->name,
                                       .must_exist = !pl_streq(t->branch, "master")};
    int64_t window_ms = t->row.commit_window_ms ? t->row.commit_window_ms : PL_S3_WINDOW_MS;
    char target[512];
    struct pl_api_telling *told = pl_api_audit_put(q->services->audit, q->http, q->who, q->bucket, pl_s3_audit_target(q, target));
    /* after a result of 0, `q` may be freed already */
    int r = pl_open_commit_put_run(q->services->opens, &args, window_ms, put, self, err);

    pl_api_audit_put_done(told, r == 0);
    return r < 0 ? no_bucket(err, r) : PL_S3_ANSWERS_LATER;
}
