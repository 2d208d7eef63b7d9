/* Translates operations on files into operations on the rows of the attribute tree, sorts them and applies
 * them with pl_tree_edit. */
#include "pipelined/db/tx/attributes_edit.h"

#define PREFIXES_MAX ((size_t)2 << 30) /* bound for the prefixes of PL_TREE_OPS_MAX paths */

struct rows {
    const struct pl_attributes_edit *e;
    struct pl_tree_cursor *base, *rows; /* NULL: there is no such tree */
    struct pl_tree_op *list;
    size_t n;
    struct pl_buf prefixes; /* "path/" of each folder deleted with everything below */
};

static void rows_finish(struct rows *r)
{
    pl_tree_cursor_destroy(r->base);
    pl_tree_cursor_destroy(r->rows);
    free(r->list);
    pl_buf_finish(&r->prefixes);
}

int pl_attributes_row(struct pl_tree_cursor *rows, const char *path, size_t path_len, struct pl_buf *ret, struct pl_err *err)
{
    struct pl_tree_item item;
    int r = pl_tree_cursor_get(rows, path, path_len, &item, err);

    pl_buf_clear(ret);
    if (r > 0 && item.entry.kind == PL_KIND_ROW) {
        int e = pl_buf_add(ret, item.entry.row, (size_t)item.entry.size, err);

        return e < 0 ? e : 1;
    }
    return PL_MIN(r, 0);
}

/* Returns 1 if the file exists with the same entry and the same attributes. */
static int is_known(struct rows *rows, const struct pl_tree_op *op, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf row = {0};
    struct pl_tree_item item;
    int r = rows->rows ? pl_attributes_row(rows->rows, op->path, op->path_len, &row, err) : 0;

    if (r <= 0 || !pl_file_attributes_same(&op->attributes, &(struct pl_file_attributes){row.data, row.len}))
        return PL_MIN(r, 0);
    r = rows->base ? pl_tree_cursor_get(rows->base, op->path, op->path_len, &item, err) : 0;
    return r > 0 ? pl_entry_eq(&item.entry, &op->entry) : r;
}

static void add(struct rows *rows, uint8_t op, const char *path, size_t len, const struct pl_file_attributes *a)
{
    struct pl_tree_op row = {.op = op, .path = path, .path_len = len};

    if (a)
        row.entry = pl_entry_row(a->data, a->len);
    rows->list[rows->n++] = row;
}

static bool takes_all_below(const struct pl_tree_op *op)
{
    return op->op == PL_TREE_DELETE_PREFIX || op->op == PL_TREE_REPLACE;
}

/* Adds a deletion of everything below the path. The buffer has room for all prefixes, so their addresses stay
 * valid. */
static int add_prefix(struct rows *rows, const struct pl_tree_op *op, struct pl_err *err)
{
    size_t at = rows->prefixes.len;
    int r = op->path_len ? pl_buf_add(&rows->prefixes, op->path, op->path_len, err) : 0;

    if (r == 0 && op->path_len)
        r = pl_buf_add_u8(&rows->prefixes, '/', err);
    if (r == 0)
        add(rows, PL_TREE_DELETE_PREFIX, (const char *)rows->prefixes.data + at, rows->prefixes.len - at, NULL);
    return r;
}

static int add_op(struct rows *rows, const struct pl_tree_op *op, struct pl_err *err)
{
    bool puts = op->op == PL_TREE_PUT || op->op == PL_TREE_REPLACE;
    int r = 0;

    if (puts && op->attributes.len) {
        r = is_known(rows, op, err);
        if (r == 0)
            add(rows, PL_TREE_PUT, op->path, op->path_len, &op->attributes);
    } else if (rows->rows && op->path_len) {
        add(rows, PL_TREE_DELETE, op->path, op->path_len, NULL);
    }
    if (r < 0)
        return r;
    return rows->rows && takes_all_below(op) ? add_prefix(rows, op, err) : 0;
}

static int by_key(const void *a, const void *b)
{
    const struct pl_tree_op *x = a, *y = b;

    return pl_key_cmp(x->path, x->path_len, y->path, y->path_len);
}

static int collect(struct rows *rows, struct pl_err *err)
{
    const struct pl_attributes_edit *e = rows->e;
    size_t room = 1;
    int r;

    rows->list = calloc(2 * e->n_ops + 1, sizeof *rows->list);
    rows->prefixes.max = PREFIXES_MAX;
    if (!rows->list)
        return pl_err_nomem(err);
    for (size_t i = 0; i < e->n_ops; i++)
        room += takes_all_below(&e->ops[i]) ? e->ops[i].path_len + 1 : 0;
    r = pl_buf_reserve(&rows->prefixes, room, err);
    for (size_t i = 0; i < e->n_ops && r == 0; i++)
        r = add_op(rows, &e->ops[i], err);
    qsort(rows->list, rows->n, sizeof *rows->list, by_key);
    return r;
}

static bool says_something(const struct pl_attributes_edit *e)
{
    for (size_t i = 0; i < e->n_ops; i++)
        if (e->ops[i].attributes.len)
            return true;
    return !pl_hash_is_zero(&e->attributes);
}

static int open_cursor(const struct pl_attributes_edit *e, const struct pl_hash *root, struct pl_tree_cursor **ret,
                       struct pl_err *err)
{
    return pl_hash_is_zero(root) ? 0 : pl_tree_cursor_create(e->source, root, NULL, 0, ret, err);
}

int pl_attributes_edit(const struct pl_attributes_edit *e, const struct pl_node_sink *sink, struct pl_hash *ret_root,
                       struct pl_err *err)
{
    _cleanup_(rows_finish) struct rows rows = {.e = e};
    int r;

    *ret_root = e->attributes;
    if (!says_something(e))
        return 0;
    r = open_cursor(e, &e->attributes, &rows.rows, err);
    r = r < 0 ? r : open_cursor(e, &e->root, &rows.base, err);
    r = r < 0 ? r : collect(&rows, err);
    return r < 0 || !rows.n ? r : pl_tree_edit(e->source, sink, &e->attributes, rows.list, rows.n, ret_root, err);
}
