// link: storage/base storage/tree storage/tree_edit
/* Building and reading: the golden roots, order, ranges, sums, and that lies of nodes are found. */
#include "storage/base/clock.h"

#include "tests/unit/storage/tree/tree_fixture.h"

static size_t numbered_path(unsigned i, char out[RANDOM_PATH_BYTES])
{
    return (size_t)snprintf(out, RANDOM_PATH_BYTES, "dir-%03u/file-%06u.bin", i / 1000, i);
}

/* File i of the golden trees: every 7th inline, every 11th a list, every 13th executable. */
static struct pl_entry numbered_entry(unsigned i)
{
    uint8_t kind = i % 13 == 0 ? PL_KIND_EXEC : PL_KIND_FILE;
    char text[16];
    struct pl_hash id;
    size_t n = (size_t)snprintf(text, sizeof text, "%u", i);

    if (i % 7 == 0)
        return pl_entry_inline(kind, text, n);
    pl_hash_sha256(text, n, &id);
    if (i % 11 == 0)
        return pl_entry_list(kind, 100000ull + i, &id);
    return pl_entry_chunk(kind, 1000 + i % 5000, &id);
}

static struct pl_hash build_numbered(const struct pl_node_sink *sink, unsigned n, struct pl_tree_stats *ret_stats)
{
    struct pl_tree_builder *b = NULL;
    struct pl_hash root;
    struct pl_err err = {0};
    char path[RANDOM_PATH_BYTES];

    assert_ok(pl_tree_builder_create(sink, &b, &err), &err);
    for (unsigned i = 0; i < n; i++) {
        struct pl_entry e = numbered_entry(i);
        size_t len = numbered_path(i, path);

        assert_ok(pl_tree_builder_add(b, path, len, &e, &err), &err);
    }
    assert_ok(pl_tree_builder_finish(b, &root, ret_stats, &err), &err);
    pl_tree_builder_destroy(b);
    return root;
}

/* Computed by a second implementation of docs/format.md. */
static void roots_are_these(void **state)
{
    static const struct {
        unsigned n;
        const char *root;
    } table[] = {
        {0, "0000000000000000000000000000000000000000000000000000000000000000"},
        {1, "fe94b98d678e6d62147ec716e010cddba51fbf81c807fa8db3af88b27cc67e7b"},
        {299, "e537b5c6128bb6a8be0d0f0ec3af768ab1f2419b9335451f5cdd24c44a5ad08e"},
        {5000, "0f9bf32a1ab761143c5c4f1c78f5e87a6bf00054d44a7bde1d4fcfe03a43ef83"},
        {200000, "78553d9754eb442cbeb3dc090ad2ee46ffd26930c5b8a0508c7e89acbe74e28e"},
    };
    struct pl_node_sink sink = pl_node_sink_hash_only();
    char hex[PL_HASH_HEX + 1];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        struct pl_hash root = build_numbered(&sink, table[i].n, NULL);

        assert_string_equal(pl_hash_hex(&root, hex), table[i].root);
    }
}

static void builder_refuses_what_is_no_tree(void **state)
{
    struct pl_entry file = pl_entry_inline(PL_KIND_FILE, "x", 1), dir = pl_entry_dir(), row = pl_entry_row("x", 1);
    const struct {
        const char *first, *second;
        const struct pl_entry *first_entry, *second_entry;
        int code;
    } table[] = {
        {"b", "a", &file, &file, PL_EINVAL},
        {"a", "a", &file, &file, PL_EINVAL},
        {"a", "a/b", &file, &file, PL_ECOLLISION},
        {"a", "a/b", &dir, &file, PL_ECOLLISION},
        {"a", "../b", &file, &file, PL_EPATH},
        {"a", "b", &file, &row, PL_EINVAL},
        {"a", "", &row, &row, PL_EINVAL},
        {"a", "a/b", &row, &row, 0},
        {"a", "a-b", &file, &file, 0},
    };
    struct pl_node_sink sink = pl_node_sink_hash_only();

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        struct pl_tree_builder *b = NULL;

        assert_int_equal(pl_tree_builder_create(&sink, &b, NULL), 0);
        assert_int_equal(pl_tree_builder_add(b, table[i].first, strlen(table[i].first), table[i].first_entry, NULL), 0);
        assert_int_equal(pl_tree_builder_add(b, table[i].second, strlen(table[i].second), table[i].second_entry, NULL),
                         table[i].code);
        pl_tree_builder_destroy(b);
    }
}

