/* The operations DeleteObject and DeleteObjects. */
#include "pipelined/s3gateway/gateway/s3_headers.h"
#include "pipelined/s3gateway/gateway/s3_objects.h"
#include "storage/s3/s3_xml.h"

#include <stdio.h>

/* Makes the delete operation of a key. Returns false if no stored path can have this name: there is nothing
 * to delete. */
static bool path_of(const char *key, size_t len, struct pl_tree_op *ret)
{
    bool dir = len && key[len - 1] == '/';

    *ret = (struct pl_tree_op){.op = PL_TREE_DELETE, .path = key, .path_len = len - dir};
    return len && len <= PL_S3_KEY_MAX && pl_path_check(key, len - dir, NULL) == 0;
}

/* Returns 1 if the key names something that DELETE removes, a file or an empty folder, else 0. */
static int is_there(const struct pl_branch_view *v, const char *key, size_t len, struct pl_err *err)
{
    _cleanup_(pl_branch_file_finish) struct pl_branch_file file = {0};
    struct pl_tree_op op;
    int r;

    if (!path_of(key, len, &op))
        return 0;
    r = pl_branch_view_get(v, op.path, op.path_len, &file, err);
    return r > 0 ? (file.entry.kind == PL_KIND_DIR) == (key[len - 1] == '/') : r;
}

static int check_version(const struct pl_s3_request *q, const char *version, struct pl_err *err)
{
    if (!version || !*version || pl_streq(version, "null"))
        return 0;
    return pl_err_set(err, PL_S3_NOT_IMPLEMENTED, "%s with a version is not implemented here: commits cannot be changed.",
                      q->op->name);
}

/* ---- DeleteObject ---- */

static void delete_done(void *self, struct pl_open_commit *c, uint64_t new_bytes, int r, const struct pl_err *err)
{
    struct pl_s3_request *q = self;

    (void)new_bytes;
    /* as in S3, a key that is not there meets every condition of DELETE; here another client has just deleted it */
    if (r < 0 && r != PL_S3_NO_SUCH_KEY) {
        pl_s3_refuse(q, err);
    } else {
        if (r == 0) {
            pl_s3_reply_header(q, "x-amz-delete-marker", "true");
            pl_s3_reply_version(q, pl_open_commit_head(c)->commit);
        }
        pl_http_reply(q->http, 204, NULL, NULL, 0);
    }
    pl_s3_request_end(q);
}

int pl_s3_delete_object(struct pl_s3_request *q, struct pl_err *err)
{
    _cleanup_(pl_branch_view_finish) struct pl_branch_view view = {0};
    struct pl_tree_op op;
    int r = check_version(q, pl_s3_query(q, "versionId"), err);

    r = r < 0 ? r : pl_s3_target(q, PL_VERB_WRITE, err);
    r = r < 0 ? r : pl_s3_check_write_conditions(q, err);
    r = r < 0 ? r : pl_s3_view(q, &q->target, NULL, &view, err);
    r = r < 0 ? r : is_there(&view, q->key, q->key_len, err);
    q->head_us = view.head.created_us;
    if (r == 0)
        pl_http_reply(q->http, 204, NULL, NULL, 0);
    if (r <= 0 || !path_of(q->key, q->key_len, &op))
        return PL_MIN(r, 0);
    return pl_s3_write(q, &op, 1, true, delete_done, err);
}

/* ---- DeleteObjects ---- */

int pl_s3_delete_before(struct pl_s3_request *q, struct pl_err *err)
{
    return pl_s3_target(q, PL_VERB_WRITE, err);
}

/* An object that the request names; the texts point into `xml`. */
struct named {
    const char *key;
    const char *refused; /* what the request wants of this object and does not get; NULL = nothing */
    const char *version;
    bool deleted; /* it was there */
};

struct many {
    struct pl_s3_xml *xml;
    bool quiet;
    size_t n;
    struct pl_tree_op ops[PL_S3_LIST_MAX];
    struct named named[PL_S3_LIST_MAX];
    size_t n_named;
};

static void many_free(void *self)
{
    struct many *m = self;

    pl_s3_xml_destroy(m->xml);
    free(m);
}

