// link: pipelined/merge pipelined/plan storage/base storage/tree storage/tree_edit
/* merge: what becomes of the outputs of datums: one tree, or an error that says who and what to do. */
#include "tests/unit/plan/plan_fixture.h"

#include "pipelined/merge/merge.h"
#include "pipelined/merge/merge_collision.h"
#include "storage/tree_edit/tree_ops.h"

#include <time.h>

/* A plan over the inputs test (each below /test) and model (the root). */
struct world {
    struct memory m;
    struct pl_node_source source;
    struct pl_spec *spec;
    struct pl_plan *plan;
    struct pl_merge *merge;
};

static void world_init(struct world *w, const char *const *files, size_t n, const char *output)
{
    static const char *const model[] = {"model.npz"};
    struct pl_hash roots[2];
    struct pl_err err = {0};
    char fields[512];

    *w = (struct world){0};
    w->source = source_of(&w->m);
    (void)snprintf(
        fields, sizeof(fields),
        "\"input\": {\"cross\": [{\"repo\": \"digits\", \"name\": \"test\", \"glob\": \"/test/**/*\"}, {\"repo\": \"train\", "
        "\"name\": \"model\"}]}, \"output\": {%s}",
        output);
    w->spec = spec_of(fields);
    roots[0] = tree_of(&w->m, files, n);
    roots[1] = tree_of(&w->m, model, 1);
    assert_ok(plan_of(w->spec, &w->source, roots, &w->plan, &err), &err);
    assert_ok(pl_merge_create(w->plan, 0, &w->merge, &err), &err);
}

static void world_finish(struct world *w)
{
    pl_merge_destroy(w->merge);
    pl_plan_destroy(w->plan);
    pl_spec_destroy(w->spec);
    memory_finish(&w->m);
}

/* A file, or with "/" at the end an empty directory. */
static int put(struct world *w, size_t datum, const char *path, struct pl_err *err)
{
    struct pl_entry e = pl_entry_inline(PL_KIND_FILE, "x", 1);
    size_t len = strlen(path);

    if (path[len - 1] == '/') {
        e = pl_entry_dir();
        len--;
    }
    assert_ok(pl_merge_datum(w->merge, datum, err), err);
    return pl_merge_put(w->merge, path, len, &e, err);
}

static const char *const two[] = {"test/b1.csv", "test/b2.csv"};

static void outputs_come_together_in_order(void **state)
{
    struct world w;
    struct pl_err err = {0};
    struct pl_merge_item item;
    static const struct {
        const char *path;
        size_t datum;
    } want[] = {{"b1/out.csv", 0}, {"b1/plots/a.png", 0}, {"b2/out.csv", 1}};

    (void)state;
    world_init(&w, two, 2, "\"prefix\": \"${test.stem}/\"");
    assert_int_equal(w.plan->n_datums, 2);
    assert_ok(put(&w, 1, "out.csv", &err), &err);
    assert_ok(put(&w, 0, "plots/a.png", &err), &err);
    assert_ok(put(&w, 0, "plots/", &err), &err); /* gives way to what is in it */
    assert_ok(put(&w, 0, "out.csv", &err), &err);
    assert_ok(pl_merge_finish(w.merge, &err), &err);
    assert_int_equal(pl_merge_count(w.merge), 3);
    assert_int_equal(pl_merge_bytes(w.merge), 3);
    for (size_t i = 0; i < 3; i++) {
        pl_merge_item(w.merge, i, &item);
        assert_string_equal(item.path, want[i].path);
        assert_int_equal(item.datum, want[i].datum);
        assert_int_equal(item.entry.kind, PL_KIND_FILE);
    }
    world_finish(&w);
}

struct collision {
    const char *files[3];
    const char *output;
    const char *first, *second; /* of datums 0 and 1 */
    const char *says;           /* NULL: fine */
};

