// link: storage/base storage/tree storage/tree_edit
/* Operations one after another as a set, and seen through layers: against the tree that an edit for each of them makes. */
#include "tests/unit/storage/tree/tree_fixture.h"

#include "storage/tree_edit/op_overlay.h"

static int edit(struct memory *m, const struct pl_hash *root, const struct pl_tree_op *ops, size_t n, struct pl_hash *ret,
                struct pl_err *err)
{
    struct pl_node_source source = source_of(m);
    struct pl_node_sink sink = sink_of(m, &small_params[0]);

    return pl_tree_edit(&source, &sink, root, ops, n, ret, err);
}

static struct pl_tree_op op(uint8_t kind, const char *path, const struct pl_entry *e)
{
    return (struct pl_tree_op){.op = kind, .path = path, .path_len = strlen(path), .entry = e ? *e : (struct pl_entry){0}};
}

static struct pl_tree_op random_op(uint64_t *seed, char path[RANDOM_PATH_BYTES])
{
    static const uint8_t kinds[] = {PL_TREE_PUT,    PL_TREE_PUT,           PL_TREE_PUT,    PL_TREE_PUT,    PL_TREE_PUT,
                                    PL_TREE_DELETE, PL_TREE_DELETE_PREFIX, PL_TREE_DELETE, PL_TREE_REPLACE};
    struct pl_entry e = random_entry(seed);
    uint8_t kind = kinds[pick(seed, PL_ARRAY_SIZE(kinds))];

    random_path(seed, path);
    if (kind == PL_TREE_DELETE_PREFIX)
        cut_segments(seed, path);
    if (kind == PL_TREE_DELETE_PREFIX && pick(seed, 60) == 0)
        *path = '\0';
    return op(kind, path, kind == PL_TREE_PUT || kind == PL_TREE_REPLACE ? &e : NULL);
}

/* The root that the table's items give upon `base`. */
static struct pl_hash root_of(struct memory *m, const struct pl_hash *base, const struct pl_op_set *t)
{
    struct pl_tree_op *list = NULL;
    struct pl_err err = {0};
    struct pl_hash root;
    size_t n = 0;

    assert_ok(pl_op_set_list(t, &list, &n, &err), &err);
    assert_int_equal(n, t->n);
    assert_ok(edit(m, base, list, n, &root, &err), &err);
    free(list);
    return root;
}

/* What the table's stream says when it is read into an empty one. */
static void assert_stream_is_table(const struct pl_op_set *t)
{
    struct pl_op_set again = {0};
    struct pl_tree_op *list = NULL;
    struct pl_buf one = {0}, two = {0};
    struct pl_err err = {0};
    size_t n = 0;

    assert_ok(pl_op_set_write(t, &one, &err), &err);
    assert_ok(pl_tree_ops_read(one.data, one.len, &list, &n, &err), &err);
    for (size_t i = 0; i < n; i++)
        assert_ok(pl_op_set_add(&again, &list[i], &err), &err);
    assert_ok(pl_op_set_write(&again, &two, &err), &err);
    assert_int_equal(one.len, two.len);
    assert_memory_equal(one.data, two.data, one.len);
    assert_int_equal(again.bytes, t->bytes);
    assert_int_equal(again.clearing, t->clearing);
    free(list);
    pl_buf_finish(&one);
    pl_buf_finish(&two);
    pl_op_set_finish(&again);
}

struct life {
    struct memory mem;
    struct pl_node_source source;
    struct pl_hash base, now; /* `now`: by an edit for each operation */
    struct pl_op_set layers[PL_OP_OVERLAY_LAYERS];
    struct pl_tree_cursor *cursor;
    struct pl_op_overlay o;
    size_t refused, done;
};

static void begin(struct life *l, uint64_t *seed)
{
    struct pl_node_sink sink;
    struct model m = {0};
    struct pl_err err = {0};

    sink = sink_of(&l->mem, &small_params[0]);
    random_model(seed, pick(seed, 60), &m);
    l->base = l->now = build_model(&m, &sink);
    model_finish(&m);
    l->source = source_of(&l->mem);
    assert_ok(pl_tree_cursor_create(&l->source, &l->base, NULL, 0, &l->cursor, &err), &err);
    l->o = (struct pl_op_overlay){.layers = {&l->layers[0], &l->layers[1], &l->layers[2]}, .n = 3, .base = l->cursor};
}

static void end(struct life *l)
{
    for (size_t i = 0; i < PL_OP_OVERLAY_LAYERS; i++)
        pl_op_set_finish(&l->layers[i]);
    pl_tree_cursor_destroy(l->cursor);
    memory_finish(&l->mem);
}

/* A layer's operations go into the one below it. */
static void sink_layer(struct life *l, unsigned i)
{
    struct pl_err err = {0};

    assert_ok(pl_op_set_merge(&l->layers[i + 1], &l->layers[i], &err), &err);
    pl_op_set_finish(&l->layers[i]);
}

static void one_step(struct life *l, uint64_t *seed)
{
    char path[RANDOM_PATH_BYTES];
    struct pl_tree_op next = random_op(seed, path);
    struct pl_err err = {0};
    int want = edit(&l->mem, &l->now, &next, 1, &l->now, &err), got = pl_op_overlay_add(&l->o, &next, &err);

    if (want != got)
        fail_msg("operation %u on %s: %d, an edit gives %d: %s", next.op, path, got, want, err.msg);
    if (got < 0)
        l->refused++;
    else
        l->done++;
    if (pick(seed, 3) == 0)
        sink_layer(l, 0);
    if (pick(seed, 9) == 0)
        sink_layer(l, 1);
}

