// link: storage/base storage/pack storage/store storage/system
/* pack_session: everything added is stored once and durable after finish; what fails, fails as a whole. */
#include "tests/support/fixtures/store_fixture.h"

#include "storage/pack/pack_builder.h"
#include "storage/pack/pack_reader.h"
#include "storage/pack/recent_ids.h"
#include "storage/store/store.h"

#include <pthread.h>
#include <stdatomic.h>

#define THREADS 4

static char *dir;
static struct pl_object_store *objects;
static struct pl_store *store;

static int setup(void **state)
{
    struct pl_err err;

    (void)state;
    dir = fixture_dir();
    assert_ok(pl_object_file_open(fixture_path(dir, "store"), &objects, &err), &err);
    assert_ok(pl_store_open(objects, "default", NULL, &store, &err), &err);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < PL_IO_CALLS; i++)
        pl_io_fail_nth((enum pl_io_call)i, 0, 0);
    store = pl_store_close(store);
    objects = pl_object_close(objects);
    fixture_remove(dir);
    return 0;
}

static struct pl_pack_builder *session_of(const struct pl_pack_sink *sink)
{
    struct pl_pack_builder *s;
    struct pl_err err;

    assert_ok(pl_pack_builder_open(sink, "default", &s, &err), &err);
    return s;
}

static struct pl_pack_builder *session(void)
{
    struct pl_pack_sink sink = pl_store_sink(store);

    return session_of(&sink);
}

static struct pl_hash add(struct pl_pack_builder *s, uint8_t kind, uint64_t seed, size_t n)
{
    _cleanup_free_ uint8_t *bytes = fixture_alloc(n, seed);
    struct pl_hash id;
    struct pl_err err;

    assert_ok(pl_pack_builder_add(s, kind, bytes, n, &id, &err), &err);
    return id;
}

static void assert_stored(const struct pl_hash *id, uint64_t seed, size_t n)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    _cleanup_free_ uint8_t *bytes = fixture_alloc(n, seed);
    struct pl_err err;

    assert_ok(pl_store_get(store, id, 0, &b, &err), &err);
    assert_int_equal(b.len, n);
    assert_memory_equal(b.data, bytes, n);
}

static uint8_t kind_of_pack(const struct pl_hash *pack)
{
    _cleanup_(pl_pack_footer_finish) struct pl_pack_footer f = {0};
    struct pl_err err;

    assert_ok(pl_store_pack_footer(store, pack, &f, &err), &err);
    return f.header.kind;
}

static void a_small_session_is_one_mixed_pack(void **state)
{
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *s = session();
    struct pl_hash file = add(s, PL_REC_CHUNK, 1, 5000), node = add(s, PL_REC_NODE, 2, 300);
    struct pl_pack_builder_stats stats;
    const struct pl_hash *packs;
    struct pl_err err;
    size_t n;

    (void)state;
    assert_false(pl_store_has(store, &file)); /* nothing is there before finish */
    assert_true(pl_pack_builder_knows(s, &file));
    assert_ok(pl_pack_builder_finish(s, &err), &err);
    packs = pl_pack_builder_packs(s, &n);
    assert_int_equal(n, 1);
    assert_int_equal(kind_of_pack(&packs[0]), PL_PACK_MIXED);
    assert_stored(&file, 1, 5000);
    assert_stored(&node, 2, 300);
    pl_pack_builder_stats(s, &stats);
    assert_int_equal(stats.records, 2);
    assert_int_equal(stats.new_records, 2);
    assert_int_equal(stats.new_raw, 5300);
    assert_int_equal(stats.packs, 1);
}

static void a_large_session_keeps_data_and_tree_apart(void **state)
{
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *s = session();
    const struct pl_hash *packs;
    struct pl_err err;
    size_t n;

    (void)state;
    for (uint64_t i = 0; i < 20; i++)
        add(s, PL_REC_CHUNK, i, 60000);
    add(s, PL_REC_COMMIT, 99, 100);
    assert_ok(pl_pack_builder_finish(s, &err), &err);
    packs = pl_pack_builder_packs(s, &n);
    assert_int_equal(n, 2);
    assert_int_equal(kind_of_pack(&packs[0]), PL_PACK_DATA);
    assert_int_equal(kind_of_pack(&packs[1]), PL_PACK_TREE);
}

