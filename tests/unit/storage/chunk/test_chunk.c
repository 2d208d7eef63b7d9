// link: storage/base storage/chunk storage/system
/* chunk: the cuts are those of the scalar definition, however the bytes come; pinned, since they are the format. */
#include "tests/support/fixtures/store_fixture.h"

#include "storage/chunk/chunk.h"

#define GOLDEN_BYTES ((size_t)4 << 20)
#define MAX_CUTS     4096

struct cuts {
    size_t at[MAX_CUTS]; /* ends of the chunks */
    size_t n;
};

/* The definition of chunk.h, word for word and as slow. */
static uint64_t scalar_hash(const uint8_t *p, size_t at)
{
    const uint64_t *gear = pl_chunk_table();
    uint64_t h = 0;

    for (size_t i = 0; i < 64 && i <= at; i++)
        h += gear[p[at - i]] << i;
    return h;
}

static void scalar_cuts(const uint8_t *p, size_t n, struct cuts *c)
{
    size_t last = 0;

    c->n = 0;
    if (n <= 65536) {
        if (n > 0)
            c->at[c->n++] = n;
        return;
    }
    for (size_t i = 0; i < n; i++) {
        size_t len = i + 1 - last;

        if ((len >= 32768 && scalar_hash(p, i) < UINT64_C(1) << 49) || len == 262144 || i + 1 == n) {
            c->at[c->n++] = i + 1;
            last = i + 1;
        }
    }
}

static void whole_cuts(const uint8_t *p, size_t n, struct cuts *c)
{
    size_t at = 0;

    c->n = 0;
    while (at < n) {
        /* as a reader with a window would: no more than the largest chunk */
        at += pl_chunk_next(p + at, PL_MIN(n - at, PL_CHUNK_MAX_BYTES), at == 0);
        c->at[c->n++] = at;
    }
}

/* Feeds pieces of random lengths up to `most`. */
static void fed_cuts(const uint8_t *p, size_t n, size_t most, uint64_t seed, struct cuts *c)
{
    struct pl_chunker chunker;
    size_t end = 0, cut;

    c->n = 0;
    pl_chunker_init(&chunker);
    while (n > 0) {
        size_t wish = 1 + pl_splitmix64(&seed) % most, piece = PL_MIN(n, wish);

        n -= piece;
        while (piece > 0) {
            size_t used = pl_chunker_feed(&chunker, p, piece, &cut);

            assert_true(used > 0 || cut > 0);
            p += used;
            piece -= used;
            if (cut > 0)
                c->at[c->n++] = end += cut;
        }
    }
    while ((cut = pl_chunker_end(&chunker)) > 0)
        c->at[c->n++] = end += cut;
}

static void assert_same(const struct cuts *a, const struct cuts *b)
{
    assert_int_equal(a->n, b->n);
    for (size_t i = 0; i < a->n; i++)
        assert_int_equal(a->at[i], b->at[i]);
}

static void the_table_is_drawn_from_the_documented_seed(void **state)
{
    const uint64_t *gear = pl_chunk_table();

    (void)state;
    assert_true(gear[0] == UINT64_C(0xff9412acbd6a33d0));
    assert_true(gear[255] == UINT64_C(0xa336ba3fd1a76ceb));
}

static void golden_cuts(void **state)
{
    static const size_t golden[] = {
        61381,   97150,   152921,  203586,  261071,  313713,  354831,  440140,  474480,  576385,  624231,  674776,  784226,
        822944,  860636,  937115,  976304,  1074377, 1225322, 1273748, 1414693, 1518364, 1576594, 1644435, 1701443, 1758666,
        1809456, 1879034, 1914688, 2075697, 2136050, 2205044, 2238068, 2319918, 2391132, 2556016, 2591468, 2648025, 2695064,
        2780340, 2872938, 2947284, 3005132, 3088353, 3186748, 3236202, 3292493, 3336767, 3409309, 3470368, 3533322, 3578943,
        3633407, 3720193, 3795068, 3828540, 3865035, 3900353, 3938025, 4031765, 4103337, 4154005, 4194304,
    };
    _cleanup_free_ uint8_t *p = fixture_alloc(GOLDEN_BYTES, 20240229);
    struct cuts c;

    (void)state;
    whole_cuts(p, GOLDEN_BYTES, &c);
    assert_int_equal(c.n, PL_ARRAY_SIZE(golden));
    for (size_t i = 0; i < c.n; i++)
        assert_int_equal(c.at[i], golden[i]);
}

