// link: storage/base storage/chunk storage/system
/* codec: what gains is compressed, what does not is left, and nothing inflates past what was announced. */
#include "tests/support/fixtures/store_fixture.h"

#include "storage/chunk/chunk.h"
#include "storage/chunk/codec.h"

#include <zstd.h>

static enum pl_codec encode(const void *data, size_t n, uint8_t **ret, size_t *ret_n)
{
    *ret = malloc(pl_codec_bound(n));
    assert_non_null(*ret);
    return pl_codec_encode(data, n, *ret, ret_n);
}

static void fill_text(uint8_t *p, size_t n, uint64_t seed)
{
    fixture_bytes(p, n, seed);
    for (size_t i = 0; i < n; i++)
        p[i] = (uint8_t) "etaoin shrdlu,.\n"[p[i] % 16];
}

static void what_gains_is_compressed_and_comes_back(void **state)
{
    static const size_t sizes[] = {200, 511, 512, 1000, 4096, 16383, 16384, 65536, PL_CHUNK_MAX_BYTES, (size_t)4 << 20};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(sizes); i++) {
        _cleanup_free_ uint8_t *raw = malloc(sizes[i]), *back = malloc(sizes[i]), *stored = NULL;
        struct pl_err err;
        size_t n;

        fill_text(raw, sizes[i], i);
        assert_int_equal(encode(raw, sizes[i], &stored, &n), PL_CODEC_ZSTD);
        assert_true(n <= sizes[i] - sizes[i] * 6 / 100);
        assert_ok(pl_codec_decode(PL_CODEC_ZSTD, stored, n, back, sizes[i], &err), &err);
        assert_memory_equal(raw, back, sizes[i]);
    }
}

static void noise_is_left_as_it_is(void **state)
{
    static const size_t sizes[] = {1, 63, 64, 200, 512, 1023, 1024, 4096, 65536, PL_CHUNK_MAX_BYTES};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(sizes); i++) {
        _cleanup_free_ uint8_t *raw = fixture_alloc(sizes[i], i), *stored = NULL;
        size_t n;

        assert_int_equal(encode(raw, sizes[i], &stored, &n), PL_CODEC_RAW);
        assert_int_equal(n, sizes[i]);
    }
}

/* Bytes may be as frequent as in noise and yet repeat. */
static void repeated_noise_and_counting_bytes_are_compressed(void **state)
{
    uint8_t raw[8192], *stored = NULL;
    size_t n;

    (void)state;
    for (size_t i = 0; i < sizeof(raw); i++)
        raw[i] = (uint8_t)i;
    assert_int_equal(encode(raw, sizeof(raw), &stored, &n), PL_CODEC_ZSTD);
    free(stored);
    fixture_bytes(raw, sizeof(raw), 3);
    for (size_t i = 700; i < sizeof(raw); i++)
        raw[i] = raw[i - 700];
    assert_int_equal(encode(raw, sizeof(raw), &stored, &n), PL_CODEC_ZSTD);
    free(stored);
}

static void a_gain_below_six_percent_is_not_worth_it(void **state)
{
    uint8_t raw[10000], *stored = NULL;
    size_t n;

    (void)state;
    fixture_bytes(raw, sizeof(raw), 4);
    memset(raw, 0, 500); /* zstd gains just under 5 % */
    assert_int_equal(encode(raw, sizeof(raw), &stored, &n), PL_CODEC_RAW);
    free(stored);
    memset(raw + 3500, 0, 3000);
    assert_int_equal(encode(raw, sizeof(raw), &stored, &n), PL_CODEC_ZSTD);
    free(stored);
}

static void nothing_inflates_past_its_announced_size(void **state)
{
    size_t bomb_raw = (size_t)64 << 20, bomb_n;
    _cleanup_free_ uint8_t *zeros = calloc(1, bomb_raw), *bomb = malloc(ZSTD_compressBound(bomb_raw)), *out = malloc(1000);
    struct pl_err err;

    (void)state;
    bomb_n = ZSTD_compress(bomb, ZSTD_compressBound(bomb_raw), zeros, bomb_raw, 1);
    assert_true(bomb_n < 10000);
    /* out has 1,000 bytes and not one more: a write past it is seen by the sanitizer */
    assert_int_equal(pl_codec_decode(PL_CODEC_ZSTD, bomb, bomb_n, out, 1000, &err), PL_ECORRUPT);
    assert_int_equal(pl_codec_decode(PL_CODEC_ZSTD, bomb, bomb_n, out, 0, &err), PL_ECORRUPT);
}

static void sizes_that_do_not_fit_are_refused(void **state)
{
    _cleanup_free_ uint8_t *stored = NULL;
    uint8_t raw[1000], out[2000];
    struct pl_err err;
    size_t n;

    (void)state;
    memset(raw, 'a', sizeof(raw));
    assert_int_equal(encode(raw, sizeof(raw), &stored, &n), PL_CODEC_ZSTD);
    assert_int_equal(pl_codec_decode(PL_CODEC_ZSTD, stored, n, out, 999, &err), PL_ECORRUPT);
    assert_int_equal(pl_codec_decode(PL_CODEC_ZSTD, stored, n, out, 1001, &err), PL_ECORRUPT);
    assert_int_equal(pl_codec_decode(PL_CODEC_ZSTD, stored, n - 1, out, 1000, &err), PL_ECORRUPT);
    assert_int_equal(pl_codec_decode(PL_CODEC_ZSTD, "", 0, out, 1000, &err), PL_ECORRUPT);
    assert_int_equal(pl_codec_decode(PL_CODEC_RAW, raw, 1000, out, 1001, &err), PL_ECORRUPT);
    assert_int_equal(pl_codec_decode(2, raw, 1000, out, 1000, &err), PL_EFORMAT);
    assert_ok(pl_codec_decode(PL_CODEC_RAW, raw, 1000, out, 1000, &err), &err);
    assert_ok(pl_codec_decode(PL_CODEC_RAW, NULL, 0, out, 0, &err), &err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_gains_is_compressed_and_comes_back),
        cmocka_unit_test(noise_is_left_as_it_is),
        cmocka_unit_test(repeated_noise_and_counting_bytes_are_compressed),
        cmocka_unit_test(a_gain_below_six_percent_is_not_worth_it),
        cmocka_unit_test(nothing_inflates_past_its_announced_size),
        cmocka_unit_test(sizes_that_do_not_fit_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
