// link: storage/base storage/tree storage/tree_edit
/* Differences against brute force, and what finding them costs. */
#include "storage/tree/tree_diff.h"

#include "tests/unit/storage/tree/tree_fixture.h"

/* Expects the changes of two models one after another. */
struct expectation {
    const struct model *a, *b;
    const char *prefix;
    size_t i, k;
    size_t changes;
};

static bool same_entry(const struct pl_entry *x, const struct pl_entry *y)
{
    return x && y ? pl_entry_eq(x, y) : x == y;
}

/* The next path of either model on which they differ, within the prefix; false at the end. */
static bool next_difference(struct expectation *x, const char **path, const struct pl_entry **old_entry,
                            const struct pl_entry **new_entry)
{
    while (x->i < x->a->n || x->k < x->b->n) {
        const char *pa = x->i < x->a->n ? x->a->items[x->i].path : NULL, *pb = x->k < x->b->n ? x->b->items[x->k].path : NULL;
        int order = !pa ? 1 : !pb ? -1 : strcmp(pa, pb);

        *path = order <= 0 ? pa : pb;
        *old_entry = order <= 0 ? &x->a->items[x->i++].entry : NULL;
        *new_entry = order >= 0 ? &x->b->items[x->k++].entry : NULL;
        if (strncmp(*path, x->prefix, strlen(x->prefix)) == 0 && !same_entry(*old_entry, *new_entry))
            return true;
    }
    return false;
}

static int expect_change(void *self, const struct pl_tree_change *change, struct pl_err *err)
{
    struct expectation *x = self;
    const struct pl_entry *old_entry, *new_entry;
    const char *path;

    (void)err;
    assert_true(next_difference(x, &path, &old_entry, &new_entry));
    assert_string_equal(change->path, path);
    assert_int_equal(change->path_len, strlen(path));
    assert_true(same_entry(change->old_entry, old_entry));
    assert_true(same_entry(change->new_entry, new_entry));
    x->changes++;
    return 0;
}

static size_t check_diff(struct memory *mem, const struct pl_hash *a_root, const struct model *a, const struct pl_hash *b_root,
                         const struct model *b, const char *prefix)
{
    struct pl_node_source source = source_of(mem);
    struct expectation x = {.a = a, .b = b, .prefix = prefix};
    const struct pl_entry *old_entry, *new_entry;
    struct pl_err err = {0};
    const char *path;

    assert_ok(pl_tree_diff(&source, a_root, b_root, prefix, strlen(prefix), expect_change, &x, &err), &err);
    assert_false(next_difference(&x, &path, &old_entry, &new_entry));
    return x.changes;
}

/* The changes from `from` on are those behind it of all changes, each once. */
static void check_seek(struct memory *mem, const struct pl_hash *a_root, const struct model *a, const struct pl_hash *b_root,
                       const struct model *b, const char *from)
{
    _cleanup_(pl_tree_differ_destroyp) struct pl_tree_differ *d = NULL;
    struct pl_node_source source = source_of(mem);
    struct expectation x = {.a = a, .b = b, .prefix = ""};
    struct pl_tree_change change;
    struct pl_err err = {0};
    int r;

    while (x.i < a->n && strcmp(a->items[x.i].path, from) < 0)
        x.i++;
    while (x.k < b->n && strcmp(b->items[x.k].path, from) < 0)
        x.k++;
    assert_ok(pl_tree_differ_create(&source, a_root, b_root, NULL, 0, &d, &err), &err);
    assert_ok(pl_tree_differ_seek(d, from, strlen(from), &err), &err);
    while ((r = pl_tree_differ_next(d, &change, &err)) > 0)
        expect_change(&x, &change, &err);
    assert_ok(r, &err);
    assert_false(next_difference(&x, &change.path, &change.old_entry, &change.new_entry));
}

