/* Cross-origin requests: the rules of each bucket (s3_cors.h), and the origins of --s3-cors, which may call all
 * buckets. */
#include "pipelined/s3gateway/formats/s3_cors.h"
#include "pipelined/s3gateway/gateway/s3_objects.h"

#include "storage/s3/s3_xml.h"

#include <stdio.h>
#include <strings.h>

#define MAX_AGE "3600"
/* reply headers that pages allowed by --s3-cors may read */
#define EXPOSED "ETag, Content-Length, Content-Range, Last-Modified, x-amz-version-id, x-amz-request-id"

/* ---- buckets ---- */

/* Finds out which bucket has the target's names now: of another branch than master, when it was created.
 * PL_ENOTFOUND. */
static int find_bucket(struct pl_s3 *s3, int64_t repo_id, const struct pl_s3_target *t, struct pl_s3_cors_bucket *ret,
                       struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = {0};

    *ret = (struct pl_s3_cors_bucket){.repo_id = repo_id, .project = t->project, .repo = t->repo, .branch = t->branch};
    if (pl_streq(t->branch, "master"))
        return 0;
    rd = pl_db_read(s3->services->db);
    return pl_sql_int(rd.conn, err, &ret->created_us, "SELECT created_us FROM branch WHERE repo = ? AND name = ?", "is", repo_id,
                      t->branch);
}

/* Finds the bucket of a request whose target was found. */
static int bucket_of(const struct pl_s3_request *q, struct pl_s3_cors_bucket *ret, struct pl_err *err)
{
    int r = find_bucket(q->s3, q->target.row.id, &q->target, ret, err);

    return r == PL_ENOTFOUND ? pl_s3_error(err, PL_S3_NO_SUCH_BUCKET) : r;
}

static bool is_there(void *arg, int64_t repo_id, int64_t created_us)
{
    struct pl_conn *conn = arg;
    int64_t one;

    return pl_sql_int(conn, NULL, &one,
                      "SELECT 1 FROM repo r WHERE id = ?1 AND (?2 = 0 OR EXISTS"
                      " (SELECT 1 FROM branch WHERE repo = r.id AND created_us = ?2))",
                      "ii", repo_id, created_us) != PL_ENOTFOUND;
}

/* Removes the rules of buckets that were deleted by other means than S3. */
static void sweep(struct pl_s3 *s3)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(s3->services->db);

    pl_s3_cors_sweep(s3->rules, is_there, rd.conn);
}

static int name_repo(void *arg, int64_t repo_id, char ret_project[PL_NAME_MAX_BYTES + 1], char ret_repo[PL_NAME_MAX_BYTES + 1],
                     struct pl_err *err)
{
    const struct pl_s3 *s3 = arg;
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(s3->services->db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    int r = pl_sql_query(rd.conn, err, &rows, "SELECT project, name FROM repo WHERE id = ?", "i", repo_id);

    r = r < 0 ? r : pl_sql_next(rd.conn, &rows, err);
    if (r <= 0)
        return r < 0 ? r : pl_err_set(err, PL_ENOTFOUND, "there is no repo %lld", (long long)repo_id);
    snprintf(ret_project, PL_NAME_MAX_BYTES + 1, "%s", pl_col_text(&rows, 0));
    snprintf(ret_repo, PL_NAME_MAX_BYTES + 1, "%s", pl_col_text(&rows, 1));
    return 0;
}

int pl_s3_cors_start(struct pl_s3 *s3, const char *dir, struct pl_err *err)
{
    return pl_s3_cors_open(dir, name_repo, s3, &s3->rules, err);
}

/* ---- replies ---- */

static bool origin_ok(const char *list, const char *origin)
{
    size_t n = strlen(origin);

    for (const char *p = list; *p;) {
        size_t len;

        p += strspn(p, ", ");
        len = strcspn(p, ", ");
        if ((len == 1 && *p == '*') || (len == n && strncasecmp(p, origin, n) == 0))
            return true;
        p += len;
    }
    return false;
}

/* True if the bucket is still the one for which its rules were put. */
static bool is_current(struct pl_s3 *s3, const struct pl_s3_target *t, const struct pl_s3_cors_bucket *b)
{
    struct pl_head_cache_entry head;
    struct pl_s3_cors_bucket now;
    int r = pl_head_cache_get(s3->services->heads, t->project, t->repo, t->branch, &head, NULL);

    r = r < 0 ? r : find_bucket(s3, head.repo.id, t, &now, NULL);
    return r == 0 && now.repo_id == b->repo_id && now.created_us == b->created_us;
}

/* Finds the rule of the request's bucket that allows the request: 1, or 0. A preflight has no signature, so anybody
 * learns whether a page may ask. A bucket without rules and one that does not exist look alike, also by the time that
 * the answer takes: the database is read only if a rule allows the request. */
static int find_rule(struct pl_s3 *s3, struct pl_http_request *http, const char *method, const char *headers,
                     struct pl_s3_cors_answer *ret)
{
    struct pl_s3_request q = {.s3 = s3, .services = s3->services, .http = http};
    struct pl_s3_cors_question question = {pl_http_header(http, "Origin"), method, headers};
    struct pl_s3_cors_bucket bucket;
    struct pl_s3_target t;
    int r = pl_s3_read_names(&q, NULL);

