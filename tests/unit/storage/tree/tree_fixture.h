/* tree_fixture: what the tests of the tree share: nodes in memory with counted reads, a sorted map as oracle, seeded random paths. */
#pragma once

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "storage/base/map.h"
#include "storage/tree/tree_build.h"
#include "storage/tree/tree_walk.h"
#include "storage/tree_edit/tree_edit.h"

#define UNUSED __attribute__((unused))

/* Fails the test with the message of `err` when r < 0. */
#define assert_ok(r, err)                                                                                                        \
    do {                                                                                                                         \
        if ((r) < 0)                                                                                                             \
            fail_msg("%s:%d: %d: %s", __FILE__, __LINE__, (r), (err)->msg);                                                      \
    } while (0)

/* ---- nodes in memory ---- */

struct blob {
    size_t n;
    uint8_t bytes[];
};

struct memory {
    struct pl_map map;
    uint64_t reads;
    uint64_t puts;
};

static UNUSED int memory_get(void *self, const struct pl_hash *id, struct pl_buf *ret, struct pl_err *err)
{
    struct memory *m = self;
    struct blob *b = pl_map_get(&m->map, id->b, sizeof id->b);

    m->reads++;
    if (!b)
        return pl_err_set(err, PL_ENOTFOUND, "no such node");
    return pl_buf_add(ret, b->bytes, b->n, err);
}

static UNUSED int memory_put(void *self, const void *bytes, size_t n, struct pl_hash *ret_id, struct pl_err *err)
{
    struct memory *m = self;
    struct blob *b = malloc(sizeof *b + n);
    void *old = NULL;
    int r;

    assert_non_null(b);
    b->n = n;
    memcpy(b->bytes, bytes, n);
    pl_hash_sha256(bytes, n, ret_id);
    m->puts++;
    r = pl_map_put(&m->map, ret_id->b, sizeof ret_id->b, b, &old, err);
    free(old);
    return r;
}

static UNUSED void memory_finish(struct memory *m)
{
    pl_map_finish(&m->map, free);
}

static UNUSED struct pl_node_source source_of(struct memory *m)
{
    return (struct pl_node_source){m, memory_get};
}

static UNUSED struct pl_node_sink sink_of(struct memory *m, const struct pl_tree_params *params)
{
    return (struct pl_node_sink){m, memory_put, params};
}

/* ---- parameters that give a handful of entries many levels; the second is ruled by the bound on bytes ---- */

static const struct pl_tree_params small_params[] = {
    {.min_entries = 2, .max_entries = 6, .max_bytes = 4096, .threshold = UINT64_MAX / 3},
    {.min_entries = 2, .max_entries = 4096, .max_bytes = 190, .threshold = UINT64_MAX / 50},
    {.min_entries = 3, .max_entries = 8, .max_bytes = 260, .threshold = UINT64_MAX / 4},
    {.min_entries = 2, .max_entries = 3, .max_bytes = 4096, .threshold = 0},
};
#define SMALL_PARAMS PL_ARRAY_SIZE(small_params)

/* ---- randomness ---- */

static UNUSED uint64_t pick(uint64_t *seed, uint64_t n)
{
    return pl_splitmix64(seed) % n;
}

/* One of 3 kinds × contents, of few values, so that equal entries are common. */
static UNUSED struct pl_entry random_entry(uint64_t *seed)
{
    uint8_t kind = pick(seed, 5) == 0 ? PL_KIND_EXEC : PL_KIND_FILE;
    struct pl_hash id = {{(uint8_t)pick(seed, 3)}};
    char text[PL_INLINE_MAX_BYTES] = {(char)('a' + pick(seed, 3))};

    switch (pick(seed, 6)) {
    case 0:
        return pl_entry_dir();
    case 1:
        return pl_entry_chunk(kind, 65 + pick(seed, 3), &id);
    case 2:
        return pl_entry_list(kind, (1ull << (17 + pick(seed, 30))), &id);
    case 3:
        return pl_entry_inline(PL_KIND_LINK, "target", 1 + pick(seed, 6));
    default:
        return pl_entry_inline(kind, text, pick(seed, PL_INLINE_MAX_BYTES));
    }
}

#define RANDOM_PATH_BYTES 64