static void nothing_added_is_nothing_stored(void **state)
{
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *s = session();
    struct pl_err err;
    size_t n;

    (void)state;
    assert_ok(pl_pack_builder_finish(s, &err), &err);
    (void)pl_pack_builder_packs(s, &n);
    assert_int_equal(n, 0);
}

static void the_same_record_is_stored_once(void **state)
{
    struct pl_pack_builder_stats stats;
    struct pl_err err;

    (void)state;
    for (int sessions = 0; sessions < 2; sessions++) {
        _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *s = session();

        for (uint64_t i = 0; i < 3000; i++)
            add(s, PL_REC_CHUNK, i % 1000, 500);
        assert_ok(pl_pack_builder_finish(s, &err), &err);
        pl_pack_builder_stats(s, &stats);
        assert_int_equal(stats.records, 3000);
        assert_int_equal(stats.new_records, sessions == 0 ? 1000 : 0); /* the second finds them in the store */
        assert_int_equal(stats.packs, sessions == 0 ? 1 : 0);
    }
}

static void records_of_all_sizes_fill_many_packs(void **state)
{
    static const size_t sizes[] = {1, 100, 4096, 65536, 262144, 1000};
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *s = session();
    struct pl_hash ids[300];
    struct pl_err err;
    size_t n;

    (void)state;
    pl_pack_builder_set_pack_bytes(s, (size_t)1 << 20);
    for (uint64_t i = 0; i < PL_ARRAY_SIZE(ids); i++)
        ids[i] = add(s, i % 7 == 0 && sizes[i % 6] < 262144 ? PL_REC_NODE : PL_REC_CHUNK, 1000 + i, sizes[i % 6]);
    assert_ok(pl_pack_builder_finish(s, &err), &err);
    for (uint64_t i = 0; i < PL_ARRAY_SIZE(ids); i++)
        assert_stored(&ids[i], 1000 + i, sizes[i % 6]);
    (void)pl_pack_builder_packs(s, &n);
    assert_true(n > 10);
}

static void a_record_larger_than_a_batch_is_stored(void **state)
{
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *s = session();
    size_t large = (size_t)10 << 20;
    struct pl_hash a = add(s, PL_REC_BLOB, 1, large), b = add(s, PL_REC_BLOB, 1, large);
    struct pl_err err;

    (void)state;
    assert_true(pl_hash_eq(&a, &b));
    assert_ok(pl_pack_builder_finish(s, &err), &err);
    assert_stored(&a, 1, large);
}

static void what_no_record_may_be_is_refused(void **state)
{
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *s = session();
    _cleanup_free_ uint8_t *bytes = calloc(1, ((size_t)16 << 20) + 1);
    struct pl_hash id;
    struct pl_err err;

    (void)state;
    assert_int_equal(pl_pack_builder_add(s, 0, bytes, 1, &id, &err), PL_EINVAL);
    assert_int_equal(pl_pack_builder_add(s, PL_REC_KINDS, bytes, 1, &id, &err), PL_EINVAL);
    for (uint8_t kind = 1; kind < PL_REC_KINDS; kind++)
        assert_int_equal(pl_pack_builder_add(s, kind, bytes, pl_pack_raw_max(kind) + 1, &id, &err), PL_ETOOBIG);
    assert_ok(pl_pack_builder_finish(s, &err), &err); /* that was no failure of the session */
}

struct adder {
    struct pl_pack_builder *s;
    uint64_t first;
};

static void *add_many(void *arg)
{
    const struct adder *a = arg;

    for (uint64_t i = 0; i < 2000; i++)
        add(a->s, PL_REC_CHUNK, a->first + i, 1000 + i % 3000); /* halves overlap with the neighbours' */
    return NULL;
}

static void many_threads_add_at_once(void **state)
{
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *s = session();
    struct pl_pack_builder_stats stats;
    struct adder adders[THREADS];
    pthread_t threads[THREADS];
    struct pl_err err;

    (void)state;
    pl_pack_builder_set_pack_bytes(s, (size_t)1 << 20);
    for (uint64_t i = 0; i < THREADS; i++) {
        adders[i] = (struct adder){s, i / 2 * 100000}; /* two and two add the same */
        pthread_create(&threads[i], NULL, add_many, &adders[i]);
    }
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    assert_ok(pl_pack_builder_finish(s, &err), &err);
    pl_pack_builder_stats(s, &stats);
    assert_int_equal(stats.records, THREADS * 2000);
    assert_int_equal(stats.new_records, THREADS / 2 * 2000);
    for (uint64_t i = 0; i < 2000; i += 37) {
        _cleanup_free_ uint8_t *bytes = fixture_alloc(1000 + i % 3000, i);
        struct pl_hash id;

        pl_hash_sha256(bytes, 1000 + i % 3000, &id);
        assert_stored(&id, i, 1000 + i % 3000);
    }
}

