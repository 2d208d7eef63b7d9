// link: storage/dataset/log storage/object storage/system
/* The log object's bytes, its chain, and what is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "storage/dataset/log/log.h"
#include "storage/dataset/log/log_record.h"
#include "storage/object/object.h"
#include "storage/system/io.h"

/* Computed by an independent encoder of the layout in log.h. */
#define GOLDEN_LOG_OBJECT "5f07d194a88d421d0096f2821c4e5edb7649d6e1689968d7d950ee1d246c52a3"

struct seen {
    unsigned objects, records;
    char last[256];
};

static int on_begin(void *self, uint64_t seq, uint64_t epoch, struct pl_err *err)
{
    struct seen *s = self;

    (void)seq;
    (void)epoch;
    (void)err;
    s->objects++;
    return 0;
}

static int on_record(void *self, const struct pl_log_record *record, uint64_t seq, struct pl_err *err)
{
    struct seen *s = self;

    (void)seq;
    (void)err;
    s->records++;
    snprintf(s->last, sizeof s->last, "%s %.*s", pl_record_name(record->kind), (int)record->len, record->payload);
    return 0;
}

static struct pl_log_sink sink_of(struct seen *s)
{
    return (struct pl_log_sink){.self = s, .begin = on_begin, .record = on_record};
}

static void add(struct pl_log_batch *b, uint16_t kind, const char *text)
{
    assert_int_equal(pl_log_batch_add(b, kind, text, strlen(text), NULL), 0);
}

static struct pl_log_head new_head(void)
{
    struct pl_log_head head = {.epoch = 1};

    memset(head.store_id, 0xAB, sizeof head.store_id);
    return head;
}

static void test_bytes_are_pinned(void **state)
{
    struct pl_log_head head = new_head();
    struct pl_log_batch batch = {0};
    struct pl_buf bytes = {0};
    struct pl_hash hash;
    char hex[PL_HASH_HEX + 1];

    (void)state;
    add(&batch, PL_RECORD_PROJECT, "{\"at\":1,\"name\":\"default\"}");
    assert_int_equal(pl_log_encode(&head, &batch, &bytes, NULL), 0);
    assert_int_equal(bytes.len, PL_LOG_HEADER_BYTES + 8 + 25);
    assert_memory_equal(bytes.data, "PLLG\1\0\0\0", 8);
    pl_hash_sha256(bytes.data, bytes.len, &hash);
    assert_string_equal(pl_hash_hex(&hash, hex), GOLDEN_LOG_OBJECT);
    pl_buf_finish(&bytes);
    pl_log_batch_finish(&batch);
}

static void test_an_object_follows_only_the_one_it_names(void **state)
{
    struct pl_log_head head = new_head(), other, reader = new_head();
    struct pl_log_batch batch = {0};
    struct pl_buf bytes = {0};
    struct pl_err err = {0};

    (void)state;
    add(&batch, PL_RECORD_PROJECT, "{}");
    assert_int_equal(pl_log_encode(&head, &batch, &bytes, NULL), 0);
    other = reader;
    other.store_id[3] ^= 1;
    assert_int_equal(pl_log_decode(bytes.data, bytes.len, &other, NULL, &err), PL_ELOG);
    other = reader;
    other.hash.b[0] = 1;
    assert_int_equal(pl_log_decode(bytes.data, bytes.len, &other, NULL, &err), PL_ELOG);
    other = reader;
    other.seq = 1;
    assert_int_equal(pl_log_decode(bytes.data, bytes.len, &other, NULL, &err), PL_ECORRUPT);
    other = reader;
    other.epoch = 2;
    assert_int_equal(pl_log_decode(bytes.data, bytes.len, &other, NULL, &err), PL_ECORRUPT);
    assert_int_equal(pl_log_decode(bytes.data, bytes.len, &reader, NULL, &err), 0);
    assert_int_equal(reader.seq, 1);
    pl_buf_finish(&bytes);
    pl_log_batch_finish(&batch);
}

