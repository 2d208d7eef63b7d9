/* object_table: what every driver of object storage must do, whatever it stores in. Each row gets a store that holds nothing. */
#pragma once

#include "tests/support/fixtures/store_fixture.h"

#include "storage/object/store_marker.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

static int table_put(struct pl_object_store *s, const char *key, const char *text, bool exclusive, struct pl_err *err)
{
    struct iovec iov[3] = {{(void *)text, strlen(text) / 2},
                           {NULL, 0},
                           {(void *)(text + strlen(text) / 2), strlen(text) - strlen(text) / 2}};

    return pl_object_put(s, key, iov, 3, exclusive, err);
}

static void table_must_put(struct pl_object_store *s, const char *key, const char *text)
{
    struct pl_err err;

    assert_ok(table_put(s, key, text, true, &err), &err);
}

static void table_assert_object(struct pl_object_store *s, const char *key, const char *text)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    struct pl_err err;

    assert_ok(pl_object_get_all(s, key, &b, &err), &err);
    assert_string_equal(pl_buf_str(&b), text);
}

static void keys_are_held_to_the_rule(struct pl_object_store *s)
{
    static const char *const good[] = {"format", "a/b",   "p/default/ab/abcd", "log/0000000000000001",
                                       "tmpx",   "a/tmp", "A.b_c-9",           "a/b..c"};
    static const char *const bad[] = {"", "/a", "a/", "a//b", "tmp", "tmp/x", ".a", "a/.b", "a/..", "a b", "a\n", "ä", "a?"};
    struct pl_err err;

    for (size_t i = 0; i < PL_ARRAY_SIZE(good); i++)
        assert_ok(pl_path_object_key_check(good[i], &err), &err);
    for (size_t i = 0; i < PL_ARRAY_SIZE(bad); i++) {
        assert_int_equal(pl_path_object_key_check(bad[i], NULL), PL_EINVAL);
        assert_int_equal(table_put(s, bad[i], "x", true, NULL), PL_EINVAL);
        assert_int_equal(pl_object_remove_many(s, &bad[i], 1, NULL), PL_EINVAL);
    }
}

static void what_was_put_is_read_in_ranges(struct pl_object_store *s)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    struct pl_err err;
    uint64_t size;

    table_must_put(s, "a/b/c", "0123456789");
    table_assert_object(s, "a/b/c", "0123456789");
    assert_ok(pl_object_size(s, "a/b/c", &size, &err), &err);
    assert_int_equal(size, 10);
    assert_ok(pl_object_get(s, "a/b/c", 3, 4, &b, &err), &err);
    assert_string_equal(pl_buf_str(&b), "3456");
    assert_ok(pl_object_get(s, "a/b/c", 7, PL_OBJECT_TO_END, &b, &err), &err);
    assert_string_equal(pl_buf_str(&b), "789");
    assert_ok(pl_object_get(s, "a/b/c", 10, PL_OBJECT_TO_END, &b, &err), &err);
    assert_int_equal(b.len, 0);
    assert_ok(pl_object_get(s, "a/b/c", 10, 0, &b, &err), &err);
    assert_int_equal(b.len, 0);
    assert_int_equal(pl_object_get(s, "a/b/c", 8, 3, &b, &err), PL_ECORRUPT);
    assert_int_equal(pl_object_get(s, "a/b/c", 11, 1, &b, &err), PL_ECORRUPT);
    assert_int_equal(pl_object_get(s, "a/b/c", 11, 0, &b, &err), PL_ECORRUPT);
    assert_int_equal(pl_object_get(s, "a/b/c", 11, PL_OBJECT_TO_END, &b, &err), PL_ECORRUPT);
    assert_int_equal(pl_object_get(s, "a/b/c", UINT64_MAX - 1, 3, &b, &err), PL_ECORRUPT);
    assert_ok(pl_object_get_some(s, "a/b/c", 7, 100, &b, &err), &err);
    assert_string_equal(pl_buf_str(&b), "789");
    assert_ok(pl_object_get_some(s, "a/b/c", 2, 3, &b, &err), &err);
    assert_string_equal(pl_buf_str(&b), "234");
    assert_ok(pl_object_get_some(s, "a/b/c", 10, 1, &b, &err), &err);
    assert_int_equal(b.len, 0);
    assert_int_equal(pl_object_get_some(s, "a/b/c", 11, 1, &b, &err), PL_ECORRUPT);
    b.max = 5;
    assert_int_equal(pl_object_get_all(s, "a/b/c", &b, &err), PL_ETOOBIG);
    assert_int_equal(pl_object_get(s, "a/b/c", 0, 6, &b, &err), PL_ETOOBIG);
}

