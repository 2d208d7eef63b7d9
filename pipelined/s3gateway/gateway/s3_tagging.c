/* PutObjectTagging, GetObjectTagging, DeleteObjectTagging. Tags are among the file's attributes, so changing them is a
 * put of the same file with other attributes: a version of its own. */
#include "pipelined/s3gateway/formats/s3_tags.h"
#include "pipelined/s3gateway/gateway/s3_copy.h"
#include "pipelined/s3gateway/gateway/s3_headers.h"
#include "pipelined/s3gateway/gateway/s3_objects.h"

#include "storage/s3/s3_xml.h"

/* A change of the tags of one file. Lives until the reply, because the writer thread checks the file. */
struct change {
    struct pl_s3_request *q;
    struct pl_entry entry;          /* the file as it was read */
    struct pl_buf then, attributes; /* its attributes as they were read, and with the new tags */
};

static void change_free(void *self)
{
    struct change *c = self;

    pl_buf_finish(&c->then);
    pl_buf_finish(&c->attributes);
    free(c);
}

static void tagging_done(void *self, struct pl_open_commit *c, uint64_t new_bytes, int r, const struct pl_err *err)
{
    struct change *change = self;
    struct pl_s3_request *q = change->q;

    (void)new_bytes;
    if (r < 0) {
        pl_s3_refuse(q, err);
    } else {
        pl_s3_reply_version(q, pl_open_commit_head(c)->commit);
        pl_http_reply(q->http, pl_streq(q->op->method, "DELETE") ? 204 : 200, NULL, NULL, 0);
    }
    pl_s3_request_end(q);
}

/* Refuses the change if another client has put the file since it was read: its bytes must not come back. */
static int is_unchanged(void *self, const struct pl_branch_file *now, struct pl_err *err)
{
    const struct change *change = self;

    if (!now)
        return pl_s3_error(err, PL_S3_NO_SUCH_KEY);
    if (pl_entry_eq(&now->entry, &change->entry) && now->attributes.len == change->then.len &&
        (!change->then.len || memcmp(now->attributes.data, change->then.data, change->then.len) == 0))
        return 0;
    return pl_err_set(err, PL_S3_CONFLICT, "The object was put while its tags were changed: try again.");
}

struct putting {
    struct change *change;
    const struct pl_s3_copy_source *source;
};

static int put_tags(void *self, struct pl_open_commit *c, struct pl_err *err)
{
    const struct putting *p = self;
    struct change *change = p->change;
    struct pl_s3_request *q = change->q;
    struct pl_open_commit_put_options how = {.self = change, .check = is_unchanged, .done = tagging_done};
    struct pl_tree_op op = {.op = PL_TREE_PUT, .path = q->key, .path_len = q->key_len, .entry = change->entry};
    int r = p->source->file.open == c ? 0 : pl_s3_copy_source_keep(p->source, err);

    op.attributes = (struct pl_file_attributes){change->attributes.data, change->attributes.len};
    return r < 0 ? r : pl_open_commit_put_list(c, &op, 1, &how, err);
}

/* Versions are commits, which do not change: only the newest version of a file can get other tags. */
static int find_newest(struct pl_s3_request *q, struct pl_s3_copy_source *s, struct pl_err *err)
{
    const char *version = pl_s3_query(q, "versionId");
    int r;

    s->target = q->target;
    r = pl_s3_view(q, &q->target, NULL, &s->view, err);
    r = r < 0 ? r : pl_s3_find(&s->view, q->key, q->key_len, &s->file, err);
    if (r == 0)
        r = pl_s3_error(err, PL_S3_NO_SUCH_KEY);
    if (r < 0)
        return r;
    if (version && *version && !pl_streq(version, "null") && !pl_streq(version, pl_s3_version_of(&s->view, &s->file)))
        return pl_err_set(err, PL_S3_NOT_IMPLEMENTED,
                          "The tags of an older version cannot be changed: versions are commits, and commits do not change.");
    if (s->file.entry.kind == PL_KIND_DIR)
        return pl_err_set(err, PL_S3_NOT_IMPLEMENTED, "A folder (its key ends with /) cannot have tags.");
    return 0;
}

/* Replaces the tags of the request's object. `tags`: as stored. */
static int change_tags(struct pl_s3_request *q, const char *tags, struct pl_err *err)
{
    _cleanup_(pl_s3_copy_source_finish) struct pl_s3_copy_source source = {0};
    const struct pl_buf *then = &source.file.attributes;
    struct change *change = calloc(1, sizeof *change);
    char etag[PL_S3_ETAG_MAX + 1];
    int r;

    if (!change)
        return pl_err_nomem(err);
    change->q = q;
    q->more = change;
    q->drop_more = change_free;
    r = find_newest(q, &source, err);
    if (r < 0)
        return r;
    change->entry = source.file.entry;
    pl_s3_etag(&change->entry, then, etag);
    r = then->len ? pl_buf_add(&change->then, then->data, then->len, err) : 0;
    r = r < 0 ? r : pl_s3_attributes_again(then, &(struct pl_s3_known){.etag = etag, .tags = tags}, &change->attributes, err);
    return r < 0 ? r : pl_s3_open_commit_put(q, put_tags, &(struct putting){change, &source}, err);
}

int pl_s3_put_tagging(struct pl_s3_request *q, struct pl_err *err)
{
    _cleanup_(pl_s3_xml_destroyp) struct pl_s3_xml *xml = NULL;
    _cleanup_(pl_buf_finish) struct pl_buf tags = {0};
    int r = pl_s3_body_xml(q->body, "Tagging", &xml, err);

    r = r < 0 ? r : pl_s3_tags_of_xml(pl_s3_xml_root(xml), &tags, err);
    if (r == 0 && !pl_buf_str(&tags))
        r = pl_err_nomem(err);
    return r < 0 ? r : change_tags(q, pl_buf_str(&tags), err);
}

int pl_s3_delete_tagging(struct pl_s3_request *q, struct pl_err *err)
{
    int r = pl_s3_put_before(q, err);

    return r < 0 ? r : change_tags(q, "", err);
}

int pl_s3_get_tagging(struct pl_s3_request *q, struct pl_err *err)
{
    _cleanup_(pl_branch_view_finish) struct pl_branch_view view = {0};
    _cleanup_(pl_branch_file_finish) struct pl_branch_file file = {0};
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    struct pl_attribute_field tags = {0};
    int r = pl_s3_find_read(q, &view, &file, err);

    if (r < 0)
        return r;
    (void)pl_file_attributes_find(&(struct pl_file_attributes){file.attributes.data, file.attributes.len}, PL_ATTR_TAGS, &tags);
    r = pl_s3_tags_xml((const char *)tags.bytes, tags.tag == PL_ATTR_TAGS ? tags.len : 0, &out, err);
    if (r < 0)
        return r;
    pl_s3_reply_version(q, pl_s3_version_of(&view, &file));
    pl_s3_reply_xml(q, &out);
    return 0;
}
