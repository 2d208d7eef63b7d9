// link: pipelined/net/remote storage/base storage/chunk storage/pack storage/system
/* What is planned is fetched before it is asked for: few fetches, in the order of reading, within a bound; and whatever does not work that
 * way is said to be read otherwise. */
#include "pipelined/net/remote/remote_prefetch.h"
#include "storage/chunk/codec.h"
#include "storage/pack/pack_format.h"
#include "tests/support/fixtures/store_fixture.h"

#include <pthread.h>
#include <stdatomic.h>

#define FIRST_RECORD 80
#define FETCHES_MAX  512
#define MIB          ((uint64_t)1 << 20)

/* A pack of equal records that lie `stride` apart; record i holds bytes of its own. */
struct fake {
    struct pl_hash pack;
    size_t n, size, stride;
};

static const struct fake near = {{{1}}, 3000, 5000, 5000 + PL_PACK_RECORD_BYTES};
static const struct fake far = {{{2}}, 40, 1000, 300 << 10};
static const struct fake large = {{{3}}, 24 * 32, 256 << 10, (256 << 10) + PL_PACK_RECORD_BYTES}; /* 24 ranges of almost 8 MiB */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct pl_remote_range fetched[FETCHES_MAX];
static size_t n_fetched, n_done;
static size_t allowed; /* fetches that end; others wait */
static bool failing, lying, in_pieces;

static const struct fake *fake_of(const struct pl_hash *pack)
{
    return pack->b[0] == 1 ? &near : pack->b[0] == 2 ? &far : &large;
}

static void content(const struct fake *f, size_t i, uint8_t *out)
{
    fixture_bytes(out, f->size, f == &large ? 7 : i + 1);
}

static struct pl_pack_entry entry_of(const struct fake *f, size_t i, const uint8_t *bytes)
{
    struct pl_pack_entry e = {.offset = (uint32_t)(FIRST_RECORD + i * f->stride),
                              .stored = (uint32_t)f->size,
                              .raw = (uint32_t)f->size,
                              .codec = PL_CODEC_RAW,
                              .kind = PL_REC_CHUNK};

    pl_hash_sha256(bytes, f->size, &e.id);
    return e;
}

/* What stands in start..end of the pack. */
static void copy_out(const struct fake *f, uint64_t start, uint64_t end, uint8_t *out)
{
    _cleanup_free_ uint8_t *whole = malloc(PL_PACK_RECORD_BYTES + f->size);

    memset(out, 0, (size_t)(end - start));
    for (size_t i = 0; i < f->n; i++) {
        const uint64_t at = FIRST_RECORD + i * f->stride, stop = at + PL_PACK_RECORD_BYTES + f->size;
        const uint64_t from = PL_MAX(at, start), to = PL_MIN(stop, end);
        struct pl_pack_entry e;

        if (from >= to)
            continue;
        content(f, i, whole + PL_PACK_RECORD_BYTES);
        e = entry_of(f, i, whole + PL_PACK_RECORD_BYTES);
        pl_pack_record_encode(&e, whole);
        whole[PL_PACK_RECORD_BYTES] ^= lying;
        memcpy(out + (from - start), whole + (from - at), (size_t)(to - from));
    }
}

static int fetch(void *self, const struct pl_hash *pack, uint64_t start, uint64_t end, struct pl_buf *ret, struct pl_err *err)
{
    size_t mine;

    (void)self;
    pthread_mutex_lock(&lock);
    assert_true(n_fetched < FETCHES_MAX);
    mine = n_fetched;
    fetched[n_fetched++] = (struct pl_remote_range){*pack, start, end};
    pthread_cond_broadcast(&changed);
    while (mine >= allowed)
        pthread_cond_wait(&changed, &lock);
    n_done++;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    if (failing)
        return pl_err_set(err, PL_ENET, "no way there");
    if (in_pieces)
        end = PL_MIN(end, start + 100000);
    assert_int_equal(pl_buf_reserve(ret, (size_t)(end - start), NULL), 0);
    copy_out(fake_of(pack), start, end, ret->data + ret->len);
    ret->len += (size_t)(end - start);
    return 0;
}

