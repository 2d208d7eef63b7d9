// link: storage/base storage/tree storage/tree_edit
/* Identity of files and directories. */
#include "storage/tree/content_id.h"

#include "tests/unit/storage/tree/tree_fixture.h"

static struct pl_hash sha(const void *data, size_t n)
{
    struct pl_hash h;

    pl_hash_sha256(data, n, &h);
    return h;
}

static void a_file_is_its_bytes_or_its_chunks(void **state)
{
    struct pl_hash id = {{7}}, abc = sha("abc", 3), got, no_dir;
    struct pl_entry row = pl_entry_row("x", 1), e;

    (void)state;
    e = pl_entry_inline(PL_KIND_FILE, "abc", 3);
    assert_int_equal(pl_content_id_file(&e, &got, NULL), 0);
    assert_true(pl_hash_eq(&got, &abc));
    e = pl_entry_inline(PL_KIND_EXEC, "abc", 3);
    assert_int_equal(pl_content_id_file(&e, &got, NULL), 0);
    assert_true(pl_hash_eq(&got, &abc));
    e = pl_entry_chunk(PL_KIND_FILE, 100, &id);
    assert_int_equal(pl_content_id_file(&e, &got, NULL), 0);
    assert_true(pl_hash_eq(&got, &id));
    e = pl_entry_list(PL_KIND_FILE, 1 << 20, &id);
    assert_int_equal(pl_content_id_file(&e, &got, NULL), 0);
    assert_true(pl_hash_eq(&got, &id));
    e = pl_entry_dir();
    no_dir = sha("\x08\0\0\0\0\0\0\0pl-dir-1", 16);
    assert_int_equal(pl_content_id_file(&e, &got, NULL), 0);
    assert_true(pl_hash_eq(&got, &no_dir));
    assert_int_equal(pl_content_id_file(&row, &got, NULL), PL_EINVAL);
}

static struct pl_hash make_tree(struct memory *mem, const char *prefix)
{
    struct pl_node_sink sink = sink_of(mem, NULL);
    struct pl_hash id = {{9}};
    const struct {
        const char *path;
        struct pl_entry e;
    } table[] = {
        {"a.txt", pl_entry_inline(PL_KIND_FILE, "abc", 3)},
        {"bin/run", pl_entry_chunk(PL_KIND_EXEC, 100, &id)},
        {"empty", pl_entry_dir()},
        {"link", pl_entry_inline(PL_KIND_LINK, "a.txt", 5)},
    };
    struct model m = {0};
    struct pl_hash root;
    struct pl_entry other = pl_entry_inline(PL_KIND_FILE, "o", 1);

    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        char path[RANDOM_PATH_BYTES];

        snprintf(path, sizeof path, "%s%s", prefix, table[i].path);
        model_put(&m, path, &table[i].e);
    }
    model_put(&m, "d-1", &other);
    model_put(&m, "zz", &other);
    root = build_model(&m, &sink);
    model_finish(&m);
    return root;
}

static void field(struct pl_buf *b, const void *data, size_t n)
{
    assert_int_equal(pl_buf_add_le64(b, n, NULL), 0);
    assert_int_equal(pl_buf_add(b, data, n, NULL), 0);
}

static void entry_fields(struct pl_buf *b, const char *path, uint8_t kind, uint64_t size, const void *id, size_t id_len)
{
    uint8_t le[8] = {(uint8_t)size, (uint8_t)(size >> 8)};

    field(b, path, strlen(path));
    field(b, &kind, 1);
    field(b, le, 8);
    field(b, id, id_len);
}

static void a_directory_is_its_entries_in_order(void **state)
{
    struct memory mem = {0};
    struct pl_node_source source = source_of(&mem);
    struct pl_hash root = make_tree(&mem, "d/"), abc = sha("abc", 3), id = {{9}}, want, got;
    struct pl_buf b = {0};
    uint64_t files = 0;
    struct pl_err err = {0};

    (void)state;
    field(&b, "pl-dir-1", 8);
    entry_fields(&b, "a.txt", PL_KIND_FILE, 3, abc.b, 32);
    entry_fields(&b, "bin/run", PL_KIND_EXEC, 100, id.b, 32);
    entry_fields(&b, "empty", PL_KIND_DIR, 0, "", 0);
    entry_fields(&b, "link", PL_KIND_LINK, 5, "a.txt", 5);
    want = sha(b.data, b.len);
    assert_ok(pl_content_id_dir(&source, &root, "d", NULL, NULL, &got, &files, &err), &err);
    assert_true(pl_hash_eq(&got, &want));
    assert_int_equal(files, 3);
    pl_buf_finish(&b);
    memory_finish(&mem);
}