/* Parses the request's XML document: the keys to delete, and whether to reply quietly. */
static int read_many(struct pl_s3_request *q, struct many *m, struct pl_err *err)
{
    static const char *const conditions[] = {"ETag", "LastModifiedTime", "Size"};
    const struct pl_s3_xml_node *root, *object;
    const char *quiet;
    int r = pl_s3_body_xml(q->body, "Delete", &m->xml, err);

    if (r < 0)
        return r;
    root = pl_s3_xml_root(m->xml);
    quiet = pl_s3_xml_text(root, "Quiet");
    m->quiet = quiet && pl_streq(quiet, "true");
    for (object = pl_s3_xml_child(root, "Object"); object; object = pl_s3_xml_again(object)) {
        struct named o = {.key = pl_s3_xml_text(object, "Key"), .version = pl_s3_xml_text(object, "VersionId")};

        if (!o.key || !*o.key || m->n_named == PL_S3_LIST_MAX)
            return pl_s3_error(err, PL_S3_MALFORMED_XML);
        if (check_version(q, o.version, NULL) < 0)
            o.refused = "A version cannot be deleted: commits cannot be changed.";
        for (size_t i = 0; i < PL_ARRAY_SIZE(conditions); i++)
            if (pl_s3_xml_text(object, conditions[i]))
                o.refused = "DeleteObjects has no conditions here: use DeleteObject.";
        m->named[m->n_named++] = o;
    }
    return m->n_named ? 0 : pl_s3_error(err, PL_S3_MALFORMED_XML);
}

static int add_deleted(struct pl_buf *out, const struct named *o, const char *commit)
{
    int r = pl_s3_xml_open(out, "Deleted", NULL);

    r = r < 0 ? r : pl_s3_xml_add(out, "Key", o->key, NULL);
    if (r == 0 && o->deleted) {
        r = pl_s3_xml_add(out, "DeleteMarker", "true", NULL);
        r = r < 0 ? r : pl_s3_xml_add(out, "DeleteMarkerVersionId", commit, NULL);
    }
    return r < 0 ? r : pl_s3_xml_close(out, "Deleted", NULL);
}

static int add_refused(struct pl_buf *out, const struct named *o)
{
    int r = pl_s3_xml_open(out, "Error", NULL);

    r = r < 0 ? r : pl_s3_xml_add(out, "Key", o->key, NULL);
    if (r == 0 && o->version)
        r = pl_s3_xml_add(out, "VersionId", o->version, NULL);
    r = r < 0 ? r : pl_s3_xml_add(out, "Code", pl_s3_error_info(PL_S3_NOT_IMPLEMENTED)->code, NULL);
    r = r < 0 ? r : pl_s3_xml_add(out, "Message", o->refused, NULL);
    return r < 0 ? r : pl_s3_xml_close(out, "Error", NULL);
}

/* Replies with what became of each object. `commit`: id of the commit that deletes; "" if nothing was there. */
static int answer_many(struct pl_s3_request *q, const struct many *m, const char *commit)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {.max = PL_S3_XML_BYTES_MAX * 2};
    int r = pl_s3_xml_begin(&out, "DeleteResult", true, NULL);

    for (size_t i = 0; i < m->n_named && r == 0; i++) {
        if (m->named[i].refused)
            r = add_refused(&out, &m->named[i]);
        else if (!m->quiet)
            r = add_deleted(&out, &m->named[i], commit);
    }
    r = r < 0 ? r : pl_s3_xml_close(&out, "DeleteResult", NULL);
    if (r == 0)
        pl_s3_reply_xml(q, &out);
    return r;
}

static void many_done(void *self, struct pl_open_commit *c, uint64_t new_bytes, int r, const struct pl_err *err)
{
    struct pl_s3_request *q = self;
    struct pl_err nomem = {0};

    (void)new_bytes;
    if (r < 0)
        pl_s3_refuse(q, err);
    else if (answer_many(q, q->more, pl_open_commit_head(c)->commit) < 0) {
        pl_err_nomem(&nomem);
        pl_s3_refuse(q, &nomem);
    }
    pl_s3_request_end(q);
}

int pl_s3_delete_objects(struct pl_s3_request *q, struct pl_err *err)
{
    _cleanup_(pl_branch_view_finish) struct pl_branch_view view = {0};
    struct many *m = calloc(1, sizeof *m);
    int r;

    if (!m)
        return pl_err_nomem(err);
    q->more = m;
    q->drop_more = many_free;
    r = read_many(q, m, err);
    r = r < 0 ? r : pl_s3_view(q, &q->target, NULL, &view, err);
    for (size_t i = 0; i < m->n_named && r >= 0; i++) {
        struct named *o = &m->named[i];

        if (o->refused)
            continue;
        r = is_there(&view, o->key, strlen(o->key), err);
        o->deleted = r > 0 && path_of(o->key, strlen(o->key), &m->ops[m->n]);
        m->n += o->deleted;
    }
    if (r < 0)
        return r;
    /* a key whose object another client replaces by a folder of that name meanwhile loses the folder */
    if (m->n)
        return pl_s3_write(q, m->ops, m->n, false, many_done, err);
    r = answer_many(q, m, "");
    return r < 0 ? pl_err_nomem(err) : 0;
}