static void any_sequence_gives_the_tree_of_its_edits(void **state)
{
    size_t refused = 0, done = 0;

    (void)state;
    for (uint64_t i = 1; i <= 1500; i++) {
        struct life l = {0};
        struct pl_hash root;
        uint64_t seed = i;

        begin(&l, &seed);
        for (uint64_t steps = 1 + pick(&seed, 60); steps > 0; steps--)
            one_step(&l, &seed);
        sink_layer(&l, 0);
        sink_layer(&l, 1);
        root = root_of(&l.mem, &l.base, &l.layers[2]);
        if (!pl_hash_eq(&root, &l.now))
            fail_msg("seed %llu: another tree", (unsigned long long)i);
        assert_stream_is_table(&l.layers[2]);
        refused += l.refused;
        done += l.done;
        end(&l);
    }
    assert_true(refused > 1000 && done > 20000);
}

static void a_batch_does_what_one_edit_does(void **state)
{
    size_t refused = 0, done = 0;

    (void)state;
    for (uint64_t i = 1; i <= 1500; i++) {
        struct life l = {0};
        struct model m = {0};
        struct pl_err err = {0};
        struct pl_hash root;
        uint64_t seed = i;
        struct ops ops;
        int want, got;

        begin(&l, &seed);
        random_ops(&seed, 1 + pick(&seed, 8), &m, 4, &ops);
        want = edit(&l.mem, &l.base, ops.op, ops.n, &root, &err);
        got = pl_op_overlay_add_all(&l.o, ops.op, ops.n, &err);
        if (want != got)
            fail_msg("seed %llu: %d, an edit gives %d: %s", (unsigned long long)i, got, want, err.msg);
        if (got == 0) {
            l.now = root_of(&l.mem, &l.base, &l.layers[0]);
            assert_true(pl_hash_eq(&l.now, &root));
        }
        refused += got < 0;
        done += got == 0;
        end(&l);
    }
    assert_true(refused > 100 && done > 500);
}

static void many_items_stay_in_order(void **state)
{
    struct pl_op_set t = {0};
    struct pl_entry e = pl_entry_inline(PL_KIND_FILE, "x", 1);
    struct pl_op_set_cursor c;
    struct pl_tree_op next, all = op(PL_TREE_DELETE_PREFIX, "d", NULL);
    struct pl_err err = {0};
    char path[64], last[64] = "";
    size_t n = 0;

    (void)state;
    for (unsigned i = 0; i < 20000; i++) {
        snprintf(path, sizeof path, "d/%05u", i * 7919 % 20000);
        next = op(PL_TREE_PUT, path, &e);
        assert_ok(pl_op_set_add(&t, &next, &err), &err);
    }
    assert_int_equal(t.n, 20000);
    c = pl_op_set_seek(&t, "d/", 2);
    while (pl_op_set_cursor_next(&c, &next)) {
        snprintf(path, sizeof path, "%.*s", (int)next.path_len, next.path);
        assert_true(strcmp(last, path) < 0);
        strcpy(last, path);
        n++;
    }
    assert_int_equal(n, 20000);
    assert_ok(pl_op_set_add(&t, &all, &err), &err);
    assert_int_equal(t.n, 1);
    assert_int_equal(pl_op_set_get(&t, "d/00001", 7, NULL), PL_OP_GONE);
    assert_int_equal(pl_op_set_get(&t, "e", 1, NULL), PL_OP_UNKNOWN);
    pl_op_set_finish(&t);
}

static void a_collision_names_both_paths(void **state)
{
    struct pl_entry e = pl_entry_inline(PL_KIND_FILE, "x", 1);
    struct pl_tree_op below = op(PL_TREE_PUT, "a/b", &e), above = op(PL_TREE_PUT, "a", &e);
    struct life l = {0};
    struct pl_err err = {0};
    uint64_t seed = 60;

    (void)state;
    begin(&l, &seed);
    pl_tree_cursor_destroy(l.cursor);
    memset(&l.base, 0, sizeof l.base);
    assert_ok(pl_tree_cursor_create(&l.source, &l.base, NULL, 0, &l.cursor, &err), &err);
    l.o.base = l.cursor;
    assert_ok(pl_op_overlay_add(&l.o, &below, &err), &err);
    assert_int_equal(pl_op_overlay_add(&l.o, &above, &err), PL_ECOLLISION);
    assert_non_null(strstr(err.msg, "a/b"));
    above.op = PL_TREE_REPLACE;
    assert_ok(pl_op_overlay_add(&l.o, &above, &err), &err);
    assert_int_equal(pl_op_overlay_add(&l.o, &below, &err), PL_ECOLLISION);
    below.path = "a//b";
    below.path_len = 4;
    assert_int_equal(pl_op_overlay_add(&l.o, &below, &err), PL_EPATH);
    end(&l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(any_sequence_gives_the_tree_of_its_edits),
        cmocka_unit_test(a_batch_does_what_one_edit_does),
        cmocka_unit_test(many_items_stay_in_order),
        cmocka_unit_test(a_collision_names_both_paths),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
