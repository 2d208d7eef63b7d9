// link: pipelined/sched storage/base
/* Sets of rows against a plain table of bits, and deadlines against a search. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include "pipelined/sched/datum_ranges.h"
#include "pipelined/sched/deadline_heap.h"
#include "storage/base/hash.h"

enum { ROWS = 300, TIMERS = 100 };

static void must_be(const struct pl_datum_ranges *r, const bool *bits)
{
    const struct pl_sched_range *v = pl_datum_ranges_items(r);
    uint32_t count = 0;
    size_t fragments = 0;

    for (uint32_t i = 0; i < ROWS; i++) {
        assert_int_equal(pl_datum_ranges_has(r, i, i + 1), bits[i]);
        count += bits[i];
        fragments += bits[i] && (i == 0 || !bits[i - 1]);
    }
    assert_int_equal(r->count, count);
    assert_int_equal(r->n, fragments); /* what touches is one */
    for (size_t i = 0; i < r->n; i++)
        assert_true(v[i].lo < v[i].hi && (i == 0 || v[i - 1].hi < v[i].lo));
}

static bool all_are(const bool *bits, uint32_t lo, uint32_t hi, bool what)
{
    for (uint32_t i = lo; i < hi; i++)
        if (bits[i] != what)
            return false;
    return true;
}

static void a_set_of_ranges_is_a_set(void **state)
{
    uint64_t seed = 7;

    (void)state;
    for (int life = 0; life < 50; life++) {
        struct pl_datum_ranges r = {0}, taken = {0};
        bool bits[ROWS] = {0};

        for (int i = 0; i < 400; i++) {
            uint32_t lo = (uint32_t)(pl_splitmix64(&seed) % ROWS);
            uint32_t size = 1 + (uint32_t)(pl_splitmix64(&seed) % 9);
            uint32_t hi = PL_MIN((uint32_t)ROWS, lo + size);

            assert_int_equal(pl_datum_ranges_has(&r, lo, hi), all_are(bits, lo, hi, true));
            if (all_are(bits, lo, hi, false)) {
                assert_true(pl_datum_ranges_add(&r, lo, hi));
                memset(bits + lo, 1, hi - lo);
            } else if (all_are(bits, lo, hi, true)) {
                assert_true(pl_datum_ranges_remove(&r, lo, hi));
                memset(bits + lo, 0, hi - lo);
            }
        }
        must_be(&r, bits);
        assert_true(pl_datum_ranges_take(&r, r.count / 2, &taken));
        for (uint32_t i = 0, n = taken.count; n > 0; i++) {
            n -= bits[i];
            bits[i] = false;
        }
        must_be(&r, bits);
        assert_true(pl_datum_ranges_add_all(&r, &taken));
        assert_int_equal(r.count / 2, taken.count);
        pl_datum_ranges_finish(&r);
        pl_datum_ranges_finish(&taken);
    }
}

static void the_first_timer_is_the_earliest(void **state)
{
    struct pl_timers h = {0};
    struct pl_timer timers[TIMERS] = {0};
    uint64_t seed = 3;

    (void)state;
    for (int i = 0; i < 5000; i++) {
        struct pl_timer *t = &timers[pl_splitmix64(&seed) % TIMERS];
        const struct pl_timer *first = NULL;

        assert_true(
            pl_timers_set(&h, t, pl_splitmix64(&seed) % 3 == 0 ? PL_TIMER_NEVER : (int64_t)(pl_splitmix64(&seed) % 1000)));
        for (size_t k = 0; k < TIMERS; k++)
            if (timers[k].pos && (!first || timers[k].at < first->at))
                first = &timers[k];
        assert_int_equal(!pl_timers_first(&h), !first);
        assert_true(!first || pl_timers_first(&h)->at == first->at);
    }
    pl_timers_finish(&h);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_set_of_ranges_is_a_set),
        cmocka_unit_test(the_first_timer_is_the_earliest),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