static void many_sessions_write_at_once(void **state)
{
    struct pl_pack_builder *sessions[THREADS];
    struct adder adders[THREADS];
    pthread_t threads[THREADS];
    struct pl_err err;

    (void)state;
    for (uint64_t i = 0; i < THREADS; i++) {
        sessions[i] = session();
        pl_pack_builder_set_pack_bytes(sessions[i], (size_t)1 << 20);
        adders[i] = (struct adder){sessions[i], i * 1000};
        pthread_create(&threads[i], NULL, add_many, &adders[i]);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
        assert_ok(pl_pack_builder_finish(sessions[i], &err), &err);
        pl_pack_builder_close(sessions[i]);
    }
    for (uint64_t i = 0; i < 2000; i += 53) {
        _cleanup_free_ uint8_t *bytes = fixture_alloc(1000 + i % 3000, i + 3000);
        struct pl_hash id;

        pl_hash_sha256(bytes, 1000 + i % 3000, &id);
        assert_stored(&id, i + 3000, 1000 + i % 3000);
    }
}

static void the_first_error_sticks(void **state)
{
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *s = session();
    uint8_t bytes[4096];
    struct pl_hash id;
    struct pl_err err;
    int r = 0;

    (void)state;
    pl_pack_builder_set_pack_bytes(s, (size_t)1 << 20);
    pl_io_fail_nth(PL_IO_FSYNC, 1, ENOSPC);
    for (uint64_t i = 0; i < 2000 && r == 0; i++) {
        fixture_bytes(bytes, sizeof(bytes), i);
        r = pl_pack_builder_add(s, PL_REC_CHUNK, bytes, sizeof(bytes), &id, &err);
    }
    assert_int_equal(r, PL_ENOSPC);
    assert_int_equal(pl_pack_builder_add(s, PL_REC_CHUNK, "x", 1, &id, &err), PL_ENOSPC);
    assert_int_equal(pl_pack_builder_finish(s, &err), PL_ENOSPC);
    assert_non_null(strstr(err.msg, "No space left"));
    assert_int_equal(fixture_count(fixture_path(dir, "store/tmp")), 0);
}

/* A sink that answers by rule and counts. */
struct counting {
    size_t asked, questions, packs, flushes;
    bool has_fails;
};

static int counting_has(void *self, const struct pl_hash *ids, size_t n, uint8_t *ret_bitmap, struct pl_err *err)
{
    struct counting *c = self;

    c->questions++;
    c->asked += n;
    assert_true(n <= PL_PACK_SINK_HAS_MAX);
    for (size_t i = 0; i < n; i++)
        ret_bitmap[i / 8] = (uint8_t)(ret_bitmap[i / 8] | (ids[i].b[0] & 1) << (i % 8));
    return c->has_fails ? pl_err_set(err, PL_ENET, "no server") : 0;
}

static int counting_put(void *self, const struct pl_hash *pack_id, const void *bytes, size_t n, struct pl_err *err)
{
    struct pl_pack_memory m = {bytes, n};
    struct pl_pack_input in = pl_pack_input_memory(&m);
    struct pl_pack_verify how = {.project = "default", .claimed = pack_id};

    ((struct counting *)self)->packs++;
    return pl_pack_verify(&in, &how, NULL, err);
}

static int counting_flush(void *self, struct pl_err *err)
{
    (void)err;
    ((struct counting *)self)->flushes++;
    return 0;
}

static void ids_are_asked_for_in_groups_and_what_is_there_is_left_out(void **state)
{
    struct counting c = {0};
    struct pl_pack_sink sink = {&c, counting_has, counting_put, counting_flush};
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *s = session_of(&sink);
    struct pl_pack_builder_stats stats;
    uint64_t odd = 0;
    struct pl_err err;

    (void)state;
    for (uint64_t i = 0; i < 5000; i++)
        odd += add(s, PL_REC_CHUNK, i, 200).b[0] & 1;
    assert_ok(pl_pack_builder_finish(s, &err), &err);
    pl_pack_builder_stats(s, &stats);
    assert_int_equal(stats.new_records, 5000 - odd);
    assert_int_equal(c.asked, 5000);
    assert_int_equal(c.questions, 5); /* 1,024 a time */
    assert_int_equal(c.packs, 1);
    assert_int_equal(c.flushes, 1);
}

