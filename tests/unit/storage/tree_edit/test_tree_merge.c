// link: storage/base storage/tree storage/tree_edit
/* Merges against brute force over three sorted maps. */
#include "storage/tree_edit/tree_merge.h"

#include "tests/unit/storage/tree/tree_fixture.h"

static bool same(const struct pl_entry *x, const struct pl_entry *y)
{
    return x && y ? pl_entry_eq(x, y) : x == y;
}

/* The merge of one path into `out`; false when both changed it differently. */
static bool merge_path(const char *path, const struct model *base, const struct model *ours, const struct model *theirs,
                       struct model *out)
{
    const struct pl_entry *b = model_get(base, path), *o = model_get(ours, path), *t = model_get(theirs, path);
    const struct pl_entry *e = same(o, b) ? t : o;

    if (!same(o, b) && !same(t, b) && !same(o, t))
        return false;
    if (e)
        model_put(out, path, e);
    return true;
}

/* False when the merge must be refused. */
static bool merge_models(const struct model *base, const struct model *ours, const struct model *theirs, struct model *out)
{
    const struct model *all[] = {base, ours, theirs};
    bool clean = true;

    model_finish(out);
    for (size_t k = 0; k < 3; k++) {
        for (size_t i = 0; i < all[k]->n; i++)
            clean = merge_path(all[k]->items[i].path, base, ours, theirs, out) && clean;
    }
    return clean && model_settle_names(out);
}

static void random_change(uint64_t *rng, const struct model *base, size_t most, struct model *out)
{
    struct ops o;

    do {
        model_copy(out, base);
        random_ops(rng, 1 + pick(rng, most), base, 10, &o);
    } while (!model_edit(out, o.op, o.n));
}

struct seen {
    size_t n;
    char path[RANDOM_PATH_BYTES];
    char other[RANDOM_PATH_BYTES];
};

static int note(void *self, const struct pl_tree_conflict *c, struct pl_err *err)
{
    struct seen *s = self;

    (void)err;
    s->n++;
    snprintf(s->path, sizeof s->path, "%.*s", (int)c->path_len, c->path);
    snprintf(s->other, sizeof s->other, "%.*s", (int)c->other_len, c->other);
    return 0;
}

static void merges_agree_with_brute_force(void **state)
{
    size_t clean = 0, refused = 0;

    (void)state;
    for (uint64_t seed = 1; seed <= 2000; seed++) {
        struct memory mem = {0};
        struct pl_node_source source = source_of(&mem);
        struct pl_node_sink sink = sink_of(&mem, &small_params[seed % SMALL_PARAMS]);
        struct model base = {0}, ours = {0}, theirs = {0}, want = {0};
        struct pl_hash b, o, t, root, mirrored, expected;
        struct seen seen = {0};
        struct pl_err err = {0};
        uint64_t rng = seed;
        int r;

        random_model(&rng, pick(&rng, seed % 2 ? 150 : 12), &base);
        random_change(&rng, &base, seed % 5 ? 4 : 60, &ours);
        random_change(&rng, &base, seed % 7 ? 8 : 60, &theirs);
        b = build_model(&base, &sink);
        o = build_model(&ours, &sink);
        t = build_model(&theirs, &sink);
        r = pl_tree_merge(&source, &sink, &b, &o, &t, &root, note, &seen, &err);
        if (!merge_models(&base, &ours, &theirs, &want)) {
            if (r != PL_ECONFLICT || seen.n == 0)
                fail_msg("seed %llu: %d, not a conflict", (unsigned long long)seed, r);
            assert_int_equal(pl_tree_merge(&source, &sink, &b, &t, &o, &root, NULL, NULL, &err), PL_ECONFLICT);
            refused++;
        } else {
            if (r < 0)
                fail_msg("seed %llu: %s", (unsigned long long)seed, err.msg);
            expected = build_model(&want, &sink);
            assert_int_equal(seen.n, 0);
            assert_true(pl_hash_eq(&root, &expected));
            assert_ok(pl_tree_merge(&source, &sink, &b, &t, &o, &mirrored, NULL, NULL, &err), &err);
            assert_true(pl_hash_eq(&mirrored, &expected));
            clean++;
        }
        model_finish(&base);
        model_finish(&ours);
        model_finish(&theirs);
        model_finish(&want);
        memory_finish(&mem);
    }
    print_message("%zu clean, %zu refused\n", clean, refused);
    assert_true(clean > 400);
    assert_true(refused > 200);
}

