/* datum_table: encodes and decodes rows of the datum table, makes keys of the owner tree, and builds and
 * searches tables. */
#include "pipelined/plan/datum_table.h"

#include "storage/tree/tree_build.h"

#define ROW_VERSION 1

static int row_encode_outputs(const struct pl_datum_row *row, struct pl_buf *out, struct pl_err *err)
{
    int r;

    switch (row->outputs) {
    case PL_ROW_INLINE:
        r = pl_buf_add_varint(out, row->ops_len, err);
        return r < 0 ? r : pl_buf_add(out, row->ops, row->ops_len, err);
    case PL_ROW_TREE:
        return pl_buf_add(out, row->root.b, PL_HASH_BYTES, err);
    default:
        return 0;
    }
}

int pl_datum_row_encode(const struct pl_datum_row *row, struct pl_buf *out, struct pl_err *err)
{
    int r;

    if (row->outputs == PL_ROW_INLINE && row->ops_len > PL_DATUM_ROW_INLINE_OPS_MAX)
        return pl_err_set(err, PL_ETOOBIG, "a datum table row has %zu bytes of inline outputs: the limit is %u", row->ops_len,
                          PL_DATUM_ROW_INLINE_OPS_MAX);
    r = pl_buf_add_u8(out, ROW_VERSION, err);
    if (r == 0)
        r = pl_buf_add_u8(out, (uint8_t)row->state, err);
    if (r == 0)
        r = pl_buf_add(out, row->key.b, PL_HASH_BYTES, err);
    if (r == 0)
        r = pl_buf_add(out, row->run, PL_RUN_ID_BYTES, err);
    if (r == 0)
        r = pl_buf_add_u8(out, (uint8_t)row->outputs, err);
    return r < 0 ? r : row_encode_outputs(row, out, err);
}

/* Refuses a row that has trailing bytes or unknown values. */
int pl_datum_row_decode(const void *data, size_t len, struct pl_datum_row *ret, struct pl_err *err)
{
    struct pl_cursor c = pl_cursor_of(data, len);
    struct pl_datum_row row = {0};
    uint8_t version = pl_cursor_u8(&c);
    const uint8_t *key, *run, *root;

    row.state = pl_cursor_u8(&c);
    key = pl_cursor_bytes(&c, PL_HASH_BYTES);
    run = pl_cursor_bytes(&c, PL_RUN_ID_BYTES);
    row.outputs = pl_cursor_u8(&c);
    if (!c.failed && version != ROW_VERSION)
        return pl_err_set(err, PL_EFORMAT, "a datum table row has version %u: only version %u is supported", version,
                          ROW_VERSION);
    if (row.outputs == PL_ROW_INLINE) {
        uint64_t n = pl_cursor_varint(&c);

        row.ops_len = (size_t)n;
        row.ops = n <= PL_DATUM_ROW_INLINE_OPS_MAX ? pl_cursor_bytes(&c, (size_t)n) : NULL;
        c.failed = c.failed || n > PL_DATUM_ROW_INLINE_OPS_MAX;
    } else if (row.outputs == PL_ROW_TREE) {
        root = pl_cursor_bytes(&c, PL_HASH_BYTES);
        if (root != NULL)
            memcpy(row.root.b, root, PL_HASH_BYTES);
    } else if (row.outputs != PL_ROW_NO_OUTPUT) {
        c.failed = true;
    }
    if (c.failed || pl_cursor_left(&c) > 0 || (row.state != PL_ROW_SUCCESS && row.state != PL_ROW_FAILED))
        return pl_err_set(err, PL_EFORMAT, "the row of a datum table is malformed");
    memcpy(row.key.b, key, PL_HASH_BYTES);
    memcpy(row.run, run, PL_RUN_ID_BYTES);
    *ret = row;
    return 0;
}

size_t pl_owner_dir_key(const char *path, size_t path_len, const uint8_t *enum_key, size_t enum_key_len,
                        uint8_t out[PL_OWNER_KEY_MAX])
{
    memcpy(out, path, path_len);
    out[path_len] = '/';
    out[path_len + 1] = 0;
    if (enum_key_len > 0)
        memcpy(out + path_len + 2, enum_key, enum_key_len);
    return path_len + 2 + enum_key_len;
}

size_t pl_owner_failed_key(const uint8_t *enum_key, size_t enum_key_len, uint8_t out[PL_OWNER_KEY_MAX])
{
    out[0] = 0;
    memcpy(out + 1, enum_key, enum_key_len);
    return 1 + enum_key_len;
}

static int row_compare(const void *a, const void *b)
{
    const struct pl_datum_table_row *x = a, *y = b;

    return pl_key_cmp(x->enum_key, x->enum_key_len, y->enum_key, y->enum_key_len);
}

/* Sorts the rows by enumeration key and writes them as entries of a tree. */
int pl_datum_table_build(const struct pl_node_sink *sink, struct pl_datum_table_row *rows, size_t n, struct pl_hash *ret_root,
                         struct pl_err *err)
{
    _cleanup_(pl_tree_builder_destroyp) struct pl_tree_builder *b = NULL;
    _cleanup_(pl_buf_finish) struct pl_buf value = {0};
    int r;

    if (n > 1)
        qsort(rows, n, sizeof(*rows), row_compare);
    r = pl_tree_builder_create(sink, &b, err);
    for (size_t i = 0; i < n && r == 0; i++) {
        struct pl_entry entry;

        if (i > 0 && row_compare(&rows[i - 1], &rows[i]) == 0)
            return pl_err_set(err, PL_EINVAL, "two rows of a datum table have the same enumeration key");
        pl_buf_clear(&value);
        r = pl_datum_row_encode(&rows[i].row, &value, err);
        if (r < 0)
            return r;
        entry = pl_entry_row(value.data, value.len);
        r = pl_tree_builder_add(b, (const char *)rows[i].enum_key, rows[i].enum_key_len, &entry, err);
    }
    return r < 0 ? r : pl_tree_builder_finish(b, ret_root, NULL, err);
}

int pl_datum_table_find(struct pl_tree_cursor *cursor, const uint8_t *enum_key, size_t enum_key_len,
                        const struct pl_hash *datum_key, struct pl_datum_row *ret, struct pl_err *err)
{
    struct pl_tree_item item;
    struct pl_datum_row row;
    int r;

    r = pl_tree_cursor_get(cursor, (const char *)enum_key, enum_key_len, &item, err);
    if (r <= 0)
        return r;
    if (item.entry.kind != PL_KIND_ROW)
        return pl_err_set(err, PL_EFORMAT, "a datum table holds an entry that is not a row");
    r = pl_datum_row_decode(item.entry.row, (size_t)item.entry.size, &row, err);
    if (r < 0)
        return r;
    if (row.state != PL_ROW_SUCCESS || !pl_hash_eq(&row.key, datum_key))
        return 0;
    *ret = row;
    return 1;
}
