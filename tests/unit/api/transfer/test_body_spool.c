// link: pipelined/api/transfer storage/base storage/system
/* spool: what bodies take of memory is bounded together, and comes back. */
#include "tests/support/fixtures/store_fixture.h"

#include "pipelined/api/transfer/body_spool.h"

#define SPOOLS 160 /* of PL_BODY_SPOOL_MEMORY_BYTES each: more than all may have */

static uint8_t bytes[PL_BODY_SPOOL_MEMORY_BYTES];

static void fill(struct pl_body_spool *s, const char *dir, size_t n)
{
    struct pl_err err;

    pl_body_spool_init(s, dir, NULL);
    for (size_t at = 0; at < n; at += 100000)
        assert_ok(pl_body_spool_write(s, bytes + at, PL_MIN(n - at, (size_t)100000), &err), &err);
}

static void check(struct pl_body_spool *s, size_t n)
{
    const void *mapped;
    struct pl_err err;

    assert_int_equal(s->size, n);
    assert_ok(pl_body_spool_map(s, &mapped, &err), &err);
    assert_memory_equal(mapped, bytes, n);
}

static void many_take_no_more_memory_than_there_is_for_all(void **state)
{
    static struct pl_body_spool spools[SPOOLS];
    char *dir = fixture_dir();
    size_t in_memory = 0, files = 0;
    struct pl_body_spool small;

    (void)state;
    for (size_t i = 0; i < sizeof bytes; i++)
        bytes[i] = (uint8_t)(i * 31 >> 3);
    for (size_t i = 0; i < SPOOLS; i++) {
        fill(&spools[i], dir, sizeof bytes);
        in_memory += spools[i].memory.len;
        files += spools[i].fd >= 0;
    }
    assert_true(in_memory <= PL_BODY_SPOOL_MEMORY_ALL + SPOOLS * PL_BODY_SPOOL_MEMORY_FREE);
    assert_true(in_memory > PL_BODY_SPOOL_MEMORY_ALL / 10 * 9 && files > 0);
    fill(&small, dir, PL_BODY_SPOOL_MEMORY_FREE); /* small ones need no file whatever large ones take */
    assert_int_equal(small.fd, -1);
    pl_body_spool_finish(&small);
    for (size_t i = 0; i < SPOOLS; i++) {
        check(&spools[i], sizeof bytes);
        pl_body_spool_finish(&spools[i]);
    }
    fill(&small, dir, sizeof bytes);
    assert_int_equal(small.fd, -1); /* it has all come back */
    pl_body_spool_finish(&small);
    fixture_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(many_take_no_more_memory_than_there_is_for_all)};

    return cmocka_run_group_tests(tests, NULL, NULL);
}
