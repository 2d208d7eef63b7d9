// link: storage/base storage/tree storage/tree_edit
/* Edits against a sorted map: the same set has the same root however it came to be. */
#include "tests/unit/storage/tree/tree_fixture.h"

static int edit(struct memory *m, const struct pl_tree_params *params, const struct pl_hash *root, const struct ops *o,
                struct pl_hash *ret, struct pl_err *err)
{
    struct pl_node_source source = source_of(m);
    struct pl_node_sink sink = sink_of(m, params);

    return pl_tree_edit(&source, &sink, root, o->op, o->n, ret, err);
}

/* One random life of a tree. Counts edits done and refused. */
static void live(uint64_t seed, size_t *done, size_t *refused)
{
    const struct pl_tree_params *params = &small_params[seed % SMALL_PARAMS];
    struct memory mem = {0};
    struct pl_node_source source = source_of(&mem);
    struct pl_node_sink sink = sink_of(&mem, params);
    struct model now = {0}, next = {0};
    struct pl_hash root, same;
    struct ops o = {.n = 0};
    struct pl_err err = {0};
    uint64_t rng = seed;

    random_model(&rng, pick(&rng, 300), &now);
    root = build_model(&now, &sink);
    for (int step = 0; step < 20; step++) {
        random_ops(&rng, 1 + pick(&rng, step % 4 == 0 ? 100 : 5), &now, step % 4 == 3 ? 2 : 12, &o);
        model_copy(&next, &now);
        if (!model_edit(&next, o.op, o.n)) {
            same = root;
            assert_int_equal(edit(&mem, params, &root, &o, &root, &err), PL_ECOLLISION);
            assert_true(pl_hash_eq(&same, &root));
            ++*refused;
            continue;
        }
        assert_ok(edit(&mem, params, &root, &o, &root, &err), &err);
        model_copy(&now, &next);
        same = build_model(&now, &sink);
        if (!pl_hash_eq(&same, &root))
            fail_msg("seed %llu step %d: another root", (unsigned long long)seed, step);
        ++*done;
    }
    assert_tree_is(&source, &root, &now);
    assert_ok(pl_tree_check(&source, &root, params, &err), &err);
    model_finish(&now);
    model_finish(&next);
    memory_finish(&mem);
}

static void any_sequence_of_edits_gives_the_root_of_its_set(void **state)
{
    size_t refused = 0, done = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 300; seed++)
        live(seed, &done, &refused);
    assert_true(refused > 500);
    assert_true(done > 2000);
}

/* `n` files p/000, p/001, …, from `first` on. */
static void numbered(size_t first, size_t n, struct model *m)
{
    model_finish(m);
    for (size_t i = first; i < first + n; i++) {
        struct pl_entry e = pl_entry_inline(PL_KIND_FILE, "0123456789", i % 10);
        char path[RANDOM_PATH_BYTES];

        snprintf(path, sizeof path, "p/%03zu", i);
        model_put(m, path, &e);
    }
}

static void assert_edit_gives(struct memory *mem, const struct pl_tree_params *params, const struct model *before,
                              const struct ops *o, const struct model *after)
{
    struct pl_node_sink sink = sink_of(mem, params);
    struct pl_hash old = build_model(before, &sink), expected = build_model(after, &sink), root;
    struct pl_err err = {0};

    assert_ok(edit(mem, params, &old, o, &root, &err), &err);
    assert_true(pl_hash_eq(&root, &expected));
}

