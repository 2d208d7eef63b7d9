/* The writer and the reader of ops streams; both check order and paths. */
#include "storage/tree_edit/tree_ops.h"

#define OPS_MAGIC   "PLOP"
#define OPS_VERSION 1u
#define OPS_END     0u
#define OPS_MORE    4u /* added to the kind byte of PUT and REPLACE if attributes follow */

/* Returns the operation of a kind byte of the stream, 0 if it is unknown. `*ret_more` is set if attributes
 * follow. */
static uint8_t kind_of(uint8_t wire, bool *ret_more)
{
    *ret_more = wire > PL_TREE_REPLACE;
    if (!*ret_more)
        return wire;
    return wire == PL_TREE_PUT + OPS_MORE ? PL_TREE_PUT : wire == PL_TREE_PUT + OPS_MORE + 1 ? PL_TREE_REPLACE : 0;
}

int pl_tree_ops_writer_init(struct pl_tree_ops_writer *w, struct pl_buf *out, struct pl_err *err)
{
    int r;

    *w = (struct pl_tree_ops_writer){.out = out};
    r = pl_buf_add(out, OPS_MAGIC, 4, err);
    return r < 0 ? r : pl_buf_add_u8(out, OPS_VERSION, err);
}

void pl_tree_ops_writer_finish(struct pl_tree_ops_writer *w)
{
    pl_buf_finish(&w->last);
}

/* Checks, for both the writer and the reader, that the next operation is within the maximum number and that
 * its path is valid and in order. */
static int check_path(uint8_t op, const char *path, size_t path_len, uint64_t count, const char *last, size_t last_len,
                      struct pl_err *err)
{
    if (count >= PL_TREE_OPS_MAX)
        return pl_err_set(err, PL_ELIMIT, "more than %u operations in one stream", PL_TREE_OPS_MAX);
    if (count > 0 && pl_key_cmp(last, last_len, path, path_len) >= 0)
        return pl_err_set(err, PL_EINVAL, "the paths are not in ascending order: \"%.*s\" comes after \"%.*s\"",
                          (int)PL_MIN(path_len, 400u), path, (int)PL_MIN(last_len, 400u), last);
    if (op == PL_TREE_DELETE_PREFIX && path_len == 0)
        return 0;
    return pl_path_check(path, path_len, err);
}

static int write_op(struct pl_tree_ops_writer *w, uint8_t wire, const char *path, size_t path_len, struct pl_err *err)
{
    int r;

    r = check_path(wire, path, path_len, w->count, (const char *)w->last.data, w->last.len, err);
    if (r == 0)
        r = pl_buf_add_u8(w->out, wire, err);
    if (r == 0)
        r = pl_buf_add_varint(w->out, path_len, err);
    if (r == 0)
        r = pl_buf_add(w->out, path, path_len, err);
    pl_buf_clear(&w->last);
    if (r == 0)
        r = pl_buf_add(&w->last, path, path_len, err);
    w->count++;
    return r;
}

static int write_entry(struct pl_tree_ops_writer *w, uint8_t wire, const char *path, size_t path_len,
                       const struct pl_entry *entry, struct pl_err *err)
{
    int r;

    if (entry->kind == PL_KIND_ROW)
        return pl_err_set(err, PL_EINVAL, "an operation cannot put a row");
    r = pl_entry_check(entry, err);
    if (r == 0)
        r = write_op(w, wire, path, path_len, err);
    return r < 0 ? r : pl_entry_encode(entry, w->out, err);
}

static int write_more(struct pl_tree_ops_writer *w, const struct pl_tree_op *op, struct pl_err *err)
{
    int r = pl_file_attributes_check(&op->attributes, err);

    r = r < 0 ? r
              : write_entry(w, op->op == PL_TREE_PUT ? PL_TREE_PUT + OPS_MORE : PL_TREE_PUT + OPS_MORE + 1, op->path,
                            op->path_len, &op->entry, err);
    r = r < 0 ? r : pl_buf_add_varint(w->out, op->attributes.len, err);
    return r < 0 ? r : pl_buf_add(w->out, op->attributes.data, op->attributes.len, err);
}

int pl_tree_ops_writer_add(struct pl_tree_ops_writer *w, const struct pl_tree_op *op, struct pl_err *err)
{
    if (op->op != PL_TREE_PUT && op->op != PL_TREE_REPLACE)
        return write_op(w, op->op, op->path, op->path_len, err);
    return op->attributes.len ? write_more(w, op, err) : write_entry(w, op->op, op->path, op->path_len, &op->entry, err);
}

int pl_tree_ops_writer_put(struct pl_tree_ops_writer *w, const char *path, size_t path_len, const struct pl_entry *entry,
                           struct pl_err *err)
{
    return write_entry(w, PL_TREE_PUT, path, path_len, entry, err);
}

int pl_tree_ops_writer_replace(struct pl_tree_ops_writer *w, const char *path, size_t path_len, const struct pl_entry *entry,
                               struct pl_err *err)
{
    return write_entry(w, PL_TREE_REPLACE, path, path_len, entry, err);
}

