// link: pipelined/source
/* When a source is looked at next: the interval, longer after failures, never all sources at the same time. */
#include "pipelined/source/source_schedule.h"

#include "storage/base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define MINUTE 60000
#define HOUR   (60 * MINUTE)
#define MIDDLE 100u /* the random number that changes nothing */

static void the_wait_doubles_with_each_failure_up_to_an_hour(void **state)
{
    static const struct {
        int64_t interval_ms;
        unsigned failures;
        int64_t want_ms;
    } rows[] = {
        {MINUTE, 0, MINUTE},         {MINUTE, 1, 2 * MINUTE}, {MINUTE, 5, 32 * MINUTE},  {MINUTE, 6, HOUR},
        {MINUTE, 4000000000u, HOUR}, {1000, 2, 4000},         {24 * HOUR, 0, 24 * HOUR}, {24 * HOUR, 9, 24 * HOUR},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++)
        assert_int_equal(pl_source_wait_ms(rows[i].interval_ms, rows[i].failures, MIDDLE), rows[i].want_ms);
}

static void chance_moves_it_by_a_tenth_at_most_and_by_all_of_that(void **state)
{
    int64_t least = INT64_MAX, most = 0;

    (void)state;
    for (uint32_t random = 0; random < 100000; random++) {
        const int64_t wait = pl_source_wait_ms(MINUTE, 0, random * 2654435761u);

        least = PL_MIN(least, wait);
        most = PL_MAX(most, wait);
    }
    assert_int_equal(least, MINUTE - MINUTE / 10);
    assert_int_equal(most, MINUTE + MINUTE / 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_wait_doubles_with_each_failure_up_to_an_hour),
        cmocka_unit_test(chance_moves_it_by_a_tenth_at_most_and_by_all_of_that),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
