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
    (void)c;
    /* as in S3, a key that is not there meets every condition of DELETE; here another client has just deleted it */
    if (r < 0 && r != PL_S3_NO_SUCH_KEY)
        pl_s3_refuse(q, err);
    else
        pl_http_reply(q->http, 204, NULL, NULL, 0);
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

struct many {
    struct pl_s3_xml *xml;
    bool quiet;
    size_t n;
    struct pl_tree_op ops[PL_S3_LIST_MAX];
    const char *keys[PL_S3_LIST_MAX]; /* keys that the request names; they point into `xml` */
    size_t n_keys;
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
    const struct pl_s3_xml_node *root, *object;
    const char *quiet;
    int r = pl_s3_body_xml(q->body, "Delete", &m->xml, err);

    if (r < 0)
        return r;
    root = pl_s3_xml_root(m->xml);
    quiet = pl_s3_xml_text(root, "Quiet");
    m->quiet = quiet && pl_streq(quiet, "true");
    for (object = pl_s3_xml_child(root, "Object"); object; object = pl_s3_xml_again(object)) {
        const char *key = pl_s3_xml_text(object, "Key");

        if (!key || !*key || m->n_keys == PL_S3_LIST_MAX)
            return pl_s3_error(err, PL_S3_MALFORMED_XML);
        r = check_version(q, pl_s3_xml_text(object, "VersionId"), err);
        if (r < 0)
            return r;
        m->keys[m->n_keys++] = key;
    }
    return m->n_keys ? 0 : pl_s3_error(err, PL_S3_MALFORMED_XML);
}

static int answer_many(struct pl_s3_request *q, const struct many *m)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {.max = PL_S3_XML_BYTES_MAX * 2};
    int r = pl_s3_xml_begin(&out, "DeleteResult", true, NULL);

    for (size_t i = 0; i < m->n_keys && r == 0 && !m->quiet; i++) {
        r = pl_s3_xml_open(&out, "Deleted", NULL);
        r = r < 0 ? r : pl_s3_xml_add(&out, "Key", m->keys[i], NULL);
        r = r < 0 ? r : pl_s3_xml_close(&out, "Deleted", NULL);
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

    (void)c;
    (void)new_bytes;
    if (r < 0)
        pl_s3_refuse(q, err);
    else if (answer_many(q, q->more) < 0) {
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
    for (size_t i = 0; i < m->n_keys && r >= 0; i++) {
        r = is_there(&view, m->keys[i], strlen(m->keys[i]), err);
        if (r > 0 && path_of(m->keys[i], strlen(m->keys[i]), &m->ops[m->n]))
            m->n++;
    }
    if (r < 0)
        return r;
    if (m->n)
        return pl_s3_write(q, m->ops, m->n, false, many_done, err);
    r = answer_many(q, m);
    return r < 0 ? pl_err_nomem(err) : 0;
}