static void differences_agree_with_brute_force(void **state)
{
    size_t changes = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 400; seed++) {
        struct memory mem = {0};
        struct pl_node_sink sink = sink_of(&mem, &small_params[seed % SMALL_PARAMS]);
        struct model a = {0}, b = {0}, empty = {0};
        struct pl_hash a_root, b_root, none = {{0}};
        struct ops o;
        uint64_t rng = seed;
        char prefix[RANDOM_PATH_BYTES];

        random_model(&rng, pick(&rng, 250), &a);
        if (seed % 4 == 0) {
            random_model(&rng, pick(&rng, 250), &b);
        } else {
            do {
                model_copy(&b, &a);
                random_ops(&rng, 1 + pick(&rng, seed % 3 ? 3 : 40), &a, 8, &o);
            } while (!model_edit(&b, o.op, o.n));
        }
        a_root = build_model(&a, &sink);
        b_root = build_model(&b, &sink);
        changes += check_diff(&mem, &a_root, &a, &b_root, &b, "");
        check_diff(&mem, &b_root, &b, &a_root, &a, "");
        check_diff(&mem, &none, &empty, &a_root, &a, "");
        check_diff(&mem, &a_root, &a, &none, &empty, "");
        for (int k = 0; k < 8; k++) {
            size_t len = random_path(&rng, prefix);

            prefix[k % 2 ? len : 1 + pick(&rng, len)] = 0;
            check_diff(&mem, &a_root, &a, &b_root, &b, prefix);
            check_seek(&mem, &a_root, &a, &b_root, &b, prefix);
            check_seek(&mem, &b_root, &b, &a_root, &a, prefix);
        }
        model_finish(&a);
        model_finish(&b);
        memory_finish(&mem);
    }
    assert_true(changes > 1000);
}

static int stop_at_second(void *self, const struct pl_tree_change *change, struct pl_err *err)
{
    (void)change;
    (void)err;
    return ++*(int *)self == 2 ? 17 : 0;
}

static void the_callback_can_end_it(void **state)
{
    struct memory mem = {0};
    struct pl_node_source source = source_of(&mem);
    struct pl_node_sink sink = sink_of(&mem, NULL);
    struct model m = {0};
    struct pl_hash root, none = {{0}};
    uint64_t rng = 3;
    int calls = 0;

    (void)state;
    random_model(&rng, 50, &m);
    root = build_model(&m, &sink);
    assert_int_equal(pl_tree_diff(&source, &none, &root, NULL, 0, stop_at_second, &calls, NULL), 17);
    assert_int_equal(calls, 2);
    model_finish(&m);
    memory_finish(&mem);
}

#define MANY 200000

static struct pl_hash build_many(struct pl_node_sink *sink)
{
    struct pl_tree_builder *b = NULL;
    struct pl_hash root;
    struct pl_err err = {0};
    char path[64];

    assert_ok(pl_tree_builder_create(sink, &b, &err), &err);
    for (unsigned i = 0; i < MANY; i++) {
        struct pl_hash id = {{(uint8_t)i, (uint8_t)(i >> 8), (uint8_t)(i >> 16)}};
        struct pl_entry e = pl_entry_chunk(PL_KIND_FILE, 4096, &id);
        int n = snprintf(path, sizeof path, "dir-%04u/file-%06u.bin", i / 1000, i);

        assert_ok(pl_tree_builder_add(b, path, (size_t)n, &e, &err), &err);
    }
    assert_ok(pl_tree_builder_finish(b, &root, NULL, &err), &err);
    pl_tree_builder_destroy(b);
    return root;
}

static int count_change(void *self, const struct pl_tree_change *change, struct pl_err *err)
{
    (void)change;
    (void)err;
    ++*(unsigned *)self;
    return 0;
}

