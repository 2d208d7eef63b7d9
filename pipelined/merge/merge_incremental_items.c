/* Growing arrays with binary search; their bytes and those of the arena count against one limit. */
#include "pipelined/merge/merge_incremental_items.h"

#define CARRY_FIRST 32u

static int carry_check(const struct carry_memory *m, size_t n, struct pl_err *err)
{
    if (n > m->max || pl_arena_used(m->arena) + m->arrays > m->max - n)
        return pl_err_set(err, PL_ELIMIT, "the outputs of the changed datums exceed the limit of %zu MiB", m->max >> 20);
    return 0;
}

static int carry_copy(struct carry_memory *m, const void *bytes, size_t n, void *ret, struct pl_err *err)
{
    int r = carry_check(m, n, err);
    void *p;

    if (r < 0)
        return r;
    p = pl_arena_alloc(m->arena, n + 1);
    if (p == NULL)
        return pl_err_nomem(err);
    if (n > 0)
        memcpy(p, bytes, n);
    *(void **)ret = p;
    return 0;
}

/* Ensures space for one more element of `each` bytes. */
static int carry_grow(struct carry_memory *m, void *array, size_t n, size_t *cap, size_t each, struct pl_err *err)
{
    size_t wanted = *cap == 0 ? CARRY_FIRST : 2 * *cap;
    void *grown;
    int r;

    if (n < *cap)
        return 0;
    r = carry_check(m, (wanted - *cap) * each, err);
    if (r < 0)
        return r;
    grown = realloc(*(void **)array, wanted * each);
    if (grown == NULL)
        return pl_err_nomem(err);
    m->arrays += (wanted - *cap) * each;
    *(void **)array = grown;
    *cap = wanted;
    return 0;
}

int pl_merge_incremental_key_keep(struct carry_memory *m, struct carry_key *key, struct pl_err *err)
{
    return carry_copy(m, key->bytes, key->len, &key->bytes, err);
}

/* ---- outputs ---- */

int pl_merge_incremental_items_add(struct carry_items *to, struct carry_memory *m, const struct carry_key *key,
                                   const struct pl_buf *path, const struct pl_buf *entry, struct pl_err *err)
{
    struct carry_item item = {.key = *key, .path_len = (uint16_t)path->len, .entry_len = (uint16_t)entry->len};
    int r = carry_grow(m, &to->items, to->n, &to->cap, sizeof(item), err);

    if (r == 0)
        r = carry_copy(m, path->data, path->len, &item.path, err);
    if (r == 0)
        r = carry_copy(m, entry->data, entry->len, &item.entry, err);
    if (r == 0)
        to->items[to->n++] = item;
    return r;
}

static int items_compare(const void *a, const void *b)
{
    const struct carry_item *x = a, *y = b;
    int c = pl_key_cmp(x->path, x->path_len, y->path, y->path_len);

    return c != 0 ? c : pl_key_cmp(x->key.bytes, x->key.len, y->key.bytes, y->key.len);
}

void pl_merge_incremental_items_sort(struct carry_items *items)
{
    if (items->n > 1)
        qsort(items->items, items->n, sizeof(*items->items), items_compare);
}

