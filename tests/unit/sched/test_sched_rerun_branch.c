// link: pipelined/sched
/* Runs aside: they write what nobody else reads. */
#include "tests/unit/sched/sched_fixture.h"

static void a_run_aside_is_of_its_stages_alone_which_wait_for_each_other(void **state)
{
    (void)state;
    open_chain();
    kit_aside(&k, 1, 2);
    assert_int_equal(kit_the(&k, PL_SCHED_PLAN)->job.stage, 1);
    SAYS(k, 2, 1, "waiting for stage prepare of run 11111111");
    assert_int_equal(kit_job(&k, 3, 1)->id, 0);
    kit_planned(&k, 1, 1, 0);
    kit_committed(&k, 1, 1);
    assert_int_equal(kit_the(&k, PL_SCHED_PLAN)->job.stage, 2);
    kit_planned(&k, 2, 1, 0);
    kit_committed(&k, 2, 1);
    assert_int_equal(k.runs[1], PL_SCHED_SUCCESS);
    kit_close(&k);
}

static void a_run_aside_supersedes_none_and_is_superseded_by_none(void **state)
{
    static const enum pl_sched_on_new ways[] = {PL_SCHED_NEWEST, PL_SCHED_RESTART};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(ways); i++) {
        open_one((struct pl_sched_stage){.on_new = ways[i]});
        kit_push(&k, 1, 1);
        kit_aside(&k, 2, 1);
        kit_push(&k, 3, 1);
        IS(k, 1, 1, PL_SCHED_STARTING); /* the third has to wait for the one aside */
        kit_planned(&k, 1, 1, 0);
        kit_committed(&k, 1, 1);
        IS(k, 1, 2, PL_SCHED_STARTING);
        kit_push(&k, 4, 1);
        IS(k, 1, 2, PL_SCHED_STARTING);
        IS(k, 1, 3, PL_SCHED_KILLED);
        kit_planned(&k, 1, 2, 0);
        kit_committed(&k, 1, 2);
        IS(k, 1, 4, PL_SCHED_STARTING);
        kit_close(&k);
    }
}

static void nobody_waits_for_what_is_written_aside_and_aside_nobody_waits_for_others(void **state)
{
    struct pl_sched_head both[2] = {{2, 1}, {101, 1}};
    uint64_t second = 2;
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_RUN};

    (void)state;
    kit_open(&k, 4, 0);
    kit_do(&k, kit_stage(1, 1, (struct pl_sched_stage){0}));
    kit_do(&k, kit_stage(2, 0, (struct pl_sched_stage){.inputs = both, .n_inputs = 2}));
    kit_ready(&k);
    kit_aside(&k, 1, 1);
    kit_push(&k, 2, 2);
    assert_int_equal(kit_the(&k, PL_SCHED_PLAN)->job.stage, 2); /* it does not wait for stage 1 aside */
    kit_planned(&k, 2, 2, 0);
    kit_committed(&k, 2, 2);
    kit_push(&k, 3, 1); /* stage 1 has its turn after run 1, stage 2 waits for it */
    IS(k, 2, 3, PL_SCHED_CREATED);
    ev.run.id = kit_run_id(4);
    ev.run.order = 4;
    ev.run.stages = &second;
    ev.run.n_stages = 1;
    ev.run.aside = true;
    kit_do(&k, ev);
    SAYS(k, 2, 4, "waiting for its turn: run 33333333 goes first"); /* of its stage, not for stage 1 */
    IS(k, 2, 3, PL_SCHED_CREATED);
    kit_close(&k);
}

static void a_restored_run_aside_is_of_its_stages_alone(void **state)
{
    uint64_t first = 1;
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_RESTORE_RUN};

    (void)state;
    kit_open(&k, 1, 0);
    kit_do(&k, kit_stage(1, 1, (struct pl_sched_stage){0}));
    kit_do(&k, kit_stage(2, 101, (struct pl_sched_stage){0}));
    ev.run.id = kit_run_id(1);
    ev.run.order = 1;
    ev.run.stages = &first;
    ev.run.n_stages = 1;
    ev.run.aside = true;
    kit_do(&k, ev);
    kit_ready(&k);
    assert_int_equal(kit_the(&k, PL_SCHED_PLAN)->job.stage, 1);
    assert_int_equal(kit_job(&k, 2, 1)->id, 0);
    kit_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_run_aside_is_of_its_stages_alone_which_wait_for_each_other),
        cmocka_unit_test(a_run_aside_supersedes_none_and_is_superseded_by_none),
        cmocka_unit_test(nobody_waits_for_what_is_written_aside_and_aside_nobody_waits_for_others),
        cmocka_unit_test(a_restored_run_aside_is_of_its_stages_alone),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
