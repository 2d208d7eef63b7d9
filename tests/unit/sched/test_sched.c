// link: pipelined/sched
/* What the scheduler decides, case by case. The same rules in a world of chance: test_sched_world.c. */
#include "tests/unit/sched/sched_fixture.h"

/* --- a job's way */

static void a_push_is_planned_leased_and_committed(void **state)
{
    struct pl_sched_action lease;

    (void)state;
    open_one((struct pl_sched_stage){0});
    kit_push(&k, 1, 1);
    assert_int_equal(k.runs[1], PL_SCHED_RUNNING);
    IS(k, 1, 1, PL_SCHED_STARTING);
    SAYS(k, 1, 1, "being planned: which datums must run");
    assert_int_equal(kit_the(&k, PL_SCHED_PLAN)->job.order, 1);
    kit_planned(&k, 1, 1, 1);
    SAYS(k, 1, 1, "starting 1 worker");
    kit_up(&k, kit_the(&k, PL_SCHED_START_WORKER)->worker.id);
    IS(k, 1, 1, PL_SCHED_RUNNING);
    SAYS(k, 1, 1, "running on 1 worker");
    lease = *kit_the(&k, PL_SCHED_LEASE);
    assert_int_equal(lease.lease.count, 1);
    kit_finish(&k, lease, 1000);
    assert_int_equal(k.verdicts[0], PL_SCHED_ROW_DONE);
    IS(k, 1, 1, PL_SCHED_FINISHING);
    kit_the(&k, PL_SCHED_COMMIT);
    kit_committed(&k, 1, 1);
    IS(k, 1, 1, PL_SCHED_SUCCESS);
    SAYS(k, 1, 1, "1 datum: 1 run, 0 reused");
    assert_int_equal(k.runs[1], PL_SCHED_SUCCESS);
    kit_close(&k);
}

static void a_push_that_nobody_reads_is_a_run_without_jobs(void **state)
{
    (void)state;
    open_one((struct pl_sched_stage){0});
    kit_push(&k, 1, 2);
    assert_int_equal(k.runs[1], PL_SCHED_SUCCESS);
    assert_int_equal(kit_count(&k, PL_SCHED_JOB_STATE), 0);
    kit_close(&k);
}

static void a_job_with_nothing_to_run_starts_no_worker(void **state)
{
    (void)state;
    open_one((struct pl_sched_stage){0});
    kit_push(&k, 1, 1);
    kit_planned(&k, 1, 1, 0);
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 0);
    kit_the(&k, PL_SCHED_COMMIT);
    kit_close(&k);
}

static void a_failed_plan_or_commit_fails_the_job(void **state)
{
    (void)state;
    open_one((struct pl_sched_stage){0});
    kit_push(&k, 1, 1);
    kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_PLAN_FAILED, .id = kit_job(&k, 1, 1)->id, .text = "no such branch"});
    IS(k, 1, 1, PL_SCHED_FAILURE);
    SAYS(k, 1, 1, "no such branch");
    kit_push(&k, 2, 1);
    kit_planned(&k, 1, 2, 0);
    kit_do(&k,
           (struct pl_sched_event){.kind = PL_SCHED_EV_COMMIT_FAILED, .id = kit_job(&k, 1, 2)->id, .text = "the disk is full"});
    SAYS(k, 1, 2, "the disk is full");
    assert_int_equal(k.runs[2], PL_SCHED_FAILURE);
    kit_close(&k);
}

/* --- the graph */

static void downstream_waits_for_the_same_run(void **state)
{
    (void)state;
    open_chain();
    kit_push(&k, 1, 1);
    assert_int_equal(kit_the(&k, PL_SCHED_PLAN)->job.stage, 1);
    SAYS(k, 2, 1, "waiting for stage prepare of run 11111111");
    SAYS(k, 3, 1, "waiting for stage train of run 11111111");
    kit_planned(&k, 1, 1, 0);
    kit_committed(&k, 1, 1);
    assert_int_equal(kit_the(&k, PL_SCHED_PLAN)->job.stage, 2);
    IS(k, 3, 1, PL_SCHED_CREATED);
    kit_close(&k);
}

static void a_failure_makes_everything_below_unrunnable_naming_the_first_cause(void **state)
{
    (void)state;
    open_chain();
    kit_push(&k, 1, 1);
    kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_PLAN_FAILED, .id = kit_job(&k, 1, 1)->id, .text = "no such branch"});
    IS(k, 2, 1, PL_SCHED_UNRUNNABLE);
    SAYS(k, 2, 1, "stage prepare failed: no such branch");
    SAYS(k, 3, 1, "stage prepare failed: no such branch");
    assert_int_equal(k.runs[1], PL_SCHED_FAILURE);
    kit_close(&k);
}

