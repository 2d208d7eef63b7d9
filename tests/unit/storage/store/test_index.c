// link: storage/base storage/store storage/system
/* index: what was added is found with its place, across segments, merges and restarts; damage only costs reading footers again. */
#include "tests/support/fixtures/store_fixture.h"

#include "storage/store/index.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>

static char *dir;
static struct pl_index *ix;

static void open_index(void)
{
    struct pl_err err;

    assert_ok(pl_index_open(fixture_path(dir, "index"), &ix, &err), &err);
}

static int setup(void **state)
{
    (void)state;
    dir = fixture_dir();
    open_index();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < PL_IO_CALLS; i++)
        pl_io_fail_nth((enum pl_io_call)i, 0, 0);
    ix = pl_index_close(ix);
    fixture_remove(dir);
    return 0;
}

static struct pl_hash pack_id(uint64_t pack)
{
    struct pl_hash id;

    fixture_bytes(id.b, sizeof(id.b), ~pack);
    return id;
}

static struct pl_pack_entry entry_of(uint64_t pack, uint32_t i)
{
    struct pl_pack_entry e = {
        .offset = 80 + i * 100,
        .stored = 1 + i % 70000,
        .raw = 1 + i % 262144,
        .codec = (uint8_t)(i % 2),
        .kind = (uint8_t)(1 + i % 5),
    };

    fixture_bytes(e.id.b, sizeof(e.id.b), pack << 32 | i);
    return e;
}

static void add_pack(uint64_t pack, uint32_t n)
{
    _cleanup_free_ struct pl_pack_entry *entries = calloc(n, sizeof(*entries));
    struct pl_hash id = pack_id(pack);
    struct pl_err err;

    for (uint32_t i = 0; i < n; i++)
        entries[i] = entry_of(pack, i);
    assert_ok(pl_index_add_pack(ix, &id, entries, n, 0, &err), &err);
}

/* Every `step`th entry of the pack is found where it is (or is not found). */
static void assert_pack(uint64_t pack, uint32_t n, uint32_t step, bool there)
{
    struct pl_hash id = pack_id(pack);

    assert_int_equal(pl_index_has_pack(ix, &id), there);
    for (uint32_t i = 0; i < n; i += step) {
        struct pl_pack_entry e = entry_of(pack, i);
        struct pl_location at;

        assert_int_equal(pl_index_find(ix, &e.id, &at), there);
        if (!there)
            continue;
        assert_true(pl_hash_eq(&at.pack, &id));
        assert_int_equal(at.offset, e.offset);
        assert_int_equal(at.stored, e.stored);
        assert_int_equal(at.raw, e.raw);
        assert_int_equal(at.codec, e.codec);
        assert_int_equal(at.kind, e.kind);
    }
}

static struct pl_index_stats stats(void)
{
    struct pl_index_stats s;

    pl_index_stats(ix, &s);
    return s;
}

static void reopen(void)
{
    ix = pl_index_close(ix);
    open_index();
}

static void what_is_added_is_found(void **state)
{
    struct pl_hash ids[20];
    uint8_t bits[3];

    (void)state;
    assert_pack(1, 10, 1, false);
    add_pack(1, 1000);
    assert_pack(1, 1000, 1, true);
    assert_pack(2, 10, 1, false);
    add_pack(1, 1000); /* again: nothing happens */
    assert_int_equal(stats().entries, 1000);
    for (uint32_t i = 0; i < 20; i++)
        ids[i] = entry_of(i % 3 == 0 ? 1 : 2, i).id;
    pl_index_find_many(ix, ids, 20, bits, NULL);
    for (uint32_t i = 0; i < 20; i++)
        assert_int_equal(bits[i / 8] >> (i % 8) & 1, i % 3 == 0);
    assert_int_equal(bits[2] >> 4, 0);
}