static void an_unanswered_question_fails_the_session(void **state)
{
    struct counting c = {.has_fails = true};
    struct pl_pack_sink sink = {&c, counting_has, counting_put, NULL};
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *s = session_of(&sink);
    struct pl_err err;

    (void)state;
    add(s, PL_REC_CHUNK, 1, 100);
    assert_int_equal(pl_pack_builder_finish(s, &err), PL_ENET);
    assert_int_equal(c.packs, 0);
}

static void a_sink_that_cannot_answer_gets_everything(void **state)
{
    struct counting c = {0};
    struct pl_pack_sink sink = {&c, NULL, counting_put, NULL};
    _cleanup_(pl_pack_builder_closep) struct pl_pack_builder *s = session_of(&sink);
    struct pl_pack_builder_stats stats;
    struct pl_hash id;
    struct pl_err err;

    (void)state;
    assert_ok(pl_pack_builder_node_put(s, "PLND", 4, &id, &err), &err);
    assert_ok(pl_pack_builder_list_put(s, "PLCL", 4, &id, &err), &err);
    assert_ok(pl_pack_builder_finish(s, &err), &err);
    pl_pack_builder_stats(s, &stats);
    assert_int_equal(stats.new_records, 2);
}

static void the_set_of_ids_seen_forgets_the_oldest_first(void **state)
{
    struct pl_recent_ids set = {.max = 10000};
    size_t known = 0;

    (void)state;
    for (uint64_t i = 0; i < 20000; i++) {
        struct pl_hash id;

        fixture_bytes(id.b, sizeof(id.b), i);
        assert_false(pl_recent_ids_put(&set, &id));
        assert_true(pl_recent_ids_put(&set, &id));
    }
    for (uint64_t i = 0; i < 20000; i++) {
        struct pl_hash id;

        fixture_bytes(id.b, sizeof(id.b), i);
        known += pl_recent_ids_has(&set, &id);
        if (i >= 15000)
            assert_true(pl_recent_ids_has(&set, &id));
    }
    assert_in_range(known, 5000, 10000);
    pl_recent_ids_finish(&set);
}

/* Every third of many that share few places, over both generations; the others stay known. */
static void an_id_that_is_forgotten_was_never_met(void **state)
{
    struct pl_recent_ids set = {.max = 4000};
    struct pl_hash id;

    (void)state;
    for (int forgotten = 0; forgotten < 2; forgotten++) {
        for (uint64_t i = 0; i < 3000; i++) {
            fixture_bytes(id.b, sizeof(id.b), i);
            id.b[9] = id.b[10] = 0; /* of the place in the table */
            if (forgotten == 0)
                (void)pl_recent_ids_put(&set, &id);
            else if (i % 3 == 0)
                pl_recent_ids_forget(&set, &id);
        }
    }
    for (uint64_t i = 0; i < 3000; i++) {
        fixture_bytes(id.b, sizeof(id.b), i);
        id.b[9] = id.b[10] = 0;
        assert_int_equal(pl_recent_ids_has(&set, &id), i % 3 != 0);
    }
    fixture_bytes(id.b, sizeof(id.b), 5000);
    pl_recent_ids_forget(&set, &id); /* never met: fine */
    pl_recent_ids_finish(&set);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_small_session_is_one_mixed_pack),
        TEST(a_large_session_keeps_data_and_tree_apart),
        TEST(nothing_added_is_nothing_stored),
        TEST(the_same_record_is_stored_once),
        TEST(records_of_all_sizes_fill_many_packs),
        TEST(a_record_larger_than_a_batch_is_stored),
        TEST(what_no_record_may_be_is_refused),
        TEST(many_threads_add_at_once),
        TEST(many_sessions_write_at_once),
        TEST(the_first_error_sticks),
        TEST(ids_are_asked_for_in_groups_and_what_is_there_is_left_out),
        TEST(an_unanswered_question_fails_the_session),
        TEST(a_sink_that_cannot_answer_gets_everything),
        cmocka_unit_test(the_set_of_ids_seen_forgets_the_oldest_first),
        cmocka_unit_test(an_id_that_is_forgotten_was_never_met),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
