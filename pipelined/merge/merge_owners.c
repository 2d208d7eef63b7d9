/* An array of offsets into one buffer of keys, sorted once. */
#include "pipelined/merge/merge_owners.h"

#include "pipelined/plan/datum_table.h"

void pl_merge_owners_finish(struct merge_rows *m)
{
    free(m->items);
    pl_buf_finish(&m->bytes);
}

static int rows_add(struct merge_rows *m, const uint8_t *key, size_t n, struct pl_err *err)
{
    size_t cap = m->cap == 0 ? 16 : 2 * m->cap;
    struct merge_row *grown;

    if (m->n == m->cap) {
        grown = realloc(m->items, cap * sizeof(*grown));
        if (grown == NULL)
            return pl_err_nomem(err);
        m->items = grown;
        m->cap = cap;
    }
    m->items[m->n++] = (struct merge_row){m->bytes.len, n};
    return pl_buf_add(&m->bytes, key, n, err);
}

int pl_merge_owners_add_dir(struct merge_rows *m, const struct pl_plan *plan, size_t datum, const char *path, size_t len,
                            struct pl_err *err)
{
    uint8_t enum_key[PL_ENUM_KEY_MAX], key[PL_OWNER_KEY_MAX];

    return rows_add(m, key, pl_owner_dir_key(path, len, enum_key, pl_plan_enum_key(plan, datum, enum_key), key), err);
}

int pl_merge_owners_add_failed(struct merge_rows *m, const struct pl_plan *plan, size_t datum, struct pl_err *err)
{
    uint8_t enum_key[PL_ENUM_KEY_MAX], key[PL_OWNER_KEY_MAX];

    return rows_add(m, key, pl_owner_failed_key(enum_key, pl_plan_enum_key(plan, datum, enum_key), key), err);
}

static int rows_compare(const void *a, const void *b, void *bytes)
{
    const struct merge_row *x = a, *y = b;
    const struct pl_buf *keys = bytes;

    return pl_key_cmp(keys->data + x->at, x->key_len, keys->data + y->at, y->key_len);
}

void pl_merge_owners_sort(struct merge_rows *m)
{
    if (m->n > 1)
        qsort_r(m->items, m->n, sizeof(*m->items), rows_compare, &m->bytes);
}

const uint8_t *pl_merge_owners_owner(const struct merge_rows *m, const char *path, size_t len, size_t *ret_len)
{
    uint8_t prefix[PL_OWNER_KEY_MAX];
    size_t prefix_len = pl_owner_dir_key(path, len, NULL, 0, prefix), low = 0, high = m->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const struct merge_row *row = &m->items[middle];

        if (pl_key_cmp(m->bytes.data + row->at, row->key_len, prefix, prefix_len) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    /* exists, because pl_merge_finish added a row for every empty directory */
    *ret_len = m->items[low].key_len - prefix_len;
    return m->bytes.data + m->items[low].at + prefix_len;
}

int pl_merge_owners_build(struct merge_rows *m, struct pl_tree_builder *owner, const char *path, size_t len, struct pl_err *err)
{
    const struct pl_entry nothing = pl_entry_row("", 0);
    int r = 0;

    for (; m->given < m->n && r == 0; m->given++) {
        const struct merge_row *row = &m->items[m->given];
        const uint8_t *key = m->bytes.data + row->at;

        if (path != NULL && pl_key_cmp(key, row->key_len, path, len) > 0)
            return 0;
        r = pl_tree_builder_add(owner, (const char *)key, row->key_len, &nothing, err);
    }
    return r;
}