static void test_every_truncation_and_every_byte_too_many_is_refused(void **state)
{
    struct pl_log_head head = new_head();
    struct pl_log_batch batch = {0};
    struct pl_buf bytes = {0};

    (void)state;
    add(&batch, PL_RECORD_PROJECT, "{\"name\":\"a\"}");
    add(&batch, PL_RECORD_REPO, "{\"name\":\"b\"}");
    assert_int_equal(pl_log_encode(&head, &batch, &bytes, NULL), 0);
    for (size_t n = 0; n < bytes.len; n++) {
        struct pl_log_head reader = new_head();

        assert_true(pl_log_decode(bytes.data, n, &reader, NULL, NULL) < 0);
        assert_int_equal(reader.seq, 0);
    }
    assert_int_equal(pl_buf_add_u8(&bytes, 0, NULL), 0);
    assert_int_equal(pl_log_decode(bytes.data, bytes.len, &head, NULL, NULL), PL_ECORRUPT);
    pl_buf_finish(&bytes);
    pl_log_batch_finish(&batch);
}

static void test_an_unknown_kind_or_version_is_a_newer_programs(void **state)
{
    struct pl_log_head head = new_head();
    struct pl_log_batch batch = {0};
    struct pl_buf bytes = {0};

    (void)state;
    add(&batch, 999, "{}");
    assert_int_equal(pl_log_encode(&head, &batch, &bytes, NULL), 0);
    assert_int_equal(pl_log_decode(bytes.data, bytes.len, &head, NULL, NULL), PL_EFORMAT);
    bytes.data[4] = 2;
    assert_int_equal(pl_log_decode(bytes.data, bytes.len, &head, NULL, NULL), PL_EFORMAT);
    pl_buf_finish(&bytes);
    pl_log_batch_finish(&batch);
}

static void test_a_transaction_past_the_limit_is_refused_with_its_size(void **state)
{
    struct pl_log_batch batch = {0};
    struct pl_err err = {0};
    char *big = calloc(1, PL_LOG_OBJECT_MAX_BYTES);

    (void)state;
    assert_int_equal(pl_log_batch_add(&batch, PL_RECORD_COMMIT, big, PL_LOG_OBJECT_MAX_BYTES, &err), PL_ETOOBIG);
    assert_non_null(strstr(err.msg, "8388"));
    assert_int_equal(batch.n, 0);
    free(big);
    pl_log_batch_finish(&batch);
}

/* ---- over a store ---- */

static char *temp_dir(void)
{
    char *dir = strdup("/tmp/pl-log-XXXXXX");

    assert_non_null(mkdtemp(dir));
    return dir;
}

static void test_the_second_writer_of_a_number_is_fenced(void **state)
{
    char *dir = temp_dir();
    struct pl_object_store *objects;
    struct pl_log_head a = new_head(), b = new_head();
    struct pl_log_batch batch = {0};
    struct seen seen = {0};
    struct pl_log_sink sink = sink_of(&seen);
    bool unknown = true;

    (void)state;
    assert_int_equal(pl_object_file_open(dir, &objects, NULL), 0);
    add(&batch, PL_RECORD_OPEN_EPOCH, "{\"epoch\":1}");
    assert_int_equal(pl_log_append(objects, &a, &batch, &unknown, NULL), 0);
    assert_false(unknown);
    assert_int_equal(a.seq, 1);
    assert_int_equal(pl_log_append(objects, &b, &batch, &unknown, NULL), PL_EFENCED);
    assert_int_equal(b.seq, 0);
    assert_int_equal(pl_log_replay(objects, &b, &sink, NULL), 0);
    assert_memory_equal(&a, &b, sizeof a);
    assert_int_equal(seen.records, 1);
    assert_string_equal(seen.last, "open_epoch {\"epoch\":1}");
    pl_object_close(objects);
    assert_int_equal(pl_io_remove_tree(dir, NULL), 0);
    free(dir);
    pl_log_batch_finish(&batch);
}