static void past_the_bound_entries_go_to_segments_and_survive_a_restart(void **state)
{
    (void)state;
    for (uint64_t p = 0; p < 8; p++)
        add_pack(p, 20000);
    assert_int_equal(stats().entries, 160000);
    assert_int_equal(stats().segments, 2);
    assert_int_equal(stats().memory, 0); /* 80,000 each time */
    add_pack(8, 100);
    for (uint64_t p = 0; p < 8; p++)
        assert_pack(p, 20000, 7, true);
    assert_pack(8, 100, 1, true);
    reopen();
    for (uint64_t p = 0; p < 8; p++)
        assert_pack(p, 20000, 7, true);
    assert_pack(8, 100, 1, false); /* it was in memory: the store reads its footer again */
    assert_int_equal(stats().packs, 8);
    add_pack(8, 100);
    assert_pack(8, 100, 1, true);
}

static void eight_segments_of_a_level_become_one(void **state)
{
    struct pl_err err;

    (void)state;
    for (uint64_t p = 0; p < 75; p++) { /* 64 + 8 + 3 small segments */
        add_pack(p, 500);
        assert_ok(pl_index_sync(ix, &err), &err);
    }
    assert_int_equal(stats().segments, 1 + 1 + 3);
    assert_int_equal(stats().entries, 37500);
    for (uint64_t p = 0; p < 75; p++)
        assert_pack(p, 500, 11, true);
    assert_int_equal(fixture_count(fixture_path(dir, "index")), 5 + 1);
    reopen();
    assert_int_equal(stats().segments, 5);
    for (uint64_t p = 0; p < 75; p++)
        assert_pack(p, 500, 11, true);
}

static void a_dropped_pack_is_not_found_and_leaves_with_the_next_merge(void **state)
{
    struct pl_hash gone = pack_id(3);
    struct pl_err err;

    (void)state;
    for (uint64_t p = 0; p < 7; p++) {
        add_pack(p, 500);
        assert_ok(pl_index_sync(ix, &err), &err);
    }
    pl_index_drop_pack(ix, &gone);
    pl_index_drop_pack(ix, &gone);
    assert_pack(3, 500, 1, false);
    assert_int_equal(stats().packs, 6);
    add_pack(7, 500);
    assert_ok(pl_index_sync(ix, &err), &err);
    assert_int_equal(stats().segments, 1);
    assert_int_equal(stats().entries, 3500);
    reopen();
    assert_pack(3, 500, 1, false);
    assert_pack(2, 500, 1, true);
    add_pack(3, 500); /* it may come back */
    assert_pack(3, 500, 1, true);
}

static void an_id_in_two_packs_outlives_one_of_them(void **state)
{
    struct pl_pack_entry e = entry_of(1, 1);
    struct pl_hash a = pack_id(100), b = pack_id(101);
    struct pl_location at;
    struct pl_err err;

    (void)state;
    assert_ok(pl_index_add_pack(ix, &a, &e, 1, 0, &err), &err);
    assert_ok(pl_index_sync(ix, &err), &err);
    assert_ok(pl_index_add_pack(ix, &b, &e, 1, 0, &err), &err);
    pl_index_drop_pack(ix, &b);
    assert_true(pl_index_find(ix, &e.id, &at));
    assert_true(pl_hash_eq(&at.pack, &a));
    pl_index_drop_pack(ix, &a);
    assert_false(pl_index_find(ix, &e.id, &at));
}

/* In memory, in one segment, in several, and over a restart. */
static void of_several_places_the_newest_is_found(void **state)
{
    struct pl_pack_entry e = entry_of(1, 0);
    struct pl_location where;
    struct pl_err err;

    (void)state;
    for (uint64_t pack = 1; pack <= 9; pack++) {
        struct pl_hash id = pack_id(pack);

        assert_ok(pl_index_add_pack(ix, &id, &e, 1, 0, &err), &err);
        if (pack % 3 == 0)
            assert_ok(pl_index_sync(ix, &err), &err);
        for (int restarted = 0; restarted < 2; restarted++) {
            assert_true(pl_index_find(ix, &e.id, &where));
            assert_true(pl_hash_eq(&where.pack, &id));
            if (pack % 3 != 0)
                break; /* what is in memory alone comes from footers again */
            reopen();
        }
    }
}

/* Every pair of what can be said of two packs with one record: whichever came first, the less doubted is taken, then the one that is shown; and
 * it need not be brought when that one is shown and read. */