static void a_file_collides_over_what_sorts_between(void **state)
{
    struct pl_node_sink sink = pl_node_sink_hash_only();
    static const char *const paths[] = {"a", "a!", "a-x", "a-x/b", "a.b"};
    struct pl_entry e = pl_entry_inline(PL_KIND_FILE, "x", 1);
    struct pl_tree_builder *b = NULL;
    struct pl_err err = {0};

    (void)state;
    assert_int_equal(pl_tree_builder_create(&sink, &b, NULL), 0);
    for (size_t i = 0; i < PL_ARRAY_SIZE(paths); i++) {
        if (i != 3)
            assert_ok(pl_tree_builder_add(b, paths[i], strlen(paths[i]), &e, &err), &err);
    }
    assert_int_equal(pl_tree_builder_add(b, "a/b", 3, &e, &err), PL_ECOLLISION);
    assert_non_null(strstr(err.msg, "\"a\" and \"a/b\""));
    pl_tree_builder_destroy(b);
}

/* Sums by brute force over the items that start with `prefix`. */
static struct pl_tree_stats model_stats(const struct model *m, const char *prefix)
{
    struct pl_tree_stats s = {0};

    for (size_t i = 0; i < m->n; i++) {
        if (strncmp(m->items[i].path, prefix, strlen(prefix)) != 0)
            continue;
        s.files += m->items[i].entry.kind != PL_KIND_DIR;
        s.bytes += m->items[i].entry.size;
    }
    return s;
}

static void check_seeks(const struct pl_node_source *source, const struct pl_hash *root, const struct model *m, uint64_t *rng)
{
    struct pl_tree_cursor *c = NULL;
    struct pl_tree_item item;
    struct pl_err err = {0};
    char path[RANDOM_PATH_BYTES];

    assert_ok(pl_tree_cursor_create(source, root, NULL, 0, &c, &err), &err);
    for (int k = 0; k < 30; k++) {
        size_t len = random_path(rng, path), i = model_find(m, path);
        const struct pl_entry *e = model_get(m, path);
        struct pl_entry got;

        assert_ok(pl_tree_cursor_seek(c, path, len, &err), &err);
        for (int ahead = 0; ahead < 3; ahead++, i++) {
            assert_int_equal(pl_tree_cursor_next(c, &item, &err), i < m->n);
            if (i < m->n)
                assert_string_equal(item.path, m->items[i].path);
        }
        assert_int_equal(pl_tree_get(source, root, path, len, &got, &err), e ? 0 : PL_ENOTFOUND);
        if (e)
            assert_true(pl_entry_eq(&got, e));
        assert_ok(pl_tree_cursor_seek_past(c, path, len, &err), &err);
        for (i = model_find(m, path); i < m->n && strncmp(m->items[i].path, path, len) == 0;)
            i++;
        assert_int_equal(pl_tree_cursor_next(c, &item, &err), i < m->n);
        if (i < m->n)
            assert_string_equal(item.path, m->items[i].path);
    }
    pl_tree_cursor_destroy(c);
}

