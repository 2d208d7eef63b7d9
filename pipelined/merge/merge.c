/* All outputs are gathered in one array with paths and encoded entries in an arena; finish sorts the array
 * and checks neighbours and parent folders. */
#include "pipelined/merge/merge_collision.h"
#include "pipelined/merge/merge_owners.h"

#include "pipelined/merge/merge.h"
#include "storage/tree/tree_walk.h"
#include "storage/tree_edit/tree_ops.h"

#include <stdio.h>

#define MERGE_FIRST_ITEMS  64u
#define MERGE_EXPECT_SHOWN 10u

/* One output. In the arena: its path with a NUL, then the encoded entry. */
struct merge_item {
    const char *path;
    uint32_t datum;
    uint16_t path_len;
    uint16_t entry_len;
};

struct pl_merge {
    const struct pl_plan *plan;
    struct pl_arena *arena;
    size_t max;
    struct merge_item *items;
    size_t n, cap;
    size_t datum;       /* datum whose outputs are being added */
    struct pl_buf path; /* output prefix of that datum, followed by the path of the current output */
    size_t prefix_len;
    struct pl_buf entry;
    /* owner-tree rows of all empty directories that were put, also of those replaced later, and of failed
     * datums */
    struct merge_rows rows;
    uint64_t bytes;
};

int pl_merge_create(const struct pl_plan *plan, size_t max_bytes, struct pl_merge **ret, struct pl_err *err)
{
    struct pl_merge *m = calloc(1, sizeof(*m));

    if (m == NULL)
        return pl_err_nomem(err);
    m->plan = plan;
    m->max = m->rows.bytes.max = max_bytes != 0 ? max_bytes : PL_MERGE_DEFAULT_BYTES;
    m->arena = pl_arena_create(m->max);
    if (m->arena == NULL) {
        pl_merge_destroy(m);
        return pl_err_nomem(err);
    }
    *ret = m;
    return 0;
}

struct pl_merge *pl_merge_destroy(struct pl_merge *m)
{
    if (m == NULL)
        return NULL;
    pl_arena_destroy(m->arena);
    pl_buf_finish(&m->path);
    pl_buf_finish(&m->entry);
    pl_merge_owners_finish(&m->rows);
    free(m->items);
    free(m);
    return NULL;
}

int pl_merge_datum(struct pl_merge *m, size_t datum, struct pl_err *err)
{
    int r;

    pl_buf_clear(&m->path);
    m->datum = datum;
    r = pl_plan_prefix(m->plan, datum, &m->path, err);
    m->prefix_len = m->path.len;
    return r;
}

/* Reserves space for one more item and `n` bytes for it. */
static int merge_reserve(struct pl_merge *m, size_t n, char **ret, struct pl_err *err)
{
    size_t cap = m->cap == 0 ? MERGE_FIRST_ITEMS : m->cap * 2;
    struct merge_item *items;
    char *p;

    if (pl_arena_used(m->arena) + n + (m->n == m->cap ? cap : m->cap) * sizeof(*items) > m->max)
        return pl_err_set(err, PL_ELIMIT, "the paths of the job's outputs exceed the limit of %zu MiB: write fewer files",
                          m->max >> 20);
    if (m->n == m->cap) {
        items = realloc(m->items, cap * sizeof(*items));
        if (items == NULL)
            return pl_err_nomem(err);
        m->items = items;
        m->cap = cap;
    }
    p = pl_arena_alloc(m->arena, n);
    if (p == NULL)
        return pl_err_nomem(err);
    *ret = p;
    return 0;
}

static int merge_check_path(const struct pl_merge *m, struct pl_err *err)
{
    char text[200];
    int r = pl_path_check((const char *)m->path.data, m->path.len, err);

    if (r < 0)
        return pl_err_wrap(err, r, "datum (%s)", pl_plan_datum_text(m->plan, m->datum, text, sizeof(text)));
    return 0;
}

int pl_merge_put(struct pl_merge *m, const char *path, size_t len, const struct pl_entry *entry, struct pl_err *err)
{
    char *at = NULL;
    int r;

    if (entry->kind == PL_KIND_ROW)
        return pl_err_set(err, PL_EINVAL, "an output of a datum is a table row instead of a file or directory");
    m->path.len = m->prefix_len;
    pl_buf_clear(&m->entry);
    r = pl_buf_add(&m->path, path, len, err);
    if (r == 0)
        r = merge_check_path(m, err);
    if (r == 0)
        r = pl_entry_encode(entry, &m->entry, err);
    if (r == 0)
        r = merge_reserve(m, m->path.len + 1 + m->entry.len, &at, err);
    if (r < 0)
        return r;
    memcpy(at, m->path.data, m->path.len);
    memcpy(at + m->path.len + 1, m->entry.data, m->entry.len);
    m->items[m->n++] = (struct merge_item){at, (uint32_t)m->datum, (uint16_t)m->path.len, (uint16_t)m->entry.len};
    return 0;
}