int pl_tree_ops_writer_delete(struct pl_tree_ops_writer *w, const char *path, size_t path_len, struct pl_err *err)
{
    return write_op(w, PL_TREE_DELETE, path, path_len, err);
}

int pl_tree_ops_writer_delete_prefix(struct pl_tree_ops_writer *w, const char *path, size_t path_len, struct pl_err *err)
{
    return write_op(w, PL_TREE_DELETE_PREFIX, path, path_len, err);
}

int pl_tree_ops_writer_end(struct pl_tree_ops_writer *w, struct pl_err *err)
{
    int r = pl_buf_add_u8(w->out, OPS_END, err);

    return r < 0 ? r : pl_buf_add_varint(w->out, w->count, err);
}

int pl_tree_ops_reader_init(struct pl_tree_ops_reader *r, const void *data, size_t len, struct pl_err *err)
{
    struct pl_cursor c = pl_cursor_of(data, len);
    const uint8_t *magic = pl_cursor_bytes(&c, 4);
    uint8_t version = pl_cursor_u8(&c);

    if (c.failed || memcmp(magic, OPS_MAGIC, 4) != 0)
        return pl_err_set(err, PL_EFORMAT, "the stream of operations does not start with " OPS_MAGIC);
    if (version != OPS_VERSION)
        return pl_err_set(err, PL_EFORMAT, "the stream of operations has version %u; this program supports %u", version,
                          OPS_VERSION);
    *r = (struct pl_tree_ops_reader){.c = c};
    return 0;
}

static int read_end(struct pl_tree_ops_reader *r, struct pl_err *err)
{
    uint64_t count = pl_cursor_varint(&r->c);

    if (r->c.failed || count != r->count || pl_cursor_left(&r->c) > 0)
        return pl_err_set(err, PL_EFORMAT, "the stream does not end after its %llu operations", (unsigned long long)r->count);
    r->ended = true;
    return 0;
}

static int read_attributes(struct pl_tree_ops_reader *r, struct pl_file_attributes *ret, struct pl_err *err)
{
    uint64_t len = pl_cursor_varint(&r->c);

    ret->len = (size_t)PL_MIN(len, (uint64_t)PL_FILE_ATTRIBUTES_MAX_BYTES + 1);
    ret->data = pl_cursor_bytes(&r->c, ret->len);
    if (r->c.failed)
        return pl_err_set(err, PL_EFORMAT, "the attributes of operation %llu are cut off", (unsigned long long)r->count + 1);
    return pl_file_attributes_check(ret, err);
}

int pl_tree_ops_reader_next(struct pl_tree_ops_reader *r, struct pl_tree_op *ret, struct pl_err *err)
{
    struct pl_tree_op op = {0};
    const uint8_t *path;
    uint64_t path_len;
    uint8_t wire;
    bool more;
    int e;

    if (r->ended)
        return 0;
    wire = pl_cursor_u8(&r->c);
    if (wire == OPS_END && !r->c.failed)
        return read_end(r, err);
    op.op = kind_of(wire, &more);
    path_len = pl_cursor_varint(&r->c);
    path = path_len <= PL_PATH_MAX_BYTES ? pl_cursor_bytes(&r->c, (size_t)path_len) : NULL;
    if (r->c.failed || !path)
        return pl_err_set(err, PL_EFORMAT, "operation %llu is cut off or too long", (unsigned long long)r->count + 1);
    if (!op.op)
        return pl_err_set(err, PL_EFORMAT, "operation %llu has the unknown kind %u", (unsigned long long)r->count + 1, wire);
    op.path = (const char *)path;
    op.path_len = (size_t)path_len;
    e = check_path(op.op, op.path, op.path_len, r->count, r->last, r->last_len, err);
    if (e == 0 && (op.op == PL_TREE_PUT || op.op == PL_TREE_REPLACE))
        e = pl_entry_decode(&r->c, &op.entry, err);
    if (e == 0 && more)
        e = read_attributes(r, &op.attributes, err);
    if (e < 0)
        return e;
    if (op.entry.kind == PL_KIND_ROW)
        return pl_err_set(err, PL_EFORMAT, "operation %llu puts a row, which is not allowed", (unsigned long long)r->count + 1);
    r->last = op.path;
    r->last_len = op.path_len;
    r->count++;
    *ret = op;
    return 1;
}

int pl_tree_ops_read(const void *data, size_t len, struct pl_tree_op **ret, size_t *ret_n, struct pl_err *err)
{
    _cleanup_free_ struct pl_tree_op *ops = NULL;
    struct pl_tree_ops_reader reader;
    size_t n = 0, cap = 0;
    struct pl_tree_op op;
    int r;

    r = pl_tree_ops_reader_init(&reader, data, len, err);
    if (r < 0)
        return r;
    while ((r = pl_tree_ops_reader_next(&reader, &op, err)) > 0) {
        if (n == cap) {
            struct pl_tree_op *grown;

            cap = cap ? 2 * cap : 64;
            grown = reallocarray(ops, cap, sizeof *ops);
            if (!grown)
                return pl_err_nomem(err);
            ops = grown;
        }
        ops[n++] = op;
    }
    if (r < 0)
        return r;
    *ret = TAKE_PTR(ops);
    *ret_n = n;
    return 0;
}
