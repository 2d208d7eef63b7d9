// link: storage/base storage/dataset/log storage/system
/* log_reader: in order whatever comes first, several at once where the store is far away, each error told of its own object. */
#include "tests/support/fixtures/store_fixture.h"

#include "storage/dataset/log/log_reader.h"

#include <pthread.h>
#include <time.h>

#define OBJECTS 60

static char *dir;
static struct pl_object_store *files;

/* The same objects, far away: getting the first of a window waits until as many others have come as are fetched beside it. */
static struct {
    struct pl_object_store store;
    struct pl_object_ops ops;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    unsigned gets, under_way, most;
    unsigned
        first_waits_for; /* gets that end before that of object 1 does, and none ends before two were under way; 0 = none waits */
    uint64_t fails;      /* this object cannot be had */
} far;

static int far_get(struct pl_object_store *s, const char *key, uint64_t offset, uint64_t len, struct pl_buf *ret,
                   struct pl_err *err)
{
    struct timespec until;
    uint64_t seq = 0;
    int r;

    (void)s;
    assert_true(pl_log_key_parse(key, &seq));
    pthread_mutex_lock(&far.lock);
    far.under_way++;
    far.most = PL_MAX(far.most, far.under_way);
    pthread_cond_broadcast(&far.changed);
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += 60; /* of a reader that asks for one after the other */
    while (far.first_waits_for > 0 && far.most < 2)
        if (pthread_cond_timedwait(&far.changed, &far.lock, &until) != 0)
            break;
    while (seq == 1 && far.gets < far.first_waits_for)
        pthread_cond_wait(&far.changed, &far.lock);
    pthread_mutex_unlock(&far.lock);
    r = seq == far.fails ? pl_err_set(err, PL_EFORBIDDEN, "forbidden") : pl_object_get(files, key, offset, len, ret, err);
    pthread_mutex_lock(&far.lock);
    far.gets++;
    far.under_way--;
    pthread_cond_broadcast(&far.changed);
    pthread_mutex_unlock(&far.lock);
    return r;
}

static int setup(void **state)
{
    struct pl_err err;

    (void)state;
    dir = fixture_dir();
    assert_ok(pl_object_file_open(fixture_path(dir, "store"), &files, &err), &err);
    for (uint64_t seq = 1; seq <= OBJECTS; seq++) {
        struct iovec iov = {&seq, sizeof seq};
        char key[PL_LOG_KEY_BYTES];

        pl_log_key(seq, key);
        assert_ok(pl_object_put(files, key, &iov, 1, true, &err), &err);
    }
    memset(&far, 0, sizeof far);
    pthread_mutex_init(&far.lock, NULL);
    pthread_cond_init(&far.changed, NULL);
    far.ops = *files->ops;
    far.ops.get = far_get;
    far.store.ops = &far.ops;
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    files = pl_object_close(files);
    fixture_remove(dir);
    return 0;
}

/* Reads `first` to `last`; the numbers of those that came, the others negative. */
static void read_all(struct pl_object_store *objects, uint64_t first, uint64_t last, int64_t got[OBJECTS], unsigned *ret_n)
{
    _cleanup_(pl_log_reader_closep) struct pl_log_reader *reader = NULL;
    const struct pl_buf *bytes;
    struct pl_err err = {0};
    uint64_t seq, says;
    int r;

    *ret_n = 0;
    assert_ok(pl_log_reader_open(objects, first, last, &reader, &err), &err);
    while ((r = pl_log_reader_next(reader, &seq, &bytes, &err)) != 0) {
        assert_true(*ret_n < OBJECTS);
        got[(*ret_n)++] = r < 0 ? -(int64_t)seq : (int64_t)seq;
        if (r > 0) {
            assert_int_equal(bytes->len, sizeof says);
            memcpy(&says, bytes->data, sizeof says);
            assert_int_equal(says, seq);
        } else {
            assert_non_null(strstr(err.msg, "log/"));
        }
    }
}

static void they_come_in_order_whichever_arrives_first(void **state)
{
    struct pl_object_store *stores[] = {files, &far.store};
    int64_t got[OBJECTS];
    unsigned n;

    (void)state;
    far.first_waits_for = PL_LOG_AHEAD / 2;
    for (size_t i = 0; i < PL_ARRAY_SIZE(stores); i++) {
        read_all(stores[i], 1, OBJECTS, got, &n);
        assert_int_equal(n, OBJECTS);
        for (unsigned k = 0; k < n; k++)
            assert_int_equal(got[k], k + 1);
    }
    assert_true(far.most > 1);
    assert_true(far.most <= PL_LOG_AHEAD);
    assert_int_equal(far.gets, OBJECTS);
}

static void a_part_of_it_and_nothing(void **state)
{
    int64_t got[OBJECTS];
    unsigned n;

    (void)state;
    read_all(&far.store, 20, 22, got, &n);
    assert_int_equal(n, 3);
    assert_int_equal(got[0], 20);
    read_all(&far.store, 7, 7, got, &n);
    assert_int_equal(n, 1);
    read_all(&far.store, 8, 7, got, &n);
    assert_int_equal(n, 0);
}

static void one_that_cannot_be_had_is_told_and_the_others_come(void **state)
{
    struct pl_object_store *stores[] = {files, &far.store};
    int64_t got[OBJECTS];
    struct pl_err err;
    unsigned n;

    (void)state;
    far.fails = 30;
    assert_ok(pl_object_remove(files, "log/0000000000000005", &err), &err);
    for (size_t i = 0; i < PL_ARRAY_SIZE(stores); i++) {
        read_all(stores[i], 1, OBJECTS, got, &n);
        assert_int_equal(n, OBJECTS);
        assert_int_equal(got[4], -5);
        assert_int_equal(got[5], 6);
        assert_int_equal(got[29], i == 0 ? 30 : -30);
    }
}

static void it_can_be_closed_while_others_are_fetched(void **state)
{
    struct pl_log_reader *reader = NULL;
    const struct pl_buf *bytes;
    struct pl_err err = {0};
    uint64_t seq;

    (void)state;
    assert_ok(pl_log_reader_open(&far.store, 1, OBJECTS, &reader, &err), &err);
    assert_int_equal(pl_log_reader_next(reader, &seq, &bytes, &err), 1);
    pl_log_reader_close(reader);
    assert_int_equal(far.under_way, 0);
    assert_true(far.gets <= PL_LOG_AHEAD);
}

int main(void)
{
#define TEST(fn) cmocka_unit_test_setup_teardown(fn, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(they_come_in_order_whichever_arrives_first),
        TEST(a_part_of_it_and_nothing),
        TEST(one_that_cannot_be_had_is_told_and_the_others_come),
        TEST(it_can_be_closed_while_others_are_fetched),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