static void a_killed_job_takes_what_is_below_with_it(void **state)
{
    (void)state;
    open_chain();
    kit_push(&k, 1, 1);
    kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_STOP_JOB, .id = kit_job(&k, 1, 1)->id, .text = "stopped by a user"});
    IS(k, 1, 1, PL_SCHED_KILLED);
    IS(k, 2, 1, PL_SCHED_UNRUNNABLE);
    SAYS(k, 3, 1, "stage prepare was killed: stopped by a user");
    assert_int_equal(k.runs[1], PL_SCHED_KILLED);
    kit_close(&k);
}

static void a_failure_beside_a_killed_job_is_the_runs_end(void **state)
{
    (void)state;
    open_one((struct pl_sched_stage){0});
    kit_do(&k, kit_stage(2, 101, (struct pl_sched_stage){0}));
    kit_do(&k, kit_stage(3, 1, (struct pl_sched_stage){0}));
    kit_push(&k, 1, 1);
    kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_STOP_JOB, .id = kit_job(&k, 1, 1)->id, .text = "stopped by a user"});
    IS(k, 2, 1, PL_SCHED_UNRUNNABLE);
    kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_PLAN_FAILED, .id = kit_job(&k, 3, 1)->id, .text = "no such branch"});
    assert_int_equal(k.runs[1], PL_SCHED_FAILURE);
    kit_close(&k);
}

static void only_what_is_below_a_change_runs(void **state)
{
    struct pl_sched_head both[2] = {{2, 1}, {101, 1}};

    (void)state;
    kit_open(&k, 4, 0);
    kit_do(&k, kit_stage(1, 1, (struct pl_sched_stage){0}));
    kit_do(&k, kit_stage(2, 0, (struct pl_sched_stage){.inputs = both, .n_inputs = 2}));
    kit_ready(&k);
    kit_push(&k, 1, 2);
    assert_int_equal(kit_job(&k, 1, 1)->id, 0);
    assert_int_equal(kit_the(&k, PL_SCHED_PLAN)->job.stage, 2);
    kit_close(&k);
}

/* Else it would read what prepare had before run 1, and nobody would read what prepare makes of run 1. */
static void a_later_run_waits_for_an_earlier_one_that_still_writes_its_input(void **state)
{
    struct pl_sched_head both[2] = {{2, 1}, {101, 1}};

    (void)state;
    kit_open(&k, 4, 0);
    kit_do(&k, kit_stage(1, 1, (struct pl_sched_stage){0}));
    kit_do(&k, kit_stage(2, 0, (struct pl_sched_stage){.inputs = both, .n_inputs = 2}));
    kit_ready(&k);
    kit_push(&k, 1, 1);
    kit_push(&k, 2, 2);
    IS(k, 2, 1, PL_SCHED_KILLED);
    SAYS(k, 2, 2, "waiting for stage prepare of run 11111111");
    kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_PLAN_FAILED, .id = kit_job(&k, 1, 1)->id, .text = "x"});
    assert_int_equal(kit_the(&k, PL_SCHED_PLAN)->job.stage,
                     2); /* it was another run's failure: what prepare had before is read */
    kit_close(&k);
}

static void jobs_of_a_stage_go_one_at_a_time_in_the_order_of_the_log(void **state)
{
    (void)state;
    open_chain();
    kit_push(&k, 1, 1);
    kit_push(&k, 2, 1);
    assert_int_equal(kit_count(&k, PL_SCHED_PLAN), 0);
    SAYS(k, 1, 2, "waiting for its turn: run 11111111 goes first");
    kit_planned(&k, 1, 1, 0);
    assert_int_equal(kit_count(&k, PL_SCHED_PLAN), 0);
    kit_committed(&k, 1, 1);
    assert_int_equal(kit_count(&k, PL_SCHED_PLAN), 2); /* prepare of run 2 and train of run 1 */
    kit_close(&k);
}

static void the_newest_supersedes_what_has_leased_nothing(void **state)
{
    (void)state;
    open_one((struct pl_sched_stage){0});
    kit_do(&k, kit_stage(2, 101, (struct pl_sched_stage){.on_new = PL_SCHED_QUEUE}));
    one_lease(1, 2);
    kit_push(&k, 2, 1);
    IS(k, 1, 1, PL_SCHED_RUNNING); /* it has a lease */
    kit_push(&k, 3, 1);
    IS(k, 1, 2, PL_SCHED_KILLED);
    SAYS(k, 1, 2, "superseded by run 33333333");
    assert_string_equal(kit_job(&k, 1, 2)->superseded_by, kit_run_id(3));
    IS(k, 2, 2, PL_SCHED_KILLED); /* although it queues: its run's input will never be */
    SAYS(k, 2, 2, "superseded by run 33333333");
    IS(k, 2, 1, PL_SCHED_CREATED);
    assert_int_equal(k.runs[2], PL_SCHED_KILLED);
    kit_close(&k);
}

