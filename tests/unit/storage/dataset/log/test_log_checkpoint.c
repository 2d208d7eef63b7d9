// link: storage/base storage/dataset/log storage/system
/* ckpt: a checkpoint is believed whole or not at all; three are kept. */
#include "tests/support/fixtures/store_fixture.h"

#include "storage/dataset/log/log_checkpoint.h"

#include <zstd.h>

static char *dir;
static struct pl_object_store *objects;

static int setup(void **state)
{
    struct pl_err err;

    (void)state;
    dir = fixture_dir();
    assert_ok(pl_object_file_open(fixture_path(dir, "store"), &objects, &err), &err);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    objects = pl_object_close(objects);
    fixture_remove(dir);
    return 0;
}

static void write_file(const char *path, const void *bytes, size_t n)
{
    struct pl_err err;

    assert_ok(pl_io_write_file(path, bytes, n, 0600, &err), &err);
}

static struct pl_log_checkpoint_head head_at(uint64_t seq)
{
    struct pl_log_checkpoint_head head = {.epoch = 3, .seq = seq, .at_us = 1234567};

    memset(head.store_id, 7, sizeof head.store_id);
    memset(head.log_hash.b, 9, PL_HASH_BYTES);
    return head;
}

static int put(uint64_t seq, const void *bytes, size_t n, struct pl_err *err)
{
    struct pl_log_checkpoint_head head = head_at(seq);
    const char *db = fixture_path(dir, "db");

    write_file(db, bytes, n);
    return pl_log_checkpoint_put(objects, &head, db, fixture_path(dir, "pressed"), NULL, NULL, err);
}

static void read_object(const char *key, struct pl_buf *out)
{
    struct pl_err err;

    assert_ok(pl_object_get_all(objects, key, out, &err), &err);
}

static void replace_object(const char *key, const void *bytes, size_t n)
{
    struct iovec iov = {(void *)(uintptr_t)bytes, n};
    struct pl_err err;

    assert_ok(pl_object_put(objects, key, &iov, 1, false, &err), &err);
}

static void test_what_was_put_comes_back(void **state)
{
    static const size_t sizes[] = {1, 4096, PL_LOG_CHECKPOINT_IO_BYTES, PL_LOG_CHECKPOINT_IO_BYTES + 1,
                                   3 * PL_LOG_CHECKPOINT_IO_BYTES - 5};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(sizes); i++) {
        _cleanup_(pl_buf_finish) struct pl_buf got = {0};
        uint8_t *bytes = fixture_alloc(sizes[i], i);
        struct pl_log_checkpoint_head head, says;
        struct pl_err err;

        memset(bytes + sizes[i] / 2, 0, sizes[i] / 4);
        assert_ok(put(100 + i, bytes, sizes[i], &err), &err);
        assert_ok(pl_log_checkpoint_get(objects, 100 + i, fixture_path(dir, "back"), &head, &err), &err);
        assert_ok(pl_io_read_file(fixture_path(dir, "back"), &got, &err), &err);
        assert_int_equal(got.len, sizes[i]);
        assert_memory_equal(got.data, bytes, sizes[i]);
        assert_ok(pl_log_checkpoint_head_read(objects, 100 + i, &says, &err), &err);
        assert_memory_equal(&says, &head, sizeof head);
        assert_int_equal(head.seq, 100 + i);
        assert_int_equal(head.epoch, 3);
        assert_int_equal(head.at_us, 1234567);
        assert_int_equal(head.raw_bytes, sizes[i]);
        assert_true(access(fixture_path(dir, "pressed"), F_OK) < 0);
        free(bytes);
    }
}

static void test_the_header_is_as_documented(void **state)
{
    static const uint8_t want[16] = {'P', 'L', 'C', 'K', 1, 0, 0, 0, 7, 7, 7, 7, 7, 7, 7, 7};
    _cleanup_(pl_buf_finish) struct pl_buf object = {0};
    struct pl_hash sum;
    struct pl_err err;

    (void)state;
    assert_ok(put(0x1122, "database", 8, &err), &err);
    read_object("ckpt/0000000000001122", &object);
    assert_memory_equal(object.data, want, sizeof want);
    assert_memory_equal(object.data + 24, ((const uint8_t[]){3, 0, 0, 0, 0, 0, 0, 0, 0x22, 0x11, 0, 0, 0, 0, 0, 0, 9, 9}), 18);
    assert_memory_equal(object.data + 80, ((const uint8_t[]){8, 0, 0, 0, 0, 0, 0, 0, 0x28, 0xb5, 0x2f, 0xfd}), 12);
    pl_hash_sha256(object.data, object.len - PL_HASH_BYTES, &sum);
    assert_memory_equal(object.data + object.len - PL_HASH_BYTES, sum.b, PL_HASH_BYTES);
}

