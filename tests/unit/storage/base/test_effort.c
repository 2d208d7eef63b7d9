// link: storage/base
/* effort: a request ends at its number of steps, at its deadline, and when nobody waits for it any more. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "storage/base/clock.h"
#include "storage/base/effort.h"

#define MANY 10000000u /* steps: a loop that does not end by then never does */

/* The steps that were taken one by one until an error, which is returned. */
static int step_on(struct pl_effort *e, uint64_t *ret_steps)
{
    int r = 0;

    for (*ret_steps = 0; r == 0 && *ret_steps < MANY; (*ret_steps)++)
        r = pl_effort_add(e, 1, NULL);
    return r;
}

static void without_limits_there_is_no_end(void **state)
{
    struct pl_effort none = {0};
    uint64_t steps;

    (void)state;
    assert_int_equal(step_on(NULL, &steps), 0);
    assert_int_equal(step_on(&none, &steps), 0);
    assert_int_equal(none.visits, MANY);
}

static void one_step_beyond_the_limit_is_refused(void **state)
{
    struct pl_effort e = {.visits_max = 5000};
    struct pl_err err = {0};
    uint64_t steps;

    (void)state;
    assert_int_equal(step_on(&e, &steps), PL_ELIMIT);
    assert_int_equal(steps, 5001);
    assert_int_equal(pl_effort_add(&e, 0, &err), PL_ELIMIT); /* and stays refused */
    assert_non_null(strstr(err.msg, "more than 5000 steps"));
    e = (struct pl_effort){.visits_max = 5000};
    assert_int_equal(pl_effort_add(&e, 5001, NULL), PL_ELIMIT); /* at once, too */
}

static void a_deadline_is_seen_within_as_many_steps_as_lie_between_two_looks(void **state)
{
    struct pl_effort e = {.until_ms = pl_clock_mono_ms() - 1};
    const int64_t start_ms = pl_clock_mono_ms();
    struct pl_err err = {0};
    uint64_t steps;

    (void)state;
    assert_int_equal(pl_effort_add(&e, 1, &err), PL_ETIMEOUT); /* the first step looks */
    assert_non_null(strstr(err.msg, "took longer than allowed"));
    e = (struct pl_effort){.until_ms = start_ms + 3600000};
    assert_int_equal(pl_effort_add(&e, 1, NULL), 0);
    e.until_ms = start_ms; /* has passed */
    assert_int_equal(step_on(&e, &steps), PL_ETIMEOUT);
    assert_true(steps <= PL_EFFORT_LOOK);
}

static bool is_gone(const void *self)
{
    return *(const bool *)self;
}

static void a_client_that_goes_away_ends_it(void **state)
{
    bool gone = false;
    struct pl_effort e = {.gone = is_gone, .self = &gone, .until_ms = pl_clock_mono_ms() + 3600000};
    uint64_t steps;

    (void)state;
    assert_int_equal(pl_effort_add(&e, 1, NULL), 0);
    gone = true;
    assert_int_equal(step_on(&e, &steps), PL_ECANCELED);
    assert_true(steps <= PL_EFFORT_LOOK);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_limits_there_is_no_end),
        cmocka_unit_test(one_step_beyond_the_limit_is_refused),
        cmocka_unit_test(a_deadline_is_seen_within_as_many_steps_as_lie_between_two_looks),
        cmocka_unit_test(a_client_that_goes_away_ends_it),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