static void until_fetched(size_t n)
{
    pthread_mutex_lock(&lock);
    while (n_fetched < n)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void until_done(size_t n)
{
    pthread_mutex_lock(&lock);
    while (n_done < n)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
}

static void allow(size_t n)
{
    pthread_mutex_lock(&lock);
    allowed = n;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
}

static size_t fetches(void)
{
    size_t n;

    pthread_mutex_lock(&lock);
    n = n_fetched;
    pthread_mutex_unlock(&lock);
    return n;
}

static struct pl_location location(const struct fake *f, size_t i)
{
    return (struct pl_location){.pack = f->pack,
                                .offset = (uint32_t)(FIRST_RECORD + i * f->stride),
                                .stored = (uint32_t)f->size,
                                .raw = (uint32_t)f->size,
                                .codec = PL_CODEC_RAW,
                                .kind = PL_REC_CHUNK};
}

/* 0 with the right bytes, or 1. */
static int read_record(struct pl_remote_ahead *a, const struct fake *f, size_t i)
{
    _cleanup_(pl_buf_finish) struct pl_buf got = {0};
    _cleanup_free_ uint8_t *want = malloc(f->size);
    const struct pl_location where = location(f, i);
    struct pl_hash id;
    int r;

    content(f, i, want);
    pl_hash_sha256(want, f->size, &id);
    r = pl_remote_prefetch_read(a, &id, &where, &got);
    if (r == 0) {
        assert_int_equal(got.len, f->size);
        assert_memory_equal(got.data, want, f->size);
    }
    return r;
}

static void plan(struct pl_remote_ahead *a, const struct fake *f, const size_t *which, size_t n, unsigned threads)
{
    _cleanup_free_ struct pl_location *where = calloc(n + 1, sizeof(*where));

    for (size_t i = 0; i < n; i++)
        where[i] = location(f, which ? which[i] : i);
    pl_remote_prefetch_plan(a, where, n, threads);
}

static int setup(void **state)
{
    n_fetched = n_done = 0;
    allowed = SIZE_MAX;
    failing = lying = in_pieces = false;
    *state = pl_remote_prefetch_create(fetch, NULL);
    return *state ? 0 : -1;
}

static int teardown(void **state)
{
    pl_remote_prefetch_destroy(*state);
    return 0;
}

/* --- tests --- */

static void what_lies_together_is_one_fetch(void **state)
{
    plan(*state, &near, NULL, near.n, 8);
    for (size_t i = 0; i < near.n; i++)
        assert_int_equal(read_record(*state, &near, i), 0);
    assert_int_equal(fetches(), 2); /* of 15 MB: 8 MiB at most each */
    for (size_t i = 0; i < n_fetched; i++)
        assert_true(fetched[i].end - fetched[i].start <= PL_REMOTE_PREFETCH_RANGE);
}

static void what_lies_apart_is_fetched_at_the_same_time(void **state)
{
    allow(0);
    plan(*state, &far, NULL, far.n, PL_REMOTE_PREFETCH_THREADS);
    until_fetched(PL_REMOTE_PREFETCH_THREADS); /* all under way, none answered */
    allow(SIZE_MAX);
    until_done(far.n); /* all there, before anybody asked */
    for (size_t i = 0; i < far.n; i++)
        assert_int_equal(read_record(*state, &far, i), 0);
    assert_int_equal(fetches(), far.n);
}

static void the_order_is_that_of_reading(void **state)
{
    static const size_t which[] = {30, 3, 17, 0, 39};

    plan(*state, &far, which, PL_ARRAY_SIZE(which), 1);
    until_done(PL_ARRAY_SIZE(which));
    for (size_t i = 0; i < PL_ARRAY_SIZE(which); i++)
        assert_int_equal(fetched[i].start, FIRST_RECORD + which[i] * far.stride);
}

static void the_bytes_ahead_are_bounded(void **state)
{
    const size_t of_a_range = PL_REMOTE_PREFETCH_RANGE / large.stride,
                 most = PL_REMOTE_PREFETCH_BYTES / (of_a_range * large.stride);
    const size_t ranges = (large.n + of_a_range - 1) / of_a_range;

    pl_remote_prefetch_set_stale(*state, 3600000); /* however slow this machine is */
    plan(*state, &large, NULL, large.n, PL_REMOTE_PREFETCH_THREADS);
    until_done(most);
    for (size_t i = 0; i < large.n; i++) {
        assert_int_equal(read_record(*state, &large, i), 0);
        assert_true(fetches() <= most + 1 + (i + 1) / of_a_range); /* the one that is wanted may be one more */
    }
    assert_int_equal(fetches(), ranges);
}

static void what_nobody_wants_makes_room(void **state)
{
    const size_t of_a_range = PL_REMOTE_PREFETCH_RANGE / large.stride, last = large.n - 1;
    const size_t ranges = (large.n + of_a_range - 1) / of_a_range;

    pl_remote_prefetch_set_stale(*state, 0);
    plan(*state, &large, NULL, large.n, 4);
    assert_int_equal(read_record(*state, &large, last), 0); /* past all the others */
    until_done(ranges);
}

static void what_is_wanted_before_its_turn_is_fetched_by_who_wants_it(void **state)
{
    plan(*state, &far, NULL, far.n, 0); /* as without memory for threads */
    assert_int_equal(read_record(*state, &far, 25), 0);
    assert_int_equal(fetches(), 1);
    assert_int_equal(fetched[0].start, FIRST_RECORD + 25 * far.stride);
    assert_int_equal(read_record(*state, &far, 0), 0);
    assert_int_equal(read_record(*state, &far, 39), 0);
    assert_int_equal(fetches(), 3);
}

static void what_was_read_is_gone_and_may_be_planned_anew(void **state)
{
    assert_int_equal(read_record(*state, &far, 4), 1); /* never planned */
    for (int round = 1; round <= 3; round++) {
        plan(*state, &far, (size_t[]){4, 4}, 2, 2);
        plan(*state, &far, (size_t[]){4}, 1, 2);
        assert_int_equal(read_record(*state, &far, 4), 0);
        assert_int_equal(read_record(*state, &far, 4), 1);
        assert_int_equal(fetches(), round);
    }
}

static void a_range_stays_until_each_of_its_records_was_read(void **state)
{
    plan(*state, &near, (size_t[]){10, 11, 12}, 3, 1);
    for (int i = 0; i < 5; i++)
        assert_int_equal(read_record(*state, &near, 11), 0); /* as two files with the same bytes do */
    assert_int_equal(read_record(*state, &near, 10), 0);
    assert_int_equal(read_record(*state, &near, 12), 0);
    assert_int_equal(read_record(*state, &near, 10), 1);
    assert_int_equal(fetches(), 1);
}

static void a_plan_over_another_takes_what_is_left(void **state)
{
    plan(*state, &near, (size_t[]){100, 101}, 2, 0);
    plan(*state, &near, NULL, 200, 0);
    for (size_t i = 0; i < 200; i++)
        assert_int_equal(read_record(*state, &near, i), 0);
    assert_int_equal(fetches(), 3); /* before it, it, behind it */
}

static void what_comes_in_pieces_is_put_together(void **state)
{
    in_pieces = true;
    plan(*state, &near, NULL, 100, 2);
    for (size_t i = 0; i < 100; i++)
        assert_int_equal(read_record(*state, &near, i), 0);
    assert_int_equal(fetches(), 6); /* of 501,000 bytes */
}

static void what_fails_or_lies_is_read_otherwise(void **state)
{
    failing = true;
    plan(*state, &far, NULL, 2, 2);
    assert_int_equal(read_record(*state, &far, 0), 1);
    assert_int_equal(read_record(*state, &far, 1), 1);
    failing = false;
    lying = true;
    plan(*state, &far, NULL, 2, 2);
    assert_int_equal(read_record(*state, &far, 0), 1);
    assert_int_equal(read_record(*state, &far, 1), 1);
    lying = false;
    plan(*state, &far, NULL, 2, 2);
    assert_int_equal(read_record(*state, &far, 0), 0);
}

static void *destroy(void *ahead)
{
    return pl_remote_prefetch_destroy(ahead);
}

static void it_ends_with_fetches_under_way_and_planned(void **state)
{
    struct pl_remote_ahead *a = pl_remote_prefetch_create(fetch, NULL);
    pthread_t thread;

    (void)state;
    allow(0);
    plan(a, &far, NULL, far.n, 4);
    until_fetched(4);
    assert_int_equal(pthread_create(&thread, NULL, destroy, a), 0);
    allow(SIZE_MAX); /* before it ends, or as it does: some of the planned ones may still be fetched */
    pthread_join(thread, NULL);
    assert_int_equal(n_done, n_fetched);
}

struct readers {
    struct pl_remote_ahead *ahead;
    atomic_size_t next;
};

static void *read_all(void *arg)
{
    struct readers *r = arg;
    size_t i;

    while ((i = atomic_fetch_add(&r->next, 1)) < near.n)
        if (read_record(r->ahead, &near, i) != 0)
            return (void *)"a record that was planned is not there";
    return NULL;
}

static void many_may_read_and_plan(void **state)
{
    struct readers r = {.ahead = *state};
    pthread_t threads[6];

    plan(*state, &near, NULL, near.n, 4);
    for (size_t i = 0; i < PL_ARRAY_SIZE(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, read_all, &r), 0);
    plan(*state, &far, NULL, far.n, 8);
    for (size_t i = 0; i < far.n; i++)
        assert_int_equal(read_record(*state, &far, i), 0);
    for (size_t i = 0; i < PL_ARRAY_SIZE(threads); i++) {
        void *complaint;

        pthread_join(threads[i], &complaint);
        if (complaint)
            fail_msg("%s", (char *)complaint);
    }
    assert_int_equal(fetches(), 2 + far.n);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_lies_together_is_one_fetch),
        TEST(what_lies_apart_is_fetched_at_the_same_time),
        TEST(the_order_is_that_of_reading),
        TEST(the_bytes_ahead_are_bounded),
        TEST(what_nobody_wants_makes_room),
        TEST(what_is_wanted_before_its_turn_is_fetched_by_who_wants_it),
        TEST(what_was_read_is_gone_and_may_be_planned_anew),
        TEST(a_range_stays_until_each_of_its_records_was_read),
        TEST(a_plan_over_another_takes_what_is_left),
        TEST(what_comes_in_pieces_is_put_together),
        TEST(what_fails_or_lies_is_read_otherwise),
        TEST(it_ends_with_fetches_under_way_and_planned),
        TEST(many_may_read_and_plan),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