static void check_ranges(const struct pl_node_source *source, const struct pl_hash *root, const struct model *m, uint64_t *rng)
{
    struct pl_tree_item item;
    struct pl_err err = {0};
    char prefix[RANDOM_PATH_BYTES];

    for (int k = 0; k < 20; k++) {
        struct pl_tree_cursor *c = NULL;
        size_t len = random_path(rng, prefix), i = 0;
        struct pl_tree_stats want, got;

        if (k % 2) {
            prefix[len++] = '/';
            prefix[len] = 0;
        } else {
            prefix[len = pick(rng, len + 1)] = 0;
        }
        want = model_stats(m, prefix);
        assert_ok(pl_tree_stats_get(source, root, prefix, len, &got, &err), &err);
        assert_int_equal(got.files, want.files);
        assert_int_equal(got.bytes, want.bytes);
        assert_ok(pl_tree_cursor_create(source, root, prefix, len, &c, &err), &err);
        for (i = model_find(m, prefix); i < m->n && strncmp(m->items[i].path, prefix, len) == 0; i++) {
            assert_int_equal(pl_tree_cursor_next(c, &item, &err), 1);
            assert_string_equal(item.path, m->items[i].path);
        }
        assert_int_equal(pl_tree_cursor_next(c, &item, &err), 0);
        assert_int_equal(pl_tree_cursor_next(c, &item, &err), 0);
        pl_tree_cursor_destroy(c);
    }
}

static void reads_agree_with_a_sorted_map(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 120; seed++) {
        struct memory mem = {0};
        struct pl_node_source source = source_of(&mem);
        struct pl_node_sink sink = sink_of(&mem, &small_params[seed % SMALL_PARAMS]);
        struct model m = {0};
        struct pl_hash root;
        uint64_t rng = seed;

        random_model(&rng, pick(&rng, 250), &m);
        root = build_model(&m, &sink);
        assert_tree_is(&source, &root, &m);
        check_seeks(&source, &root, &m, &rng);
        check_ranges(&source, &root, &m, &rng);
        model_finish(&m);
        memory_finish(&mem);
    }
}

static int count_node(void *self, const struct pl_hash *id, unsigned level, struct pl_err *err)
{
    uint64_t *counts = self;

    (void)id;
    (void)err;
    counts[level]++;
    return 0;
}

static void reads_cost_the_height_of_the_tree(void **state)
{
    struct memory mem = {0};
    struct pl_node_source source = source_of(&mem);
    struct pl_node_sink sink = sink_of(&mem, NULL);
    struct pl_tree_stats built, got;
    struct pl_hash root = build_numbered(&sink, 200000, &built);
    uint64_t counts[PL_TREE_MAX_LEVELS] = {0};
    struct pl_entry e;
    struct pl_err err = {0};

    (void)state;
    assert_int_equal(built.files, 200000);
    mem.reads = 0;
    assert_ok(pl_tree_get(&source, &root, "dir-123/file-123456.bin", 23, &e, &err), &err);
    assert_true(mem.reads <= 3);
    mem.reads = 0;
    assert_ok(pl_tree_stats_get(&source, &root, NULL, 0, &got, &err), &err);
    assert_int_equal(got.bytes, built.bytes);
    assert_int_equal(mem.reads, 1);
    mem.reads = 0;
    assert_ok(pl_tree_stats_get(&source, &root, "dir-0", 5, &got, &err), &err);
    assert_int_equal(got.files, 100000);
    assert_true(mem.reads <= 5);
    mem.reads = 0;
    assert_ok(pl_tree_visit_nodes(&source, &root, count_node, counts, &err), &err);
    assert_int_equal(counts[0] + counts[1] + counts[2], mem.puts);
    assert_int_equal(mem.reads, counts[1] + counts[2]);
    memory_finish(&mem);
}

static int walk_all(struct memory *mem, const struct pl_hash *root)
{
    struct pl_node_source source = source_of(mem);
    struct pl_tree_cursor *c = NULL;
    struct pl_tree_item item;
    int r = pl_tree_cursor_create(&source, root, NULL, 0, &c, NULL);

    assert_int_equal(r, 0);
    while ((r = pl_tree_cursor_next(c, &item, NULL)) > 0)
        ;
    pl_tree_cursor_destroy(c);
    return r;
}

