// link: pl_object
/* object: what the file driver promises, also when the disk is full. */
#include "store_fixture.h"

#include "storage/object/marker.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
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
    struct iovec iov[2] = {{(void *)text, strlen(text) / 2},
                           {(void *)(text + strlen(text) / 2), strlen(text) - strlen(text) / 2}};

    return pl_object_put(store, key, iov, 2, exclusive, err);
}

static void assert_object(const char *key, const char *text)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    struct pl_err err;

    assert_ok(pl_object_get_all(store, key, &b, &err), &err);
    assert_string_equal(pl_buf_str(&b), text);
}

static void keys_are_held_to_the_rule(void **state)
{
    static const char *const good[] = {"format", "a/b",   "p/default/ab/abcd", "log/0000000000000001",
                                       "tmpx",   "a/tmp", "A.b_c-9",           "a/b..c"};
    static const char *const bad[] = {"", "/a", "a/", "a//b", "tmp", "tmp/x", ".a", "a/.b", "a/..", "a b", "a\n", "ä", "a?"};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(good); i++) {
        struct pl_err err;

        assert_ok(pl_object_key_check(good[i], &err), &err);
    }
    for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++) {
        assert_int_equal(pl_object_key_check(bad[i], NULL), PL_EINVAL);
        assert_int_equal(put(bad[i], "x", true, NULL), PL_EINVAL);
    }
}

static void what_was_put_is_read_in_ranges(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    _cleanup_close_ int fd = -1;
    struct pl_err err;
    uint64_t size;
    char out[3];

    (void)state;
    assert_ok(put("a/b/c", "0123456789", true, &err), &err);
    assert_object("a/b/c", "0123456789");
    assert_ok(pl_object_size(store, "a/b/c", &size, &err), &err);
    assert_int_equal(size, 10);
    assert_ok(pl_object_get(store, "a/b/c", 3, 4, &b, &err), &err);
    assert_string_equal(pl_buf_str(&b), "3456");
    assert_ok(pl_object_get(store, "a/b/c", 10, PL_OBJECT_TO_END, &b, &err), &err);
    assert_int_equal(b.len, 0);
    assert_int_equal(pl_object_get(store, "a/b/c", 8, 3, &b, &err), PL_ECORRUPT);
    assert_int_equal(pl_object_get(store, "a/b/c", UINT64_MAX - 1, 3, &b, &err), PL_ECORRUPT);
    assert_ok(pl_object_open_fd(store, "a/b/c", &fd, &err), &err);
    assert_ok(pl_io_pread(fd, out, 3, 7, "object", &err), &err);
    assert_memory_equal(out, "789", 3);
    b.max = 5;
    assert_int_equal(pl_object_get_all(store, "a/b/c", &b, &err), PL_ETOOBIG);
}

static void what_is_not_there_is_not_found(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    struct pl_err err;
    uint64_t size;
    int fd;

    (void)state;
    assert_ok(put("a/b", "x", true, &err), &err);
    assert_int_equal(pl_object_get_all(store, "none", &b, &err), PL_ENOTFOUND);
    assert_int_equal(pl_object_get_all(store, "a/b/c", &b, &err), PL_ENOTFOUND);
    assert_int_equal(pl_object_size(store, "a", &size, &err), PL_ENOTFOUND);
    assert_int_equal(pl_object_open_fd(store, "none", &fd, &err), PL_ENOTFOUND);
    assert_ok(pl_object_remove(store, "none/x", &err), &err);
    assert_ok(pl_object_remove(store, "a/b", &err), &err);
    assert_int_equal(pl_object_size(store, "a/b", &size, &err), PL_ENOTFOUND);
    assert_ok(pl_object_flush(store, &err), &err);
}

static void an_exclusive_put_never_replaces(void **state)
{
    struct pl_err err;

    (void)state;
    assert_ok(put("k", "first", true, &err), &err);
    assert_int_equal(put("k", "second", true, &err), PL_EEXISTS);
    assert_object("k", "first");
    assert_ok(put("k", "third", false, &err), &err);
    assert_object("k", "third");
    assert_int_equal(fixture_count(fixture_path(dir, "store/tmp")), 0);
}

static _Atomic int winners;

static void *race_to_put(void *arg)
{
    char text[16];
    int r;

    (void)snprintf(text, sizeof(text), "%d", (int)(intptr_t)arg);
    for (int i = 0; i < 50; i++) {
        char key[64];

        (void)snprintf(key, sizeof(key), "race/%d/k", i);
        r = put(key, text, true, NULL);
        if (r == 0)
            atomic_fetch_add(&winners, 1);
        else
            assert_int_equal(r, PL_EEXISTS);
    }
    return NULL;
}

static void of_many_exclusive_puts_one_wins(void **state)
{
    pthread_t threads[4];
    struct pl_err err;

    (void)state;
    atomic_store(&winners, 0);
    for (intptr_t i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, race_to_put, (void *)i);
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&winners), 50);
    assert_ok(pl_object_flush(store, &err), &err);
    assert_int_equal(fixture_count(fixture_path(dir, "store/tmp")), 0);
}

