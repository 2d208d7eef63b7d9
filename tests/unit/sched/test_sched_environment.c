// link: pipelined/sched
/* Stages that make the environment of others: they have a job in each run of these, which comes first, and add nothing else to
 * it. */
#include "tests/unit/sched/sched_fixture.h"

#define ENVIRONMENT ((struct pl_sched_head){101, 1})

/* Stage 1 makes the environment of stage 2, which reads repo 1, and of stage 4, which reads repo 2; stage 3 reads the output of
 * stage 2, and stage 5 that of stage 1 as data. */
static void open_stages(void)
{
    static const struct pl_sched_head none[1], two[] = {{1, 1}, {101, 1}}, four[] = {{101, 1}, {2, 1}};

    kit_open(&k, 4, 0);
    kit_do(&k, kit_stage(1, 0, (struct pl_sched_stage){.inputs = none}));
    kit_do(&k, kit_stage(2, 0, (struct pl_sched_stage){.inputs = two, .n_inputs = 2, .environment = ENVIRONMENT}));
    kit_do(&k, kit_stage(3, 102, (struct pl_sched_stage){0}));
    kit_do(&k, kit_stage(4, 0, (struct pl_sched_stage){.inputs = four, .n_inputs = 2, .environment = ENVIRONMENT}));
    kit_do(&k, kit_stage(5, 101, (struct pl_sched_stage){0}));
    kit_ready(&k);
}

static void a_push_has_the_environment_made_first(void **state)
{
    (void)state;
    open_stages();
    for (unsigned run = 1; run <= 2; run++) {
        kit_push(&k, run, 1);
        assert_int_not_equal(kit_job(&k, 1, run)->id, 0);
        assert_int_not_equal(kit_job(&k, 2, run)->id, 0);
        assert_int_equal(kit_job(&k, 4, run)->id, 0); /* what it reads has not changed */
        assert_int_equal(kit_job(&k, 5, run)->id, 0);
        assert_int_equal(kit_count(&k, PL_SCHED_PLAN), 1); /* stage 2 waits */
        kit_planned(&k, 1, run, 0);
        kit_committed(&k, 1, run);
        IS(k, 1, run, PL_SCHED_SUCCESS);
        kit_planned(&k, 2, run, 0);
        kit_committed(&k, 2, run);
        kit_planned(&k, 3, run, 0);
        kit_committed(&k, 3, run);
    }
    kit_close(&k);
}

static void without_the_environment_nothing_runs(void **state)
{
    (void)state;
    open_stages();
    kit_push(&k, 1, 1);
    kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_PLAN_FAILED, .id = kit_job(&k, 1, 1)->id, .text = "no index"});
    IS(k, 1, 1, PL_SCHED_FAILURE);
    IS(k, 2, 1, PL_SCHED_UNRUNNABLE);
    IS(k, 3, 1, PL_SCHED_UNRUNNABLE);
    kit_push(&k, 2, 1); /* the next push tries again */
    kit_planned(&k, 1, 2, 0);
    kit_committed(&k, 1, 2);
    kit_planned(&k, 2, 2, 0);
    kit_close(&k);
}

static void a_run_that_makes_it_anew_has_all_that_read_it(void **state)
{
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_RUN};
    const uint64_t stages[] = {2, 1}; /* stage 1 is added for the environment of stage 2 first */

    (void)state;
    open_stages();
    ev.run.id = kit_run_id(1);
    ev.run.order = 1;
    ev.run.stages = stages;
    ev.run.n_stages = 2;
    kit_do(&k, ev);
    for (unsigned stage = 1; stage <= 5; stage++)
        assert_int_not_equal(kit_job(&k, stage, 1)->id, 0);
    kit_close(&k);
}

static void a_run_aside_reads_the_environment_that_is_there(void **state)
{
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_RUN};
    const uint64_t stages[] = {2};

    (void)state;
    open_stages();
    ev.run.id = kit_run_id(1);
    ev.run.order = 1;
    ev.run.stages = stages;
    ev.run.n_stages = 1;
    ev.run.aside = true;
    kit_do(&k, ev);
    assert_int_equal(kit_job(&k, 1, 1)->id, 0);
    assert_int_not_equal(kit_job(&k, 2, 1)->id, 0);
    kit_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_push_has_the_environment_made_first),
        cmocka_unit_test(without_the_environment_nothing_runs),
        cmocka_unit_test(a_run_that_makes_it_anew_has_all_that_read_it),
        cmocka_unit_test(a_run_aside_reads_the_environment_that_is_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
