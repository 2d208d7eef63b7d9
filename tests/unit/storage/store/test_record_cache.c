// link: storage/base storage/store storage/system
/* record_cache: what is here, what makes room, and a record that is looked at while the cache forgets it. */
#include "tests/support/fixtures/store_fixture.h"

#include "storage/store/record_cache.h"

#include <pthread.h>
#include <stdatomic.h>

#define MAX_BYTES ((size_t)64 << 10)
#define RECORD    ((size_t)6 << 10)

static struct pl_hash id_of(unsigned i)
{
    struct pl_hash id;

    pl_hash_sha256(&i, sizeof i, &id);
    return id;
}

static void put(struct pl_record_cache *c, unsigned i)
{
    _cleanup_free_ uint8_t *bytes = fixture_alloc(RECORD, i);
    struct pl_hash id = id_of(i);

    pl_record_cache_put(c, &id, bytes, RECORD);
}

struct looker {
    struct pl_record_cache *cache;
    unsigned i, more; /* which it is; how many others are put meanwhile */
    bool had_aside;
};

static int look(void *arg, const struct pl_byte_view *shown, struct pl_err *err)
{
    struct looker *l = arg;
    _cleanup_free_ uint8_t *bytes = fixture_alloc(RECORD, l->i);

    (void)err;
    assert_int_equal(shown->n, RECORD);
    l->had_aside = *shown->aside != NULL;
    if (!l->had_aside)
        *shown->aside = malloc(pl_byte_view_decoded_max(shown->n));
    for (unsigned i = 0; i < l->more; i++)
        put(l->cache, 1000 + i);
    assert_memory_equal(shown->bytes, bytes, RECORD);
    return 7;
}

static bool show(struct looker *l)
{
    struct pl_hash id = id_of(l->i);
    struct pl_err err = {0};
    int r = 0;

    if (!pl_record_cache_show(l->cache, &id, look, l, &r, &err))
        return false;
    assert_int_equal(r, 7);
    return true;
}

static void what_was_used_last_stays(void **state)
{
    struct pl_record_cache *c = pl_record_cache_create(MAX_BYTES);
    struct pl_buf bytes = {0};
    struct looker l = {.cache = c};
    struct pl_hash other = id_of(1);

    (void)state;
    for (unsigned i = 0; i < 20; i++) {
        put(c, i);
        assert_true(show(&l)); /* 0, each time */
    }
    assert_false(pl_record_cache_get(c, &other, &bytes));
    pl_record_cache_destroy(c);
}

static void what_was_made_of_a_record_is_kept_with_it(void **state)
{
    struct pl_record_cache *c = pl_record_cache_create(MAX_BYTES);
    struct looker l = {.cache = c, .i = 3};

    (void)state;
    assert_false(show(&l));
    put(c, 3);
    assert_true(show(&l));
    assert_false(l.had_aside);
    assert_true(show(&l));
    assert_true(l.had_aside);
    pl_record_cache_destroy(c);
}

static void a_record_that_is_looked_at_outlives_the_cache_forgetting_it(void **state)
{
    struct pl_record_cache *c = pl_record_cache_create(MAX_BYTES);
    struct looker l = {.cache = c, .i = 5, .more = 20};

    (void)state;
    put(c, 5);
    assert_true(show(&l));
    l.more = 0;
    assert_false(show(&l));
    put(c, 5);
    assert_true(show(&l));
    assert_false(l.had_aside);
    pl_record_cache_destroy(c);
}

/* By threads at a time: one of them is the first. */
static int look_again(void *arg, const struct pl_byte_view *shown, struct pl_err *err)
{
    const struct looker *l = arg;
    _cleanup_free_ uint8_t *bytes = fixture_alloc(RECORD, l->i);
    void *made = malloc(1), *before = NULL;

    (void)err;
    assert_memory_equal(shown->bytes, bytes, RECORD);
    if (!atomic_compare_exchange_strong(shown->aside, &before, made))
        free(made);
    return 0;
}

static void *show_many(void *cache)
{
    uint64_t seed = (uint64_t)(uintptr_t)&seed;

    for (unsigned n = 0; n < 400; n++) {
        struct looker l = {.cache = cache, .i = (unsigned)(pl_splitmix64(&seed) % 16)};
        struct pl_hash id = id_of(l.i);
        struct pl_err err;
        int r;

        if (!pl_record_cache_show(cache, &id, look_again, &l, &r, &err))
            put(cache, l.i);
    }
    return NULL;
}

static void threads_look_at_what_others_forget(void **state)
{
    struct pl_record_cache *c = pl_record_cache_create(MAX_BYTES);
    pthread_t threads[4];

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, show_many, c), 0);
    for (size_t i = 0; i < PL_ARRAY_SIZE(threads); i++)
        pthread_join(threads[i], NULL);
    pl_record_cache_destroy(c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_was_used_last_stays),
        cmocka_unit_test(what_was_made_of_a_record_is_kept_with_it),
        cmocka_unit_test(a_record_that_is_looked_at_outlives_the_cache_forgetting_it),
        cmocka_unit_test(threads_look_at_what_others_forget),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