static void a_job_gives_way_only_to_one_that_can_run_as_soon(void **state)
{
    (void)state;
    open_chain();
    kit_push(&k, 1, 1);
    kit_planned(&k, 1, 1, 0);
    kit_committed(&k, 1, 1);
    kit_push(&k, 2, 1);
    IS(k, 2, 1, PL_SCHED_STARTING); /* train of run 2 waits for its prepare */
    kit_planned(&k, 2, 1, 1);
    IS(k, 2, 1, PL_SCHED_STARTING);
    kit_push(&k, 3, 1);
    IS(k, 1, 2, PL_SCHED_STARTING); /* who comes later would have to be planned first */
    kit_planned(&k, 1, 2, 0);
    IS(k, 2, 1, PL_SCHED_STARTING);
    kit_committed(&k, 1, 2);
    IS(k, 2, 1, PL_SCHED_STARTING); /* its run is carried: some of it has begun */
    IS(k, 2, 2, PL_SCHED_CREATED);
    SAYS(k, 2, 2, "waiting for its turn: run 11111111 goes first");
    kit_close(&k);
}

/* --- tries */

static void a_failed_datum_is_tried_again_the_others_still_run_and_the_first_is_named(void **state)
{
    struct pl_sched_action lease;

    (void)state;
    open_one((struct pl_sched_stage){.tries = 2});
    lease = one_lease(1, 2);
    kit_result(&k, &lease, (struct pl_sched_row){.index = 0, .failed = true, .label = "/a", .message = "exit code 1"});
    assert_int_equal(k.verdicts[0], PL_SCHED_ROW_RETRY);
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker);
    lease = *kit_the(&k, PL_SCHED_LEASE);
    assert_int_equal(k.rows[0].lo, 1); /* the new ones first */
    kit_finish(&k, lease, 1000);
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker);
    lease = *kit_the(&k, PL_SCHED_LEASE);
    assert_int_equal(lease.lease.failures, 1);
    kit_result(&k, &lease, (struct pl_sched_row){.index = 0, .failed = true, .label = "/a", .message = "exit code 2"});
    assert_int_equal(k.verdicts[0], PL_SCHED_ROW_FAILED);
    IS(k, 1, 1, PL_SCHED_FAILURE);
    SAYS(k, 1, 1, "1 of 2 datums failed; the first: datum /a: exit code 2");
    kit_close(&k);
}

/* Ends the worker of the lease, which had come up, and says how the datum was lost. */
static void lose(struct pl_sched_action lease)
{
    kit_worker(&k, PL_SCHED_EV_WORKER_EXITED, lease.lease.worker);
    assert_int_equal(kit_the(&k, PL_SCHED_RETURNED)->lease.losses, lease.lease.losses + 1);
    IS(k, 1, 1, PL_SCHED_RUNNING);
}

static void a_lost_worker_is_no_try_and_its_datum_is_leased_again_at_once(void **state)
{
    struct pl_sched_action lease;

    (void)state;
    open_one((struct pl_sched_stage){0});
    lease = one_lease(1, 1);
    lose(lease);
    SAYS(k, 1, 1, "starting 1 worker (its worker ended: killed by signal 9)");
    kit_up(&k, kit_the(&k, PL_SCHED_START_WORKER)->worker.id);
    assert_int_equal(kit_the(&k, PL_SCHED_LEASE)->lease.failures, 0);
    assert_int_equal(kit_the(&k, PL_SCHED_LEASE)->lease.losses, 1);
    kit_close(&k);
}

/* What may end its workers itself must not end them as fast as they can be started. */
static void a_datum_that_is_lost_again_waits_longer_each_time(void **state)
{
    struct pl_sched_action lease;

    (void)state;
    open_one((struct pl_sched_stage){0});
    lease = one_lease(1, 1);
    for (int64_t wait_ms = 0; wait_ms <= 40000; wait_ms = wait_ms ? 2 * wait_ms : 10000) {
        lose(lease);
        if (wait_ms > 0) {
            SAYS(k, 1, 1, "waiting before trying again: its worker ended: killed by signal 9");
            kit_wait(&k, wait_ms - 1);
            assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 0);
            kit_wait(&k, 1);
        }
        kit_up(&k, kit_the(&k, PL_SCHED_START_WORKER)->worker.id);
        lease = *kit_the(&k, PL_SCHED_LEASE);
    }
    kit_close(&k);
}