/* Trees grow and collapse by any number of levels. */
static void any_run_of_files_can_be_cut_off_or_put_back(void **state)
{
    (void)state;
    for (size_t which = 0; which < SMALL_PARAMS; which++) {
        const struct pl_tree_params *params = &small_params[which];
        struct memory mem = {0};
        struct model all = {0}, part = {0};
        struct ops o;

        for (size_t n = 1; n < 48; n++) {
            numbered(0, n, &all);
            for (size_t k = 0; k <= n; k++) {
                o.n = 0;
                for (size_t i = 0; i < k; i++)
                    ops_add(&o, PL_TREE_DELETE, all.items[i].path, NULL);
                numbered(k, n - k, &part);
                assert_edit_gives(&mem, params, &all, &o, &part);
                for (size_t i = 0; i < k; i++)
                    ops_add(&o, PL_TREE_PUT, all.items[i].path, &all.items[i].entry);
                assert_edit_gives(&mem, params, &part, &o, &all);
                o.n = 0;
                for (size_t i = n - k; i < n; i++)
                    ops_add(&o, PL_TREE_DELETE, all.items[i].path, NULL);
                numbered(0, n - k, &part);
                assert_edit_gives(&mem, params, &all, &o, &part);
            }
        }
        model_finish(&all);
        model_finish(&part);
        memory_finish(&mem);
    }
}

/* DELETE_PREFIX with PUTs below it: what a mirror does. Nodes that come back as they were are kept, the rest goes. */
static void a_directory_can_be_replaced_in_one_edit(void **state)
{
    (void)state;
    for (size_t which = 0; which < SMALL_PARAMS; which++) {
        struct memory mem = {0};
        struct model all = {0}, part = {0};
        struct pl_entry other = pl_entry_inline(PL_KIND_FILE, "other", 5);
        struct ops o;

        for (size_t k = 0; k <= 50; k++) {
            o.n = 0;
            ops_add(&o, PL_TREE_DELETE_PREFIX, "p", NULL);
            numbered(0, k, &part);
            for (size_t i = 0; i < k; i++)
                ops_add(&o, PL_TREE_PUT, part.items[i].path, &part.items[i].entry);
            numbered(0, 50, &all);
            for (int i = 0; i < 20; i++) {
                char path[8];

                snprintf(path, sizeof path, "%c%02d", i % 2 ? 'a' : 'q', i);
                model_put(&part, path, &other);
                model_put(&all, path, &other);
            }
            assert_edit_gives(&mem, &small_params[which], &all, &o, &part);
        }
        model_finish(&all);
        model_finish(&part);
        memory_finish(&mem);
    }
}