/* What each side puts ('d': as an empty directory) or deletes ('-') on a base of the files p/1 and q and the empty directory e. */
static void sides_agree_or_the_conflict_names_both(void **state)
{
    static const struct {
        const char *ours, *theirs, *path, *other;
    } table[] = {
        {"+new", "+other", NULL, NULL}, {"+new", "+new", NULL, NULL}, {"-q", "-q", NULL, NULL},   {"*new", "+new", "new", "new"},
        {"-q", "*q", "q", "q"},         {"*q", "-q", "q", "q"},       {"+x", "+x/y", "x", "x/y"}, {"+x/y/z", "+x", "x", "x/y/z"},
        {"+x", "+x-y", NULL, NULL},     {"dx", "+x/y", NULL, NULL},   {"+x/y", "dx", NULL, NULL}, {"+e/1", "+e/2", NULL, NULL},
        {"+e", "+e/2", "e", "e"},       {"-e", "+e/2", NULL, NULL},
    };
    struct pl_entry one = pl_entry_inline(PL_KIND_FILE, "1", 1), two = pl_entry_inline(PL_KIND_FILE, "2", 1),
                    dir = pl_entry_dir();

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        struct memory mem = {0};
        struct pl_node_source source = source_of(&mem);
        struct pl_node_sink sink = sink_of(&mem, NULL);
        struct pl_hash none = {{0}}, base, side[2], root;
        const char *changes[] = {table[i].ours, table[i].theirs};
        struct ops o = {.n = 0};
        struct seen seen = {0};
        struct pl_err err = {0};

        ops_add(&o, PL_TREE_PUT, "p/1", &one);
        ops_add(&o, PL_TREE_PUT, "q", &one);
        ops_add(&o, PL_TREE_PUT, "e", &dir);
        assert_ok(pl_tree_edit(&source, &sink, &none, o.op, o.n, &base, &err), &err);
        for (int k = 0; k < 2; k++) {
            char how = changes[k][0];

            o.n = 0;
            ops_add(&o, how == '-' ? PL_TREE_DELETE : PL_TREE_PUT, changes[k] + 1, how == 'd' ? &dir : how == '*' ? &two : &one);
            assert_ok(pl_tree_edit(&source, &sink, &base, o.op, o.n, &side[k], &err), &err);
        }
        if (!table[i].path) {
            assert_ok(pl_tree_merge(&source, &sink, &base, &side[0], &side[1], &root, note, &seen, &err), &err);
            assert_ok(pl_tree_check(&source, &root, NULL, &err), &err); /* no empty directory with something below it */
        } else {
            assert_int_equal(pl_tree_merge(&source, &sink, &base, &side[0], &side[1], &root, note, &seen, &err), PL_ECONFLICT);
            assert_int_equal(seen.n, 1);
            assert_string_equal(seen.path, table[i].path);
            assert_string_equal(seen.other, table[i].other);
            assert_non_null(strstr(err.msg, table[i].path));
            assert_non_null(strstr(err.msg, table[i].other));
        }
        memory_finish(&mem);
    }
}

static int stop(void *self, const struct pl_tree_conflict *c, struct pl_err *err)
{
    (void)self;
    (void)c;
    (void)err;
    return 5;
}

static void the_callback_can_end_it(void **state)
{
    struct memory mem = {0};
    struct pl_node_source source = source_of(&mem);
    struct pl_node_sink sink = sink_of(&mem, NULL);
    struct pl_entry one = pl_entry_inline(PL_KIND_FILE, "1", 1), two = pl_entry_inline(PL_KIND_FILE, "2", 1);
    struct pl_tree_op ops[] = {{PL_TREE_PUT, "a", 1, one}, {PL_TREE_PUT, "a", 1, two}};
    struct pl_hash none = {{0}}, a, b, root;

    (void)state;
    assert_int_equal(pl_tree_edit(&source, &sink, &none, &ops[0], 1, &a, NULL), 0);
    assert_int_equal(pl_tree_edit(&source, &sink, &none, &ops[1], 1, &b, NULL), 0);
    assert_int_equal(pl_tree_merge(&source, &sink, &none, &a, &b, &root, stop, NULL, NULL), 5);
    memory_finish(&mem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(merges_agree_with_brute_force),
        cmocka_unit_test(sides_agree_or_the_conflict_names_both),
        cmocka_unit_test(the_callback_can_end_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
