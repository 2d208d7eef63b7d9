/* A put collects operations and encoded records and gives them to the open commit's writer. Until the write
 * has ended, it has a hold on the store (pl_store_hold). Records of a large file are written to packs
 * directly, not to the open commit's file. */
#include "pipelined/api/transfer/open_commit_put.h"

#include "storage/chunk/codec.h"
#include "storage/dataset/file/file_write.h"
#include "storage/dataset/ingest/ingest.h"
#include "storage/pack/pack_builder.h"
#include "storage/tree_edit/tree_ops.h"

#include <stdio.h>

/* attempts to put into the open commit that collects a branch's puts; if that commit is just being finished,
 * the next attempt uses its successor */
#define GATHER_TRIES 64

struct put {
    struct pl_open_commit_write write;
    struct pl_open_commit_put_options how;
    struct pl_open_commit *open;
    uint64_t new_bytes;
    struct pl_tree_op *ops, op;
    char path[PL_PATH_MAX_BYTES + 1];
    struct pl_op_record *records;
    size_t n, cap;
    struct pl_buf stored; /* the encoded records, one after another */
    /* memory that the operations point into: an operation stream, or paths and attributes one after
     * another */
    struct pl_buf stream;
    struct pl_store_hold hold;
};

static struct put *put_free(struct put *p)
{
    if (!p)
        return NULL;
    pl_store_release(&p->hold);
    pl_open_commit_unref(p->open);
    free(p->ops);
    free(p->records);
    pl_buf_finish(&p->stored);
    pl_buf_finish(&p->stream);
    free(p);
    return NULL;
}

static void put_freep(struct put **p)
{
    *p = put_free(*p);
}

static struct put *put_new(const struct pl_open_commit_put_options *how, struct pl_open_commit *c)
{
    struct put *p = calloc(1, sizeof *p);

    if (!p)
        return NULL;
    p->how = *how;
    p->open = pl_open_commit_ref(c);
    pl_store_hold(pl_open_commit_store(c), &p->hold);
    p->stored.max = PL_OPEN_COMMIT_QUEUE_BYTES;
    p->stream.max = PL_OPEN_COMMIT_QUEUE_BYTES * 2;
    return p;
}

/* Called when the open commit's writer is done: passes the result on and frees the put. */
static void put_done(struct pl_open_commit_write *w, int r, const struct pl_err *err)
{
    struct put *p = PL_CONTAINER_OF(w, struct put, write);

    p->how.done(p->how.self, p->open, p->new_bytes, r, err);
    put_free(p);
}

static int put_check(struct pl_open_commit_write *w, const struct pl_branch_file *now, struct pl_err *err)
{
    const struct put *p = PL_CONTAINER_OF(w, struct put, write);

    return p->how.check(p->how.self, now, err);
}

/* Sends the reply of the REST API when the write has ended; `self` is the request. */
static void answer(void *self, struct pl_open_commit *c, uint64_t new_bytes, int r, const struct pl_err *err)
{
    const struct pl_open_commit_file_head *h = pl_open_commit_head(c);

    if (r < 0)
        pl_http_reply_error(self, err);
    else
        pl_http_reply_json(self, 202,
                           json_pack("{s:s, s:s, s:s, s:s, s:s, s:b, s:b, s:b, s:I}", "project", h->project, "repo", h->repo,
                                     "branch", h->branch, "commit", h->commit, "run", "", "changed", 1, "open", 1, "gathers",
                                     h->gathered, "new_bytes", (json_int_t)new_bytes));
}

/* ---- records of a file ---- */

static int add_record(struct put *p, uint8_t kind, const void *bytes, size_t n, struct pl_hash *ret_id, struct pl_err *err)
{
    struct pl_op_record record = {.kind = kind, .raw = (uint32_t)n};
    size_t size;
    int r;

    pl_hash_sha256(bytes, n, ret_id);
    if (pl_open_commit_has(p->open, ret_id))
        return 0;
    if (p->n == p->cap) {
        size_t cap = p->cap ? 2 * p->cap : 4;
        struct pl_op_record *records = reallocarray(p->records, cap, sizeof *records);

        if (!records)
            return pl_err_nomem(err);
        p->records = records;
        p->cap = cap;
    }
    r = pl_buf_reserve(&p->stored, pl_codec_bound(n), err);
    if (r < 0)
        return r;
    record.id = *ret_id;
    record.codec = (uint8_t)pl_codec_encode(bytes, n, p->stored.data + p->stored.len, &size);
    record.stored = (uint32_t)size;
    if (record.codec == PL_CODEC_RAW)
        memcpy(p->stored.data + p->stored.len, bytes, n);
    p->stored.len += size;
    p->new_bytes += size;
    p->records[p->n++] = record;
    return 0;
}