/* 200,000 files lie in some 330 leaves; of these only the changed are read, twice, with what leads there. */
static void the_cost_follows_the_change(void **state)
{
    static const struct {
        const char *path;
        uint8_t op;
        unsigned changes, reads;
    } table[] = {
        {"dir-0077/file-077777.bin", PL_TREE_PUT, 1, 6},
        {"dir-0077/file-077777.bin", PL_TREE_DELETE, 1, 8},
        {"dir-0077/a-new-one", PL_TREE_PUT, 1, 8},
        {"dir-0000/file-000000.bin", PL_TREE_DELETE, 1, 8},
        {"zzz", PL_TREE_PUT, 1, 8},
        {"dir-0100", PL_TREE_DELETE_PREFIX, 1000, 12},
    };
    struct memory mem = {0};
    struct pl_node_source source = source_of(&mem);
    struct pl_node_sink sink = sink_of(&mem, NULL);
    struct pl_hash root = build_many(&sink), next;
    struct pl_err err = {0};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        struct pl_tree_op op = {table[i].op, table[i].path, strlen(table[i].path), pl_entry_inline(PL_KIND_FILE, "x", 1)};
        unsigned changes = 0;

        assert_ok(pl_tree_edit(&source, &sink, &root, &op, 1, &next, &err), &err);
        mem.reads = 0;
        assert_ok(pl_tree_diff(&source, &root, &next, NULL, 0, count_change, &changes, &err), &err);
        assert_int_equal(changes, table[i].changes);
        if (mem.reads > table[i].reads)
            fail_msg("%s: %llu reads", table[i].path, (unsigned long long)mem.reads);
        mem.reads = 0;
        assert_ok(pl_tree_diff(&source, &root, &next, "dir-0150/", 9, count_change, &changes, &err), &err);
        assert_int_equal(changes, table[i].changes);
        assert_true(mem.reads <= 4);
    }
    mem.reads = 0;
    assert_ok(pl_tree_diff(&source, &root, &root, NULL, 0, count_change, NULL, &err), &err);
    assert_int_equal(mem.reads, 0);
    memory_finish(&mem);
}

static int count_node(void *self, const struct pl_hash *id, unsigned level, struct pl_err *err)
{
    (void)id;
    (void)level;
    (void)err;
    ++*(unsigned *)self;
    return 0;
}

/* What stays when the first third is gone stands elsewhere, and is skipped all the same. */
static void equal_subtrees_are_skipped_wherever_they_stand(void **state)
{
    struct memory mem = {0};
    struct pl_node_source source = source_of(&mem);
    struct pl_node_sink sink = sink_of(&mem, &small_params[3]); /* three entries a node, at all levels */
    struct model all = {0}, gone = {0}, left = {0};
    struct pl_entry e = pl_entry_inline(PL_KIND_FILE, "x", 1);
    struct pl_hash all_root, gone_root, left_root;
    unsigned gone_nodes = 0, changes = 0;
    struct pl_err err = {0};

    (void)state;
    for (unsigned i = 0; i < 729; i++) {
        char path[RANDOM_PATH_BYTES];

        snprintf(path, sizeof path, "%04u", i);
        model_put(&all, path, &e);
        model_put(i < 243 ? &gone : &left, path, &e);
    }
    all_root = build_model(&all, &sink);
    gone_root = build_model(&gone, &sink);
    left_root = build_model(&left, &sink);
    assert_ok(pl_tree_visit_nodes(&source, &gone_root, count_node, &gone_nodes, &err), &err);
    mem.reads = 0;
    assert_ok(pl_tree_diff(&source, &all_root, &left_root, NULL, 0, count_change, &changes, &err), &err);
    assert_int_equal(changes, gone.n);
    if (mem.reads > gone_nodes + 9)
        fail_msg("%llu reads, %u nodes gone", (unsigned long long)mem.reads, gone_nodes);
    model_finish(&all);
    model_finish(&gone);
    model_finish(&left);
    memory_finish(&mem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(differences_agree_with_brute_force),
        cmocka_unit_test(the_callback_can_end_it),
        cmocka_unit_test(the_cost_follows_the_change),
        cmocka_unit_test(equal_subtrees_are_skipped_wherever_they_stand),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