/* Paths of 1 to 4 segments out of few, among them such as sort before "/". */
static UNUSED size_t random_path(uint64_t *seed, char out[RANDOM_PATH_BYTES])
{
    static const char *const segments[] = {"a", "b", "a-x", "a.b", "d", "d!", "long-segment", "m0", "m1", "m2", "m3", "z"};
    size_t depth = 1 + pick(seed, 4), n = 0;

    for (size_t i = 0; i < depth; i++)
        n += (size_t)sprintf(out + n, "%s%s", i ? "/" : "", segments[pick(seed, PL_ARRAY_SIZE(segments))]);
    return n;
}

/* ---- the oracle: a sorted array ---- */

struct model_item {
    char path[RANDOM_PATH_BYTES];
    struct pl_entry entry;
};

struct model {
    struct model_item *items;
    size_t n;
    size_t cap;
};

static UNUSED void model_finish(struct model *m)
{
    free(m->items);
    *m = (struct model){0};
}

static UNUSED size_t model_find(const struct model *m, const char *path)
{
    size_t i = 0, hi = m->n;

    while (i < hi) {
        size_t mid = (i + hi) / 2;

        if (strcmp(m->items[mid].path, path) < 0)
            i = mid + 1;
        else
            hi = mid;
    }
    return i;
}

static UNUSED const struct pl_entry *model_get(const struct model *m, const char *path)
{
    size_t i = model_find(m, path);

    return i < m->n && pl_streq(m->items[i].path, path) ? &m->items[i].entry : NULL;
}

static UNUSED void model_put(struct model *m, const char *path, const struct pl_entry *e)
{
    size_t i = model_find(m, path);

    if (i == m->n || !pl_streq(m->items[i].path, path)) {
        if (m->n == m->cap) {
            m->cap = m->cap ? 2 * m->cap : 64;
            m->items = reallocarray(m->items, m->cap, sizeof *m->items);
            assert_non_null(m->items);
        }
        memmove(m->items + i + 1, m->items + i, (m->n - i) * sizeof *m->items);
        m->n++;
        snprintf(m->items[i].path, sizeof m->items[i].path, "%s", path);
    }
    m->items[i].entry = *e;
}

static UNUSED void model_remove_at(struct model *m, size_t i)
{
    memmove(m->items + i, m->items + i + 1, (m->n - i - 1) * sizeof *m->items);
    m->n--;
}

static UNUSED void model_copy(struct model *to, const struct model *from)
{
    model_finish(to);
    for (size_t i = 0; i < from->n; i++)
        model_put(to, from->items[i].path, &from->items[i].entry);
}

static UNUSED bool is_below(const char *path, const char *dir)
{
    size_t n = strlen(dir);

    return n == 0 || (strncmp(path, dir, n) == 0 && path[n] == '/');
}

/* Empty directories give way; false when a file has something below it. */
static UNUSED bool model_settle_names(struct model *m)
{
    for (size_t i = 0; i < m->n; i++) {
        const char *path = m->items[i].path;
        bool below = false;

        for (size_t k = i + 1; k < m->n && !below && strncmp(m->items[k].path, path, strlen(path)) == 0; k++)
            below = is_below(m->items[k].path, path);
        if (below && m->items[i].entry.kind != PL_KIND_DIR)
            return false;
        if (below)
            model_remove_at(m, i--);
    }
    return true;
}

/* What pl_tree_edit must do; false when it must refuse. */
static UNUSED bool model_edit(struct model *m, const struct pl_tree_op *ops, size_t n)
{
    for (size_t k = 0; k < n; k++) {
        char path[RANDOM_PATH_BYTES];

        snprintf(path, sizeof path, "%.*s", (int)ops[k].path_len, ops[k].path);
        for (size_t i = 0; i < m->n && ops[k].op != PL_TREE_PUT; i++) {
            if (pl_streq(m->items[i].path, path) || (ops[k].op != PL_TREE_DELETE && is_below(m->items[i].path, path)))
                model_remove_at(m, i--);
        }
        if (ops[k].op == PL_TREE_PUT || ops[k].op == PL_TREE_REPLACE)
            model_put(m, path, &ops[k].entry);
    }
    return model_settle_names(m);
}

static UNUSED struct pl_hash build_model(const struct model *m, const struct pl_node_sink *sink)
{
    struct pl_tree_builder *b = NULL;
    struct pl_hash root;
    struct pl_err err = {0};

    assert_ok(pl_tree_builder_create(sink, &b, &err), &err);
    for (size_t i = 0; i < m->n; i++)
        assert_ok(pl_tree_builder_add(b, m->items[i].path, strlen(m->items[i].path), &m->items[i].entry, &err), &err);
    assert_ok(pl_tree_builder_finish(b, &root, NULL, &err), &err);
    pl_tree_builder_destroy(b);
    return root;
}

