/* The operations on buckets: list, create, delete, head, location, versioning, ACLs. */
#include "pipelined/s3gateway/gateway/s3_headers.h"
#include "pipelined/s3gateway/gateway/s3_objects.h"

#include "pipelined/db/tx/repo_tx.h"
#include "storage/s3/s3_xml.h"

#include <stdio.h>

/* The region of every bucket: that of `pipelinectl s3 env`, for its reasons (CLIENT_REGION in verb_s3.c). Clients sign, and
 * presign, with the region that they are told. */
#define REGION      "eu-central-1"
#define BUCKETS_MAX 10000 /* largest number of buckets in one reply */

/* ---- ListBuckets ---- */

static int add_bucket(struct pl_buf *out, const char *name, int64_t created_us, struct pl_err *err)
{
    char time[32];
    int r = pl_s3_xml_open(out, "Bucket", err);

    pl_s3_iso_time(created_us, time);
    r = r < 0 ? r : pl_s3_xml_add(out, "Name", name, err);
    r = r < 0 ? r : pl_s3_xml_add(out, "CreationDate", time, err);
    return r < 0 ? r : pl_s3_xml_close(out, "Bucket", err);
}

/* A page of buckets. */
struct page {
    const char *prefix;
    char after[PL_S3_BUCKET_MAX + 1]; /* name of the last bucket of the page before; then of this page */
    uint64_t max;
    bool none, truncated; /* none: no bucket fits the question */
};

static int read_token(const char *token, char ret[PL_S3_BUCKET_MAX + 1], struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf name = {0};

    if (pl_base64_decode(token, &name, NULL) < 0 || !name.len || name.len > PL_S3_BUCKET_MAX || memchr(name.data, 0, name.len))
        return pl_err_set(err, PL_S3_INVALID_ARGUMENT, "The continuation token provided is incorrect");
    memcpy(ret, name.data, name.len);
    ret[name.len] = '\0';
    return 0;
}

static int read_page(const struct pl_s3_request *q, struct page *p, struct pl_err *err)
{
    const char *token = pl_s3_query(q, "continuation-token"), *region = pl_s3_query(q, "bucket-region");
    int r = pl_s3_query_number(q, "max-buckets", BUCKETS_MAX, BUCKETS_MAX, &p->max, err);

    if (r == 0 && !p->max)
        r = pl_err_set(err, PL_S3_INVALID_ARGUMENT, "max-buckets must be between 1 and %d", BUCKETS_MAX);
    p->prefix = pl_s3_query_or_empty(q, "prefix");
    p->none = region && *region && !pl_streq(region, REGION);
    return r < 0 || !token ? r : read_token(token, p->after, err);
}

/* Adds the buckets of every repo that the principal may read, master and the other branches, in order of their
 * names (pl_s3_bucket_name). */
static int add_buckets(struct pl_s3_request *q, struct page *p, struct pl_buf *out, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(q->services->db);
    _cleanup_(pl_rows_finish) struct pl_rows rows = {0};
    uint64_t n = 0;
    int r;

    if (p->none)
        return 0;
    rd.conn->readable = pl_access_may_read;
    rd.conn->who = q->who;
    r = pl_sql_query(
        rd.conn, err, &rows,
        "SELECT bucket, created FROM (SELECT r.project AS project, r.name AS repo, b.name AS branch, b.created_us AS created,"
        " CASE WHEN r.project != 'default' THEN b.name || '.' || r.name || '.' || r.project"
        " WHEN b.name != 'master' THEN b.name || '.' || r.name ELSE r.name END AS bucket FROM repo r JOIN"
        " (SELECT id AS repo, 'master' AS name, created_us FROM repo UNION ALL"
        " SELECT repo, name, created_us FROM branch WHERE name != 'master') b ON b.repo = r.id)"
        " WHERE bucket > ?1 AND substr(bucket, 1, length(?2)) = ?2 AND readable(project, repo) ORDER BY bucket LIMIT ?3",
        "ssi", p->after, p->prefix, (int64_t)p->max + 1);
    while (r >= 0 && (r = pl_sql_next(rd.conn, &rows, err)) > 0) {
        if (n++ == p->max) {
            p->truncated = true;
            return 0;
        }
        snprintf(p->after, sizeof p->after, "%s", pl_col_text(&rows, 0));
        r = add_bucket(out, p->after, pl_col_int(&rows, 1), err);
    }
    return r;
}

static int add_token(const struct page *p, struct pl_buf *out, struct pl_err *err)
{
    _cleanup_free_ char *token = NULL;
    int r = p->truncated ? pl_base64_encode(p->after, strlen(p->after), &token, err) : 0;

    r = r < 0 || !token ? r : pl_s3_xml_add(out, "ContinuationToken", token, err);
    return r < 0 || !*p->prefix ? r : pl_s3_xml_add(out, "Prefix", p->prefix, err);
}

