// link: storage/base storage/object storage/system
/* object: what the file driver promises: what every driver does (object_table.h), and what it does when the disk is full. */
#include "tests/unit/storage/object/object_table.h"

#include <utime.h>

static char *dir;
static struct pl_object_store *store;

static int setup(void **state)
{
    struct pl_err err;

    (void)state;
    dir = fixture_dir();
    assert_ok(pl_object_file_open(fixture_path(dir, "store"), &store, &err), &err);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < PL_IO_CALLS; i++)
        pl_io_fail_nth((enum pl_io_call)i, 0, 0);
    store = pl_object_close(store);
    fixture_remove(dir);
    return 0;
}

static int put(const char *key, const char *text, bool exclusive, struct pl_err *err)
{
    return table_put(store, key, text, exclusive, err);
}

static void every_row_of_the_table_holds(void **state)
{
    for (size_t i = 0; i < PL_ARRAY_SIZE(object_table); i++) {
        print_message("           %s\n", object_table[i].name);
        object_table[i].run(store);
        assert_int_equal(fixture_count(fixture_path(dir, "store/tmp")), 0);
        (void)teardown(state);
        (void)setup(state);
    }
}

static void a_key_and_a_folder_of_one_name_are_two_things(void **state)
{
    struct pl_err err;
    uint64_t size;
    int fd;

    (void)state;
    assert_ok(put("a/b/c", "x", true, &err), &err);
    assert_int_equal(pl_object_size(store, "a/b", &size, &err), PL_ENOTFOUND);
    assert_ok(pl_object_open_fd(store, "a/b/c", &fd, &err), &err);
    close(fd);
    assert_int_equal(pl_object_open_fd(store, "none", &fd, &err), PL_ENOTFOUND);
}

static void what_is_not_an_object_is_not_listed(void **state)
{
    struct listing l;
    struct pl_err err;

    (void)state;
    assert_ok(put("a", "x", true, &err), &err);
    assert_ok(pl_io_write_file(fixture_path(dir, "store/.hidden"), "", 0, 0644, &err), &err);
    assert_ok(pl_io_write_file(fixture_path(dir, "store/tmp/left"), "", 0, 0644, &err), &err);
    assert_string_equal(list(store, "", -1, &l), "a ");
}

/* Every call that can fail, one after the other, until a put passes without one failing. */
static void a_full_disk_leaves_nothing_behind(void **state)
{
    static const enum pl_io_call calls[] = {PL_IO_WRITE, PL_IO_FSYNC, PL_IO_RENAME};
    size_t before = fixture_count(fixture_path(dir, "store"));
    struct pl_err err;

    (void)state;
    for (size_t c = 0; c < PL_ARRAY_SIZE(calls); c++) {
        uint64_t nth = 1;

        for (;; nth++) {
            int r;

            pl_io_fail_nth(calls[c], nth, ENOSPC);
            r = put("full", "two parts of text", true, &err);
            pl_io_fail_nth(calls[c], 0, 0);
            if (r == 0)
                break;
            assert_int_equal(r, PL_ENOSPC);
            assert_int_equal(fixture_count(fixture_path(dir, "store")), before);
        }
        assert_in_range(nth, 2, 3); /* it did fail */
        assert_ok(pl_object_remove(store, "full", &err), &err);
    }
}

static void a_failed_flush_is_tried_again(void **state)
{
    uint64_t calls;
    struct pl_err err;

    (void)state;
    assert_ok(put("a/b/c", "x", true, &err), &err);
    pl_io_fail_nth(PL_IO_FSYNC, 1, EIO);
    assert_int_equal(pl_object_flush(store, &err), PL_EIO);
    calls = pl_io_calls(PL_IO_FSYNC);
    assert_ok(pl_object_flush(store, &err), &err);
    assert_int_equal(pl_io_calls(PL_IO_FSYNC) - calls, 3); /* "", a, a/b */
    assert_ok(pl_object_flush(store, &err), &err);
    assert_int_equal(pl_io_calls(PL_IO_FSYNC) - calls, 3); /* nothing new: nothing to do */
    assert_ok(put("a/b/d", "x", true, &err), &err);
    calls = pl_io_calls(PL_IO_FSYNC);
    assert_ok(pl_object_flush(store, &err), &err);
    assert_int_equal(pl_io_calls(PL_IO_FSYNC) - calls, 1); /* a/b only */
}