static int add_chunk(void *self, const void *bytes, size_t n, struct pl_hash *ret_id, struct pl_err *err)
{
    return add_record(self, PL_REC_CHUNK, bytes, n, ret_id, err);
}

static int add_list(void *self, const void *bytes, size_t n, struct pl_hash *ret_id, struct pl_err *err)
{
    return add_record(self, PL_REC_LIST, bytes, n, ret_id, err);
}

/* Chunks a small file, whose records go into the open commit. */
static int read_file(struct put *p, uint8_t kind, struct pl_body_spool *spool, struct pl_err *err)
{
    struct pl_file_write_sink sink = {.self = p, .chunk = add_chunk, .list = add_list};
    _cleanup_free_ uint8_t *buffer = NULL;
    const void *bytes;
    int r;

    if (spool->size <= PL_ONE_CHUNK_BYTES) {
        r = pl_body_spool_map(spool, &bytes, err);
        return r < 0 ? r : pl_file_write_entry_small(&sink, kind, bytes, (size_t)spool->size, &p->op.entry, err);
    }
    buffer = malloc(PL_FILE_WRITE_BUFFER_BYTES);
    return buffer ? pl_file_write_entry(&sink, buffer, kind, pl_body_spool_read, spool, &p->op.entry, err) : pl_err_nomem(err);
}

/* Chunks a large file, whose records go into packs directly. */
static int pack_file(struct put *p, uint8_t kind, struct pl_body_spool *spool, struct pl_err *err)
{
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *session = NULL;
    struct pl_pack_sink sink = pl_store_sink(pl_open_commit_store(p->open));
    struct pl_pack_builder_stats stats;
    int r = pl_pack_builder_open(&sink, pl_open_commit_head(p->open)->project, &session, err);

    r = r < 0 ? r : pl_file_write_stream(session, kind, pl_body_spool_read, spool, &p->op.entry, err);
    r = r < 0 ? r : pl_pack_builder_finish(session, err);
    if (r < 0)
        return r;
    pl_pack_builder_stats(session, &stats);
    p->new_bytes = stats.new_bytes;
    return 0;
}

/* Gives the put to the open commit's writer. Takes `p` on success. */
static int send(struct put **p, struct pl_err *err)
{
    struct put *put = *p;
    size_t at = 0;
    int r;

    for (size_t i = 0; i < put->n; at += put->records[i++].stored)
        put->records[i].bytes = put->stored.data + at;
    put->write.records = put->records;
    put->write.n_records = put->n;
    put->write.bytes = put->stored.len + put->stream.len + PL_PATH_MAX_BYTES;
    put->write.done = put_done;
    put->write.check = put->how.check ? put_check : NULL;
    put->write.message = put->how.message;
    r = put->write.message ? pl_open_commit_file_check_message(put->write.message, err) : 0;
    if (r < 0)
        return r;
    *p = NULL; /* the put may be answered and freed before the call returns */
    r = pl_open_commit_write(put->open, &put->write, err);
    if (r < 0)
        *p = put;
    return r;
}

static int put_file(const struct pl_open_commit_put_options *how, struct pl_open_commit *c, const char *path, uint8_t kind,
                    const struct pl_file_attributes *attributes, struct pl_body_spool *spool, struct pl_err *err)
{
    _cleanup_(put_freep) struct put *p = put_new(how, c);
    int r;

    if (!p)
        return pl_err_nomem(err);
    spool->at = 0;
    p->op = (struct pl_tree_op){.op = PL_TREE_PUT, .path = p->path, .path_len = strlen(path)};
    memcpy(p->path, path, p->op.path_len + 1);
    r = spool->size < PL_OPEN_COMMIT_DIRECT_BYTES ? read_file(p, kind, spool, err) : pack_file(p, kind, spool, err);
    if (r == 0 && attributes)
        r = pl_buf_add(&p->stream, attributes->data, attributes->len, err);
    p->op.attributes = (struct pl_file_attributes){p->stream.data, p->stream.len};
    p->write.ops = &p->op;
    p->write.n_ops = 1;
    return r < 0 ? r : send(&p, err);
}

static struct pl_open_commit_put_options rest(struct pl_http_request *req)
{
    return (struct pl_open_commit_put_options){.self = req, .message = pl_http_query(req, "message"), .done = answer};
}

int pl_open_commit_put_file(struct pl_http_request *req, struct pl_open_commit *c, const char *path, uint8_t kind,
                            struct pl_body_spool *spool, struct pl_err *err)
{
    const struct pl_open_commit_put_options how = rest(req);