static void files_and_directories_of_one_name_collide(void **state)
{
    static const struct {
        const char *base, *put, *file, *below;
    } table[] = {
        {"a/b", "a", "a", "a/b"},
        {"a", "a/b", "a", "a/b"},
        {"a/b/c", "a/b", "a/b", "a/b/c"},
        {"a", "a/b/c/d", "a", "a/b/c/d"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        struct memory mem = {0};
        struct pl_entry e = pl_entry_inline(PL_KIND_FILE, "x", 1);
        struct ops o = {.n = 0};
        struct pl_hash root = {{0}}, untouched;
        struct pl_err err = {0};
        char both[64];

        ops_add(&o, PL_TREE_PUT, table[i].base, &e);
        ops_add(&o, PL_TREE_PUT, "a!", &e);
        assert_ok(edit(&mem, NULL, &root, &o, &root, &err), &err);
        o.n = 0;
        ops_add(&o, PL_TREE_PUT, table[i].put, &e);
        untouched = root;
        assert_int_equal(edit(&mem, NULL, &root, &o, &root, &err), PL_ECOLLISION);
        assert_true(pl_hash_eq(&root, &untouched));
        snprintf(both, sizeof both, "\"%s\" and \"%s\"", table[i].file, table[i].below);
        assert_non_null(strstr(err.msg, both));
        ops_add(&o, PL_TREE_DELETE, table[i].base, NULL);
        assert_ok(edit(&mem, NULL, &root, &o, &root, &err), &err);
        memory_finish(&mem);
    }
}

static void empty_directories_give_way(void **state)
{
    static const struct {
        const char *base_dir, *base_file, *put_dir, *put_file;
        const char *left[3];
    } table[] = {
        {"a", NULL, NULL, "a/b/c", {"a/b/c"}}, {NULL, "a/b", "a", NULL, {"a/b"}},      {NULL, NULL, "a", "a/b", {"a/b"}},
        {"a", NULL, "a/b", NULL, {"a/b"}},     {"a", NULL, NULL, "a-b", {"a", "a-b"}}, {"a", NULL, NULL, "a", {"a"}},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        struct memory mem = {0};
        struct pl_node_source source = source_of(&mem);
        struct pl_entry file = pl_entry_inline(PL_KIND_FILE, "x", 1), dir = pl_entry_dir();
        struct ops o = {.n = 0};
        struct pl_hash root = {{0}};
        struct pl_err err = {0};
        struct model left = {0};

        for (size_t k = 0; k < 3 && table[i].left[k]; k++) {
            bool is_dir = (table[i].base_dir && pl_streq(table[i].left[k], table[i].base_dir)) ||
                          (table[i].put_dir && pl_streq(table[i].left[k], table[i].put_dir));

            if (table[i].put_file && pl_streq(table[i].left[k], table[i].put_file))
                is_dir = false;
            model_put(&left, table[i].left[k], is_dir ? &dir : &file);
        }
        if (table[i].base_dir)
            ops_add(&o, PL_TREE_PUT, table[i].base_dir, &dir);
        if (table[i].base_file)
            ops_add(&o, PL_TREE_PUT, table[i].base_file, &file);
        assert_ok(edit(&mem, NULL, &root, &o, &root, &err), &err);
        o.n = 0;
        if (table[i].put_dir)
            ops_add(&o, PL_TREE_PUT, table[i].put_dir, &dir);
        if (table[i].put_file)
            ops_add(&o, PL_TREE_PUT, table[i].put_file, &file);
        assert_ok(edit(&mem, NULL, &root, &o, &root, &err), &err);
        assert_tree_is(&source, &root, &left);
        model_finish(&left);
        memory_finish(&mem);
    }
}

static void operations_out_of_order_or_malformed_are_refused(void **state)
{
    struct pl_entry e = pl_entry_inline(PL_KIND_FILE, "x", 1), bad = {.kind = PL_KIND_FILE, .content = PL_CONTENT_NONE};
    struct pl_entry row = pl_entry_row("r", 1);
    const struct {
        struct pl_tree_op ops[2];
        int code;
    } table[] = {
        {{{PL_TREE_PUT, "b", 1, e}, {PL_TREE_PUT, "a", 1, e}}, PL_EINVAL},
        {{{PL_TREE_PUT, "a", 1, e}, {PL_TREE_DELETE, "a", 1, e}}, PL_EINVAL},
        {{{PL_TREE_PUT, "a", 1, e}, {PL_TREE_PUT, "b//c", 4, e}}, PL_EPATH},
        {{{PL_TREE_PUT, "", 0, e}, {PL_TREE_PUT, "b", 1, e}}, PL_EPATH},
        {{{PL_TREE_PUT, "a", 1, e}, {PL_TREE_PUT, "b", 1, bad}}, PL_EINVAL},
        {{{PL_TREE_PUT, "a", 1, e}, {PL_TREE_PUT, "b", 1, row}}, PL_EINVAL},
        {{{PL_TREE_PUT, "a", 1, e}, {9, "b", 1, e}}, PL_EINVAL},
    };
    struct memory mem = {0};
    struct pl_node_source source = source_of(&mem);
    struct pl_node_sink sink = sink_of(&mem, NULL);
    struct pl_hash root = {{0}};
    struct pl_err err = {0};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++)
        assert_int_equal(pl_tree_edit(&source, &sink, &root, table[i].ops, 2, &root, &err), table[i].code);
    assert_true(pl_hash_is_zero(&root));
    memory_finish(&mem);
}