static void the_end_is_read_without_knowing_the_size(struct pl_object_store *s)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    struct pl_err err;
    uint64_t size;

    table_must_put(s, "t", "0123456789");
    assert_ok(pl_object_tail(s, "t", 3, &b, &size, &err), &err);
    assert_string_equal(pl_buf_str(&b), "789");
    assert_int_equal(size, 10);
    assert_ok(pl_object_tail(s, "t", 100, &b, &size, &err), &err);
    assert_string_equal(pl_buf_str(&b), "0123456789");
    assert_int_equal(size, 10);
    assert_ok(pl_object_tail(s, "t", 0, &b, &size, &err), &err);
    assert_int_equal(b.len, 0);
    assert_int_equal(size, 10);
    assert_int_equal(pl_object_tail(s, "none", 3, &b, &size, &err), PL_ENOTFOUND);
}

static void nothing_is_an_object_too(struct pl_object_store *s)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    struct pl_err err;
    uint64_t size = 1;

    table_must_put(s, "empty", "");
    table_assert_object(s, "empty", "");
    assert_ok(pl_object_size(s, "empty", &size, &err), &err);
    assert_int_equal(size, 0);
    assert_ok(pl_object_tail(s, "empty", 10, &b, &size, &err), &err);
    assert_int_equal(b.len + size, 0);
    assert_ok(pl_object_get(s, "empty", 0, 0, &b, &err), &err);
    assert_int_equal(pl_object_get(s, "empty", 0, 1, &b, &err), PL_ECORRUPT);
}

static void what_is_not_there_is_not_found(struct pl_object_store *s)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    struct pl_err err;
    uint64_t size;
    int fd;

    table_must_put(s, "a/b", "x");
    assert_int_equal(pl_object_get_all(s, "none", &b, &err), PL_ENOTFOUND);
    assert_int_equal(pl_object_get(s, "none", 3, 4, &b, &err), PL_ENOTFOUND);
    assert_int_equal(pl_object_get_all(s, "a/b/c", &b, &err), PL_ENOTFOUND);
    assert_int_equal(pl_object_size(s, "a", &size, &err), PL_ENOTFOUND);
    assert_int_equal(pl_object_local_fd(s, "none", &fd, &err), PL_ENOTFOUND);
    assert_ok(pl_object_remove(s, "none/x", &err), &err);
    assert_ok(pl_object_remove(s, "a/b", &err), &err);
    assert_int_equal(pl_object_size(s, "a/b", &size, &err), PL_ENOTFOUND);
    assert_ok(pl_object_flush(s, &err), &err);
}

static void an_exclusive_put_never_replaces(struct pl_object_store *s)
{
    struct pl_err err;
    int again;

    table_must_put(s, "k", "first");
    assert_int_equal(table_put(s, "k", "second", true, &err), PL_EEXISTS);
    assert_int_equal(table_put(s, "k", "firs", true, &err), PL_EEXISTS);
    assert_int_equal(table_put(s, "k", "first and more", true, &err), PL_EEXISTS);
    table_assert_object(s, "k", "first");
    again = table_put(s, "k", "first", true, &err); /* the very same: either answer is true */
    assert_true(again == 0 || again == PL_EEXISTS);
    assert_ok(table_put(s, "k", "third", false, &err), &err);
    table_assert_object(s, "k", "third");
}

struct race {
    struct pl_object_store *store;
    int number;
    _Atomic int *winners;
};

static void *race_to_put(void *arg)
{
    const struct race *race = arg;
    char text[16], key[64];
    int r;

    (void)snprintf(text, sizeof(text), "%d", race->number);
    for (int i = 0; i < 20; i++) {
        (void)snprintf(key, sizeof(key), "race/%d/k", i);
        r = table_put(race->store, key, text, true, NULL);
        if (r == 0)
            atomic_fetch_add(race->winners, 1);
        else
            assert_int_equal(r, PL_EEXISTS);
    }
    return NULL;
}