int pl_merge_failed(struct pl_merge *m, size_t datum, struct pl_err *err)
{
    return pl_merge_owners_add_failed(&m->rows, m->plan, datum, err);
}

int pl_merge_add_ops(struct pl_merge *m, const void *ops, size_t len, struct pl_err *err)
{
    struct pl_tree_ops_reader reader;
    struct pl_tree_op op;
    int r;

    r = pl_tree_ops_reader_init(&reader, ops, len, err);
    if (r < 0)
        return r;
    while ((r = pl_tree_ops_reader_next(&reader, &op, err)) > 0) {
        if (op.op != PL_TREE_PUT)
            return pl_err_set(err, PL_EFORMAT, "the outputs of a datum contain an operation that is not a put");
        r = pl_merge_put(m, op.path, op.path_len, &op.entry, err);
        if (r < 0)
            return r;
    }
    return r;
}

int pl_merge_add_tree(struct pl_merge *m, const struct pl_node_source *source, const struct pl_hash *root, struct pl_err *err)
{
    _cleanup_(pl_tree_cursor_destroyp) struct pl_tree_cursor *cursor = NULL;
    struct pl_tree_item item;
    int r;

    r = pl_tree_cursor_create(source, root, NULL, 0, &cursor, err);
    if (r < 0)
        return r;
    while ((r = pl_tree_cursor_next(cursor, &item, err)) > 0) {
        r = pl_merge_put(m, item.path, item.path_len, &item.entry, err);
        if (r < 0)
            return r;
    }
    return r;
}

static int merge_compare(const void *a, const void *b)
{
    const struct merge_item *x = a, *y = b;
    int r = pl_key_cmp(x->path, x->path_len, y->path, y->path_len);

    return r != 0 ? r : x->datum < y->datum ? -1 : x->datum > y->datum;
}

/* True if the item is a directory. The first byte of an encoded entry is its kind. */
static bool merge_is_dir(const struct merge_item *i)
{
    return i->path[i->path_len + 1] == PL_KIND_DIR;
}

/* Finds the item with exactly that path; NULL = none. The items are sorted. */
static struct merge_item *merge_find(const struct pl_merge *m, const char *path, size_t len)
{
    size_t low = 0, high = m->n;