static void rows_have_any_keys_and_no_collisions(void **state)
{
    struct memory mem = {0};
    struct pl_node_source source = source_of(&mem);
    struct pl_node_sink sink = sink_of(&mem, &small_params[0]);
    uint8_t value[PL_ROW_MAX_BYTES] = {1, 2, 3};
    struct pl_tree_op ops[] = {
        {PL_TREE_PUT, "\0\0", 2, pl_entry_row(value, 3)},
        {PL_TREE_PUT, "a", 1, pl_entry_row(value, sizeof value)},
        {PL_TREE_PUT, "a/b", 3, pl_entry_row(value, 0)},
        {PL_TREE_PUT, "\xff\xff", 2, pl_entry_row(value, 1)},
    };
    struct pl_tree_op prefix = {PL_TREE_DELETE_PREFIX, "a", 1, {0}};
    struct pl_hash root = {{0}}, without, expected;
    struct pl_tree_cursor *c = NULL;
    struct pl_tree_item item;
    struct pl_err err = {0};

    (void)state;
    assert_ok(pl_tree_edit(&source, &sink, &root, ops, 4, &root, &err), &err);
    assert_ok(pl_tree_cursor_create(&source, &root, NULL, 0, &c, &err), &err);
    assert_int_equal(pl_tree_cursor_get(c, "a", 1, &item, &err), 1);
    assert_int_equal(item.entry.size, sizeof value);
    assert_memory_equal(item.entry.row, value, sizeof value);
    pl_tree_cursor_destroy(c);
    assert_ok(pl_tree_edit(&source, &sink, &root, &prefix, 1, &without, &err), &err);
    ops[1] = ops[3];
    root = (struct pl_hash){{0}};
    assert_ok(pl_tree_edit(&source, &sink, &root, ops, 2, &expected, &err), &err);
    assert_true(pl_hash_eq(&without, &expected));
    ops[0].entry = pl_entry_dir();
    ops[0].path = "p";
    ops[0].path_len = 1;
    assert_int_equal(pl_tree_edit(&source, &sink, &expected, ops, 1, &root, &err), PL_EINVAL);
    memory_finish(&mem);
}

#define MANY 200000

static void build_many(struct pl_node_sink *sink, struct pl_hash *root)
{
    struct pl_tree_builder *b = NULL;
    struct pl_err err = {0};
    char path[64];

    assert_ok(pl_tree_builder_create(sink, &b, &err), &err);
    for (unsigned i = 0; i < MANY; i++) {
        struct pl_hash id = {{(uint8_t)i, (uint8_t)(i >> 8), (uint8_t)(i >> 16)}};
        struct pl_entry e = pl_entry_chunk(PL_KIND_FILE, 4096, &id);
        int n = snprintf(path, sizeof path, "dir-%04u/file-%06u.bin", i / 1000, i);

        assert_ok(pl_tree_builder_add(b, path, (size_t)n, &e, &err), &err);
    }
    assert_ok(pl_tree_builder_finish(b, root, NULL, &err), &err);
    pl_tree_builder_destroy(b);
}

static void an_edit_touches_only_what_changes(void **state)
{
    const struct pl_tree_op table[] = {
        {PL_TREE_PUT, "dir-0100/file-100500.bin", 24, pl_entry_inline(PL_KIND_FILE, "x", 1)},
        {PL_TREE_PUT, "dir-0100/a-new-file", 19, pl_entry_inline(PL_KIND_FILE, "x", 1)},
        {PL_TREE_PUT, "zzz", 3, pl_entry_inline(PL_KIND_FILE, "x", 1)},
        {PL_TREE_PUT, "aaa", 3, pl_entry_inline(PL_KIND_FILE, "x", 1)},
        {PL_TREE_DELETE, "dir-0100/file-100500.bin", 24, {0}},
        {PL_TREE_DELETE_PREFIX, "dir-0100", 8, {0}},
        {PL_TREE_DELETE, "not-there", 9, {0}},
    };
    struct memory mem = {0};
    struct pl_node_source source = source_of(&mem);
    struct pl_node_sink sink = sink_of(&mem, NULL);
    struct pl_hash root, next;
    struct pl_err err = {0};

    (void)state;
    build_many(&sink, &root);
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        mem.reads = mem.puts = 0;
        assert_ok(pl_tree_edit(&source, &sink, &root, &table[i], 1, &next, &err), &err);
        assert_true(mem.reads <= 12);
        assert_true(mem.puts <= 6);
        assert_ok(pl_tree_check(&source, &next, NULL, &err), &err);
    }
    memory_finish(&mem);
}