static void of_two_packs_the_less_doubted_is_found_then_the_shown(void **state)
{
    static const struct {
        enum pl_pack_seen seen;
        unsigned doubt;
        bool there;
    } best_first[] = {
        {PL_PACK_SHOWN, 0, true},
        {PL_PACK_HIDDEN, 0, false},
        {PL_PACK_SHOWN, PL_DOUBT_UNREAD, false},
        {PL_PACK_HIDDEN, PL_DOUBT_UNREAD, false},
        {PL_PACK_SHOWN, PL_DOUBT_DAMAGED, true}, /* which of its records are bad is the store's to know */
        {PL_PACK_HIDDEN, PL_DOUBT_DAMAGED, false},
        {PL_PACK_SHOWN, PL_DOUBT_DAMAGED | PL_DOUBT_UNREAD, false},
        {PL_PACK_HIDDEN, PL_DOUBT_DAMAGED | PL_DOUBT_UNREAD, false},
    };
    struct pl_location at;
    uint64_t next = 200;
    struct pl_err err;
    uint8_t bits;

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(best_first); i++) {
        for (size_t k = 0; k < PL_ARRAY_SIZE(best_first); k++) {
            struct pl_pack_entry e = entry_of(next, 0);
            struct pl_hash packs[2] = {pack_id(next), pack_id(next + 1)};
            size_t best = PL_MIN(i, k);

            next += 2;
            assert_ok(pl_index_add_pack(ix, &packs[0], &e, 1, best_first[i].doubt, &err), &err);
            assert_ok(pl_index_add_pack(ix, &packs[1], &e, 1, best_first[k].doubt, &err), &err);
            pl_index_set_seen(ix, &packs[0], best_first[i].seen);
            pl_index_set_seen(ix, &packs[1], best_first[k].seen);
            assert_true(pl_index_find(ix, &e.id, &at));
            assert_true(pl_hash_eq(&at.pack, &packs[i < k ? 0 : 1])); /* of equals the newer */
            assert_int_equal(at.hidden, best_first[best].seen == PL_PACK_HIDDEN);
            assert_int_equal(at.unread, (best_first[best].doubt & PL_DOUBT_UNREAD) != 0);
            pl_index_find_many(ix, &e.id, 1, &bits, NULL);
            assert_int_equal(bits, best_first[best].there);
        }
    }
}

static void doubts_come_and_go_by_themselves(void **state)
{
    struct pl_hash pack = pack_id(1), unknown = pack_id(2);

    (void)state;
    add_pack(1, 10);
    assert_int_equal(pl_index_doubt(ix, &pack), 0);
    pl_index_set_doubt(ix, &pack, PL_DOUBT_UNREAD, true);
    pl_index_set_doubt(ix, &pack, PL_DOUBT_DAMAGED, true);
    pl_index_set_seen(ix, &pack, PL_PACK_HIDDEN);
    pl_index_set_seen(ix, &pack, PL_PACK_SHOWN);
    assert_int_equal(pl_index_doubt(ix, &pack), PL_DOUBT_UNREAD | PL_DOUBT_DAMAGED);
    pl_index_set_doubt(ix, &pack, PL_DOUBT_UNREAD, false);
    assert_int_equal(pl_index_doubt(ix, &pack), PL_DOUBT_DAMAGED);
    pl_index_set_doubt(ix, &unknown, PL_DOUBT_UNREAD, true);
    assert_int_equal(pl_index_doubt(ix, &unknown), 0);
}

static void flip_byte(const char *name, size_t at)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    struct pl_err err;

    assert_ok(pl_io_read_file(fixture_path(dir, name), &b, &err), &err);
    b.data[at % b.len] ^= 1;
    assert_ok(pl_io_write_file(fixture_path(dir, name), b.data, b.len, 0644, &err), &err);
}

static void a_damaged_index_is_begun_anew(void **state)
{
    struct {
        const char *file;
        size_t at;
    } cases[] = {
        {"index/packs", 9}, {"index/packs", 60}, {"index/0000000000000001.seg", 5}, {"index/0000000000000001.seg", 3000}};
    struct pl_err err;

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        add_pack(1, 500);
        assert_ok(pl_index_sync(ix, &err), &err);
        ix = pl_index_close(ix);
        flip_byte(cases[i].file, cases[i].at);
        open_index();
        assert_int_equal(stats().packs, 0);
        assert_int_equal(stats().entries, 0);
        assert_int_equal(fixture_count(fixture_path(dir, "index")), 0);
        assert_pack(1, 500, 50, false);
    }
}