/* A valid set of at most `n` random paths: a path that would not fit to those before is left out. */
static UNUSED void random_model(uint64_t *seed, size_t n, struct model *m)
{
    model_finish(m);
    while (n-- > 0) {
        char path[RANDOM_PATH_BYTES];
        struct pl_entry e = random_entry(seed);
        bool fits = true;
        size_t len = random_path(seed, path);

        for (size_t i = 1; i < len && fits; i++) {
            if (path[i] != '/')
                continue;
            path[i] = 0;
            fits = !model_get(m, path);
            path[i] = '/';
        }
        for (size_t i = model_find(m, path); i < m->n && fits && strncmp(m->items[i].path, path, len) == 0; i++)
            fits = !is_below(m->items[i].path, path);
        if (fits)
            model_put(m, path, &e);
    }
}

/* ---- sorted operations ---- */

struct ops {
    struct pl_tree_op op[128];
    char path[128][RANDOM_PATH_BYTES];
    size_t n;
};

/* Inserts in order; an operation on the same path is replaced. */
static UNUSED void ops_add(struct ops *o, uint8_t op, const char *path, const struct pl_entry *e)
{
    size_t i = 0;

    while (i < o->n && strcmp(o->path[i], path) < 0)
        i++;
    if (i == o->n || !pl_streq(o->path[i], path)) {
        assert_true(o->n < PL_ARRAY_SIZE(o->op));
        memmove(o->op + i + 1, o->op + i, (o->n - i) * sizeof *o->op);
        memmove(o->path + i + 1, o->path + i, (o->n - i) * sizeof *o->path);
        o->n++;
        snprintf(o->path[i], sizeof o->path[i], "%s", path);
    }
    o->op[i] = (struct pl_tree_op){.op = op, .path_len = strlen(path), .entry = e ? *e : (struct pl_entry){0}};
    for (i = 0; i < o->n; i++)
        o->op[i].path = o->path[i];
}

/* The first segments of `path`, at least one. */
static UNUSED void cut_segments(uint64_t *seed, char *path)
{
    char *slash;

    while (pick(seed, 3) != 0 && (slash = strrchr(path, '/')))
        *slash = 0;
}

/* About `n` operations, half of them on paths that exist; one in `prefixes` removes a directory. */
static UNUSED void random_ops(uint64_t *seed, size_t n, const struct model *m, unsigned prefixes, struct ops *o)
{
    o->n = 0;
    while (n-- > 0) {
        char path[RANDOM_PATH_BYTES];
        struct pl_entry e = random_entry(seed);

        random_path(seed, path);
        if (m->n > 0 && pick(seed, 2) == 0)
            strcpy(path, m->items[pick(seed, m->n)].path);
        if (pick(seed, prefixes) == 0) {
            cut_segments(seed, path);
            if (pick(seed, 3) == 0)
                ops_add(o, PL_TREE_REPLACE, path, &e);
            else
                ops_add(o, PL_TREE_DELETE_PREFIX, pick(seed, 50) == 0 ? "" : path, NULL);
        } else if (pick(seed, 2) == 0) {
            ops_add(o, PL_TREE_PUT, path, &e);
        } else {
            ops_add(o, PL_TREE_DELETE, path, NULL);
        }
    }
}

static UNUSED void assert_tree_is(const struct pl_node_source *source, const struct pl_hash *root, const struct model *m)
{
    struct pl_tree_cursor *c = NULL;
    struct pl_tree_item item;
    struct pl_err err = {0};
    size_t i = 0;
    int r;

    assert_ok(pl_tree_cursor_create(source, root, NULL, 0, &c, &err), &err);
    while ((r = pl_tree_cursor_next(c, &item, &err)) > 0) {
        assert_true(i < m->n);
        assert_string_equal(item.path, m->items[i].path);
        assert_int_equal(item.path_len, strlen(item.path));
        assert_true(pl_entry_eq(&item.entry, &m->items[i].entry));
        i++;
    }
    assert_ok(r, &err);
    assert_int_equal(i, m->n);
    pl_tree_cursor_destroy(c);
}