static void deleting_everything_reads_no_leaves(void **state)
{
    struct memory mem = {0};
    struct pl_node_source source = source_of(&mem);
    struct pl_node_sink sink = sink_of(&mem, NULL);
    struct pl_tree_op ops[] = {{PL_TREE_DELETE_PREFIX, "", 0, {0}},
                               {PL_TREE_PUT, "dir-0100/x", 10, pl_entry_inline(PL_KIND_FILE, "x", 1)}};
    struct pl_hash root, empty, one, expected, none = {{0}};
    struct pl_err err = {0};

    (void)state;
    build_many(&sink, &root);
    mem.reads = 0;
    assert_ok(pl_tree_edit(&source, &sink, &root, ops, 1, &empty, &err), &err);
    assert_true(pl_hash_is_zero(&empty));
    assert_ok(pl_tree_edit(&source, &sink, &root, ops, 2, &one, &err), &err);
    assert_true(mem.reads <= 20);
    assert_ok(pl_tree_edit(&source, &sink, &none, &ops[1], 1, &expected, &err), &err);
    assert_true(pl_hash_eq(&one, &expected));
    memory_finish(&mem);
}

/* In the tree of the format, not only in small ones: a thousand scattered edits at once, and undone one by one hundred. */
static void big_trees_do_not_remember_either(void **state)
{
    struct memory mem = {0};
    struct pl_node_source source = source_of(&mem);
    struct pl_node_sink sink = sink_of(&mem, NULL);
    static struct pl_tree_op ops[1000], undo[1000];
    static char paths[1000][32];
    struct pl_hash root, next;
    struct pl_err err = {0};

    (void)state;
    build_many(&sink, &root);
    for (unsigned i = 0; i < 1000; i++) {
        unsigned at = i * (MANY / 1000);
        bool gone = i % 3 == 0;
        size_t n = (size_t)snprintf(paths[i], sizeof paths[i], "dir-%04u/file-%06u.bin%s", at / 1000, at, gone ? "" : "-2");
        struct pl_hash id = {{(uint8_t)at, (uint8_t)(at >> 8), (uint8_t)(at >> 16)}};

        ops[i] = (struct pl_tree_op){gone ? PL_TREE_DELETE : PL_TREE_PUT, paths[i], n, pl_entry_inline(PL_KIND_FILE, "new", 3)};
        undo[i] = (struct pl_tree_op){gone ? PL_TREE_PUT : PL_TREE_DELETE, paths[i], n, pl_entry_chunk(PL_KIND_FILE, 4096, &id)};
    }
    assert_ok(pl_tree_edit(&source, &sink, &root, ops, 1000, &next, &err), &err);
    assert_ok(pl_tree_check(&source, &next, NULL, &err), &err);
    for (unsigned i = 0; i < 1000; i += 100)
        assert_ok(pl_tree_edit(&source, &sink, &next, undo + i, 100, &next, &err), &err);
    assert_true(pl_hash_eq(&next, &root));
    memory_finish(&mem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_sequence_of_edits_gives_the_root_of_its_set),
        cmocka_unit_test(any_run_of_files_can_be_cut_off_or_put_back),
        cmocka_unit_test(a_directory_can_be_replaced_in_one_edit),
        cmocka_unit_test(files_and_directories_of_one_name_collide),
        cmocka_unit_test(empty_directories_give_way),
        cmocka_unit_test(operations_out_of_order_or_malformed_are_refused),
        cmocka_unit_test(rows_have_any_keys_and_no_collisions),
        cmocka_unit_test(an_edit_touches_only_what_changes),
        cmocka_unit_test(deleting_everything_reads_no_leaves),
        cmocka_unit_test(big_trees_do_not_remember_either),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