static void what_a_crash_left_is_swept(void **state)
{
    struct pl_err err;

    (void)state;
    add_pack(1, 10);
    assert_ok(pl_index_sync(ix, &err), &err);
    assert_ok(pl_io_write_file(fixture_path(dir, "index/00000000000000ff.seg"), "x", 1, 0644, &err), &err);
    assert_ok(pl_io_write_file(fixture_path(dir, "index/0000000000000002.seg.tmp"), "x", 1, 0644, &err), &err);
    reopen();
    assert_int_equal(fixture_count(fixture_path(dir, "index")), 2);
    assert_pack(1, 10, 1, true);
}

static void a_full_disk_keeps_entries_in_memory(void **state)
{
    static const enum pl_io_call calls[] = {PL_IO_WRITE, PL_IO_FSYNC, PL_IO_RENAME};
    struct pl_err err;

    (void)state;
    for (size_t c = 0; c < PL_ARRAY_SIZE(calls); c++) {
        pl_io_fail_nth(calls[c], 1, ENOSPC);
        add_pack(2 * c, PL_INDEX_SEGMENT_ENTRIES);
        assert_int_equal(stats().memory, PL_INDEX_SEGMENT_ENTRIES);
        assert_pack(2 * c, PL_INDEX_SEGMENT_ENTRIES, 1001, true);
        add_pack(2 * c + 1, PL_INDEX_SEGMENT_ENTRIES); /* tried again, and well */
        assert_int_equal(stats().memory, 0);
        assert_int_equal(stats().segments, c + 1);
    }
    add_pack(99, 1);
    pl_io_fail_nth(PL_IO_WRITE, 1, ENOSPC);
    assert_int_equal(pl_index_sync(ix, &err), PL_ENOSPC);
    assert_pack(99, 1, 1, true);
}

static void without_a_folder_all_stays_in_memory(void **state)
{
    struct pl_err err;

    (void)state;
    pl_index_close(ix);
    assert_ok(pl_index_open(NULL, &ix, &err), &err);
    for (uint64_t p = 0; p < 5; p++)
        add_pack(p, 20000);
    assert_int_equal(stats().memory, 100000);
    assert_pack(4, 20000, 9, true);
    assert_ok(pl_index_sync(ix, &err), &err);
    assert_int_equal(stats().segments, 0);
}

static _Atomic bool adding;

static void *look(void *arg)
{
    uint64_t seen = 0;

    (void)arg;
    while (atomic_load(&adding)) {
        struct pl_pack_entry e = entry_of(0, (uint32_t)(seen++ % 20000));

        assert_true(pl_index_find(ix, &e.id, NULL)); /* once there, always there, while segments come and go */
    }
    return NULL;
}