static void what_two_datums_claim_is_refused_with_a_remedy(void **state)
{
    static const struct collision cases[] = {
        {{"test/b1.csv", "test/b2.csv"},
         "",
         "predictions.csv",
         "predictions.csv",
         "/predictions.csv was written by two datums (test=/test/b1.csv, test=/test/b2.csv): give each a folder with \"output\": "
         "{\"prefix\": \"${test.stem}/\"}"},
        /* stems that are not enough */
        {{"test/x/b.csv", "test/y/b.csv"},
         "",
         "p.csv",
         "p.csv",
         "/p.csv was written by two datums (test=/test/x, test=/test/x/b.csv): give each a folder with \"output\": {\"prefix\": "
         "\"${test.path}/\"}"},
        {{"test/b.csv", "test/b.txt"},
         "\"prefix\": \"${test.stem}/\"",
         "p.csv",
         "p.csv",
         "/b/p.csv was written by two datums (test=/test/b.csv, test=/test/b.txt): give each a folder with \"output\": "
         "{\"prefix\": "
         "\"${test.path}/\"}"},
        {{"test/b1.csv", "test/b2.csv"},
         "",
         "a",
         "a/b",
         "/a is a file of one datum (test=/test/b1.csv) and a folder of another (test=/test/b2.csv): give each a folder with "},
        {{"test/b1.csv", "test/b2.csv"},
         "",
         "a/b/c",
         "a",
         "/a is a file of one datum (test=/test/b2.csv) and a folder of another (test=/test/b1.csv): give each a folder with "},
        {{"test/b1.csv", "test/b2.csv"}, "", "a", "a/", "/a is a file of one datum (test=/test/b1.csv) and a folder of another"},
        {{"test/b1.csv", "test/b2.csv"}, "", "a/", "a", "/a is a file of one datum (test=/test/b2.csv) and a folder of another"},
        {{"test/b1.csv", "test/b2.csv"}, "", "a/", "a/", NULL},
        {{"test/b1.csv", "test/b2.csv"}, "", "a/", "a/b", NULL},
        {{"test/b1.csv", "test/b2.csv"}, "", "a", "a!/b", NULL},
        {{"test/b1.csv", "test/b2.csv"}, "", "a/b", "a!", NULL},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        for (unsigned order = 0; order < 2; order++) { /* the same words whatever comes first */
            struct world w;
            struct pl_err err = {0};
            int r;

            world_init(&w, cases[i].files, 3, cases[i].output);
            assert_ok(put(&w, order, order == 0 ? cases[i].first : cases[i].second, &err), &err);
            assert_ok(put(&w, 1 - order, order == 0 ? cases[i].second : cases[i].first, &err), &err);
            r = pl_merge_finish(w.merge, &err);
            assert_int_equal(r, cases[i].says == NULL ? 0 : PL_ECOLLISION);
            if (cases[i].says != NULL && strncmp(err.msg, cases[i].says, strlen(cases[i].says)) != 0)
                fail_msg("%s", err.msg);
            world_finish(&w);
        }
    }
}

static void a_prefix_that_is_there_already_is_no_remedy(void **state)
{
    static const char *const files[] = {"test/b.csv", "test/b.txt"};
    struct world w;
    struct pl_err err = {0};

    (void)state;
    world_init(&w, files, 2, "\"prefix\": \"${datum}/\"");
    assert_int_equal(pl_merge_collision(w.plan, MERGE_SAME_PATH, "p", 0, 1, &err), PL_ECOLLISION);
    assert_non_null(strstr(err.msg, "give each a folder with \"output\": {\"prefix\": \"${test.path}/\"}"));
    world_finish(&w);
    world_init(&w, files, 2, "\"prefix\": \"${test.path}/\"");
    assert_int_equal(pl_merge_collision(w.plan, MERGE_SAME_PATH, "p", 0, 1, &err), PL_ECOLLISION);
    assert_non_null(strstr(err.msg, "{\"prefix\": \"${datum}/\"}"));
    assert_int_equal(pl_merge_collision(w.plan, MERGE_SAME_PATH, "p", 0, 0, &err), PL_ECOLLISION);
    assert_string_equal(err.msg,
                        "/p was written twice by one datum (test=/test/b.csv, model=/): let the command write each file once");
    world_finish(&w);
    world_init(&w, files, 1, "");
    assert_int_equal(pl_merge_collision(w.plan, MERGE_SAME_PATH, "p", 0, 0, &err), PL_ECOLLISION);
    world_finish(&w);
    world_init(&w, files, 1, "\"prefix\": \"${datum}/\""); /* no input has more than one match */
    assert_int_equal(pl_merge_collision(w.plan, MERGE_SAME_PATH, "p", 0, 0, &err), PL_ECOLLISION);
    assert_null(strstr(err.msg, "prefix"));
    world_finish(&w);
}