static void a_datum_lost_too_often_fails(void **state)
{
    struct pl_sched_action lease;

    (void)state;
    open_one((struct pl_sched_stage){0});
    lease = one_lease(1, 1);
    for (int i = 0; i < PL_SCHED_LOSSES_MAX; i++) {
        kit_result(&k, &lease, (struct pl_sched_row){.index = 99}); /* some sign of life, else the stage's start is at fault */
        kit_worker(&k, PL_SCHED_EV_WORKER_EXITED, lease.lease.worker);
        IS(k, 1, 1, PL_SCHED_RUNNING);
        while (kit_count(&k, PL_SCHED_START_WORKER) == 0)
            kit_wait(&k, 1000);
        kit_up(&k, kit_the(&k, PL_SCHED_START_WORKER)->worker.id);
        lease = *kit_the(&k, PL_SCHED_LEASE);
    }
    kit_worker(&k, PL_SCHED_EV_WORKER_EXITED, lease.lease.worker);
    kit_the(&k, PL_SCHED_GIVE_UP);
    IS(k, 1, 1, PL_SCHED_FAILURE);
    SAYS(k, 1, 1, "datum number 0: lost 21 times with its worker: its worker ended: killed by signal 9");
    kit_close(&k);
}

static void a_stage_whose_workers_never_come_up_fails_in_the_end(void **state)
{
    int starts = 0;

    (void)state;
    open_one((struct pl_sched_stage){0});
    kit_push(&k, 1, 1);
    kit_planned(&k, 1, 1, 1);
    for (; kit_job(&k, 1, 1)->state != PL_SCHED_FAILURE && starts < 100; starts++) {
        uint64_t worker = kit_the(&k, PL_SCHED_START_WORKER)->worker.id;

        kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_START_FAILED, .id = worker, .text = "bwrap: not found"});
        if (starts == 0)
            SAYS(k, 1, 1, "a worker failed to start (1 in a row; the next one starts after 10s): bwrap: not found");
        for (int i = 0; i < 700 && kit_count(&k, PL_SCHED_START_WORKER) == 0 && kit_job(&k, 1, 1)->state != PL_SCHED_FAILURE; i++)
            kit_wait(&k, 1000);
    }
    assert_int_equal(starts, PL_SCHED_LOSSES_MAX + 1);
    SAYS(k, 1, 1, "21 workers in a row failed to start: bwrap: not found");
    kit_close(&k);
}

/* --- leases */

static void a_lease_lives_while_it_is_renewed(void **state)
{
    struct pl_sched_action lease;
    struct pl_sched_lease held;

    (void)state;
    open_one((struct pl_sched_stage){0});
    lease = one_lease(1, 1);
    for (int i = 0; i < 20; i++) {
        kit_wait(&k, 10000);
        kit_do(&k, renewal(&lease, &held));
        assert_int_equal(kit_count(&k, PL_SCHED_LEASE_LOST), 0);
    }
    kit_finish(&k, lease, 1000);
    IS(k, 1, 1, PL_SCHED_FINISHING);
    kit_close(&k);
}

static void an_old_fence_is_refused(void **state)
{
    struct pl_sched_action lease;
    struct pl_sched_lease held;

    (void)state;
    open_one((struct pl_sched_stage){0});
    lease = one_lease(1, 1);
    renewal(&lease, &held);
    assert_true(pl_sched_holds(k.s, lease.lease.worker, &held, 0));
    assert_false(pl_sched_holds(k.s, lease.lease.worker + 1, &held, 0));
    assert_false(pl_sched_holds(k.s, lease.lease.worker, &held, 1)); /* no row of it */
    assert_false(pl_sched_holds(k.s, lease.lease.worker, &held, UINT32_MAX));
    held.fence++;
    assert_false(pl_sched_holds(k.s, lease.lease.worker, &held, 0));
    kit_wait(&k, 29999);
    assert_int_equal(kit_count(&k, PL_SCHED_RETURNED), 0);
    kit_wait(&k, 1);
    assert_string_equal(kit_the(&k, PL_SCHED_RETURNED)->lease.message, "its worker stopped responding");
    held.fence--;
    assert_false(pl_sched_holds(k.s, lease.lease.worker, &held, 0));
    assert_true(kit_the(&k, PL_SCHED_STOP_WORKER)->worker.kill); /* it was silent altogether */
    kit_do(&k, renewal(&lease, &held));
    assert_int_equal(kit_the(&k, PL_SCHED_LEASE_LOST)->lease.fence, lease.lease.fence);
    kit_finish(&k, lease, 1000);
    kit_the(&k, PL_SCHED_LEASE_LOST);
    assert_int_equal(kit_count(&k, PL_SCHED_RESULT), 0);
    IS(k, 1, 1, PL_SCHED_RUNNING);
    kit_close(&k);
}

static void a_daemon_that_stood_still_expires_nothing(void **state)
{
    struct pl_sched_action lease;

    (void)state;
    open_one((struct pl_sched_stage){0});
    lease = one_lease(1, 1);
    k.now += 3600000;
    kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_TICK});
    k.now -= 1800000;
    kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_TICK});
    kit_finish(&k, lease, 1000);
    IS(k, 1, 1, PL_SCHED_FINISHING);
    kit_close(&k);
}

