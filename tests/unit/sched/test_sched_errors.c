// link: pipelined/sched
/* What failed datums are to their job, and a newer run to a running one. */
#include "tests/unit/sched/sched_fixture.h"

/* Four datums of which `failed` end badly, one after the other; `recovered` are told so. */
static void run_four(const struct pl_sched_stage *def, unsigned failed, unsigned recovered)
{
    struct pl_sched_action lease;

    open_one(*def);
    lease = one_lease(1, 4);
    while (k.jobs[1][1].state == PL_SCHED_RUNNING) {
        struct pl_sched_range rows = k.rows[0];

        for (uint32_t i = rows.lo; i < rows.hi && k.jobs[1][1].state == PL_SCHED_RUNNING; i++)
            kit_result(&k, &lease,
                       (struct pl_sched_row){.index = i,
                                             .failed = i < failed + recovered,
                                             .recovered = i >= failed && i < failed + recovered,
                                             .label = "/a",
                                             .message = "exit code 1"});
        kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker);
        if (kit_count(&k, PL_SCHED_LEASE) == 1)
            lease = *kit_the(&k, PL_SCHED_LEASE);
    }
}

static void on_error_and_max_failed_say_what_failed_datums_are_to_the_job(void **state)
{
    static const struct {
        struct pl_sched_stage def;
        unsigned failed, recovered;
        enum pl_sched_state state; /* FINISHING: it commits */
        const char *says;
    } cases[] = {
        {{.skip_failed = true}, 2, 0, PL_SCHED_FINISHING, "4 datums: 4 run, 0 reused; 2 failed and are left out"},
        {{.skip_failed = true}, 4, 0, PL_SCHED_FINISHING, "4 datums: 4 run, 0 reused; 4 failed and are left out"},
        {{.skip_failed = false}, 0, 1, PL_SCHED_FINISHING, "4 datums: 4 run, 0 reused; 1 recovered and is left out"},
        {{.skip_failed = false}, 1, 1, PL_SCHED_FAILURE, "1 of 4 datums failed; the first: datum /a: exit code 1"},
        {{.skip_failed = true, .max_failed_given = true, .max_failed = 2}, 2, 0, PL_SCHED_FINISHING, NULL},
        {{.skip_failed = true, .max_failed_given = true, .max_failed = 1}, 3, 0, PL_SCHED_FAILURE, "2 of 4 datums failed"},
        {{.skip_failed = true, .max_failed_given = true, .max_failed_share = true, .max_failed_ppm = 250000},
         1,
         0,
         PL_SCHED_FINISHING,
         NULL},
        {{.skip_failed = true, .max_failed_given = true, .max_failed_share = true, .max_failed_ppm = 250000},
         4,
         0,
         PL_SCHED_FAILURE,
         "2 of 4 datums failed"},
        {{.skip_failed = false, .max_failed_given = true, .max_failed = 0}, 3, 0, PL_SCHED_FAILURE, "1 of 4 datums failed"},
        {{.skip_failed = true, .max_failed_given = true, .max_failed = 0}, 0, 3, PL_SCHED_FINISHING, NULL},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        run_four(&cases[i].def, cases[i].failed, cases[i].recovered);
        IS(k, 1, 1, cases[i].state);
        if (cases[i].state == PL_SCHED_FINISHING)
            kit_committed(&k, 1, 1);
        if (cases[i].says && !strstr(k.jobs[1][1].reason, cases[i].says))
            fail_msg("case %zu: %s", i, k.jobs[1][1].reason);
        kit_close(&k);
    }
}

/* Plans the one job with five datums, four of which must run. Of these, row 1 and 2 failed before and are not tried again;
 * `recovered` of them were recovered. */
static void plan_untried(const struct pl_sched_stage *def, uint32_t recovered)
{
    static const struct pl_sched_range untried = {1, 3};
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_JOB_PLANNED};

    open_one(*def);
    kit_push(&k, 1, 1);
    ev.id = kit_job(&k, 1, 1)->id;
    ev.plan = (struct pl_sched_plan){.datums = 5, .to_run = 4, .untried = &untried, .n_untried = 1, .recovered = recovered};
    ev.plan.first_failed = (struct pl_sched_row){.index = 1 + recovered, .failed = true, .label = "/b", .message = "exit code 7"};
    kit_do(&k, ev);
}