    while (low < high) {
        size_t middle = low + (high - low) / 2;
        int c = pl_key_cmp(m->items[middle].path, m->items[middle].path_len, path, len);

        if (c == 0)
            return &m->items[middle];
        if (c < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return NULL;
}

/* Checks the parent folders of item i. A parent that was put as an empty directory is marked as replaced
 * (entry_len 0); a parent that was put as a file is a collision. Parents that the previous item shares were
 * checked with that item. */
static int merge_check_folders(struct pl_merge *m, size_t i, struct pl_err *err)
{
    const struct merge_item *item = &m->items[i], *before = i > 0 ? &m->items[i - 1] : NULL;
    size_t common = 0;

    while (before != NULL && common < item->path_len && common < before->path_len && item->path[common] == before->path[common])
        common++;
    for (size_t at = common; at < item->path_len; at++) {
        struct merge_item *above = item->path[at] == '/' ? merge_find(m, item->path, at) : NULL;

        if (above == NULL)
            continue;
        if (!merge_is_dir(above))
            return pl_merge_collision(m->plan, MERGE_FILE_AND_FOLDER, above->path, above->datum, item->datum, err);
        above->entry_len = 0;
    }
    return 0;
}

/* Checks two items with the same path. Two empty directories are merged; anything else is a collision. */
static int merge_check_pair(struct pl_merge *m, struct merge_item *first, struct merge_item *second, struct pl_err *err)
{
    bool dir = merge_is_dir(first);

    if (dir && merge_is_dir(second)) {
        second->entry_len = 0;
        return 0;
    }
    if (dir || merge_is_dir(second))
        return pl_merge_collision(m->plan, MERGE_FILE_AND_FOLDER, first->path, dir ? second->datum : first->datum,
                                  dir ? first->datum : second->datum, err);
    return pl_merge_collision(m->plan, MERGE_SAME_PATH, first->path, first->datum, second->datum, err);
}

static void merge_drop_marked(struct pl_merge *m)
{
    size_t kept = 0;

    for (size_t i = 0; i < m->n; i++)
        if (m->items[i].entry_len > 0)
            m->items[kept++] = m->items[i];
    m->n = kept;
}

int pl_merge_finish(struct pl_merge *m, struct pl_err *err)
{
    int r = 0;

    for (size_t i = 0; i < m->n && r == 0; i++)
        if (merge_is_dir(&m->items[i]))
            r = pl_merge_owners_add_dir(&m->rows, m->plan, m->items[i].datum, m->items[i].path, m->items[i].path_len, err);
    if (r < 0)
        return r;
    pl_merge_owners_sort(&m->rows);
    if (m->n > 1)
        qsort(m->items, m->n, sizeof(*m->items), merge_compare);
    for (size_t i = 1; i < m->n && r == 0; i++)
        if (pl_key_cmp(m->items[i - 1].path, m->items[i - 1].path_len, m->items[i].path, m->items[i].path_len) == 0)
            r = merge_check_pair(m, &m->items[i - 1], &m->items[i], err);
    if (r < 0)
        return r;
    merge_drop_marked(m); /* from here on a path identifies one item */
    for (size_t i = 0; i < m->n && r == 0; i++)
        r = merge_check_folders(m, i, err);
    if (r < 0)
        return r;
    merge_drop_marked(m);
    for (size_t i = 0; i < m->n; i++) {
        struct pl_merge_item item;

        pl_merge_item(m, i, &item);
        m->bytes += item.entry.size;
    }
    return 0;
}

size_t pl_merge_count(const struct pl_merge *m)
{
    return m->n;
}

uint64_t pl_merge_bytes(const struct pl_merge *m)
{
    return m->bytes;
}

void pl_merge_item(const struct pl_merge *m, size_t i, struct pl_merge_item *ret)
{
    const struct merge_item *item = &m->items[i];
    struct pl_cursor c = pl_cursor_of(item->path + item->path_len + 1, item->entry_len);

    *ret = (struct pl_merge_item){.path = item->path, .path_len = item->path_len, .datum = item->datum};
    if (pl_entry_decode(&c, &ret->entry, NULL) < 0)
        abort(); /* pl_merge_put encoded it, so memory is corrupted */
}

int pl_merge_build(struct pl_merge *m, const struct pl_node_sink *sink, struct pl_hash *ret_output, struct pl_hash *ret_owner,
                   struct pl_tree_stats *ret_stats, struct pl_err *err)
{
    _cleanup_(pl_tree_builder_destroyp) struct pl_tree_builder *output = NULL, *owner = NULL;
    uint8_t enum_key[PL_ENUM_KEY_MAX];
    size_t key_len;
    int r;

    r = pl_tree_builder_create(sink, &output, err);
    if (r == 0)
        r = pl_tree_builder_create(sink, &owner, err);
    for (size_t i = 0; i < m->n && r == 0; i++) {
        struct pl_merge_item item;
        struct pl_entry row;

        pl_merge_item(m, i, &item);
        r = pl_tree_builder_add(output, item.path, item.path_len, &item.entry, err);
        if (r < 0)
            return r;
        r = pl_merge_owners_build(&m->rows, owner, item.path, item.path_len, err);
        if (r < 0)
            return r;
        if (item.entry.kind == PL_KIND_DIR) {
            const uint8_t *lowest = pl_merge_owners_owner(&m->rows, item.path, item.path_len, &key_len);

            row = pl_entry_row(lowest, key_len);
        } else {
            row = pl_entry_row(enum_key, pl_plan_enum_key(m->plan, item.datum, enum_key));
        }
        r = pl_tree_builder_add(owner, item.path, item.path_len, &row, err);
    }
    if (r == 0)
        r = pl_merge_owners_build(&m->rows, owner, NULL, 0, err);
    if (r == 0)
        r = pl_tree_builder_finish(output, ret_output, ret_stats, err);
    return r < 0 ? r : pl_tree_builder_finish(owner, ret_owner, NULL, err);
}

/* Formats the first outputs for a message, like "/model.npy, /metrics.json and 3 more". */
static char *merge_text(const struct pl_merge *m, char *out, size_t size)
{
    size_t n = (size_t)snprintf(out, size, "%s", m->n == 0 ? "nothing at all" : ""), shown = 0;

    for (; shown < m->n && shown < MERGE_EXPECT_SHOWN && n < size; shown++)
        n += (size_t)snprintf(out + n, size - n, "%s/%.100s", shown > 0 ? ", " : "", m->items[shown].path);
    if (shown < m->n && n < size)
        (void)snprintf(out + n, size - n, " and %zu more", m->n - shown);
    return out;
}

int pl_merge_expect(const struct pl_merge *m, struct pl_err *err)
{
    const struct pl_stage *stage = m->plan->stage;
    char text[700];

    for (size_t e = 0; e < stage->output.n_expect && m->plan->n_datums > 0; e++) {
        _cleanup_(pl_glob_destroyp) struct pl_glob *glob = NULL;
        bool found = false;
        int r = pl_glob_compile(stage->output.expect[e], &glob, err);

        if (r < 0)
            return r;
        for (size_t i = 0; i < m->n && !found; i++)
            found = pl_glob_match_within(glob, m->items[i].path, m->items[i].path_len);
        if (!found)
            return pl_err_set(err, PL_ESTAGE, "stage %s succeeded but wrote nothing matching %s; it wrote %s", stage->name,
                              stage->output.expect[e], merge_text(m, text, sizeof(text)));
    }
    return 0;
}