static void the_same_result_twice_is_kept_once(void **state)
{
    struct pl_sched_action lease;

    (void)state;
    open_one((struct pl_sched_stage){0});
    lease = one_lease(1, 1);
    kit_finish(&k, lease, 1000);
    kit_the(&k, PL_SCHED_RESULT);
    kit_finish(&k, lease, 1000);
    assert_int_equal(kit_count(&k, PL_SCHED_RESULT), 0);
    assert_int_equal(kit_the(&k, PL_SCHED_LEASE_LOST)->lease.task, lease.lease.task);
    kit_close(&k);
}

static void a_worker_that_comes_back_without_its_task_gives_it_up_at_once(void **state)
{
    struct pl_sched_action lease;

    (void)state;
    open_one((struct pl_sched_stage){0});
    lease = one_lease(1, 1);
    kit_worker(&k, PL_SCHED_EV_WORKER_ATTACHED, lease.lease.worker);
    assert_null(kit_the(&k, PL_SCHED_RETURNED)->lease.message); /* that is no loss */
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker);
    assert_true(kit_the(&k, PL_SCHED_LEASE)->lease.fence > lease.lease.fence);
    assert_int_equal(kit_the(&k, PL_SCHED_LEASE)->lease.losses, 0);
    kit_close(&k);
}

static void an_unknown_worker_is_told_to_end(void **state)
{
    (void)state;
    open_one((struct pl_sched_stage){0});
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, 77);
    assert_int_equal(kit_the(&k, PL_SCHED_STOP_WORKER)->worker.id, 77);
    kit_close(&k);
}

/* --- what users do */

static void a_job_times_out_by_the_time_it_ran(void **state)
{
    struct pl_sched_action lease;
    struct pl_sched_lease held;

    (void)state;
    open_one((struct pl_sched_stage){.job_timeout_ms = 20000});
    kit_push(&k, 1, 1);
    kit_wait(&k, 60000); /* being planned does not count */
    kit_planned(&k, 1, 1, 2);
    kit_up(&k, kit_the(&k, PL_SCHED_START_WORKER)->worker.id);
    lease = *kit_the(&k, PL_SCHED_LEASE);
    kit_wait(&k, 10000);
    kit_do(&k, renewal(&lease, &held));
    kit_wait(&k, 9999);
    IS(k, 1, 1, PL_SCHED_RUNNING);
    kit_wait(&k, 1);
    IS(k, 1, 1, PL_SCHED_KILLED);
    SAYS(k, 1, 1, "job timed out after 20s of running");
    assert_int_equal(kit_the(&k, PL_SCHED_CANCEL)->lease.task, lease.lease.task);
    kit_close(&k);
}

static void a_stopped_run_ends_but_for_what_commits(void **state)
{
    struct pl_sched_event stop = {.kind = PL_SCHED_EV_STOP_RUN, .text = "stopped by a user"};

    (void)state;
    open_chain();
    kit_push(&k, 1, 1);
    kit_planned(&k, 1, 1, 0);
    assert_int_equal(kit_try(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_STOP_JOB, .id = kit_job(&k, 1, 1)->id}), PL_EBUSY);
    stop.run.id = kit_run_id(1);
    kit_do(&k, stop);
    IS(k, 1, 1, PL_SCHED_FINISHING);
    IS(k, 2, 1, PL_SCHED_KILLED);
    SAYS(k, 3, 1, "stopped by a user");
    assert_int_equal(k.runs[1], PL_SCHED_RUNNING);
    kit_committed(&k, 1, 1);
    assert_int_equal(k.runs[1], PL_SCHED_KILLED);
    assert_int_equal(kit_try(&k, stop), PL_ENOTFOUND);
    kit_close(&k);
}

static void a_new_version_has_workers_of_its_own(void **state)
{
    struct pl_sched_action lease;

    (void)state;
    open_one((struct pl_sched_stage){.on_new = PL_SCHED_QUEUE});
    lease = one_lease(1, 1);
    kit_do(&k, kit_stage(1, 1, (struct pl_sched_stage){.version = 2, .on_new = PL_SCHED_QUEUE}));
    kit_push(&k, 2, 1);
    IS(k, 1, 1, PL_SCHED_RUNNING); /* it goes on as it was */
    kit_finish(&k, lease, 1000);
    kit_committed(&k, 1, 1);
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker);
    assert_int_equal(kit_the(&k, PL_SCHED_STOP_WORKER)->worker.id, lease.lease.worker);
    kit_planned(&k, 1, 2, 1);
    assert_int_equal(kit_the(&k, PL_SCHED_START_WORKER)->worker.version, 2);
    kit_close(&k);
}