static void the_place_of_a_directory_does_not_matter(void **state)
{
    struct memory mem = {0};
    struct pl_node_source source = source_of(&mem);
    struct pl_hash here = make_tree(&mem, "d/"), there = make_tree(&mem, "x/y/z/"), a, b;

    (void)state;
    assert_int_equal(pl_content_id_dir(&source, &here, "d", NULL, NULL, &a, NULL, NULL), 0);
    assert_int_equal(pl_content_id_dir(&source, &there, "x/y/z", NULL, NULL, &b, NULL, NULL), 0);
    assert_true(pl_hash_eq(&a, &b));
    memory_finish(&mem);
}

static bool only_txt(void *self, const char *path, size_t path_len)
{
    (void)self;
    return path_len > 4 && pl_streq(path + path_len - 4, ".txt");
}

static bool nothing(void *self, const char *path, size_t path_len)
{
    (void)self;
    (void)path;
    (void)path_len;
    return false;
}

static void a_filter_says_which_files_count(void **state)
{
    struct memory mem = {0};
    struct pl_node_source source = source_of(&mem);
    struct pl_hash root = make_tree(&mem, "d/"), abc = sha("abc", 3), want, got, at_root;
    struct pl_buf b = {0};
    uint64_t files = 0;

    (void)state;
    field(&b, "pl-dir-1", 8);
    entry_fields(&b, "a.txt", PL_KIND_FILE, 3, abc.b, 32);
    want = sha(b.data, b.len);
    assert_int_equal(pl_content_id_dir(&source, &root, "d", only_txt, NULL, &got, &files, NULL), 0);
    assert_true(pl_hash_eq(&got, &want));
    assert_int_equal(files, 1);
    assert_int_equal(pl_content_id_dir(&source, &root, "", only_txt, NULL, &at_root, &files, NULL), 0);
    assert_false(pl_hash_eq(&at_root, &want));
    assert_int_equal(files, 1);
    assert_int_equal(pl_content_id_dir(&source, &root, "d", nothing, NULL, &got, &files, NULL), 0);
    assert_int_equal(files, 0);
    pl_buf_finish(&b);
    memory_finish(&mem);
}

static void the_whole_tree_is_its_root(void **state)
{
    struct memory mem = {0};
    struct pl_node_source source = source_of(&mem);
    struct pl_hash root = make_tree(&mem, "d/"), none = {{0}}, empty = sha("\x08\0\0\0\0\0\0\0pl-dir-1", 16), got;
    uint64_t files = 0;

    (void)state;
    assert_int_equal(pl_content_id_dir(&source, &root, "", NULL, NULL, &got, NULL, NULL), 0);
    assert_true(pl_hash_eq(&got, &root));
    assert_int_equal(mem.reads, 0);
    assert_int_equal(pl_content_id_dir(&source, &root, "", NULL, NULL, &got, &files, NULL), 0);
    assert_int_equal(files, 5);
    assert_int_equal(pl_content_id_dir(&source, &none, "", NULL, NULL, &got, &files, NULL), 0);
    assert_true(pl_hash_eq(&got, &empty));
    memory_finish(&mem);
}

static void what_is_no_directory_is_refused(void **state)
{
    struct memory mem = {0};
    struct pl_node_source source = source_of(&mem);
    struct pl_hash root = make_tree(&mem, "d/"), empty = sha("\x08\0\0\0\0\0\0\0pl-dir-1", 16), got;

    (void)state;
    assert_int_equal(pl_content_id_dir(&source, &root, "nope", NULL, NULL, &got, NULL, NULL), PL_ENOTFOUND);
    assert_int_equal(pl_content_id_dir(&source, &root, "zz", NULL, NULL, &got, NULL, NULL), PL_EINVAL);
    assert_int_equal(pl_content_id_dir(&source, &root, "d/empty", NULL, NULL, &got, NULL, NULL), 0);
    assert_true(pl_hash_eq(&got, &empty));
    memory_finish(&mem);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_is_its_bytes_or_its_chunks),
        cmocka_unit_test(a_directory_is_its_entries_in_order),
        cmocka_unit_test(the_place_of_a_directory_does_not_matter),
        cmocka_unit_test(a_filter_says_which_files_count),
        cmocka_unit_test(the_whole_tree_is_its_root),
        cmocka_unit_test(what_is_no_directory_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
