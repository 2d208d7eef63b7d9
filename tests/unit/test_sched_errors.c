/* What failed datums are to their job, and a newer run to a running one. */
// link: pl_core pl_base
#include "sched_kit.h"

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

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_error_and_max_failed_say_what_failed_datums_are_to_the_job),
        cmocka_unit_test(restart_supersedes_what_runs_but_not_what_commits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