static void a_path_between_file_and_folder_does_not_hide_the_collision(void **state)
{
    struct world w;
    struct pl_err err = {0};

    (void)state;
    world_init(&w, two, 2, "");
    assert_ok(put(&w, 0, "a", &err), &err);
    assert_ok(put(&w, 1, "a!", &err), &err); /* sorts between a and a/b */
    assert_ok(put(&w, 1, "a/b", &err), &err);
    assert_int_equal(pl_merge_finish(w.merge, &err), PL_ECOLLISION);
    world_finish(&w);
}

static void paths_that_are_not_allowed_name_the_datum(void **state)
{
    struct world w;
    struct pl_err err = {0};

    (void)state;
    world_init(&w, two, 2, "");
    assert_int_equal(put(&w, 1, "a/../b", &err), PL_EPATH);
    assert_ptr_equal(strstr(err.msg, "datum (test=/test/b2.csv, model=/): path \"a/../b\""), err.msg);
    assert_int_equal(put(&w, 1, "a\nb", &err), PL_EPATH);
    world_finish(&w);
}

static void outputs_come_as_operations_and_as_trees(void **state)
{
    static const char *const files[] = {"t/1", "t/2"};
    struct world w;
    struct pl_err err = {0};
    struct pl_buf ops = {0};
    struct pl_tree_ops_writer writer = {0};
    struct pl_entry e = pl_entry_inline(PL_KIND_FILE, "x", 1);
    struct pl_hash root;

    (void)state;
    world_init(&w, two, 2, "\"prefix\": \"${test.stem}/\"");
    root = tree_of(&w.m, files, 2);
    assert_ok(pl_tree_ops_writer_init(&writer, &ops, &err), &err);
    assert_ok(pl_tree_ops_writer_put(&writer, "a", 1, &e, &err), &err);
    assert_ok(pl_tree_ops_writer_put(&writer, "b", 1, &e, &err), &err);
    assert_ok(pl_tree_ops_writer_end(&writer, &err), &err);
    assert_ok(pl_merge_datum(w.merge, 0, &err), &err);
    assert_ok(pl_merge_add_ops(w.merge, ops.data, ops.len, &err), &err);
    assert_int_equal(pl_merge_add_ops(w.merge, ops.data, ops.len - 2, &err), PL_EFORMAT);
    pl_merge_destroy(w.merge);
    assert_ok(pl_merge_create(w.plan, 0, &w.merge, &err), &err);
    assert_ok(pl_merge_datum(w.merge, 0, &err), &err);
    assert_ok(pl_merge_add_ops(w.merge, ops.data, ops.len, &err), &err);
    assert_ok(pl_merge_datum(w.merge, 1, &err), &err);
    assert_ok(pl_merge_add_tree(w.merge, &w.source, &root, &err), &err);
    assert_ok(pl_merge_finish(w.merge, &err), &err);
    assert_int_equal(pl_merge_count(w.merge), 4);
    pl_tree_ops_writer_finish(&writer);
    pl_buf_finish(&ops);
    world_finish(&w);
}

static void output_and_owner_trees_are_built(void **state)
{
    static const char *const want[] = {"b1/out.csv=x", "b2/out.csv=x"};
    struct world w;
    struct pl_err err = {0};
    struct pl_hash output, owner, expected;
    struct pl_tree_stats stats;
    struct pl_tree_cursor *cursor = NULL;
    struct pl_tree_item item;
    uint8_t key[PL_ENUM_KEY_MAX];
    struct pl_node_sink sink;

    (void)state;
    world_init(&w, two, 2, "\"prefix\": \"${test.stem}/\"");
    sink = sink_of(&w.m, NULL);
    assert_ok(put(&w, 1, "out.csv", &err), &err);
    assert_ok(put(&w, 0, "out.csv", &err), &err);
    assert_ok(pl_merge_finish(w.merge, &err), &err);
    assert_ok(pl_merge_build(w.merge, &sink, &output, &owner, &stats, &err), &err);
    expected = tree_of(&w.m, want, 2);
    assert_true(pl_hash_eq(&output, &expected));
    assert_int_equal(stats.files, 2);
    assert_ok(pl_tree_cursor_create(&w.source, &owner, NULL, 0, &cursor, &err), &err);
    assert_int_equal(pl_tree_cursor_get(cursor, "b2/out.csv", 10, &item, &err), 1);
    assert_int_equal(item.entry.kind, PL_KIND_ROW);
    assert_int_equal(item.entry.size, pl_plan_enum_key(w.plan, 1, key));
    assert_memory_equal(item.entry.row, key, item.entry.size);
    pl_tree_cursor_destroy(cursor);
    world_finish(&w);
}