/* Nothing is left where the database was to be. */
static void assert_refused(uint64_t seq, const char *what)
{
    struct pl_log_checkpoint_head head;
    struct pl_err err = {0};
    int r = pl_log_checkpoint_get(objects, seq, fixture_path(dir, "back"), &head, &err);

    if (r != PL_ECORRUPT && r != PL_EFORMAT)
        fail_msg("%s: %d %s", what, r, err.msg);
    assert_non_null(strstr(err.msg, "ckpt/"));
    assert_true(access(fixture_path(dir, "back"), F_OK) < 0);
}

static void test_every_flipped_bit_is_found(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf object = {0};
    uint8_t *bytes = fixture_alloc(600, 5);
    char what[64];
    struct pl_err err;

    (void)state;
    memset(bytes + 200, 'x', 300);
    assert_ok(put(9, bytes, 600, &err), &err);
    read_object("ckpt/0000000000000009", &object);
    for (size_t i = 0; i < object.len; i++) {
        object.data[i] ^= (uint8_t)(1u << i % 8);
        replace_object("ckpt/0000000000000009", object.data, object.len);
        snprintf(what, sizeof what, "byte %zu", i);
        assert_refused(9, what);
        object.data[i] ^= (uint8_t)(1u << i % 8);
    }
    free(bytes);
}

static void test_every_length_but_its_own_is_refused(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf object = {0};
    char what[64];
    struct pl_err err;

    (void)state;
    assert_ok(put(9, "a small database", 16, &err), &err);
    read_object("ckpt/0000000000000009", &object);
    for (size_t n = 0; n < object.len; n++) {
        replace_object("ckpt/0000000000000009", object.data, n);
        snprintf(what, sizeof what, "%zu bytes", n);
        assert_refused(9, what);
    }
    assert_ok(pl_buf_add_u8(&object, 0, &err), &err);
    replace_object("ckpt/0000000000000009", object.data, object.len);
    assert_refused(9, "one byte more");
}

/* With a good hash of its own: whoever may write into the bucket can do no more than be refused. */
static void forge(uint64_t claims, const void *frame, size_t n)
{
    _cleanup_(pl_buf_finish) struct pl_buf object = {0}, real = {0};
    struct pl_hash sum;
    struct pl_err err;

    assert_ok(put(9, "a small database", 16, &err), &err);
    read_object("ckpt/0000000000000009", &real);
    assert_ok(pl_buf_add(&object, real.data, 80, &err), &err);
    assert_ok(pl_buf_add_le64(&object, claims, &err), &err);
    assert_ok(pl_buf_add(&object, frame, n, &err), &err);
    pl_hash_sha256(object.data, object.len, &sum);
    assert_ok(pl_buf_add(&object, sum.b, sizeof sum.b, &err), &err);
    replace_object("ckpt/0000000000000009", object.data, object.len);
}

static void test_a_frame_that_holds_more_or_less_than_it_claims_is_refused(void **state)
{
    static const size_t real = 8u << 20;
    size_t room = ZSTD_compressBound(real), n;
    uint8_t *zeros = calloc(real, 1), *frame = malloc(room);
    struct pl_log_checkpoint_head head;
    struct pl_err err;

    (void)state;
    assert_non_null(zeros);
    assert_non_null(frame);
    n = ZSTD_compress(frame, room, zeros, real, 1);
    assert_false(ZSTD_isError(n));
    forge(real, frame, n);
    assert_ok(pl_log_checkpoint_get(objects, 9, NULL, &head, &err), &err);
    forge(real - 1, frame, n);
    assert_refused(9, "more");
    forge(real + 1, frame, n);
    assert_refused(9, "less");
    forge(PL_LOG_CHECKPOINT_RAW_MAX_BYTES + 1, frame, n);
    assert_refused(9, "too large");
    forge(0, frame, n);
    assert_refused(9, "nothing");
    free(zeros);
    free(frame);
}