    r = r < 0 ? r : pl_s3_target_name(q.bucket, &t, NULL);
    if (r == 0) {
        bucket = (struct pl_s3_cors_bucket){.project = t.project, .repo = t.repo, .branch = t.branch};
        r = pl_s3_cors_match(s3->rules, &bucket, &question, ret, NULL);
    }
    if (r > 0)
        r = is_current(s3, &t, &bucket);
    free(q.path);
    return PL_MAX(r, 0);
}

/* Sets the headers of a rule. */
static void reply_rule(struct pl_http_request *http, struct pl_s3_cors_answer *a)
{
    pl_http_reply_header(http, "Access-Control-Allow-Origin", a->any_origin ? "*" : pl_http_header(http, "Origin"));
    pl_http_reply_header(http, "Access-Control-Allow-Methods", pl_buf_str(&a->methods));
    if (a->expose.len)
        pl_http_reply_header(http, "Access-Control-Expose-Headers", pl_buf_str(&a->expose));
    if (a->max_age.len)
        pl_http_reply_header(http, "Access-Control-Max-Age", pl_buf_str(&a->max_age));
    if (!a->any_origin)
        pl_http_reply_header(http, "Access-Control-Allow-Credentials", "true");
    pl_http_reply_header(http, "Vary", "Origin, Access-Control-Request-Headers, Access-Control-Request-Method");
}

void pl_s3_add_cors(struct pl_s3 *s3, struct pl_http_request *http)
{
    _cleanup_(pl_s3_cors_answer_finish) struct pl_s3_cors_answer a = {0};
    const char *origin = pl_http_header(http, "Origin");

    if (!origin || pl_streq(pl_http_method(http), "OPTIONS"))
        return;
    if (find_rule(s3, http, pl_http_method(http), NULL, &a) > 0) {
        reply_rule(http, &a);
    } else if (origin_ok(s3->cors, origin)) {
        pl_http_reply_header(http, "Access-Control-Allow-Origin", origin);
        pl_http_reply_header(http, "Access-Control-Expose-Headers", EXPOSED);
        pl_http_reply_header(http, "Vary", "Origin");
    }
}

int pl_s3_preflight(struct pl_s3 *s3, struct pl_http_request *http, struct pl_err *err)
{
    _cleanup_(pl_s3_cors_answer_finish) struct pl_s3_cors_answer a = {0};
    const char *origin = pl_http_header(http, "Origin"), *headers = pl_http_header(http, "Access-Control-Request-Headers");
    const char *method = pl_http_header(http, "Access-Control-Request-Method");

    if (!origin || !method)
        return pl_err_set(err, PL_S3_INVALID_REQUEST, "Insufficient information. Origin request header needed.");
    if (find_rule(s3, http, method, headers, &a) > 0) {
        reply_rule(http, &a);
    } else if (origin_ok(s3->cors, origin)) {
        pl_http_reply_header(http, "Access-Control-Allow-Origin", origin);
        pl_http_reply_header(http, "Access-Control-Expose-Headers", EXPOSED);
        pl_http_reply_header(http, "Vary", "Origin");
        pl_http_reply_header(http, "Access-Control-Allow-Methods", "GET, HEAD, PUT, POST, DELETE");
        pl_http_reply_header(http, "Access-Control-Max-Age", MAX_AGE);
    } else {
        return pl_s3_error(err, PL_S3_ACCESS_FORBIDDEN);
    }
    if (headers)
        pl_http_reply_header(http, "Access-Control-Allow-Headers", headers);
    pl_http_reply(http, 200, NULL, NULL, 0);
    return 0;
}

/* ---- operations ---- */

int pl_s3_put_cors(struct pl_s3_request *q, struct pl_err *err)
{
    struct pl_s3_cors_bucket bucket;
    struct pl_s3_xml *xml = NULL;
    char target[512];
    int r = pl_s3_target(q, PL_VERB_DEFINE, err);

    r = r < 0 ? r : bucket_of(q, &bucket, err);
    r = r < 0 ? r : pl_s3_body_xml(q->body, "CORSConfiguration", &xml, err);
    if (r == 0 && pl_s3_cors_is_full(q->s3->rules))
        sweep(q->s3);
    r = r < 0 ? r : pl_s3_cors_put(q->s3->rules, &bucket, xml, err);
    if (r < 0)
        return r;
    pl_audit_write(q->services->audit, q->http, q->who, "define", pl_s3_audit_target(q, target));
    pl_http_reply(q->http, 200, NULL, NULL, 0);
    return 0;
}

int pl_s3_get_cors(struct pl_s3_request *q, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    struct pl_s3_cors_bucket bucket;
    int r = pl_s3_target(q, PL_VERB_READ, err);

    r = r < 0 ? r : bucket_of(q, &bucket, err);
    r = r < 0 ? r : pl_s3_cors_get(q->s3->rules, &bucket, &out, err);
    if (r == 0)
        pl_s3_reply_xml(q, &out);
    return r;
}

int pl_s3_delete_cors(struct pl_s3_request *q, struct pl_err *err)
{
    struct pl_s3_cors_bucket bucket;
    char target[512];
    int r = pl_s3_target(q, PL_VERB_DEFINE, err);

    r = r < 0 ? r : bucket_of(q, &bucket, err);
    r = r < 0 ? r : pl_s3_cors_delete(q->s3->rules, &bucket, err);
    if (r < 0)
        return r;
    pl_audit_write(q->services->audit, q->http, q->who, "define", pl_s3_audit_target(q, target));
    pl_http_reply(q->http, 204, NULL, NULL, 0);
    return 0;
}