int pl_s3_list_buckets(struct pl_s3_request *q, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    struct page page = {0};
    int r = read_page(q, &page, err);

    r = r < 0 ? r : pl_s3_xml_begin(&out, "ListAllMyBucketsResult", true, err);
    r = r < 0 ? r : pl_s3_add_owner(q, &out, err);
    r = r < 0 ? r : pl_s3_xml_open(&out, "Buckets", err);
    r = r < 0 ? r : add_buckets(q, &page, &out, err);
    r = r < 0 ? r : pl_s3_xml_close(&out, "Buckets", err);
    r = r < 0 ? r : add_token(&page, &out, err);
    r = r < 0 ? r : pl_s3_xml_close(&out, "ListAllMyBucketsResult", err);
    if (r == 0)
        pl_s3_reply_xml(q, &out);
    return r;
}

/* ---- CreateBucket ---- */

/* Creates the repo, and its branch if that is not master, unless they exist. `ret_made`: one of them was
 * created. */
static int make(struct pl_s3_request *q, const struct pl_s3_target *t, bool *ret_made, struct pl_err *err)
{
    struct pl_repo_args repo = {.project = t->project, .name = t->repo, .description = "", .exist_ok = true};
    struct pl_branch_args branch = {.project = t->project, .repo = t->repo, .name = t->branch, .from = ""};
    int r = pl_db_run(q->services->db, PL_TX_LOGGED, pl_tx_repo_create, &repo, err);

    *ret_made = repo.changed;
    if (r < 0 || pl_streq(t->branch, "master"))
        return r;
    r = pl_db_run(q->services->db, PL_TX_LOGGED, pl_tx_branch_create, &branch, err);
    *ret_made |= r == 0;
    if (r == 0 && *branch.started)
        q->services->run_created(q->services->engine, branch.started);
    return r == PL_EEXISTS ? 0 : r;
}

/* Checks the body of CreateBucket, if it has one. Every region will do; tags and the kinds of directory buckets are
 * refused, not ignored. */
static int check_configuration(const struct pl_s3_request *q, struct pl_err *err)
{
    static const char *const refused[] = {"Tags", "Bucket", "Location"};
    _cleanup_(pl_s3_xml_destroyp) struct pl_s3_xml *xml = NULL;
    int r = q->body->spool.size ? pl_s3_body_xml(q->body, "CreateBucketConfiguration", &xml, err) : 0;

    for (size_t i = 0; i < PL_ARRAY_SIZE(refused) && r == 0 && xml; i++)
        if (pl_s3_xml_child(pl_s3_xml_root(xml), refused[i]))
            r = pl_err_set(err, PL_S3_NOT_IMPLEMENTED, "CreateBucketConfiguration with %s is not implemented here.", refused[i]);
    return r;
}

int pl_s3_create_bucket(struct pl_s3_request *q, struct pl_err *err)
{
    struct pl_s3_target t;
    char location[PL_S3_BUCKET_MAX + 2], target[512];
    bool made;
    int r = pl_s3_check_wants(q, err);

    r = r < 0 ? r : check_configuration(q, err);
    r = r < 0 ? r : pl_s3_target_name(q->bucket, &t, err);
    if (r == 0 && *t.commit)
        r = pl_err_set(err, PL_S3_INVALID_BUCKET_NAME,
                       "A commit cannot be created as a bucket: put objects into bucket %s.%s.%s.", t.branch, t.repo, t.project);
    r = r < 0 ? r : pl_s3_check_verb(q, PL_VERB_DEFINE, t.project, t.repo, err);
    r = r < 0 ? r : make(q, &t, &made, err);
    /* a repo that a stage writes cannot be created, but if the bucket is there, this is one that is created again */
    if (r == PL_EEXISTS && pl_s3_target_of(q, q->bucket, PL_VERB_READ, &t, NULL) == 0)
        r = 0;
    if (r == PL_ENOTFOUND)
        return pl_err_set(err, PL_S3_INVALID_BUCKET_NAME, "Project \"%s\" does not exist: pipelinectl create project %s",
                          t.project, t.project);
    if (r < 0)
        return r;
    /* as in us-east-1, creating one's bucket again succeeds and changes nothing */
    if (made)
        pl_audit_write(q->services->audit, q->http, q->who, "define", pl_s3_audit_target(q, target));
    snprintf(location, sizeof location, "/%s", q->bucket);
    pl_s3_reply_header(q, "Location", location);
    pl_http_reply(q->http, 200, NULL, NULL, 0);
    return 0;
}

/* ---- DeleteBucket ---- */

