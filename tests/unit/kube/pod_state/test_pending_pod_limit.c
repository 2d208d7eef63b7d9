// link: pipelined/kube/pod_state
/* pending_pod_limit: how many pods may wait for a node at once. */
#include "pipelined/kube/pod_state/pending_pod_limit.h"
#include "storage/base/base.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

static void one_pod_goes_first_and_each_that_is_bound_lets_more_follow(void **state)
{
    static const uint32_t want[] = {2, 4, 8, 16, 20, 20, 20, 20, 20, 20, 22, 24};
    struct pl_pending_pod_limit r;

    (void)state;
    pl_pending_pod_limit_init(&r);
    assert_int_equal(pl_pending_pod_limit_room(&r, 0, 100), 1);
    assert_int_equal(pl_pending_pod_limit_room(&r, 1, 100), 0);
    assert_int_equal(pl_pending_pod_limit_room(&r, 0, 0), 0);
    for (size_t i = 0; i < PL_ARRAY_SIZE(want); i++) {
        pl_pending_pod_limit_bound(&r, 10000 + (int64_t)i * 50);
        assert_int_equal(r.pending_max, want[i]);
    }
    assert_int_equal(pl_pending_pod_limit_room(&r, 4, 100), 20);
    assert_int_equal(pl_pending_pod_limit_room(&r, 4, 7), 7);
    pl_pending_pod_limit_bound(&r, 11700); /* a slow one: the last second had no other */
    assert_int_equal(r.pending_max, PL_PENDING_POD_LIMIT_STEP);
    pl_pending_pod_limit_refused(&r);
    assert_int_equal(r.pending_max, 1);
    pl_pending_pod_limit_bound(&r, 11800);
    assert_int_equal(r.pending_max, 2);
}

static void at_speed_twice_what_a_second_binds_may_wait(void **state)
{
    struct pl_pending_pod_limit r;

    (void)state;
    pl_pending_pod_limit_init(&r);
    for (int64_t ms = 0; ms < 5000; ms += 5) /* 200 a second */
        pl_pending_pod_limit_bound(&r, ms);
    assert_in_range(r.pending_max, 360, 400);
}

static void fifteen_minutes_without_a_binding_begin_anew(void **state)
{
    struct pl_pending_pod_limit r;

    (void)state;
    pl_pending_pod_limit_init(&r);
    for (int64_t i = 0; i < 5; i++)
        pl_pending_pod_limit_bound(&r, i);
    assert_int_equal(r.pending_max, 20);
    assert_false(pl_pending_pod_limit_waiting(&r, 0, PL_PENDING_POD_LIMIT_QUIET_MS * 2)); /* nobody waits */
    assert_int_equal(r.pending_max, 20);
    assert_false(pl_pending_pod_limit_waiting(&r, 3, PL_PENDING_POD_LIMIT_QUIET_MS * 2)); /* since now */
    assert_false(pl_pending_pod_limit_waiting(&r, 3, PL_PENDING_POD_LIMIT_QUIET_MS * 3 - 1));
    assert_true(pl_pending_pod_limit_waiting(&r, 3, PL_PENDING_POD_LIMIT_QUIET_MS * 3));
    assert_int_equal(r.pending_max, 1);
    assert_false(pl_pending_pod_limit_waiting(&r, 3, PL_PENDING_POD_LIMIT_QUIET_MS * 4));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(one_pod_goes_first_and_each_that_is_bound_lets_more_follow),
        cmocka_unit_test(at_speed_twice_what_a_second_binds_may_wait),
        cmocka_unit_test(fifteen_minutes_without_a_binding_begin_anew),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