static void draining_starts_nothing_new_and_says_when_all_is_still(void **state)
{
    struct pl_sched_action lease;

    (void)state;
    open_one((struct pl_sched_stage){0});
    lease = one_lease(1, 2);
    kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_DRAIN});
    assert_int_equal(kit_count(&k, PL_SCHED_DRAINED), 0);
    kit_finish(&k, lease, 1000);
    kit_the(&k, PL_SCHED_DRAINED);
    SAYS(k, 1, 1, "the daemon is stopping: nothing new is started");
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker);
    kit_the(&k, PL_SCHED_STOP_WORKER);
    kit_worker(&k, PL_SCHED_EV_WORKER_EXITED, lease.lease.worker);
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 0);
    kit_close(&k);
}

/* --- after a start */

static void restore_one(struct pl_sched_range *ended, struct pl_sched_range *leased)
{
    struct pl_sched_event ev;

    kit_open(&k, 1, 0);
    kit_do(&k, kit_stage(1, 1, (struct pl_sched_stage){0}));
    ev = kit_restored_job(&k, 10);
    ev.job.state = PL_SCHED_RUNNING;
    ev.job.leased = true;
    ev.job.ended = ended;
    ev.job.n_ended = 1;
    kit_do(&k, ev);
    ev = (struct pl_sched_event){.kind = PL_SCHED_EV_RESTORE_WORKER};
    ev.worker.id = 20;
    ev.worker.stage = ev.worker.version = 1;
    kit_do(&k, ev);
    ev = (struct pl_sched_event){.kind = PL_SCHED_EV_RESTORE_TASK};
    ev.task.task = 30;
    ev.task.fence = 31;
    ev.task.job = 10;
    ev.task.worker = 20;
    ev.task.rows = leased;
    ev.task.n_rows = 1;
    kit_do(&k, ev);
    assert_int_equal(kit_try(&k, ev), PL_EEXISTS);
    ev.task.task = 32;
    assert_int_equal(kit_try(&k, ev), PL_EINVAL); /* its rows are another's */
    kit_ready(&k);
}

static void what_ended_stays_ended_and_what_was_leased_stays_leased(void **state)
{
    struct pl_sched_range ended = {0, 8}, leased = {8, 9};
    struct pl_sched_action old = {.lease = {.worker = 20, .task = 30, .fence = 31, .count = 1}};
    struct pl_sched_job_info info;

    (void)state;
    restore_one(&ended, &leased);
    SAYS(k, 1, 1, "running on 1 worker");
    assert_int_equal(pl_sched_job_info(k.s, 10, &info, NULL), 0);
    assert_int_equal(info.done, 8);
    assert_int_equal(info.leased, 1);
    assert_int_equal(info.waiting, 1);
    k.rows[0] = leased;
    kit_finish(&k, old, 1000);
    assert_int_equal(k.verdicts[0], PL_SCHED_ROW_DONE);
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, 20);
    assert_int_equal(k.rows[0].lo, 9);
    kit_finish(&k, *kit_the(&k, PL_SCHED_LEASE), 1000);
    IS(k, 1, 1, PL_SCHED_FINISHING);
    kit_close(&k);
}

static void a_restored_worker_that_stays_silent_is_given_up_after_one_lease(void **state)
{
    struct pl_sched_range ended = {0, 8}, leased = {8, 9};

    (void)state;
    restore_one(&ended, &leased);
    kit_wait(&k, 29999);
    assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 0);
    kit_wait(&k, 1);
    assert_true(kit_the(&k, PL_SCHED_STOP_WORKER)->worker.kill);
    kit_close(&k);
}

static void jobs_that_were_not_kept_follow_from_the_run_again(void **state)
{
    struct pl_sched_head head = {1, 1};
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_RESTORE_RUN};

    (void)state;
    kit_open(&k, 1, 0);
    kit_do(&k, kit_stage(1, 1, (struct pl_sched_stage){0}));
    kit_do(&k, kit_stage(2, 101, (struct pl_sched_stage){0}));
    kit_do(&k, kit_stage(3, 101, (struct pl_sched_stage){.since = 2})); /* made later */
    ev.run.id = kit_run_id(1);
    ev.run.order = 1;
    ev.run.heads = &head;
    ev.run.n_heads = 1;
    kit_do(&k, ev);
    kit_ready(&k);
    assert_int_equal(kit_the(&k, PL_SCHED_PLAN)->job.stage, 1);
    SAYS(k, 2, 1, "waiting for stage prepare of run 11111111");
    assert_int_equal(kit_job(&k, 3, 1)->id, 0);
    kit_close(&k);
}

/* --- what is refused */

