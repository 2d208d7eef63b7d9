// link: pipelined/sched
/* A stage that goes while it has work: what ends, what is waited for, and what the end is called. */
#include "tests/unit/sched/sched_fixture.h"

static void a_removed_stage_ends_with_its_jobs_and_workers(void **state)
{
    struct pl_sched_action lease;

    (void)state;
    open_one((struct pl_sched_stage){0});
    kit_do(&k, kit_stage(2, 101, (struct pl_sched_stage){0}));
    lease = one_lease(1, 1);
    kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_STAGE_REMOVED, .id = 1});
    IS(k, 1, 1, PL_SCHED_KILLED);
    IS(k, 2, 1, PL_SCHED_UNRUNNABLE);
    assert_int_equal(k.runs[1], PL_SCHED_KILLED);
    kit_the(&k, PL_SCHED_CANCEL);
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker);
    kit_the(&k, PL_SCHED_STOP_WORKER);
    kit_worker(&k, PL_SCHED_EV_WORKER_EXITED, lease.lease.worker);
    kit_push(&k, 2, 1);
    assert_int_equal(k.runs[2], PL_SCHED_SUCCESS);
    kit_close(&k);
}

static void open_committing(void)
{
    open_one((struct pl_sched_stage){0});
    kit_do(&k, kit_stage(2, 101, (struct pl_sched_stage){0}));
    kit_finish(&k, one_lease(1, 1), 1000);
    IS(k, 1, 1, PL_SCHED_FINISHING);
    kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_STAGE_REMOVED, .id = 1});
    IS(k, 1, 1, PL_SCHED_FINISHING);
}

static void a_commit_that_landed_before_its_stage_was_removed_is_a_success(void **state)
{
    (void)state;
    open_committing();
    kit_committed(&k, 1, 1);
    IS(k, 1, 1, PL_SCHED_SUCCESS);
    assert_int_equal(kit_the(&k, PL_SCHED_PLAN)->job.stage, 2);
    kit_close(&k);
}

static void a_commit_that_came_after_its_stage_was_removed_is_killed(void **state)
{
    (void)state;
    open_committing();
    kit_do(&k, kit_stage(1, 1, (struct pl_sched_stage){.version = 2})); /* made again: that changes nothing */
    kit_push(&k, 2, 1);
    assert_int_equal(kit_count(&k, PL_SCHED_PLAN), 0);
    kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_COMMIT_FAILED, .id = kit_job(&k, 1, 1)->id, .text = "refused"});
    IS(k, 1, 1, PL_SCHED_KILLED);
    SAYS(k, 1, 1, PL_SCHED_REMOVED);
    assert_int_equal(kit_the(&k, PL_SCHED_PLAN)->job.stage, 1);
    kit_close(&k);
}

static void a_commit_that_was_refused_for_its_stage_is_killed_before_the_removal_is_told(void **state)
{
    (void)state;
    open_one((struct pl_sched_stage){0});
    kit_finish(&k, one_lease(1, 1), 1000);
    kit_do(&k, (struct pl_sched_event){
                   .kind = PL_SCHED_EV_COMMIT_FAILED, .id = kit_job(&k, 1, 1)->id, .text = "refused", .on = true});
    SAYS(k, 1, 1, PL_SCHED_REMOVED);
    assert_int_equal(k.runs[1], PL_SCHED_KILLED);
    kit_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_removed_stage_ends_with_its_jobs_and_workers),
        cmocka_unit_test(a_commit_that_landed_before_its_stage_was_removed_is_a_success),
        cmocka_unit_test(a_commit_that_came_after_its_stage_was_removed_is_killed),
        cmocka_unit_test(a_commit_that_was_refused_for_its_stage_is_killed_before_the_removal_is_told),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