    return put_file(&how, c, path, kind, NULL, spool, err);
}

int pl_open_commit_put_bytes(struct pl_open_commit *c, const char *path, const struct pl_file_attributes *attributes,
                             struct pl_body_spool *spool, const struct pl_open_commit_put_options *how, struct pl_err *err)
{
    return put_file(how, c, path, PL_KIND_FILE, attributes, spool, err);
}

/* Copies the operations, with their paths and attributes. */
static int copy_ops(struct put *p, const struct pl_tree_op *ops, size_t n, struct pl_err *err)
{
    size_t room = 1;
    int r;

    for (size_t i = 0; i < n; i++)
        room += ops[i].path_len + ops[i].attributes.len;
    p->ops = calloc(n + 1, sizeof *p->ops);
    r = p->ops ? pl_buf_reserve(&p->stream, room, err) : pl_err_nomem(err);
    for (size_t i = 0; i < n && r == 0; i++) { /* the space is reserved, so the buffer does not move */
        struct pl_tree_op *op = &p->ops[i];

        *op = ops[i];
        op->path = (const char *)p->stream.data + p->stream.len;
        r = pl_buf_add(&p->stream, ops[i].path, op->path_len, err);
        op->attributes.data = p->stream.data + p->stream.len;
        if (r == 0 && op->attributes.len)
            r = pl_buf_add(&p->stream, ops[i].attributes.data, op->attributes.len, err);
    }
    return r;
}

/* Checks that the content that the operations name exists, either in the store or among the open commit's
 * records. Revives condemned packs. */
static int check_ops(struct put *p, struct pl_err *err)
{
    _cleanup_(pl_pack_set_finish) struct pl_pack_set hidden = {0};
    int r = 0;

    for (size_t i = 0; i < p->write.n_ops && r == 0; i++) {
        r = pl_db_check_content(pl_open_commit_store(p->open), &p->ops[i], 1, &hidden, NULL, err);
        if (r == PL_ERETRY && pl_open_commit_has(p->open, &p->ops[i].entry.id))
            r = 0;
    }
    return r < 0 ? r : pl_open_commit_revive(p->open, &hidden, err);
}

int pl_open_commit_put_list(struct pl_open_commit *c, const struct pl_tree_op *ops, size_t n,
                            const struct pl_open_commit_put_options *how, struct pl_err *err)
{
    _cleanup_(put_freep) struct put *p = put_new(how, c);
    int r = p ? copy_ops(p, ops, n, err) : pl_err_nomem(err);

    if (r < 0)
        return r;
    p->write.ops = p->ops;
    p->write.n_ops = n;
    r = check_ops(p, err);
    return r < 0 ? r : send(&p, err);
}

int pl_open_commit_put_run(struct pl_open_commits *o, const struct pl_open_commit_args *args, int64_t window_ms,
                           int (*put)(void *self, struct pl_open_commit *c, struct pl_err *err), void *self, struct pl_err *err)
{
    int r = PL_ERETRY;

    for (unsigned i = 0; i < GATHER_TRIES && r == PL_ERETRY; i++) {
        _cleanup_(pl_open_commit_unrefp) struct pl_open_commit *c = NULL;

        r = pl_open_commits_gather(o, args, window_ms, &c, err);
        r = r < 0 ? r : put(self, c, err);
    }
    return r;
}

int pl_open_commit_put_ops(struct pl_http_request *req, struct pl_open_commit *c, struct pl_body_spool *spool, uint64_t new_bytes,
                           struct pl_err *err)
{
    const struct pl_open_commit_put_options how = rest(req);
    struct pl_effort effort = pl_request_effort(req);
    _cleanup_(put_freep) struct put *p = put_new(&how, c);
    _cleanup_(pl_pack_set_finish) struct pl_pack_set hidden = {0};
    const void *bytes;
    int r = p ? pl_body_spool_map(spool, &bytes, err) : pl_err_nomem(err);

    r = r < 0 ? r : pl_buf_add(&p->stream, bytes, (size_t)spool->size, err);
    if (r < 0)
        return r;
    p->new_bytes = new_bytes;
    r = pl_tree_ops_read(p->stream.data, p->stream.len, &p->ops, &p->write.n_ops, err);
    if (r == PL_EFORMAT) /* the fault is in the bytes that the client sent */
        r = pl_err_wrap(err, PL_EPROTO, "operations");
    p->write.ops = p->ops;
    r = r < 0 ? r : pl_db_check_content(pl_open_commit_store(c), p->ops, p->write.n_ops, &hidden, &effort, err);
    r = r < 0 ? r : pl_open_commit_revive(c, &hidden, err);
    return r < 0 ? r : send(&p, err);
}