static void every_way_of_cutting_is_the_scalar_definition(void **state)
{
    static const size_t sizes[] = {0,     1,     63,    64,     32767,  32768,  32769,  65535,  65536,
                                   65537, 65600, 98304, 262143, 262144, 262145, 600000, 1500000};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(sizes); i++) {
        for (uint64_t seed = 1; seed <= (sizes[i] < 300000 ? 6 : 2); seed++) {
            _cleanup_free_ uint8_t *p = fixture_alloc(sizes[i], seed);
            struct cuts want, got;

            scalar_cuts(p, sizes[i], &want);
            whole_cuts(p, sizes[i], &got);
            assert_same(&want, &got);
            fed_cuts(p, sizes[i], 1000000, seed, &got);
            assert_same(&want, &got);
            fed_cuts(p, sizes[i], 5000, seed, &got);
            assert_same(&want, &got);
            if (sizes[i] < 300000) {
                fed_cuts(p, sizes[i], 1, seed, &got);
                assert_same(&want, &got);
            }
        }
    }
}

/* Text of few letters has other statistics than noise; a file that starts with cuts below 64 KiB exercises the held ones. */
static void so_is_cutting_of_poor_data(void **state)
{
    (void)state;
    for (uint64_t seed = 1; seed <= 40; seed++) {
        size_t n = 65000 + seed * 70;
        _cleanup_free_ uint8_t *p = fixture_alloc(n, seed);
        struct cuts want, got;

        for (size_t i = 0; i < n; i++)
            p[i] = "ab\n"[p[i] % 3];
        scalar_cuts(p, n, &want);
        whole_cuts(p, n, &got);
        assert_same(&want, &got);
        fed_cuts(p, n, 3000, seed, &got);
        assert_same(&want, &got);
    }
}

static void zeros_are_cut_at_the_largest_size(void **state)
{
    size_t n = 5 * PL_CHUNK_MAX_BYTES + 1000;
    _cleanup_free_ uint8_t *p = calloc(1, n);
    struct cuts c;

    (void)state;
    whole_cuts(p, n, &c);
    assert_int_equal(c.n, 6);
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(c.at[i], (i + 1) * PL_CHUNK_MAX_BYTES);
    fed_cuts(p, n, 7777, 3, &c);
    assert_int_equal(c.n, 6);
}

static bool has_cut(const struct cuts *c, size_t at)
{
    for (size_t i = 0; i < c->n; i++)
        if (c->at[i] == at)
            return true;
    return false;
}

static void cuts_come_back_after_an_insertion(void **state)
{
    size_t n = (size_t)4 << 20, insert_at = (size_t)1 << 20, inserted = 37, lost = 0;
    _cleanup_free_ uint8_t *a = fixture_alloc(n, 5), *b = malloc(n + inserted);
    struct cuts before, after;

    (void)state;
    memcpy(b, a, insert_at);
    memset(b + insert_at, 'x', inserted);
    memcpy(b + insert_at + inserted, a + insert_at, n - insert_at);
    whole_cuts(a, n, &before);
    whole_cuts(b, n + inserted, &after);
    for (size_t i = 0; i < before.n; i++)
        lost += !has_cut(&after, before.at[i] <= insert_at ? before.at[i] : before.at[i] + inserted);
    assert_true(before.n > 40);
    assert_in_range(lost, 0, 6);
}

static void chunks_are_as_long_as_they_should_be(void **state)
{
    size_t n = (size_t)16 << 20;
    _cleanup_free_ uint8_t *p = fixture_alloc(n, 9);
    struct cuts c;

    (void)state;
    whole_cuts(p, n, &c);
    for (size_t i = 0; i + 1 < c.n; i++)
        assert_in_range(c.at[i] - (i > 0 ? c.at[i - 1] : 0), PL_CHUNK_MIN_BYTES, PL_CHUNK_MAX_BYTES);
    assert_in_range(n / c.n, 58000, 74000); /* 32 KiB and an exponential of 32 KiB, cut at 256 */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_is_drawn_from_the_documented_seed),
        cmocka_unit_test(golden_cuts),
        cmocka_unit_test(every_way_of_cutting_is_the_scalar_definition),
        cmocka_unit_test(so_is_cutting_of_poor_data),
        cmocka_unit_test(zeros_are_cut_at_the_largest_size),
        cmocka_unit_test(cuts_come_back_after_an_insertion),
        cmocka_unit_test(chunks_are_as_long_as_they_should_be),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