static void readers_find_everything_while_segments_are_written(void **state)
{
    pthread_t reader;

    (void)state;
    add_pack(0, 20000);
    atomic_store(&adding, true);
    pthread_create(&reader, NULL, look, NULL);
    for (uint64_t p = 1; p < 30; p++)
        add_pack(p, 20000);
    atomic_store(&adding, false);
    pthread_join(reader, NULL);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

/* ---- who adds while another thread writes ---- */

#define ADD_S 60 /* it takes microseconds, or as long as the disk */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of how many have added theirs */
static pthread_cond_t one_more = PTHREAD_COND_INITIALIZER;
static int added;

struct pack_of {
    uint64_t pack;
    uint32_t n;
};

static void *add_main(void *arg)
{
    const struct pack_of *p = arg;

    add_pack(p->pack, p->n);
    pthread_mutex_lock(&lock);
    added++;
    pthread_cond_signal(&one_more);
    pthread_mutex_unlock(&lock);
    return NULL;
}

static bool one_is_added_in_time(void)
{
    struct timespec until;
    bool one;

    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += ADD_S;
    pthread_mutex_lock(&lock);
    while (added == 0 && pthread_cond_timedwait(&one_more, &lock, &until) == 0)
        ;
    one = added == 1;
    pthread_mutex_unlock(&lock);
    return one;
}

/* A pipe in the place of the first segment: whoever writes it waits until it is read. Then it is found to be no file. */
static void let_the_write_fail(const char *pipe)
{
    char bytes[4096];
    int fd = open(pipe, O_RDONLY | O_CLOEXEC);

    assert_true(fd >= 0);
    while (read(fd, bytes, sizeof(bytes)) > 0)
        ;
    close(fd);
}

static void who_adds_does_not_wait_for_who_writes(void **state)
{
    struct pack_of packs[] = {{0, 70000}, {1, 100}}; /* either may come to write */
    const struct pl_hash first = pack_id(0);
    char pipe[PATH_MAX];
    pthread_t threads[2];
    bool in_time;

    (void)state;
    added = 0;
    snprintf(pipe, sizeof(pipe), "%s", fixture_path(dir, "index/0000000000000001.seg.tmp"));
    assert_int_equal(mkfifo(pipe, 0600), 0);
    assert_int_equal(pthread_create(&threads[0], NULL, add_main, &packs[0]), 0);
    while (!pl_index_has_pack(ix, &first))
        sched_yield();
    assert_int_equal(pthread_create(&threads[1], NULL, add_main, &packs[1]), 0);
    in_time = one_is_added_in_time();
    let_the_write_fail(pipe);
    for (int i = 0; i < 2; i++)
        pthread_join(threads[i], NULL);
    assert_true(in_time);
    assert_pack(0, 70000, 7, true);
    assert_pack(1, 100, 1, true);
    add_pack(2, 70000); /* now the disk takes them */
    reopen();
    assert_pack(0, 70000, 7, true);
    assert_pack(1, 100, 1, true);
    assert_pack(2, 70000, 7, true);
}

#define SMALL_FIRST 1000

static uint64_t small_packs;

static void *add_small(void *arg)
{
    (void)arg;
    while (atomic_load(&adding))
        add_pack(SMALL_FIRST + small_packs++, 3);
    return NULL;
}

/* A pack that the index knows at a start has all its entries there: its footer is not read again. */
static void what_comes_while_segments_are_written_and_merged_survives_a_restart(void **state)
{
    pthread_t other;

    (void)state;
    small_packs = 0;
    atomic_store(&adding, true);
    pthread_create(&other, NULL, add_small, NULL);
    for (uint64_t p = 0; p < 36; p++)
        add_pack(p, 20000); /* nine segments, eight of which become one */
    atomic_store(&adding, false);
    pthread_join(other, NULL);
    for (int again = 0; again < 2; again++) {
        for (uint64_t p = 0; p < 36; p++) {
            struct pl_hash id = pack_id(p);

            assert_true(again || pl_index_has_pack(ix, &id));
            assert_pack(p, 20000, 501, pl_index_has_pack(ix, &id));
        }
        for (uint64_t p = SMALL_FIRST; p < SMALL_FIRST + small_packs; p++) {
            struct pl_hash id = pack_id(p);

            assert_true(again || pl_index_has_pack(ix, &id));
            assert_pack(p, 3, 1, pl_index_has_pack(ix, &id));
        }
        reopen();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_is_added_is_found),
        TEST(past_the_bound_entries_go_to_segments_and_survive_a_restart),
        TEST(eight_segments_of_a_level_become_one),
        TEST(a_dropped_pack_is_not_found_and_leaves_with_the_next_merge),
        TEST(an_id_in_two_packs_outlives_one_of_them),
        TEST(of_several_places_the_newest_is_found),
        TEST(of_two_packs_the_less_doubted_is_found_then_the_shown),
        TEST(doubts_come_and_go_by_themselves),
        TEST(a_damaged_index_is_begun_anew),
        TEST(what_a_crash_left_is_swept),
        TEST(a_full_disk_keeps_entries_in_memory),
        TEST(without_a_folder_all_stays_in_memory),
        TEST(readers_find_everything_while_segments_are_written),
        TEST(who_adds_does_not_wait_for_who_writes),
        TEST(what_comes_while_segments_are_written_and_merged_survives_a_restart),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