/* A flush is somebody's who waits for a put. */
static void who_removes_leaves_no_work_for_the_next_flush(void **state)
{
    static const char *const keys[] = {"a/1", "b/2", "b/3", "never/was"};
    uint64_t calls;
    struct pl_err err;

    (void)state;
    for (size_t i = 0; i < 3; i++)
        assert_ok(put(keys[i], "x", true, &err), &err);
    assert_ok(pl_object_flush(store, &err), &err);
    calls = pl_io_calls(PL_IO_FSYNC);
    assert_ok(pl_object_remove_many(store, keys, PL_ARRAY_SIZE(keys), &err), &err);
    assert_int_equal(pl_io_calls(PL_IO_FSYNC) - calls, 2); /* a, b */
    assert_ok(put("c", "x", true, &err), &err);
    assert_ok(pl_object_remove(store, "c", &err), &err);
    calls = pl_io_calls(PL_IO_FSYNC);
    assert_ok(pl_object_flush(store, &err), &err);
    assert_int_equal(pl_io_calls(PL_IO_FSYNC) - calls, 1); /* what was put */
    assert_ok(put("d", "x", true, &err), &err);
    assert_ok(pl_object_flush(store, &err), &err);
    pl_io_fail_nth(PL_IO_FSYNC, 1, EIO);
    assert_int_equal(pl_object_remove(store, "d", &err), PL_EIO);
    calls = pl_io_calls(PL_IO_FSYNC);
    assert_ok(pl_object_flush(store, &err), &err);
    assert_int_equal(pl_io_calls(PL_IO_FSYNC) - calls, 1); /* what could not be synced */
}

static void old_temp_files_go_when_the_store_is_opened(void **state)
{
    struct utimbuf old = {1, 1};
    struct pl_err err;

    (void)state;
    assert_ok(pl_io_write_file(fixture_path(dir, "store/tmp/old"), "", 0, 0644, &err), &err);
    assert_ok(pl_io_write_file(fixture_path(dir, "store/tmp/new"), "", 0, 0644, &err), &err);
    assert_int_equal(utime(fixture_path(dir, "store/tmp/old"), &old), 0);
    pl_object_close(store);
    assert_ok(pl_object_file_open(fixture_path(dir, "store"), &store, &err), &err);
    assert_int_equal(access(fixture_path(dir, "store/tmp/old"), F_OK), -1);
    assert_int_equal(access(fixture_path(dir, "store/tmp/new"), F_OK), 0);
}

static void markers_that_are_not_ours_are_refused(void **state)
{
    static const struct {
        const char *text;
        int code;
    } cases[] = {
        {"{\"format\":\"1\",\"store\":\"0123456789abcdef0123456789abcdef\",\"hash\":\"sha256\",\"chunker\":\"gear64-1\"}\n", 0},
        {" { \"future\" : \"x\", \"format\":\"1\", \"store\":\"0123456789abcdef0123456789abcdef\",\n"
         "\"hash\":\"sha256\",\"chunker\":\"gear64-1\" } ",
         0},
        {"{\"format\":\"1-dev\",\"store\":\"0123456789abcdef0123456789abcdef\",\"hash\":\"sha256\",\"chunker\":\"gear64-1\"}",
         PL_EFORMAT},
        {"{\"format\":\"1 \",\"store\":\"0123456789abcdef0123456789abcdef\",\"hash\":\"sha256\",\"chunker\":\"gear64-1\"}",
         PL_EFORMAT},
        {"{\"store\":\"0123456789abcdef0123456789abcdef\",\"hash\":\"sha256\",\"chunker\":\"gear64-1\"}", PL_EFORMAT},
        {"{\"format\":\"2\",\"store\":\"0123456789abcdef0123456789abcdef\",\"hash\":\"sha256\",\"chunker\":\"gear64-1\"}",
         PL_EFORMAT},
        {"{\"format\":\"1\",\"store\":\"0123456789abcdef0123456789abcdef\",\"hash\":\"blake3\",\"chunker\":\"gear64-1\"}",
         PL_EFORMAT},
        {"{\"format\":\"1\",\"store\":\"0123\",\"hash\":\"sha256\",\"chunker\":\"gear64-1\"}", PL_ECORRUPT},
        {"{\"format\":\"1\"", PL_ECORRUPT},
        {"{\"format\":\"\\u0031\"}", PL_ECORRUPT},
        {"{}", PL_ECORRUPT},
        {"", PL_ECORRUPT},
        {"[]", PL_ECORRUPT},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_store_marker m;
        struct pl_err err;

        assert_ok(put(PL_STORE_MARKER_KEY, cases[i].text, false, &err), &err);
        assert_int_equal(pl_store_marker_read(store, &m, &err), cases[i].code);
        if (cases[i].code == PL_EFORMAT)
            assert_non_null(strstr(err.msg, "; this program supports 1 with sha256 and gear64-1"));
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(every_row_of_the_table_holds),
        TEST(a_key_and_a_folder_of_one_name_are_two_things),
        TEST(what_is_not_an_object_is_not_listed),
        TEST(a_full_disk_leaves_nothing_behind),
        TEST(who_removes_leaves_no_work_for_the_next_flush),
        TEST(a_failed_flush_is_tried_again),
        TEST(old_temp_files_go_when_the_store_is_opened),
        TEST(markers_that_are_not_ours_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