/* Leases and finishes all datums that are given out; returns how many these were. */
static unsigned finish_all(void)
{
    unsigned n = 0;

    kit_up(&k, kit_the(&k, PL_SCHED_START_WORKER)->worker.id);
    while (kit_count(&k, PL_SCHED_LEASE) == 1) {
        const struct pl_sched_action lease = *kit_the(&k, PL_SCHED_LEASE);

        assert_false(k.rows[0].lo < 3 && k.rows[0].hi > 1); /* an untried datum is not leased */
        n += lease.lease.count;
        kit_finish(&k, lease, 1000);
        if (k.jobs[1][1].state != PL_SCHED_RUNNING)
            break;
        kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker);
    }
    return n;
}

static void untried_datums_do_not_run_and_stay_failed(void **state)
{
    static const struct {
        struct pl_sched_stage def;
        uint32_t recovered;
        enum pl_sched_state state;
        const char *says;
    } cases[] = {
        {{.skip_failed = true}, 0, PL_SCHED_FINISHING, "5 datums: 2 run, 1 reused; 2 failed and are left out"},
        {{.skip_failed = false}, 0, PL_SCHED_FAILURE, "2 of 5 datums failed; the first: datum /b: exit code 7"},
        {{.skip_failed = false}, 2, PL_SCHED_FINISHING, "5 datums: 2 run, 1 reused; 2 recovered and are left out"},
        {{.skip_failed = false}, 1, PL_SCHED_FAILURE, "1 of 5 datums failed; the first: datum /b: exit code 7"},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        plan_untried(&cases[i].def, cases[i].recovered);
        assert_int_equal(finish_all(), 2);
        IS(k, 1, 1, cases[i].state);
        if (cases[i].state == PL_SCHED_FINISHING)
            kit_committed(&k, 1, 1);
        SAYS(k, 1, 1, cases[i].says);
        kit_close(&k);
    }
    /* they count for max_failed, but not before the others have been tried */
    plan_untried(&(struct pl_sched_stage){.skip_failed = true, .max_failed_given = true, .max_failed = 1}, 0);
    assert_int_equal(finish_all(), 2);
    IS(k, 1, 1, PL_SCHED_FAILURE);
    SAYS(k, 1, 1, "2 of 5 datums failed; the first: datum /b: exit code 7");
    kit_close(&k);
}

static void a_plan_whose_untried_datums_are_none_of_its_own_is_refused(void **state)
{
    static const struct {
        struct pl_sched_range untried[2];
        uint32_t recovered;
    } cases[] = {{{{2, 2}}, 0}, {{{3, 5}}, 0}, {{{1, 3}, {2, 4}}, 0}, {{{0, 1}}, 2}};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_sched_event ev = {.kind = PL_SCHED_EV_JOB_PLANNED};

        open_one((struct pl_sched_stage){0});
        kit_push(&k, 1, 1);
        ev.id = kit_job(&k, 1, 1)->id;
        ev.plan = (struct pl_sched_plan){.datums = 4, .to_run = 4, .untried = cases[i].untried, .recovered = cases[i].recovered};
        ev.plan.n_untried = cases[i].untried[1].hi ? 2 : 1;
        assert_int_equal(kit_try(&k, ev), PL_EINVAL);
        kit_close(&k);
    }
}

static void restart_supersedes_what_runs_but_not_what_commits(void **state)
{
    struct pl_sched_action lease;

    (void)state;
    open_one((struct pl_sched_stage){.on_new = PL_SCHED_RESTART});
    lease = one_lease(1, 2);
    kit_push(&k, 2, 1);
    IS(k, 1, 1, PL_SCHED_KILLED);
    SAYS(k, 1, 1, "superseded by run 22222222");
    kit_planned(&k, 1, 2, 1);
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker);
    lease = *kit_the(&k, PL_SCHED_LEASE); /* the same worker goes on with the new job */
    kit_result(&k, &lease, (struct pl_sched_row){.index = 0});
    IS(k, 1, 2, PL_SCHED_FINISHING);
    kit_push(&k, 3, 1);
    IS(k, 1, 2, PL_SCHED_FINISHING);
    kit_committed(&k, 1, 2);
    IS(k, 1, 2, PL_SCHED_SUCCESS);
    kit_close(&k);
}

