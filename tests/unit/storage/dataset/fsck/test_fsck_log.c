// link: storage/base storage/dataset/fsck storage/dataset/log storage/system
/* fsck_log: every byte of the log and of its checkpoints that is wrong is found, and so is every object that is missing. */
#include "tests/support/fixtures/store_fixture.h"

#include "storage/dataset/fsck/fsck_log.h"
#include "storage/dataset/log/log_checkpoint.h"
#include "storage/dataset/log/log_record.h"

#define OBJECTS 6

static char *dir;
static struct pl_object_store *objects;
static struct pl_log_head head;
static struct pl_log_head heads[OBJECTS + 1];

static void append(unsigned i)
{
    struct pl_log_batch batch = {0};
    char payload[128];
    struct pl_err err;
    bool unknown;

    snprintf(payload, sizeof payload, "{\"at\":%u,\"name\":\"p%u\"}", i, i);
    assert_ok(pl_log_batch_add(&batch, PL_RECORD_PROJECT, payload, strlen(payload), &err), &err);
    assert_ok(pl_log_append(objects, &head, &batch, &unknown, &err), &err);
    pl_log_batch_finish(&batch);
}

static int setup(void **state)
{
    struct pl_err err;

    (void)state;
    dir = fixture_dir();
    assert_ok(pl_object_file_open(fixture_path(dir, "store"), &objects, &err), &err);
    head = (struct pl_log_head){.epoch = 1};
    memset(head.store_id, 7, sizeof head.store_id);
    for (unsigned i = 1; i <= OBJECTS; i++) {
        append(i);
        heads[i] = head;
    }
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    objects = pl_object_close(objects);
    fixture_remove(dir);
    return 0;
}

static void put_ckpt(uint64_t seq, const struct pl_hash *log_hash)
{
    struct pl_log_checkpoint_head at = {.seq = seq, .epoch = 1, .log_hash = *log_hash};
    struct pl_err err;

    memset(at.store_id, 7, sizeof at.store_id);
    assert_ok(pl_io_write_file(fixture_path(dir, "db"), "database", 8, 0600, &err), &err);
    assert_ok(pl_log_checkpoint_put(objects, &at, fixture_path(dir, "db"), fixture_path(dir, "pressed"), NULL, NULL, &err), &err);
}

struct found {
    size_t n;
    char objects[4096]; /* "[log/…][log/…]" */
};

static int collect(void *self, const struct pl_fsck_finding *finding, struct pl_err *err)
{
    struct found *f = self;
    size_t used = strlen(f->objects);

    (void)err;
    f->n++;
    assert_non_null(finding->object);
    snprintf(f->objects + used, sizeof f->objects - used, "[%s]", finding->object);
    return 0;
}

static struct pl_fsck_report check(bool full, const struct pl_log_head *database, struct found *found)
{
    struct pl_fsck_options o = {.full = full, .finding = collect, .self = found};
    struct pl_fsck_report sum = {0};
    struct pl_err err;

    *found = (struct found){0};
    assert_ok(pl_fsck_log(objects, head.store_id, database, &o, &sum, &err), &err);
    assert_int_equal(sum.findings, found->n);
    return sum;
}

static void flip(const char *key, size_t at, uint8_t bits)
{
    _cleanup_(pl_buf_finish) struct pl_buf bytes = {0};
    struct iovec iov;
    struct pl_err err;

    assert_ok(pl_object_get_all(objects, key, &bytes, &err), &err);
    assert_true(at < bytes.len);
    bytes.data[at] ^= bits;
    iov = (struct iovec){bytes.data, bytes.len};
    assert_ok(pl_object_put(objects, key, &iov, 1, false, &err), &err);
}

static uint64_t size_of(const char *key)
{
    uint64_t size = 0;
    struct pl_err err;

    assert_ok(pl_object_size(objects, key, &size, &err), &err);
    return size;
}

static void a_whole_log_has_no_findings(void **state)
{
    struct pl_fsck_report sum;
    struct found found;

    (void)state;
    put_ckpt(2, &heads[2].hash);
    put_ckpt(4, &heads[4].hash);
    sum = check(true, &head, &found);
    assert_int_equal(found.n, 0);
    assert_int_equal(sum.log_objects, OBJECTS + 1); /* the newest is compared with the database, too */
    assert_int_equal(sum.checkpoints, 2);
    check(false, &head, &found);
    assert_int_equal(found.n, 0);
    check(true, NULL, &found);
    assert_int_equal(found.n, 0);
}