static void bad_events_are_refused_and_change_nothing(void **state)
{
    struct pl_sched_event run = {.kind = PL_SCHED_EV_RUN};
    struct pl_sched_event foreign = kit_stage(4, 1, (struct pl_sched_stage){0});

    (void)state;
    kit_open(&k, 1, 0);
    assert_int_equal(kit_try(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_TICK}), PL_EINVAL); /* still restoring */
    kit_ready(&k);
    assert_int_equal(kit_try(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_RESTORE_DONE}), PL_EINVAL);
    kit_do(&k, kit_stage(1, 103, (struct pl_sched_stage){0}));
    kit_do(&k, kit_stage(2, 101, (struct pl_sched_stage){0}));
    assert_int_equal(kit_try(&k, kit_stage(3, 102, (struct pl_sched_stage){0})), PL_EINVAL); /* 1 → 2 → 3 → 1 */
    assert_int_equal(kit_try(&k, kit_stage(3, 103, (struct pl_sched_stage){0})), PL_EINVAL); /* itself */
    assert_int_equal(kit_try(&k, kit_stage(1, 103, (struct pl_sched_stage){0})), PL_EEXISTS);
    assert_int_equal(kit_try(&k, kit_stage(3, 1, (struct pl_sched_stage){.gpu_count = PL_SCHED_WORKER_GPUS_MAX + 1})), PL_ELIMIT);
    foreign.stage.output.repo = 101;
    assert_int_equal(kit_try(&k, foreign), PL_EINVAL);
    assert_int_equal(kit_try(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_STAGE_REMOVED, .id = 9}), PL_ENOTFOUND);
    assert_int_equal(kit_try(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_STOP_JOB, .id = 9}), PL_ENOTFOUND);
    kit_push(&k, 2, 5);
    run.run.id = kit_run_id(1);
    run.run.order = 1;
    assert_int_equal(kit_try(&k, run), PL_EINVAL);                                   /* before run 2 */
    kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_JOB_PLANNED, .id = 999}); /* late answers are no errors */
    kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_JOB_COMMITTED, .id = 999});
    kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_WORKER_EXITED, .id = 999});
    assert_int_equal(k.n, 0);
    kit_close(&k);
}

static void a_long_message_is_cut_between_characters(void **state)
{
    char text[1201] = "x";
    const char *reason;

    (void)state;
    for (size_t i = 1; i + 2 < sizeof(text); i += 2)
        memcpy(text + i, "\xc3\xa9", 2); /* é */
    open_one((struct pl_sched_stage){0});
    kit_push(&k, 1, 1);
    kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_PLAN_FAILED, .id = kit_job(&k, 1, 1)->id, .text = text});
    reason = kit_job(&k, 1, 1)->reason;
    assert_true(strlen(reason) > 400 && strlen(reason) < PL_SCHED_MESSAGE_MAX);
    assert_int_equal(strlen(reason) % 2, 1);
    kit_close(&k);
}

static void a_plan_of_too_many_datums_is_refused(void **state)
{
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_JOB_PLANNED};

    (void)state;
    open_one((struct pl_sched_stage){0});
    kit_push(&k, 1, 1);
    ev.id = kit_job(&k, 1, 1)->id;
    ev.plan.datums = ev.plan.to_run = PL_SCHED_ROWS_MAX + 1;
    assert_int_equal(kit_try(&k, ev), PL_ELIMIT);
    kit_close(&k);
}

/* --- size */

/* A chain of stages below one push: each call stays within its bound, and the run ends with one failure at its head. */
static void a_long_chain_is_taken_in_small_steps(void **state)
{
    enum { LONG = 20000 };
    struct pl_sched_config config = {0};
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_RUN};
    struct pl_sched_head head = {1, 1};
    struct pl_sched_actions out;
    unsigned calls = 0, unrunnable = 0;
    uint64_t first = 0;
    bool more;

    (void)state;
    assert_int_equal(pl_sched_create(&config, &k.s, NULL), 0);
    for (unsigned i = 0; i < LONG; i++) {
        struct pl_sched_head in = {i + 1, 1};
        struct pl_sched_stage def = {.stage = i + 1,
                                     .version = 1,
                                     .pipeline = 1,
                                     .name = "link",
                                     .inputs = &in,
                                     .n_inputs = 1,
                                     .output = {i + 2, 1},
                                     .workers = 1,
                                     .tries = 1};

        assert_int_equal(pl_sched_step(k.s, &(struct pl_sched_event){.kind = PL_SCHED_EV_STAGE_SET, .stage = def}, &out, NULL),
                         0);
    }
    assert_int_equal(pl_sched_step(k.s, &(struct pl_sched_event){.kind = PL_SCHED_EV_RESTORE_DONE}, &out, NULL), 0);
    ev.run.id = kit_run_id(1);
    ev.run.order = 1;
    ev.run.heads = &head;
    ev.run.n_heads = 1;
    for (more = true; more || unrunnable == 0; calls++) {
        assert_int_equal(pl_sched_step(k.s, &ev, &out, NULL), 0);
        assert_true(out.n <= 2 * PL_SCHED_TRANSITIONS_MAX + 10);
        more = false;
        for (size_t i = 0; i < out.n; i++) {
            more = more || out.items[i].kind == PL_SCHED_CONTINUE;
            first = out.items[i].kind == PL_SCHED_PLAN ? out.items[i].job.id : first;
            unrunnable += out.items[i].kind == PL_SCHED_JOB_STATE && out.items[i].job.state == PL_SCHED_UNRUNNABLE;
        }
        ev = (struct pl_sched_event){.kind = PL_SCHED_EV_TICK};
        if (!more)
            ev = (struct pl_sched_event){.kind = PL_SCHED_EV_PLAN_FAILED, .id = first, .text = "no"};
    }
    assert_int_equal(unrunnable, LONG - 1);
    assert_true(calls >= 4 * LONG / PL_SCHED_TRANSITIONS_MAX);
    kit_close(&k);
}