static void test_three_are_kept_and_nothing_else_is_touched(void **state)
{
    static const uint64_t seqs[] = {5, 300, 70, 9, 4096};
    uint64_t got[PL_LOG_CHECKPOINT_LISTED_MAX];
    struct pl_err err;

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(seqs); i++)
        assert_ok(put(seqs[i], "db", 2, &err), &err);
    replace_object("ckpt/not-a-number", "x", 1);
    assert_int_equal(pl_log_checkpoint_list(objects, got, &err), 5);
    assert_int_equal(got[0], 4096);
    assert_int_equal(got[4], 5);
    assert_ok(pl_log_checkpoint_trim(objects, &err), &err);
    assert_int_equal(pl_log_checkpoint_list(objects, got, &err), PL_LOG_CHECKPOINT_KEPT);
    assert_int_equal(got[0], 4096);
    assert_int_equal(got[1], 300);
    assert_int_equal(got[2], 70);
    assert_ok(pl_object_size(objects, "ckpt/not-a-number", got, &err), &err);
}

static void test_one_that_is_there_stays(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf first = {0}, second = {0};
    struct pl_err err;

    (void)state;
    assert_ok(put(9, "first", 5, &err), &err);
    read_object("ckpt/0000000000000009", &first);
    assert_ok(put(9, "second", 6, &err), &err);
    read_object("ckpt/0000000000000009", &second);
    assert_int_equal(first.len, second.len);
    assert_memory_equal(first.data, second.data, first.len);
}

static bool yes(void *arg)
{
    (void)arg;
    return true;
}

static void test_writing_can_be_given_up(void **state)
{
    struct pl_log_checkpoint_head head = head_at(9);
    uint64_t seqs[PL_LOG_CHECKPOINT_LISTED_MAX];
    struct pl_err err = {0};

    (void)state;
    write_file(fixture_path(dir, "db"), "db", 2);
    assert_int_equal(pl_log_checkpoint_put(objects, &head, fixture_path(dir, "db"), fixture_path(dir, "pressed"), yes, NULL,
                                           &err),
                     PL_ECANCELED);
    assert_int_equal(pl_log_checkpoint_list(objects, seqs, &err), 0);
    assert_true(access(fixture_path(dir, "pressed"), F_OK) < 0);
}

static void test_a_full_disk_leaves_nothing(void **state)
{
    uint64_t seqs[PL_LOG_CHECKPOINT_LISTED_MAX];
    struct pl_log_checkpoint_head head = head_at(9);
    struct pl_err err = {0};
    uint64_t before;

    (void)state;
    write_file(fixture_path(dir, "db"), "db", 2);
    before = pl_io_calls(PL_IO_WRITE);
    assert_ok(pl_log_checkpoint_put(objects, &head, fixture_path(dir, "db"), fixture_path(dir, "pressed"), NULL, NULL, &err),
              &err);
    before = pl_io_calls(PL_IO_WRITE) - before;
    assert_true(before >= 4);
    assert_ok(pl_object_remove(objects, "ckpt/0000000000000009", &err), &err);
    for (uint64_t nth = 1; nth <= before; nth++) {
        pl_io_fail_nth(PL_IO_WRITE, nth, ENOSPC);
        assert_int_equal(pl_log_checkpoint_put(objects, &head, fixture_path(dir, "db"), fixture_path(dir, "pressed"), NULL, NULL,
                                               &err),
                         PL_ENOSPC);
        assert_int_equal(pl_log_checkpoint_list(objects, seqs, &err), 0);
        assert_true(access(fixture_path(dir, "pressed"), F_OK) < 0);
    }
    pl_io_fail_nth(PL_IO_WRITE, 0, 0);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_what_was_put_comes_back),
        TEST(test_the_header_is_as_documented),
        TEST(test_every_flipped_bit_is_found),
        TEST(test_every_length_but_its_own_is_refused),
        TEST(test_a_frame_that_holds_more_or_less_than_it_claims_is_refused),
        TEST(test_three_are_kept_and_nothing_else_is_touched),
        TEST(test_one_that_is_there_stays),
        TEST(test_writing_can_be_given_up),
        TEST(test_a_full_disk_leaves_nothing),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
