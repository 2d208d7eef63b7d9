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

/* Finds the rule of the request's bucket that allows the request: 1, or 0. The client is not known yet: a page
 * learns only whether it may ask. */
static int find_rule(struct pl_s3 *s3, struct pl_http_request *http, const char *method, const char *headers,
                     struct pl_s3_cors_answer *ret)
{
    struct pl_s3_request q = {.s3 = s3, .services = s3->services, .http = http};
    struct pl_s3_cors_question question = {pl_http_header(http, "Origin"), method, headers};
    struct pl_s3_target t;
    struct pl_head_cache_entry head;
    int r = pl_s3_read_names(&q, NULL);

    r = r < 0 ? r : pl_s3_target_name(q.bucket, &t, NULL);
    r = r < 0 ? r : pl_head_cache_get(s3->services->heads, t.project, t.repo, t.branch, &head, NULL);
    r = r < 0 ? r : pl_s3_cors_match(s3->rules, head.repo.id, t.branch, &question, ret, NULL);
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
    struct pl_s3_xml *xml = NULL;
    char target[512];
    int r = pl_s3_target(q, PL_VERB_DEFINE, err);

    r = r < 0 ? r : pl_s3_body_xml(q->body, "CORSConfiguration", &xml, err);
    r = r < 0 ? r : pl_s3_cors_put(q->s3->rules, q->target.row.id, q->target.branch, xml, err);
    if (r < 0)
        return r;
    pl_audit_write(q->services->audit, q->http, q->who, "define", pl_s3_audit_target(q, target));
    pl_http_reply(q->http, 200, NULL, NULL, 0);
    return 0;
}

int pl_s3_get_cors(struct pl_s3_request *q, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    int r = pl_s3_target(q, PL_VERB_READ, err);

    r = r < 0 ? r : pl_s3_cors_get(q->s3->rules, q->target.row.id, q->target.branch, &out, err);
    if (r == 0)
        pl_s3_reply_xml(q, &out);
    return r;
}

int pl_s3_delete_cors(struct pl_s3_request *q, struct pl_err *err)
{
    char target[512];
    int r = pl_s3_target(q, PL_VERB_DEFINE, err);

    r = r < 0 ? r : pl_s3_cors_delete(q->s3->rules, q->target.row.id, q->target.branch, err);
    if (r < 0)
        return r;
    pl_audit_write(q->services->audit, q->http, q->who, "define", pl_s3_audit_target(q, target));
    pl_http_reply(q->http, 204, NULL, NULL, 0);
    return 0;
}