/* Good nodes in the wrong place: a parent that lies about its child. */
static void nodes_that_do_not_fit_their_parents_are_found(void **state)
{
    struct memory mem = {0};
    struct pl_node_sink sink = sink_of(&mem, &small_params[0]);
    struct model m = {0}, other = {0};
    struct pl_map_slot *slots[256];
    struct pl_hash root;
    size_t n = 0, wrong = 0;

    (void)state;
    for (int k = 0; k < 40; k++) {
        struct pl_entry e = pl_entry_inline(PL_KIND_FILE, "12345678", 3), longer = pl_entry_inline(PL_KIND_FILE, "12345678", 5);
        char path[RANDOM_PATH_BYTES];

        snprintf(path, sizeof path, "f%02d", k);
        model_put(&m, path, &e);
        model_put(&other, path, &longer);
    }
    build_model(&other, &sink);
    root = build_model(&m, &sink);
    for (size_t i = 0; i < mem.map.cap; i++) {
        if (mem.map.slots[i].key && !mem.map.slots[i].dead)
            slots[n++] = &mem.map.slots[i];
    }
    assert_int_equal(walk_all(&mem, &root), 0);
    for (size_t a = 0; a < n; a++) {
        void *good = slots[a]->value;
        bool used;

        slots[a]->value = NULL;
        used = walk_all(&mem, &root) < 0;
        for (size_t b = 0; b < n; b++) {
            if (b == a || !used || memcmp(slots[a]->key, root.b, sizeof root.b) == 0)
                continue;
            slots[a]->value = slots[b]->value;
            assert_int_equal(walk_all(&mem, &root), PL_ECORRUPT);
            wrong++;
        }
        slots[a]->value = good;
    }
    assert_true(wrong > 100);
    model_finish(&m);
    model_finish(&other);
    memory_finish(&mem);
}

static void a_tree_cut_by_another_rule_is_found(void **state)
{
    struct memory mem = {0};
    struct pl_node_source source = source_of(&mem);
    struct pl_node_sink sink = sink_of(&mem, &small_params[0]);
    struct pl_hash root = build_numbered(&sink, 100, NULL);

    (void)state;
    assert_int_equal(pl_tree_check(&source, &root, &small_params[0], NULL), 0);
    assert_int_equal(pl_tree_check(&source, &root, NULL, NULL), PL_ECORRUPT);
    memory_finish(&mem);
}

static void how_fast_it_is(void **state)
{
    struct memory mem = {0};
    struct pl_node_source source = source_of(&mem);
    struct pl_node_sink sink = sink_of(&mem, NULL);
    struct pl_tree_cursor *c = NULL;
    struct pl_tree_item item;
    struct pl_hash root;
    struct pl_err err = {0};
    int64_t start = pl_clock_mono_us(), built, walked;

    (void)state;
    root = build_numbered(&sink, 200000, NULL);
    built = pl_clock_mono_us();
    assert_ok(pl_tree_cursor_create(&source, &root, NULL, 0, &c, &err), &err);
    while (pl_tree_cursor_next(c, &item, &err) > 0)
        ;
    walked = pl_clock_mono_us();
    print_message("build %.2f, walk %.2f million entries/s\n", 0.2e6 / (double)(built - start), 0.2e6 / (double)(walked - built));
    pl_tree_cursor_destroy(c);
    memory_finish(&mem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(roots_are_these),
        cmocka_unit_test(builder_refuses_what_is_no_tree),
        cmocka_unit_test(a_file_collides_over_what_sorts_between),
        cmocka_unit_test(reads_agree_with_a_sorted_map),
        cmocka_unit_test(reads_cost_the_height_of_the_tree),
        cmocka_unit_test(nodes_that_do_not_fit_their_parents_are_found),
        cmocka_unit_test(a_tree_cut_by_another_rule_is_found),
        cmocka_unit_test(how_fast_it_is),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