static void every_flipped_byte_of_the_log_is_found_and_told_of_its_object_or_the_next(void **state)
{
    struct found found;

    (void)state;
    for (uint64_t seq = 1; seq <= OBJECTS; seq++) {
        char key[PL_LOG_KEY_BYTES], next[PL_LOG_KEY_BYTES];
        uint64_t size;

        pl_log_key(seq, key);
        pl_log_key(seq + 1, next);
        size = size_of(key);
        for (size_t i = 0; i < size; i++) {
            flip(key, i, 0x20);
            check(true, &head, &found);
            if (found.n == 0 || (!strstr(found.objects, key) && !strstr(found.objects, next) &&
                                 !(i >= 40 && i < 72))) /* what it says of the one before: told of that one */
                fail_msg("%s byte %zu: %s", key, i, found.objects);
            if (found.n > 3)
                fail_msg("%s byte %zu: one byte gives %zu findings: %s", key, i, found.n, found.objects);
            flip(key, i, 0x20);
        }
    }
}

static void a_missing_object_is_named_by_the_quick_check_too(void **state)
{
    struct found found;
    struct pl_err err;

    (void)state;
    assert_ok(pl_object_remove(objects, "log/0000000000000003", &err), &err);
    assert_ok(pl_object_remove(objects, "log/0000000000000004", &err), &err);
    check(false, &head, &found);
    assert_string_equal(found.objects, "[log/0000000000000003][log/0000000000000004]");
    check(true, &head, &found);
    assert_string_equal(found.objects, "[log/0000000000000003][log/0000000000000004]");
    assert_ok(pl_object_remove(objects, "log/0000000000000006", &err), &err);
    check(false, &head, &found);
    assert_non_null(strstr(found.objects, "[log/0000000000000006]"));
}

static void an_object_other_than_the_databases_is_found_by_the_quick_check(void **state)
{
    struct pl_log_head other = head;
    struct found found;

    (void)state;
    other.hash.b[0] ^= 1;
    check(false, &other, &found);
    assert_string_equal(found.objects, "[log/0000000000000006]");
}

static void every_flipped_byte_of_a_checkpoint_is_found(void **state)
{
    static const char key[] = "ckpt/0000000000000004";
    struct found found;
    uint64_t size;

    (void)state;
    put_ckpt(4, &heads[4].hash);
    size = size_of(key);
    for (size_t i = 0; i < size; i++) {
        flip(key, i, 1);
        check(true, &head, &found);
        if (found.n == 0 || !strstr(found.objects, i >= 32 && i < 40 ? "ckpt/" : key))
            fail_msg("byte %zu: %s", i, found.objects);
        flip(key, i, 1);
    }
}

static void a_checkpoint_that_stands_on_another_object_is_found(void **state)
{
    struct found found;
    struct pl_err err;

    (void)state;
    put_ckpt(4, &heads[3].hash);
    check(true, &head, &found);
    assert_string_equal(found.objects, "[ckpt/0000000000000004]");
    assert_ok(pl_object_remove(objects, "ckpt/0000000000000004", &err), &err);
    put_ckpt(OBJECTS + 3, &head.hash);
    check(false, &head, &found);
    assert_string_equal(found.objects, "[log/0000000000000009]");
}

static void a_record_that_is_no_json_is_found(void **state)
{
    struct pl_log_batch batch = {0};
    struct found found;
    struct pl_err err;
    bool unknown;

    (void)state;
    assert_ok(pl_log_batch_add(&batch, PL_RECORD_PROJECT, "{\"at\":1,\"at\":2}", 15, &err), &err);
    assert_ok(pl_log_append(objects, &head, &batch, &unknown, &err), &err);
    pl_log_batch_finish(&batch);
    check(true, &head, &found);
    assert_string_equal(found.objects, "[log/0000000000000007]");
}

static bool yes(void *self)
{
    (void)self;
    return true;
}

static void it_can_be_stopped(void **state)
{
    struct pl_fsck_options o = {.full = true, .stop = yes};
    struct pl_fsck_report sum = {0};
    struct pl_err err;

    (void)state;
    assert_int_equal(pl_fsck_log(objects, head.store_id, NULL, &o, &sum, &err), PL_ECANCELED);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(a_whole_log_has_no_findings),
        TEST(every_flipped_byte_of_the_log_is_found_and_told_of_its_object_or_the_next),
        TEST(a_missing_object_is_named_by_the_quick_check_too),
        TEST(an_object_other_than_the_databases_is_found_by_the_quick_check),
        TEST(every_flipped_byte_of_a_checkpoint_is_found),
        TEST(a_checkpoint_that_stands_on_another_object_is_found),
        TEST(a_record_that_is_no_json_is_found),
        TEST(it_can_be_stopped),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
