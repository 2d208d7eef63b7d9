/* PutObject, and the writes that object operations share: operations are added to the branch's open
 * commit. */
#include "pipelined/s3gateway/gateway/s3_headers.h"
#include "pipelined/s3gateway/gateway/s3_objects.h"

#include <stdio.h>

int pl_s3_key_path(const struct pl_s3_request *q, char ret_path[PL_PATH_MAX_BYTES + 1], bool *ret_dir, struct pl_err *err)
{
    size_t len = q->key_len;
    int r;

    if (len > PL_S3_KEY_MAX)
        return pl_s3_error(err, PL_S3_KEY_TOO_LONG);
    *ret_dir = q->key[len - 1] == '/';
    len -= *ret_dir;
    r = pl_path_check(q->key, len, err);
    if (r < 0)
        return pl_err_wrap(err, PL_S3_INVALID_ARGUMENT, "key");
    memcpy(ret_path, q->key, len);
    ret_path[len] = '\0';
    return 0;
}

int pl_s3_put_before(struct pl_s3_request *q, struct pl_err *err)
{
    char path[PL_PATH_MAX_BYTES + 1];
    bool dir;
    int r = pl_s3_target(q, PL_VERB_WRITE, err);

    r = r < 0 ? r : pl_s3_key_path(q, path, &dir, err);
    r = r < 0 ? r : pl_s3_check_wants(q, err);
    return r < 0 ? r : pl_s3_check_write_conditions(q, err);
}

struct list {
    const struct pl_tree_op *ops;
    size_t n;
    struct pl_open_commit_put_options how;
};

static int put_list(void *self, struct pl_open_commit *c, struct pl_err *err)
{
    const struct list *l = self;

    return pl_open_commit_put_list(c, l->ops, l->n, &l->how, err);
}

int pl_s3_write(struct pl_s3_request *q, const struct pl_tree_op *ops, size_t n, bool key,
                void (*done)(void *self, struct pl_open_commit *c, uint64_t new_bytes, int r, const struct pl_err *err),
                struct pl_err *err)
{
    struct list list = {ops, n, {.self = q, .check = key ? pl_s3_check_write : NULL, .done = done}};

    return pl_s3_open_commit_put(q, put_list, &list, err);
}

int pl_s3_write_entry(struct pl_s3_request *q, const char *path, const struct pl_entry *entry, const struct pl_buf *attributes,
                      void (*done)(void *self, struct pl_open_commit *c, uint64_t new_bytes, int r, const struct pl_err *err),
                      struct pl_err *err)
{
    struct pl_tree_op op = {.op = PL_TREE_PUT, .path = path, .path_len = strlen(path), .entry = *entry};

    if (attributes)
        op.attributes = (struct pl_file_attributes){attributes->data, attributes->len};
    return pl_s3_write(q, &op, 1, true, done, err);
}

/* ---- PutObject ---- */

static void put_done(void *self, struct pl_open_commit *c, uint64_t new_bytes, int r, const struct pl_err *err)
{
    struct pl_s3_request *q = self;
    struct pl_s3_body *b = q->body;
    char etag[PL_S3_ETAG_MAX + 1], sum[PL_S3_SUM_TEXT];

    (void)new_bytes;
    if (r < 0) {
        pl_s3_refuse(q, err);
    } else {
        pl_hex_encode(b->md5, sizeof b->md5, etag);
        pl_s3_reply_etag(q, etag);
        pl_s3_reply_version(q, pl_open_commit_head(c)->commit);
        if (b->sum.kind) {
            pl_s3_sum_text(b->sum.kind, b->sum_bytes, sum);
            pl_s3_reply_sum(q, b->sum.kind, sum, false);
        }
        pl_http_reply(q->http, 200, NULL, NULL, 0);
    }
    pl_s3_request_end(q);
}

struct file {
    struct pl_s3_request *q;
    const char *path;
    struct pl_file_attributes attributes;
};

static int put_file(void *self, struct pl_open_commit *c, struct pl_err *err)
{
    const struct file *f = self;
    struct pl_open_commit_put_options how = {.self = f->q, .check = pl_s3_check_write, .done = put_done};

    return pl_open_commit_put_bytes(c, f->path, &f->attributes, &f->q->body->spool, &how, err);
}

int pl_s3_put_object(struct pl_s3_request *q, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf attributes = {0}, tags = {0};
    struct pl_s3_body *b = q->body;
    char path[PL_PATH_MAX_BYTES + 1], etag[PL_S3_ETAG_MAX + 1], sum[PL_S3_SUM_TEXT] = "";
    struct pl_entry directory = pl_entry_dir();
    bool dir;
    int r = pl_s3_key_path(q, path, &dir, err);

    if (r < 0)
        return r;
    if (dir && b->spool.size)
        return pl_err_set(err, PL_S3_INVALID_ARGUMENT, "A key that ends with / is a folder, which has no bytes of its own.");
    if (dir)
        return pl_s3_write_entry(q, path, &directory, NULL, put_done, err);
    pl_hex_encode(b->md5, sizeof b->md5, etag);
    if (b->sum.kind)
        pl_s3_sum_text(b->sum.kind, b->sum_bytes, sum);
    r = pl_s3_tags_asked(q, &tags, err);
    r = r < 0
            ? r
            : pl_s3_attributes(q, &(struct pl_s3_known){.etag = etag, .kind = b->sum.kind, .sum = sum, .tags = pl_buf_str(&tags)},
                               &attributes, err);
    return r < 0 ? r : pl_s3_open_commit_put(q, put_file, &(struct file){q, path, {attributes.data, attributes.len}}, err);
}