static void of_many_exclusive_puts_one_wins(struct pl_object_store *s)
{
    struct race races[4];
    pthread_t threads[4];
    _Atomic int winners = 0;
    struct pl_err err;

    if ((pl_object_caps(s) & PL_OBJECT_PUT_IF_ABSENT) == 0)
        return; /* it says so: one process, one thread a key */
    for (int i = 0; i < 4; i++) {
        races[i] = (struct race){s, i, &winners};
        pthread_create(&threads[i], NULL, race_to_put, &races[i]);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    assert_int_equal(atomic_load(&winners), 20);
    assert_ok(pl_object_flush(s, &err), &err);
}

static void a_file_written_elsewhere_is_adopted(struct pl_object_store *s)
{
    char temp[PATH_MAX];
    struct pl_err err;

    assert_ok(pl_object_tmp_path(s, temp, &err), &err);
    assert_ok(pl_io_write_file(temp, "adopted", 7, 0644, &err), &err);
    assert_ok(pl_object_adopt(s, "p/x", temp, &err), &err);
    table_assert_object(s, "p/x", "adopted");
    assert_int_equal(access(temp, F_OK), -1);
    assert_ok(pl_io_write_file(temp, "again", 5, 0644, &err), &err);
    assert_int_equal(pl_object_adopt(s, "p/x", temp, &err), PL_EEXISTS);
    assert_int_equal(access(temp, F_OK), -1);
    table_assert_object(s, "p/x", "adopted");
    assert_int_equal(pl_object_adopt(s, "p/y", temp, &err), PL_ENOTFOUND);
}

/* Larger than any buffer, and than what is read in one piece. */
static void large_objects_are_whole(struct pl_object_store *s)
{
    const size_t n = ((size_t)17 << 20) + 123;
    _cleanup_free_ uint8_t *bytes = fixture_alloc(n, 7);
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    struct iovec iov[2] = {{bytes, 1}, {bytes + 1, n - 1}};
    struct pl_err err;

    assert_ok(pl_object_put(s, "large", iov, 2, true, &err), &err);
    assert_ok(pl_object_get_all(s, "large", &b, &err), &err);
    assert_true(b.len == n && memcmp(b.data, bytes, n) == 0);
    assert_ok(pl_object_get(s, "large", 5, n - 6, &b, &err), &err);
    assert_true(b.len == n - 6 && memcmp(b.data, bytes + 5, n - 6) == 0);
    assert_int_equal(pl_object_get(s, "large", 5, n, &b, &err), PL_ECORRUPT);
    assert_ok(pl_object_tail(s, "large", 1000, &b, &(uint64_t){0}, &err), &err);
    assert_memory_equal(b.data, bytes + n - 1000, 1000);
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

static int refuse_key(void *arg, const char *key, uint64_t size, struct pl_err *err)
{
    (void)arg;
    (void)size;
    return pl_err_set(err, PL_ECANCELED, "not %s", key);
}

static const char *list(struct pl_object_store *s, const char *prefix, int stop_after, struct listing *l)
{
    struct pl_err err;

    *l = (struct listing){.stop_after = stop_after};
    assert_ok(pl_object_list(s, prefix, note_key, l, &err), &err);
    return l->text;
}

static const char *list_after(struct pl_object_store *s, const char *prefix, const char *after, struct listing *l)
{
    struct pl_err err;

    *l = (struct listing){.stop_after = -1};
    assert_ok(pl_object_list_after(s, prefix, after, note_key, l, &err), &err);
    return l->text;
}

static void keys_are_listed_in_byte_order(struct pl_object_store *s)
{
    static const char *const keys[] = {"b", "a/b/c", "a-b", "a.b", "a0", "a/z", "p/x/ab/1", "p/x/aa/2", "p/xy/aa/3"};
    struct listing l;
    struct pl_err err;

    assert_string_equal(list(s, "", -1, &l), "");
    for (size_t i = 0; i < PL_ARRAY_SIZE(keys); i++)
        table_must_put(s, keys[i], "x");
    assert_string_equal(list(s, "", -1, &l), "a-b a.b a/b/c a/z a0 b p/x/aa/2 p/x/ab/1 p/xy/aa/3 ");
    assert_string_equal(list(s, "p/x/", -1, &l), "p/x/aa/2 p/x/ab/1 ");
    assert_string_equal(list(s, "p/x", -1, &l), "p/x/aa/2 p/x/ab/1 p/xy/aa/3 ");
    assert_string_equal(list(s, "zz", -1, &l), "");
    assert_string_equal(list_after(s, "", "a/b/c", &l), "a/z a0 b p/x/aa/2 p/x/ab/1 p/xy/aa/3 ");
    assert_string_equal(list_after(s, "", "a", &l), "a-b a.b a/b/c a/z a0 b p/x/aa/2 p/x/ab/1 p/xy/aa/3 ");
    assert_string_equal(list_after(s, "p/x/", "p/x/aa/2", &l), "p/x/ab/1 ");
    assert_string_equal(list_after(s, "p/x/", "p/x/aa/3", &l), "p/x/ab/1 ");
    assert_string_equal(list_after(s, "p/x/", "a0", &l), "p/x/aa/2 p/x/ab/1 ");
    assert_string_equal(list_after(s, "p/x/", "p/x/ab/1", &l), "");
    assert_string_equal(list_after(s, "p/x/", "q", &l), "");
    assert_string_equal(list(s, "", 2, &l), "a-b a.b ");
    assert_int_equal(pl_object_list(s, "b", refuse_key, NULL, &err), PL_ECANCELED);
    assert_string_equal(err.msg, "not b");
}

static void many_are_removed_at_once(struct pl_object_store *s)
{
    const char *keys[] = {"m/1", "m/none", "m/2", "m/3"};
    struct listing l;
    struct pl_err err;

    table_must_put(s, "m/1", "x");
    table_must_put(s, "m/2", "x");
    table_must_put(s, "m/3", "x");
    table_must_put(s, "m/4", "x");
    assert_ok(pl_object_remove_many(s, keys, 4, &err), &err);
    assert_ok(pl_object_remove_many(s, keys, 4, &err), &err);
    assert_ok(pl_object_remove_many(s, keys, 0, &err), &err);
    assert_string_equal(list(s, "m/", -1, &l), "m/4 ");
}

static void a_local_copy_is_read_like_a_file(struct pl_object_store *s)
{
    _cleanup_close_ int first = -1, second = -1;
    struct pl_err err;
    char out[3];

    table_must_put(s, "l/c", "0123456789");
    assert_ok(pl_object_local_fd(s, "l/c", &first, &err), &err);
    assert_ok(pl_io_pread(first, out, 3, 7, "object", &err), &err);
    assert_memory_equal(out, "789", 3);
    pl_object_forget_local(s, "l/c");
    assert_ok(pl_object_local_fd(s, "l/c", &second, &err), &err);
    assert_ok(pl_io_pread(first, out, 3, 0, "object", &err), &err); /* what is open stays open */
    assert_memory_equal(out, "012", 3);
    assert_int_equal(lseek(second, 0, SEEK_END), 10);
}

static void a_store_gets_its_marker_once(struct pl_object_store *s)
{
    struct pl_store_marker a, b;
    uint8_t id[16];
    char hex[33];
    struct pl_err err;

    assert_int_equal(pl_store_marker_read(s, &a, &err), PL_ENOTFOUND);
    assert_ok(pl_store_marker_init(s, &a, &err), &err);
    assert_true(pl_id_ok(a.store_id));
    table_must_put(s, "p/default/ab/x", "data");
    assert_ok(pl_store_marker_init(s, &b, &err), &err);
    assert_string_equal(a.store_id, b.store_id);
    assert_ok(pl_store_marker_id(s, id, &err), &err);
    pl_hex_encode(id, sizeof(id), hex);
    assert_string_equal(hex, a.store_id);
}

static void a_place_with_other_things_is_no_store(struct pl_object_store *s)
{
    struct pl_store_marker m;
    struct pl_err err;

    table_must_put(s, "holiday.jpg", "x");
    assert_int_equal(pl_store_marker_init(s, &m, &err), PL_EFORMAT);
    assert_non_null(strstr(err.msg, "holiday.jpg"));
}

static const struct object_row {
    const char *name;
    void (*run)(struct pl_object_store *s);
} object_table[] = {
#define ROW(f)                                                                                                                   \
    {                                                                                                                            \
#f, f                                                                                                                    \
    }
    ROW(keys_are_held_to_the_rule),
    ROW(what_was_put_is_read_in_ranges),
    ROW(the_end_is_read_without_knowing_the_size),
    ROW(nothing_is_an_object_too),
    ROW(what_is_not_there_is_not_found),
    ROW(an_exclusive_put_never_replaces),
    ROW(of_many_exclusive_puts_one_wins),
    ROW(a_file_written_elsewhere_is_adopted),
    ROW(large_objects_are_whole),
    ROW(keys_are_listed_in_byte_order),
    ROW(many_are_removed_at_once),
    ROW(a_local_copy_is_read_like_a_file),
    ROW(a_store_gets_its_marker_once),
    ROW(a_place_with_other_things_is_no_store),
#undef ROW
};