static void a_file_written_elsewhere_is_adopted(void **state)
{
    char temp[PATH_MAX];
    struct pl_err err;

    (void)state;
    assert_ok(pl_object_tmp_path(store, temp, &err), &err);
    assert_ok(pl_io_write_file(temp, "adopted", 7, 0644, &err), &err);
    assert_ok(pl_object_adopt(store, "p/x", temp, &err), &err);
    assert_object("p/x", "adopted");
    assert_int_equal(access(temp, F_OK), -1);
    assert_ok(pl_io_write_file(temp, "again", 5, 0644, &err), &err);
    assert_int_equal(pl_object_adopt(store, "p/x", temp, &err), PL_EEXISTS);
    assert_object("p/x", "adopted");
    assert_int_equal(fixture_count(fixture_path(dir, "store/tmp")), 0);
    assert_int_equal(pl_object_adopt(store, "p/y", temp, &err), PL_ENOTFOUND);
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

struct listing {
    char text[4096];
    int stop_after;
};

static int note_key(void *arg, const char *key, uint64_t size, struct pl_err *err)
{
    struct listing *l = arg;

    (void)size;
    (void)err;
    strcat(l->text, key);
    strcat(l->text, " ");
    return --l->stop_after == 0;
}

static void keys_are_listed_in_byte_order(void **state)
{
    static const char *const keys[] = {"b", "a/b/c", "a-b", "a.b", "a/b", "a0", "a/z", "p/x/ab/1", "p/x/aa/2", "p/xy/aa/3"};
    struct listing all = {.stop_after = -1}, some = {.stop_after = -1}, part = {.stop_after = -1}, two = {.stop_after = 2};
    struct pl_err err;

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(keys); i++)
        if (!pl_streq(keys[i], "a/b")) /* a/b is a folder here */
            assert_ok(put(keys[i], "x", true, &err), &err);
    assert_ok(pl_io_write_file(fixture_path(dir, "store/.hidden"), "", 0, 0644, &err), &err);
    assert_ok(pl_io_write_file(fixture_path(dir, "store/tmp/left"), "", 0, 0644, &err), &err);
    assert_ok(pl_object_list(store, "", note_key, &all, &err), &err);
    assert_string_equal(all.text, "a-b a.b a/b/c a/z a0 b p/x/aa/2 p/x/ab/1 p/xy/aa/3 ");
    assert_ok(pl_object_list(store, "p/x/", note_key, &some, &err), &err);
    assert_string_equal(some.text, "p/x/aa/2 p/x/ab/1 ");
    assert_ok(pl_object_list(store, "p/x", note_key, &part, &err), &err);
    assert_string_equal(part.text, "p/x/aa/2 p/x/ab/1 p/xy/aa/3 ");
    assert_ok(pl_object_list(store, "", note_key, &two, &err), &err);
    assert_string_equal(two.text, "a-b a.b ");
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

static void a_store_gets_its_marker_once(void **state)
{
    struct pl_store_marker a, b;
    uint8_t id[16];
    char hex[33];
    struct pl_err err;

    (void)state;
    assert_int_equal(pl_object_store_read(store, &a, &err), PL_ENOTFOUND);
    assert_ok(pl_object_store_init(store, &a, &err), &err);
    assert_true(pl_id_ok(a.store_id));
    assert_ok(put("p/default/ab/x", "data", true, &err), &err);
    assert_ok(pl_object_store_init(store, &b, &err), &err);
    assert_string_equal(a.store_id, b.store_id);
    assert_ok(pl_object_store_id(store, id, &err), &err);
    pl_hex_encode(id, sizeof(id), hex);
    assert_string_equal(hex, a.store_id);
}

static void a_folder_with_other_things_is_no_store(void **state)
{
    struct pl_store_marker m;
    struct pl_err err;

    (void)state;
    assert_ok(put("holiday.jpg", "x", true, &err), &err);
    assert_int_equal(pl_object_store_init(store, &m, &err), PL_EFORMAT);
    assert_non_null(strstr(err.msg, "holiday.jpg"));
}

static void markers_that_are_not_ours_are_refused(void **state)
{
    static const struct {
        const char *text;
        int code;
    } cases[] = {
        {"{\"format\":\"1-dev\",\"store\":\"0123456789abcdef0123456789abcdef\",\"hash\":\"sha256\",\"chunker\":\"gear64-1\"}\n",
         0},
        {" { \"future\" : \"x\", \"format\":\"1-dev\", \"store\":\"0123456789abcdef0123456789abcdef\",\n"
         "\"hash\":\"sha256\",\"chunker\":\"gear64-1\" } ",
         0},
        {"{\"format\":\"2\",\"store\":\"0123456789abcdef0123456789abcdef\",\"hash\":\"sha256\",\"chunker\":\"gear64-1\"}",
         PL_EFORMAT},
        {"{\"format\":\"1-dev\",\"store\":\"0123456789abcdef0123456789abcdef\",\"hash\":\"blake3\",\"chunker\":\"gear64-1\"}",
         PL_EFORMAT},
        {"{\"format\":\"1-dev\",\"store\":\"0123\",\"hash\":\"sha256\",\"chunker\":\"gear64-1\"}", PL_ECORRUPT},
        {"{\"format\":\"1-dev\"", PL_ECORRUPT},
        {"{\"format\":\"1\\u002ddev\"}", PL_ECORRUPT},
        {"{}", PL_ECORRUPT},
        {"", PL_ECORRUPT},
        {"[]", PL_ECORRUPT},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_store_marker m;
        struct pl_err err;

        assert_ok(put(PL_STORE_MARKER_KEY, cases[i].text, false, &err), &err);
        assert_int_equal(pl_object_store_read(store, &m, &err), cases[i].code);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(keys_are_held_to_the_rule),
        TEST(what_was_put_is_read_in_ranges),
        TEST(what_is_not_there_is_not_found),
        TEST(an_exclusive_put_never_replaces),
        TEST(of_many_exclusive_puts_one_wins),
        TEST(a_file_written_elsewhere_is_adopted),
        TEST(a_full_disk_leaves_nothing_behind),
        TEST(a_failed_flush_is_tried_again),
        TEST(keys_are_listed_in_byte_order),
        TEST(old_temp_files_go_when_the_store_is_opened),
        TEST(a_store_gets_its_marker_once),
        TEST(a_folder_with_other_things_is_no_store),
        TEST(markers_that_are_not_ours_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