static int remove_branch(void *self, struct pl_err *err)
{
    struct pl_s3_request *q = self;
    const struct pl_s3_target *t = &q->target;
    struct pl_branch_args args = {
        .project = t->project, .repo = t->repo, .name = t->branch, .empty = true, .told = {pl_access_may_read, q->who}};

    /* the branch's CORS rules are those of its time: a new branch of this name does not have them */
    return pl_db_run(q->services->db, PL_TX_LOGGED, pl_tx_branch_delete, &args, err);
}

static int remove_repo(void *self, struct pl_err *err)
{
    struct pl_s3_request *q = self;
    const struct pl_s3_target *t = &q->target;
    struct pl_repo_args args = {.project = t->project, .name = t->repo, .empty = true, .told = {pl_access_may_read, q->who}};
    int r = pl_db_run(q->services->db, PL_TX_LOGGED, pl_tx_repo_delete, &args, err);

    if (r == 0)
        pl_s3_drop_repo(q->s3, args.id);
    return r;
}

/* Deletes an empty bucket. For master this deletes the whole repo, if all its branches are empty; for another
 * branch, only the branch. No put can begin meanwhile, so none is lost. */
static int remove_empty(struct pl_s3_request *q, bool whole, struct pl_err *err)
{
    const struct pl_s3_target *t = &q->target;
    int r = pl_open_commits_flush(q->services->opens, t->project, t->repo, t->branch, err);

    if (r < 0)
        return r;
    r = pl_open_commits_while_empty(q->services->opens, t->project, t->repo, whole ? NULL : t->branch,
                                    whole ? remove_repo : remove_branch, q, err);
    return r == PL_ECONFLICT ? pl_s3_error(err, PL_S3_BUCKET_NOT_EMPTY) : r;
}

int pl_s3_delete_bucket(struct pl_s3_request *q, struct pl_err *err)
{
    struct pl_s3_target *t = &q->target;
    int r = pl_s3_target_name(q->bucket, t, err);
    bool whole = r == 0 && pl_streq(t->branch, "master");
    char target[512];

    r = r < 0 ? r : pl_s3_target(q, whole ? PL_VERB_REMOVE : PL_VERB_WRITE, err);
    if (r < 0)
        return r;
    r = remove_empty(q, whole, err);
    if (r < 0)
        return r;
    pl_audit_write(q->services->audit, q->http, q->who, whole ? "remove" : "write", pl_s3_audit_target(q, target));
    pl_http_reply(q->http, 204, NULL, NULL, 0);
    return 0;
}

/* ---- properties of a bucket ---- */

int pl_s3_head_bucket(struct pl_s3_request *q, struct pl_err *err)
{
    int r = pl_s3_target(q, PL_VERB_READ, err);

    if (r < 0)
        return r;
    pl_s3_reply_header(q, "x-amz-bucket-region", REGION);
    pl_http_reply(q->http, 200, NULL, NULL, 0);
    return 0;
}

int pl_s3_bucket_location(struct pl_s3_request *q, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    int r = pl_s3_target(q, PL_VERB_READ, err);

    r = r < 0 ? r : pl_s3_xml_begin(&out, "LocationConstraint", true, err);
    r = r < 0 ? r : pl_buf_addf(&out, err, "%s", REGION);
    r = r < 0 ? r : pl_s3_xml_close(&out, "LocationConstraint", err);
    if (r == 0)
        pl_s3_reply_xml(q, &out);
    return r;
}

int pl_s3_bucket_versioning(struct pl_s3_request *q, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    int r = pl_s3_target(q, PL_VERB_READ, err);

    r = r < 0 ? r : pl_s3_xml_begin(&out, "VersioningConfiguration", true, err);
    /* a commit has one version, which is never replaced */
    if (r == 0 && !*q->target.commit)
        r = pl_s3_xml_add(&out, "Status", "Enabled", err);
    r = r < 0 ? r : pl_s3_xml_close(&out, "VersioningConfiguration", err);
    if (r == 0)
        pl_s3_reply_xml(q, &out);
    return r;
}

int pl_s3_put_bucket_versioning(struct pl_s3_request *q, struct pl_err *err)
{
    _cleanup_(pl_s3_xml_destroyp) struct pl_s3_xml *xml = NULL;
    const char *status, *mfa;
    int r = pl_s3_target(q, PL_VERB_DEFINE, err);

    r = r < 0 ? r : pl_s3_body_xml(q->body, "VersioningConfiguration", &xml, err);
    if (r < 0)
        return r;
    status = pl_s3_xml_text(pl_s3_xml_root(xml), "Status");
    mfa = pl_s3_xml_text(pl_s3_xml_root(xml), "MfaDelete");
    if (mfa && pl_streq(mfa, "Enabled"))
        return pl_err_set(err, PL_S3_NOT_IMPLEMENTED, "MfaDelete is not implemented here.");
    if (status && pl_streq(status, "Suspended"))
        return pl_err_set(err, PL_S3_NOT_IMPLEMENTED, "Versioning cannot be suspended: every commit is a version.");
    if (!status || !pl_streq(status, "Enabled"))
        return pl_s3_error(err, PL_S3_MALFORMED_XML);
    pl_http_reply(q->http, 200, NULL, NULL, 0);
    return 0;
}

