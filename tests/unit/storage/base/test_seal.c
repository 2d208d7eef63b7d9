// link: storage/base
/* A sealed secret opens with its key and for its purpose, and with nothing else. */
#include "storage/base/seal.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

static const uint8_t key[PL_SEAL_KEY_BYTES] = "one key, of thirty-two bytes....", other[PL_SEAL_KEY_BYTES] = "another key";

static void what_is_sealed_opens_again(void **state)
{
    static const size_t sizes[] = {0, 1, 15, 16, 17, 40, PL_SEAL_SECRET_MAX};
    static uint8_t secret[PL_SEAL_SECRET_MAX + 1];

    (void)state;
    for (size_t i = 0; i < sizeof secret; i++)
        secret[i] = (uint8_t)(i * 7);
    for (size_t i = 0; i < PL_ARRAY_SIZE(sizes); i++) {
        _cleanup_(pl_buf_finish) struct pl_buf sealed = {0}, again = {0};

        assert_int_equal(pl_seal(key, "AKIA1", secret, sizes[i], &sealed, NULL), 0);
        assert_int_equal(sealed.len, sizes[i] + PL_SEAL_EXTRA_BYTES);
        assert_int_equal(pl_unseal(key, "AKIA1", sealed.data, sealed.len, &again, NULL), 0);
        assert_int_equal(again.len, sizes[i]);
        if (sizes[i])
            assert_memory_equal(again.data, secret, sizes[i]);
    }
    {
        _cleanup_(pl_buf_finish) struct pl_buf sealed = {0};

        assert_int_equal(pl_seal(key, "AKIA1", secret, sizeof secret, &sealed, NULL), PL_ELIMIT);
    }
}

static void sealed_twice_it_looks_otherwise(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf a = {0}, b = {0};

    (void)state;
    assert_int_equal(pl_seal(key, "p", "secret", 6, &a, NULL), 0);
    assert_int_equal(pl_seal(key, "p", "secret", 6, &b, NULL), 0);
    assert_memory_not_equal(a.data, b.data, a.len);
    assert_null(memmem(a.data, a.len, "secret", 6));
}

/* Every bit of it counts, and so do its length, the key and the purpose. */
static void nothing_else_opens_it(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf sealed = {0}, out = {0};

    (void)state;
    assert_int_equal(pl_seal(key, "AKIA1", "a secret", 8, &sealed, NULL), 0);
    for (size_t bit = 0; bit < sealed.len * 8; bit++) {
        sealed.data[bit / 8] ^= (uint8_t)(1 << (bit % 8));
        assert_int_equal(pl_unseal(key, "AKIA1", sealed.data, sealed.len, &out, NULL), PL_ECORRUPT);
        sealed.data[bit / 8] ^= (uint8_t)(1 << (bit % 8));
    }
    for (size_t n = 0; n < sealed.len; n++)
        assert_int_equal(pl_unseal(key, "AKIA1", sealed.data, n, &out, NULL), PL_ECORRUPT);
    assert_int_equal(pl_unseal(key, "AKIA2", sealed.data, sealed.len, &out, NULL), PL_ECORRUPT);
    assert_int_equal(pl_unseal(other, "AKIA1", sealed.data, sealed.len, &out, NULL), PL_ECORRUPT);
    assert_int_equal(out.len, 0);
    assert_int_equal(pl_unseal(key, "AKIA1", sealed.data, sealed.len, &out, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_sealed_opens_again),
        cmocka_unit_test(sealed_twice_it_looks_otherwise),
        cmocka_unit_test(nothing_else_opens_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