/* --- over a restart */

/* Ten rows of stage 1, of which the first two have ended: two tries. */
static struct pl_sched_event restored(void)
{
    static const struct pl_sched_range ended = {0, 2};
    struct pl_sched_event ev;

    kit_open(&k, 4, 0);
    kit_do(&k, kit_stage(1, 1, (struct pl_sched_stage){.tries = 2}));
    ev = kit_restored_job(&k, 10);
    ev.job.state = PL_SCHED_RUNNING;
    ev.job.leased = true;
    ev.job.ended = &ended;
    ev.job.n_ended = 1;
    return ev;
}

static void what_a_row_went_through_is_known_after_a_restart(void **state)
{
    const struct pl_sched_tried tried[] = {{{3, 4}, 1, 0}, {{5, 10}, 0, PL_SCHED_LOSSES_MAX}};
    struct pl_sched_event job = restored(), task = {.kind = PL_SCHED_EV_RESTORE_TASK};
    const struct pl_sched_range lost = {5, 10}, fresh = {4, 5};

    (void)state;
    job.job.tried = tried;
    job.job.n_tried = 2;
    kit_do(&k, job);
    kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_RESTORE_WORKER, .worker = {.id = 20, .stage = 1, .version = 1}});
    task.task.task = 30;
    task.task.fence = 31;
    task.task.job = 10;
    task.task.worker = 20;
    task.task.n_rows = 1;
    task.task.rows = &lost;
    assert_int_equal(kit_try(&k, task), PL_EINVAL); /* it was leased before they were lost */
    task.task.losses = PL_SCHED_LOSSES_MAX;
    kit_do(&k, task);
    task.task.rows = &fresh;
    task.task.task = 32;
    assert_int_equal(kit_try(&k, task), PL_EINVAL);
    kit_ready(&k);
    kit_worker(&k, PL_SCHED_EV_WORKER_EXITED, 20);
    assert_int_equal(kit_the(&k, PL_SCHED_GIVE_UP)->lease.count, 5);
    kit_up(&k, kit_the(&k, PL_SCHED_START_WORKER)->worker.id);
    for (unsigned row = 2; row <= 4; row += 2) {
        const struct pl_sched_action lease = *kit_the(&k, PL_SCHED_LEASE);

        assert_int_equal(k.rows[0].lo, row);
        assert_int_equal(lease.lease.failures, 0);
        kit_finish(&k, lease, 1000);
        kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker);
    }
    assert_int_equal(k.rows[0].lo, 3);
    assert_int_equal(kit_the(&k, PL_SCHED_LEASE)->lease.failures, 1);
    kit_result(&k, kit_the(&k, PL_SCHED_LEASE), (struct pl_sched_row){.index = 3, .failed = true, .label = "/a", .message = "x"});
    assert_int_equal(k.verdicts[0], PL_SCHED_ROW_FAILED); /* it had one try left */
    SAYS(k, 1, 1, "6 of 10 datums failed; the first: datum /a: x");
    kit_close(&k);
}

static void a_history_of_rows_that_have_ended_or_are_none_is_refused(void **state)
{
    static const struct pl_sched_tried cases[][2] = {
        {{{1, 3}, 1, 0}},
        {{{4, 4}, 1, 0}},
        {{{9, 11}, 1, 0}},
        {{{4, 6}, 1, 0}, {{5, 7}, 0, 1}},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(cases); i++) {
        struct pl_sched_event ev = restored();

        ev.job.tried = cases[i];
        ev.job.n_tried = cases[i][1].rows.hi ? 2 : 1;
        assert_int_equal(kit_try(&k, ev), PL_EINVAL);
        kit_close(&k);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_error_and_max_failed_say_what_failed_datums_are_to_the_job),
        cmocka_unit_test(untried_datums_do_not_run_and_stay_failed),
        cmocka_unit_test(a_plan_whose_untried_datums_are_none_of_its_own_is_refused),
        cmocka_unit_test(restart_supersedes_what_runs_but_not_what_commits),
        cmocka_unit_test(what_a_row_went_through_is_known_after_a_restart),
        cmocka_unit_test(a_history_of_rows_that_have_ended_or_are_none_is_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