static void sixteen_million_datums_are_a_few_ranges(void **state)
{
    struct pl_sched_action lease;
    struct pl_sched_job_info info;

    (void)state;
    open_one((struct pl_sched_stage){.tries = 2});
    lease = one_lease(1, PL_SCHED_ROWS_MAX);
    for (uint32_t done = 0; done < PL_SCHED_ROWS_MAX; done += lease.lease.count) {
        if (done > 0) {
            kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker);
            lease = *kit_the(&k, PL_SCHED_LEASE);
        }
        assert_int_equal(lease.lease.n_rows, 1);
        kit_finish(&k, lease, 1);
    }
    assert_int_equal(pl_sched_job_info(k.s, kit_job(&k, 1, 1)->id, &info, NULL), 0);
    assert_int_equal(info.done, PL_SCHED_ROWS_MAX);
    IS(k, 1, 1, PL_SCHED_FINISHING);
    kit_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_push_is_planned_leased_and_committed),
        cmocka_unit_test(a_push_that_nobody_reads_is_a_run_without_jobs),
        cmocka_unit_test(a_job_with_nothing_to_run_starts_no_worker),
        cmocka_unit_test(a_failed_plan_or_commit_fails_the_job),
        cmocka_unit_test(downstream_waits_for_the_same_run),
        cmocka_unit_test(a_failure_makes_everything_below_unrunnable_naming_the_first_cause),
        cmocka_unit_test(a_killed_job_takes_what_is_below_with_it),
        cmocka_unit_test(a_failure_beside_a_killed_job_is_the_runs_end),
        cmocka_unit_test(only_what_is_below_a_change_runs),
        cmocka_unit_test(a_later_run_waits_for_an_earlier_one_that_still_writes_its_input),
        cmocka_unit_test(jobs_of_a_stage_go_one_at_a_time_in_the_order_of_the_log),
        cmocka_unit_test(the_newest_supersedes_what_has_leased_nothing),
        cmocka_unit_test(a_job_gives_way_only_to_one_that_can_run_as_soon),
        cmocka_unit_test(a_failed_datum_is_tried_again_the_others_still_run_and_the_first_is_named),
        cmocka_unit_test(a_lost_worker_is_no_try_and_its_datum_is_leased_again_at_once),
        cmocka_unit_test(a_datum_that_is_lost_again_waits_longer_each_time),
        cmocka_unit_test(a_datum_lost_too_often_fails),
        cmocka_unit_test(a_stage_whose_workers_never_come_up_fails_in_the_end),
        cmocka_unit_test(a_lease_lives_while_it_is_renewed),
        cmocka_unit_test(an_old_fence_is_refused),
        cmocka_unit_test(a_daemon_that_stood_still_expires_nothing),
        cmocka_unit_test(the_same_result_twice_is_kept_once),
        cmocka_unit_test(a_worker_that_comes_back_without_its_task_gives_it_up_at_once),
        cmocka_unit_test(an_unknown_worker_is_told_to_end),
        cmocka_unit_test(a_job_times_out_by_the_time_it_ran),
        cmocka_unit_test(a_stopped_run_ends_but_for_what_commits),
        cmocka_unit_test(a_new_version_has_workers_of_its_own),
        cmocka_unit_test(draining_starts_nothing_new_and_says_when_all_is_still),
        cmocka_unit_test(what_ended_stays_ended_and_what_was_leased_stays_leased),
        cmocka_unit_test(a_restored_worker_that_stays_silent_is_given_up_after_one_lease),
        cmocka_unit_test(jobs_that_were_not_kept_follow_from_the_run_again),
        cmocka_unit_test(bad_events_are_refused_and_change_nothing),
        cmocka_unit_test(a_long_message_is_cut_between_characters),
        cmocka_unit_test(a_plan_of_too_many_datums_is_refused),
        cmocka_unit_test(a_long_chain_is_taken_in_small_steps),
        cmocka_unit_test(sixteen_million_datums_are_a_few_ranges),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
