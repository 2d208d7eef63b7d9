// link: pipelined/kube/pod_state
/* image_wait: a stage whose image cannot be pulled is given up ten minutes after its last good start, whichever pod waits then. */
#include "pipelined/kube/pod_state/image_wait.h"
#include "pipelined/kube/pod_state/pod_state.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

#define MIN_MS 60000

/* What a pod that has waited since then is said to be, now. */
static enum pl_pod_verdict look(struct pl_image_wait *stage, int64_t since_ms, int64_t now_ms)
{
    json_t *pod = json_loads("{\"spec\": {\"nodeName\": \"n1\", \"containers\": [{\"name\": \"main\", \"image\": \"reg/x:1\"}]}, "
                             "\"status\": {\"phase\": \"Pending\", \"containerStatuses\": [{\"name\": \"main\", \"state\": "
                             "{\"waiting\": {\"reason\": \"ErrImagePull\", \"message\": \"manifest unknown\"}}}]}}",
                             0, NULL);
    const struct pl_pod_asked asked = {.waited_ms = now_ms - since_ms, .no_image_ms = pl_image_wait_ms(stage, now_ms)};
    struct pl_pod_state got;

    pl_pod_state(pod, NULL, &asked, &got);
    assert_true(got.no_image);
    pl_image_wait_failed(stage, since_ms, now_ms);
    json_decref(pod);
    return got.verdict;
}

/* Nodes come one after the other: each of its pods has waited for less than ten minutes. */
static void pods_that_are_placed_apart_wait_together(void **state)
{
    struct pl_map stages = {0};
    struct pl_image_wait *first = pl_image_wait_ref(&stages, "train-net-142dcf294c-1-5"),
                         *second = pl_image_wait_ref(&stages, "train-net-142dcf294c-2-5"),
                         *other = pl_image_wait_ref(&stages, "train-net-242dcf294c-3-5");

    (void)state;
    assert_ptr_equal(first, second);
    assert_ptr_not_equal(first, other);
    assert_int_equal(look(first, 0, 0), PL_POD_WAITS);
    assert_int_equal(look(first, 0, PL_POD_PULL_MS - 1), PL_POD_WAITS);
    assert_int_equal(look(second, 9 * MIN_MS, PL_POD_PULL_MS - 1), PL_POD_WAITS);
    first = pl_image_wait_unref(&stages, first); /* its node has gone */
    assert_int_equal(look(second, 9 * MIN_MS, PL_POD_PULL_MS), PL_POD_GIVEN_UP);
    assert_int_equal(look(other, 9 * MIN_MS, PL_POD_PULL_MS), PL_POD_WAITS);
    assert_null(pl_image_wait_unref(&stages, second));
    assert_null(pl_image_wait_unref(&stages, other));
    pl_map_finish(&stages, NULL);
}

static void a_pod_that_comes_up_begins_the_time_again(void **state)
{
    struct pl_map stages = {0};
    struct pl_image_wait *stage = pl_image_wait_ref(&stages, "train-net-142dcf294c-1-5");

    (void)state;
    assert_int_equal(look(stage, 0, 0), PL_POD_WAITS);
    pl_image_wait_up(stage);
    assert_int_equal(pl_image_wait_ms(stage, PL_POD_PULL_MS), 0);
    assert_int_equal(look(stage, 9 * MIN_MS, PL_POD_PULL_MS), PL_POD_WAITS);
    assert_int_equal(look(stage, 18 * MIN_MS, 19 * MIN_MS), PL_POD_GIVEN_UP);
    stage = pl_image_wait_unref(&stages, stage);
    pl_map_finish(&stages, NULL);
}

/* The node of the first pod went away before its image came; a pod of two hours later has ten minutes of its own. */
static void a_failure_of_long_ago_does_not_count(void **state)
{
    struct pl_map stages = {0};
    struct pl_image_wait *stage = pl_image_wait_ref(&stages, "train-net-142dcf294c-1-5");

    (void)state;
    assert_int_equal(look(stage, 0, 0), PL_POD_WAITS);
    assert_int_equal(look(stage, 0, MIN_MS), PL_POD_WAITS);
    assert_int_equal(pl_image_wait_ms(stage, 120 * MIN_MS), 0);
    assert_int_equal(look(stage, 120 * MIN_MS, 120 * MIN_MS), PL_POD_WAITS);
    assert_int_equal(look(stage, 120 * MIN_MS, 130 * MIN_MS), PL_POD_GIVEN_UP);
    stage = pl_image_wait_unref(&stages, stage);
    pl_map_finish(&stages, NULL);
}

/* The next job of the stage has its own ten minutes. */
static void without_pods_nothing_is_remembered(void **state)
{
    struct pl_map stages = {0};
    struct pl_image_wait *stage = pl_image_wait_ref(&stages, "train-net-142dcf294c-1-5");

    (void)state;
    assert_int_equal(look(stage, 0, PL_POD_PULL_MS), PL_POD_GIVEN_UP);
    assert_null(pl_image_wait_unref(&stages, stage));
    stage = pl_image_wait_ref(&stages, "train-net-142dcf294c-2-5");
    assert_int_equal(look(stage, 60 * MIN_MS, 61 * MIN_MS), PL_POD_WAITS);
    assert_null(pl_image_wait_unref(&stages, stage));
    pl_map_finish(&stages, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pods_that_are_placed_apart_wait_together),
        cmocka_unit_test(a_pod_that_comes_up_begins_the_time_again),
        cmocka_unit_test(a_failure_of_long_ago_does_not_count),
        cmocka_unit_test(without_pods_nothing_is_remembered),
    };

    return cmocka_run_group_tests_name("image_wait", tests, NULL, NULL);
}