/* ---- ACLs: everything belongs to the bucket's owner (pl_s3_check_acl) ---- */

static int add_person(const struct pl_s3_request *q, struct pl_buf *out, struct pl_err *err)
{
    int r = pl_s3_xml_add(out, "ID", q->claim.access_key, err);

    return r < 0 ? r : pl_s3_xml_add(out, "DisplayName", q->who->name, err);
}

static int write_acl(const struct pl_s3_request *q, struct pl_buf *out, struct pl_err *err)
{
    int r = pl_s3_xml_begin(out, "AccessControlPolicy", true, err);

    r = r < 0 ? r : pl_s3_add_owner(q, out, err);
    r = r < 0 ? r : pl_s3_xml_open(out, "AccessControlList", err);
    r = r < 0 ? r : pl_s3_xml_open(out, "Grant", err);
    r = r < 0 ? r
              : pl_buf_addf(out, err,
                            "<Grantee xmlns:xsi=\"http://www.w3.org/2001/XMLSchema-instance\" xsi:type=\"CanonicalUser\">");
    r = r < 0 ? r : add_person(q, out, err);
    r = r < 0 ? r : pl_s3_xml_close(out, "Grantee", err);
    r = r < 0 ? r : pl_s3_xml_add(out, "Permission", "FULL_CONTROL", err);
    r = r < 0 ? r : pl_s3_xml_close(out, "Grant", err);
    r = r < 0 ? r : pl_s3_xml_close(out, "AccessControlList", err);
    return r < 0 ? r : pl_s3_xml_close(out, "AccessControlPolicy", err);
}

/* Checks that what the ACL is for exists: the bucket, or the object in it. */
static int check_acl_target(struct pl_s3_request *q, enum pl_verb verb, struct pl_err *err)
{
    _cleanup_(pl_branch_view_finish) struct pl_branch_view view = {0};
    _cleanup_(pl_branch_file_finish) struct pl_branch_file file = {0};
    int r = pl_s3_target(q, verb, err);

    return r < 0 || q->op->level == PL_S3_BUCKET ? r : pl_s3_find_read(q, &view, &file, err);
}

int pl_s3_get_acl(struct pl_s3_request *q, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    int r = check_acl_target(q, PL_VERB_READ, err);

    r = r < 0 ? r : write_acl(q, &out, err);
    if (r == 0)
        pl_s3_reply_xml(q, &out);
    return r;
}

/* Accepts an ACL that changes nothing: one that gives the owner everything and nobody else anything. */
static int check_policy(const struct pl_s3_request *q, const struct pl_s3_xml_node *root, struct pl_err *err)
{
    const struct pl_s3_xml_node *list = pl_s3_xml_child(root, "AccessControlList"), *g;

    if (!list)
        return pl_s3_error(err, PL_S3_MALFORMED_XML);
    g = pl_s3_xml_child(list, "Grant");
    if (!g) /* the owner would have no rights either */
        return pl_s3_error(err, PL_S3_ACL_NOT_SUPPORTED);
    for (; g; g = pl_s3_xml_again(g)) {
        const char *id = pl_s3_xml_text(pl_s3_xml_child(g, "Grantee"), "ID"), *permission = pl_s3_xml_text(g, "Permission");

        if (!permission)
            return pl_s3_error(err, PL_S3_MALFORMED_XML);
        if (!id || !pl_streq(id, q->claim.access_key) || !pl_streq(permission, "FULL_CONTROL"))
            return pl_s3_error(err, PL_S3_ACL_NOT_SUPPORTED);
    }
    return 0;
}

int pl_s3_put_acl(struct pl_s3_request *q, struct pl_err *err)
{
    _cleanup_(pl_s3_xml_destroyp) struct pl_s3_xml *xml = NULL;
    int r = check_acl_target(q, q->op->level == PL_S3_BUCKET ? PL_VERB_DEFINE : PL_VERB_WRITE, err);

    r = r < 0 ? r : pl_s3_check_acl(q, err);
    if (r == 0 && q->body->spool.size) {
        r = pl_s3_body_xml(q->body, "AccessControlPolicy", &xml, err);
        r = r < 0 ? r : check_policy(q, pl_s3_xml_root(xml), err);
    }
    if (r == 0)
        pl_http_reply(q->http, 200, NULL, NULL, 0);
    return r;
}