static void what_is_expected_must_be_there(void **state)
{
    static const struct {
        const char *output, *paths[3], *says;
    } cases[] = {
        {"\"expect\": [\"/model.npz\"]", {"model.npz"}, NULL},
        {"\"expect\": [\"/fold-*/model.pt\"]", {"fold-1/model.pt"}, NULL},
        {"\"expect\": [\"/plots\"]", {"plots/a.png"}, NULL},
        {"\"expect\": [\"/model.npz\", \"/metrics.json\"]",
         {"model.npy", "metrics.json"},
         "stage s succeeded but wrote nothing matching /model.npz; it wrote /metrics.json, /model.npy"},
        {"\"expect\": [\"/model.npz\"]",
         {NULL},
         "stage s succeeded but wrote nothing matching /model.npz; it wrote nothing at all"},
        {"\"expect\": [\"/*.csv\"]", {"a/b.csv"}, "wrote nothing matching /*.csv; it wrote /a/b.csv"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct world w;
        struct pl_err err = {0};

        world_init(&w, two, 2, cases[i].output);
        for (size_t p = 0; p < 3 && cases[i].paths[p] != NULL; p++)
            assert_ok(put(&w, 0, cases[i].paths[p], &err), &err);
        assert_ok(pl_merge_finish(w.merge, &err), &err);
        assert_int_equal(pl_merge_expect(w.merge, &err), cases[i].says == NULL ? 0 : PL_ESTAGE);
        if (cases[i].says != NULL && strstr(err.msg, cases[i].says) == NULL)
            fail_msg("%s", err.msg);
        world_finish(&w);
    }
    {
        struct world w;
        struct pl_err err = {0};

        world_init(&w, two, 0, "\"expect\": [\"/model.npz\"]"); /* no datums: not checked */
        assert_ok(pl_merge_finish(w.merge, &err), &err);
        assert_ok(pl_merge_expect(w.merge, &err), &err);
        world_finish(&w);
    }
}

/* 10,000 datums with 3 outputs each: well under a second even with a sanitizer. */
static void many_datums_merge_quickly(void **state)
{
    static char names[10000][24];
    static const char *files[10000];
    struct world w;
    struct pl_err err = {0};
    clock_t start;

    (void)state;
    for (unsigned i = 0; i < 10000; i++) {
        (void)snprintf(names[i], sizeof(names[i]), "test/b%05u.csv", i);
        files[i] = names[i];
    }
    world_init(&w, files, 10000, "\"prefix\": \"${test.stem}/\"");
    assert_int_equal(w.plan->n_datums, 10000);
    start = clock();
    for (size_t i = 10000; i-- > 0;) {
        assert_ok(put(&w, i, "out.csv", &err), &err);
        assert_ok(put(&w, i, "plots/a.png", &err), &err);
        assert_ok(put(&w, i, "plots/b.png", &err), &err);
    }
    assert_ok(pl_merge_finish(w.merge, &err), &err);
    assert_int_equal(pl_merge_count(w.merge), 30000);
    assert_true(clock() - start < 5 * CLOCKS_PER_SEC);
    world_finish(&w);
}

static void the_bound_is_an_error(void **state)
{
    struct world w;
    struct pl_err err = {0};
    int r = 0;

    (void)state;
    world_init(&w, two, 2, "");
    pl_merge_destroy(w.merge);
    assert_ok(pl_merge_create(w.plan, 1 << 20, &w.merge, &err), &err);
    for (unsigned i = 0; r == 0 && i < 100000; i++) {
        char path[32];

        (void)snprintf(path, sizeof(path), "f%u", i);
        r = put(&w, 0, path, &err);
    }
    assert_int_equal(r, PL_ELIMIT);
    assert_non_null(strstr(err.msg, "limit of 1 MiB"));
    world_finish(&w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(outputs_come_together_in_order),
        cmocka_unit_test(what_two_datums_claim_is_refused_with_a_remedy),
        cmocka_unit_test(a_prefix_that_is_there_already_is_no_remedy),
        cmocka_unit_test(a_path_between_file_and_folder_does_not_hide_the_collision),
        cmocka_unit_test(paths_that_are_not_allowed_name_the_datum),
        cmocka_unit_test(outputs_come_as_operations_and_as_trees),
        cmocka_unit_test(output_and_owner_trees_are_built),
        cmocka_unit_test(what_is_expected_must_be_there),
        cmocka_unit_test(many_datums_merge_quickly),
        cmocka_unit_test(the_bound_is_an_error),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