/* Returns the index of the first item at or after the path. */
static size_t items_find(const struct carry_items *items, const char *path, size_t len)
{
    size_t low = 0, high = items->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (pl_key_cmp(items->items[middle].path, items->items[middle].path_len, path, len) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static bool items_at(const struct carry_items *items, size_t i, const char *path, size_t len)
{
    return i < items->n && pl_key_cmp(items->items[i].path, items->items[i].path_len, path, len) == 0;
}

bool pl_merge_incremental_items_has_file(const struct carry_items *items, const char *path, size_t len)
{
    size_t i = items_find(items, path, len);

    while (items_at(items, i, path, len) && pl_merge_incremental_item_is_dir(&items->items[i]))
        i++;
    return items_at(items, i, path, len);
}

bool pl_merge_incremental_items_has(const struct carry_items *items, const char *path, size_t len, const struct carry_key *key)
{
    for (size_t i = items_find(items, path, len); items_at(items, i, path, len); i++)
        if (pl_key_cmp(items->items[i].key.bytes, items->items[i].key.len, key->bytes, key->len) == 0)
            return true;
    return false;
}

const struct carry_item *pl_merge_incremental_items_dir(const struct carry_items *items, const char *path, size_t len)
{
    size_t i = items_find(items, path, len);

    while (items_at(items, i, path, len) && !pl_merge_incremental_item_is_dir(&items->items[i]))
        i++;
    return items_at(items, i, path, len) ? &items->items[i] : NULL;
}

bool pl_merge_incremental_items_file_below(const struct carry_items *items, const char *prefix, size_t len)
{
    for (size_t i = items_find(items, prefix, len); i < items->n; i++) {
        if (pl_key_cmp_prefix(items->items[i].path, items->items[i].path_len, prefix, len) != 0)
            return false;
        if (!pl_merge_incremental_item_is_dir(&items->items[i]))
            return true;
    }
    return false;
}

/* ---- directories ---- */

static int dirs_add(struct carry_dirs *d, struct carry_memory *m, const char *path, size_t len, struct pl_err *err)
{
    int r = carry_grow(m, &d->items, d->n, &d->cap, sizeof(*d->items), err);

    if (r == 0)
        d->items[d->n++] = (struct carry_dir){.path = path, .path_len = (uint16_t)len};
    return r;
}

/* Adds the paths of the items and the directories above those paths, except the directories that the
 * previous item added already. */
static int dirs_add_items(struct carry_dirs *d, struct carry_memory *m, const struct carry_items *items, struct pl_err *err)
{
    int r = 0;

    for (size_t i = 0; i < items->n && r == 0; i++) {
        const struct carry_item *item = &items->items[i], *before = i > 0 ? item - 1 : NULL;
        size_t common = 0;

        while (before != NULL && common < item->path_len && common < before->path_len &&
               item->path[common] == before->path[common])
            common++;
        for (size_t at = common; at < item->path_len && r == 0; at++)
            if (item->path[at] == '/')
                r = dirs_add(d, m, item->path, at, err);
        if (r == 0)
            r = dirs_add(d, m, item->path, item->path_len, err);
    }
    return r;
}

static int dirs_compare(const void *a, const void *b)
{
    const struct carry_dir *x = a, *y = b;

    return pl_key_cmp(x->path, x->path_len, y->path, y->path_len);
}

int pl_merge_incremental_dirs_of(struct carry_dirs *d, struct carry_memory *m, const struct carry_items *old,
                                 const struct carry_items *now, struct pl_err *err)
{
    size_t kept = 0;
    int r = dirs_add_items(d, m, old, err);

    if (r == 0)
        r = dirs_add_items(d, m, now, err);
    if (r < 0)
        return r;
    if (d->n > 1)
        qsort(d->items, d->n, sizeof(*d->items), dirs_compare);
    for (size_t i = 0; i < d->n; i++)
        if (i == 0 || dirs_compare(&d->items[kept - 1], &d->items[i]) != 0)
            d->items[kept++] = d->items[i];
    d->n = kept;
    return 0;
}

/* Returns the index of the first directory at or after the path. */
static size_t dirs_find(const struct carry_dirs *d, const char *path, size_t len)
{
    size_t low = 0, high = d->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;

        if (pl_key_cmp(d->items[middle].path, d->items[middle].path_len, path, len) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

const struct carry_dir *pl_merge_incremental_dirs_find(const struct carry_dirs *d, const char *path, size_t len)
{
    size_t i = dirs_find(d, path, len);

    return i < d->n && pl_key_cmp(d->items[i].path, d->items[i].path_len, path, len) == 0 ? &d->items[i] : NULL;
}

bool pl_merge_incremental_dirs_alive_below(const struct carry_dirs *d, const char *prefix, size_t len)
{
    for (size_t i = dirs_find(d, prefix, len); i < d->n; i++) {
        if (pl_key_cmp_prefix(d->items[i].path, d->items[i].path_len, prefix, len) != 0)
            return false;
        if (d->items[i].alive)
            return true;
    }
    return false;
}

/* ---- operations ---- */

int pl_merge_incremental_ops_add(struct carry_ops *to, struct carry_memory *m, uint8_t op, const void *key, size_t len,
                                 const struct pl_entry *entry, struct pl_err *err)
{
    struct pl_tree_op one = {.op = op, .path_len = len};
    int r = carry_grow(m, &to->ops, to->n, &to->cap, sizeof(one), err);

    if (r == 0)
        r = carry_copy(m, key, len, &one.path, err);
    if (r == 0 && op == PL_TREE_PUT) {
        one.entry = *entry;
        if (entry->kind == PL_KIND_ROW)
            r = carry_copy(m, entry->row, (size_t)entry->size, &one.entry.row, err);
    }
    if (r == 0)
        to->ops[to->n++] = one;
    return r;
}

/* Compares by key; a PUT sorts before a DELETE. */
static int ops_compare(const void *a, const void *b)
{
    const struct pl_tree_op *x = a, *y = b;
    int c = pl_key_cmp(x->path, x->path_len, y->path, y->path_len);

    return c != 0 ? c : (int)x->op - (int)y->op;
}

void pl_merge_incremental_ops_settle(struct carry_ops *ops)
{
    size_t kept = 0;

    _Static_assert(PL_TREE_PUT < PL_TREE_DELETE, "a PUT stays");
    if (ops->n > 1)
        qsort(ops->ops, ops->n, sizeof(*ops->ops), ops_compare);
    for (size_t i = 0; i < ops->n; i++)
        if (i == 0 ||
            pl_key_cmp(ops->ops[kept - 1].path, ops->ops[kept - 1].path_len, ops->ops[i].path, ops->ops[i].path_len) != 0)
            ops->ops[kept++] = ops->ops[i];
    ops->n = kept;
}
