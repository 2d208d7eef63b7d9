// link: storage/base storage/dataset/checkout storage/dataset/commit storage/dataset/ingest storage/pack storage/store storage/system storage/tree_edit
/* Ingest by name alone: the paths and kinds of a push, without a byte of any file. */
#include "tests/support/fixtures/dataset_fixture.h"

#include "storage/dataset/ingest/ingest_names.h"

/* "kind path" of everything in a tree, a line each. */
static void list_tree(struct fixture *f, const struct pl_node_source *source, const struct pl_hash *root, struct pl_buf *out)
{
    _cleanup_(pl_tree_cursor_destroyp) struct pl_tree_cursor *cursor = NULL;
    struct pl_tree_item item;
    int r;

    OK(f, pl_tree_cursor_create(source, root, NULL, 0, &cursor, &f->err));
    while ((r = pl_tree_cursor_next(cursor, &item, &f->err)) > 0)
        OK(f, pl_buf_addf(out, &f->err, "%d %s\n", item.entry.kind, item.path));
    OK(f, r);
}

static void names_of(struct fixture *f, const char *folder, struct pl_name_tree *ret)
{
    char path[PATH_MAX];

    print_to(path, sizeof(path), "%s/%s", f->dir, folder);
    OK(f, pl_name_tree_read(path, ret, &f->err));
}

static void test_files_links_and_empty_folders(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_name_tree_finish) struct pl_name_tree tree = {0};
    _cleanup_(pl_buf_finish) struct pl_buf got = {0};
    struct pl_node_source source = pl_name_tree_source(&tree);
    char path[PATH_MAX];

    put_text(f, "in/a/b", "x");
    put_text(f, "in/a-b", "x");
    print_to(path, sizeof(path), "%s/in/link", f->dir);
    assert_int_equal(symlink("a/b", path), 0);
    print_to(path, sizeof(path), "%s/in/none", f->dir);
    assert_int_equal(mkdir(path, 0755), 0);
    names_of(f, "in", &tree);
    list_tree(f, &source, &tree.root, &got);
    assert_string_equal(pl_buf_str(&got), "1 a-b\n1 a/b\n3 link\n4 none\n");
    assert_int_equal(tree.files, 3);
}

static void test_no_file_is_opened(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_name_tree_finish) struct pl_name_tree tree = {0};
    char path[PATH_MAX];

    put_text(f, "in/big", "");
    print_to(path, sizeof(path), "%s/in/big", f->dir);
    assert_int_equal(truncate(path, (off_t)1 << 42), 0); /* 4 TiB of nothing: reading it would not end */
    names_of(f, "in", &tree);
    assert_int_equal(tree.files, 1);
}

static void test_a_folder_of_many_nodes(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_name_tree_finish) struct pl_name_tree tree = {0};
    struct pl_node_source source = pl_name_tree_source(&tree);
    struct pl_tree_stats stats;
    char path[64];

    for (unsigned i = 0; i < 3000; i++) {
        print_to(path, sizeof(path), "in/%u/%u", i % 7, i);
        put_text(f, path, "");
    }
    names_of(f, "in", &tree);
    OK(f, pl_tree_check(&source, &tree.root, NULL, &f->err));
    OK(f, pl_tree_stats_get(&source, &tree.root, "3/", 2, &stats, &f->err));
    assert_int_equal(tree.files, 3000);
    assert_int_equal(stats.files, 429);
}

static void test_an_empty_folder_is_the_tree_of_nothing(void **state)
{
    struct fixture *f = *state;
    _cleanup_(pl_name_tree_finish) struct pl_name_tree tree = {0};
    char path[PATH_MAX];

    print_to(path, sizeof(path), "%s/in", f->dir);
    assert_int_equal(mkdir(path, 0755), 0);
    names_of(f, "in", &tree);
    assert_true(pl_hash_is_zero(&tree.root));
}

static void test_what_an_ingest_refuses(void **state)
{
    struct fixture *f = *state;
    struct pl_name_tree tree = {0};
    char path[PATH_MAX];

    FAILS(f, pl_name_tree_read("/nothing/here", &tree, &f->err), PL_ENOTFOUND, "/nothing/here");
    put_text(f, "in/a\nb", "x");
    print_to(path, sizeof(path), "%s/in", f->dir);
    FAILS(f, pl_name_tree_read(path, &tree, &f->err), PL_EPATH, "\\x0A");
    assert_null(tree.nodes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_files_links_and_empty_folders, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_no_file_is_opened, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_a_folder_of_many_nodes, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_an_empty_folder_is_the_tree_of_nothing, fixture_setup, fixture_teardown),
        cmocka_unit_test_setup_teardown(test_what_an_ingest_refuses, fixture_setup, fixture_teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