static void test_a_full_disk_leaves_no_object_and_the_next_append_works(void **state)
{
    char *dir = temp_dir();
    struct pl_object_store *objects;
    struct pl_log_head head = new_head(), reader = new_head();
    struct pl_log_batch batch = {0};
    bool unknown = false;

    (void)state;
    assert_int_equal(pl_object_file_open(dir, &objects, NULL), 0);
    add(&batch, PL_RECORD_PROJECT, "{}");
    pl_io_fail_nth(PL_IO_WRITE, 1, ENOSPC);
    assert_int_equal(pl_log_append(objects, &head, &batch, &unknown, NULL), PL_ENOSPC);
    assert_false(unknown);
    assert_int_equal(pl_log_replay(objects, &reader, NULL, NULL), 0);
    assert_int_equal(reader.seq, 0);
    assert_int_equal(pl_log_append(objects, &head, &batch, &unknown, NULL), 0);
    assert_int_equal(pl_log_replay(objects, &reader, NULL, NULL), 0);
    assert_int_equal(reader.seq, 1);
    pl_object_close(objects);
    assert_int_equal(pl_io_remove_tree(dir, NULL), 0);
    free(dir);
    pl_log_batch_finish(&batch);
}

/* ---- a log that is far away ---- */

static struct {
    struct pl_object_store store, *near;
    struct pl_object_ops ops;
    pthread_mutex_t lock;
    pthread_cond_t came;
    unsigned under_way, most, gets;
} far;

/* From the 17th on each waits for company, for a while. */
static int far_get(struct pl_object_store *s, const char *key, uint64_t offset, uint64_t len, struct pl_buf *ret,
                   struct pl_err *err)
{
    struct timespec until;
    int timed_out = 0;

    (void)s;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 20;
    pthread_mutex_lock(&far.lock);
    far.gets++;
    far.most = PL_MAX(far.most, ++far.under_way);
    pthread_cond_broadcast(&far.came);
    while (far.gets > 16 && far.most < 2 && timed_out == 0)
        timed_out = pthread_cond_timedwait(&far.came, &far.lock, &until);
    far.under_way--;
    pthread_mutex_unlock(&far.lock);
    return pl_object_get(far.near, key, offset, len, ret, err);
}

static int far_size(struct pl_object_store *s, const char *key, uint64_t *ret, struct pl_err *err)
{
    (void)s;
    return pl_object_size(far.near, key, ret, err);
}

static void make_far(struct pl_object_store *near)
{
    memset(&far, 0, sizeof far);
    pthread_mutex_init(&far.lock, NULL);
    pthread_cond_init(&far.came, NULL);
    far.near = near;
    far.ops = (struct pl_object_ops){.get = far_get, .size = far_size};
    far.store.ops = &far.ops;
}

/* Else a daemon that takes a store over reads behind one that writes, for ever. */
static void test_a_long_log_is_read_several_objects_at_a_time(void **state)
{
    char *dir = temp_dir();
    struct pl_object_store *near;
    struct pl_log_head head = new_head(), reader = new_head();
    struct pl_log_batch batch = {0};
    struct seen seen = {0};
    struct pl_log_sink sink = sink_of(&seen);
    bool unknown = false;

    (void)state;
    sink.look_only = true;
    assert_int_equal(pl_object_file_open(dir, &near, NULL), 0);
    add(&batch, PL_RECORD_PROJECT, "{}");
    for (int i = 0; i < 300; i++)
        assert_int_equal(pl_log_append(near, &head, &batch, &unknown, NULL), 0);
    make_far(near);
    assert_int_equal(pl_log_replay(&far.store, &reader, &sink, NULL), 0);
    assert_int_equal(reader.seq, 300);
    assert_int_equal(seen.records, 300);
    assert_true(far.most > 1);
    pl_object_close(near);
    assert_int_equal(pl_io_remove_tree(dir, NULL), 0);
    free(dir);
    pl_log_batch_finish(&batch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_bytes_are_pinned),
        cmocka_unit_test(test_an_object_follows_only_the_one_it_names),
        cmocka_unit_test(test_every_truncation_and_every_byte_too_many_is_refused),
        cmocka_unit_test(test_an_unknown_kind_or_version_is_a_newer_programs),
        cmocka_unit_test(test_a_transaction_past_the_limit_is_refused_with_its_size),
        cmocka_unit_test(test_the_second_writer_of_a_number_is_fenced),
        cmocka_unit_test(test_a_full_disk_leaves_no_object_and_the_next_append_works),
        cmocka_unit_test(test_a_long_log_is_read_several_objects_at_a_time),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
