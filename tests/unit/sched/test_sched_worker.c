// link: pipelined/sched
/* How many datums at once, to which workers, on which devices. */
#include "tests/unit/sched/sched_fixture.h"

/* --- how much at once */

static void tasks_grow_to_ten_seconds_of_compute(void **state)
{
    static const struct {
        uint64_t us;       /* a datum */
        uint32_t rows;     /* of the job */
        uint32_t sizes[9]; /* of one worker's tasks, one after the other; then 0 */
    } table[] = {
        {1, 30000, {1, 4, 20, 100, 500, 2500, 10000, 10000}}, /* fourfold of what is known, then the most */
        {1000000, 30000, {1, 4, 10, 10}},                     /* 10 of 1 s */
        {60000000, 30000, {1, 1, 1}},
        {1000000, 1u << 24, {512, 512}}, /* at most 32,768 tasks */
        {1, 5, {1, 4}},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        struct pl_sched_action lease;

        open_one((struct pl_sched_stage){0});
        lease = one_lease(1, table[i].rows);
        for (size_t n = 0; table[i].sizes[n]; n++) {
            assert_int_equal(lease.lease.count, table[i].sizes[n]);
            kit_finish(&k, lease, table[i].us);
            kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker);
            if (kit_count(&k, PL_SCHED_LEASE) == 0)
                break;
            lease = *kit_the(&k, PL_SCHED_LEASE);
        }
        kit_close(&k);
    }
}

static void no_task_is_larger_than_a_workers_share(void **state)
{
    struct pl_sched_action lease;

    (void)state;
    open_one((struct pl_sched_stage){.workers = 4});
    kit_push(&k, 1, 1);
    kit_planned(&k, 1, 1, 1001);
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 4);
    kit_up(&k, kit_nth(&k, PL_SCHED_START_WORKER, 0)->worker.id);
    lease = *kit_the(&k, PL_SCHED_LEASE);
    for (uint32_t left = 1000; left > 0; left -= lease.lease.count) {
        kit_finish(&k, lease, 1);
        kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker);
        lease = *kit_the(&k, PL_SCHED_LEASE);
        assert_true(lease.lease.count <= (left + 3) / 4);
    }
    kit_close(&k);
}

/* The next task's files may come while this one computes, but nobody is to wait for that. */
static void a_busy_worker_fetches_ahead_only_when_all_have_work(void **state)
{
    struct pl_sched_action lease;
    uint64_t other;

    (void)state;
    open_one((struct pl_sched_stage){.workers = 2});
    kit_push(&k, 1, 1);
    kit_planned(&k, 1, 1, 30);
    other = kit_nth(&k, PL_SCHED_START_WORKER, 1)->worker.id;
    kit_up(&k, kit_nth(&k, PL_SCHED_START_WORKER, 0)->worker.id);
    lease = *kit_the(&k, PL_SCHED_LEASE);
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker);
    assert_int_equal(kit_count(&k, PL_SCHED_LEASE), 0); /* nothing is measured: it might take hours */
    kit_finish(&k, lease, 1000000);
    lease = *kit_the(&k, PL_SCHED_LEASE);
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker);
    kit_the(&k, PL_SCHED_LEASE);
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker);
    assert_int_equal(kit_count(&k, PL_SCHED_LEASE), 0); /* two are enough when they take seconds */
    kit_up(&k, other);
    kit_the(&k, PL_SCHED_LEASE);
    kit_close(&k);
}

/* Two workers, 7 rows: one has rows 1 … 3, and 4 and 5 ahead; the other one the last. The lease of the former. */
static struct pl_sched_action open_two(uint64_t *ret_other)
{
    struct pl_sched_action lease;

    open_one((struct pl_sched_stage){.workers = 2});
    kit_push(&k, 1, 1);
    kit_planned(&k, 1, 1, 7);
    *ret_other = kit_nth(&k, PL_SCHED_START_WORKER, 1)->worker.id;
    kit_up(&k, kit_nth(&k, PL_SCHED_START_WORKER, 0)->worker.id);
    lease = *kit_the(&k, PL_SCHED_LEASE);
    kit_finish(&k, lease, 100000);
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker);
    lease = *kit_the(&k, PL_SCHED_LEASE);
    assert_int_equal(lease.lease.count, 3); /* rows 1 … 3 */
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker);
    assert_int_equal(kit_the(&k, PL_SCHED_LEASE)->lease.count, 2); /* 4 and 5, ahead */
    kit_up(&k, *ret_other);
    assert_int_equal(kit_the(&k, PL_SCHED_LEASE)->lease.count, 1);
    return lease;
}

static void gives_back(const struct pl_sched_action *lease, uint64_t task, uint32_t lo, uint32_t hi)
{
    struct pl_sched_row rows[8];
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_RESULT, .id = lease->lease.worker};

    for (uint32_t i = lo; i < hi; i++)
        rows[ev.result.n++] = (struct pl_sched_row){.index = i, .gave_back = true};
    ev.result.task = task;
    ev.result.fence = task + 1; /* given in one go */
    ev.result.rows = rows;
    kit_do(&k, ev);
}

/* Rows 2 … 5 stand behind row 1, which takes long. */
static void what_stands_behind_a_long_row_goes_to_who_has_nothing(void **state)
{
    struct pl_sched_action lease, mine;
    uint64_t other, ahead;

    (void)state;
    lease = open_two(&other);
    mine = *kit_the(&k, PL_SCHED_LEASE);
    assert_int_equal(kit_count(&k, PL_SCHED_RECALL), 0);
    kit_finish(&k, mine, 100000);
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, other);
    assert_int_equal(kit_count(&k, PL_SCHED_RECALL), 2);
    assert_int_equal(kit_nth(&k, PL_SCHED_RECALL, 0)->lease.task, lease.lease.task);
    assert_int_equal(kit_nth(&k, PL_SCHED_RECALL, 0)->lease.worker, lease.lease.worker);
    ahead = kit_nth(&k, PL_SCHED_RECALL, 1)->lease.task;
    kit_wait(&k, 3000);
    assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 0); /* it will have work */
    gives_back(&lease, ahead, 4, 6);
    assert_true(kit_the(&k, PL_SCHED_RESULT)->result.task_done);
    mine = *kit_the(&k, PL_SCHED_LEASE);
    assert_int_equal(mine.lease.worker, other);
    assert_int_equal(mine.lease.failures + mine.lease.losses, 0);
    gives_back(&lease, lease.lease.task, 2, 4);
    assert_false(kit_the(&k, PL_SCHED_RESULT)->result.task_done);
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker);
    assert_int_equal(kit_count(&k, PL_SCHED_LEASE), 0); /* nothing stands behind that row again */
    for (uint32_t left = 4; left > 0; left -= mine.lease.count) {
        if (left < 4)
            mine = *kit_the(&k, PL_SCHED_LEASE);
        assert_int_equal(mine.lease.worker, other);
        kit_finish(&k, mine, 100000);
        kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, other);
    }
    kit_result(&k, &lease, (struct pl_sched_row){.index = 1});
    IS(k, 1, 1, PL_SCHED_FINISHING);
    kit_close(&k);
}

static void nobody_is_asked_twice_for_what_it_has_begun(void **state)
{
    struct pl_sched_action lease;
    uint64_t other;

    (void)state;
    lease = open_two(&other);
    kit_finish(&k, *kit_the(&k, PL_SCHED_LEASE), 100000);
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, other);
    assert_int_equal(kit_count(&k, PL_SCHED_RECALL), 2);
    for (unsigned i = 0; i < 3; i++) {
        kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, other);
        assert_int_equal(kit_count(&k, PL_SCHED_RECALL), 0);
    }
    gives_back(&lease, lease.lease.task, 0, 0);
    assert_int_equal(kit_count(&k, PL_SCHED_RECALL), 0);
    kit_wait(&k, 2500); /* it has all begun: the other one may end */
    assert_int_equal(kit_the(&k, PL_SCHED_STOP_WORKER)->worker.id, other);
    kit_close(&k);
}

/* A worker gives back what it has when its pod is told to end; although it asked for more before, it gets nothing. */
static void a_worker_that_ends_gets_nothing_more(void **state)
{
    const struct pl_sched_row back = {.index = 0, .gave_back = true};
    struct pl_sched_action lease;

    (void)state;
    open_one((struct pl_sched_stage){.workers = 1});
    lease = one_lease(1, 1);
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker); /* ahead */
    kit_result_of(&k, &lease, back, true);
    assert_int_equal(kit_count(&k, PL_SCHED_LEASE), 0);
    kit_close(&k);
}

/* A worker that lives on, because it could not fetch or upload something for example, has its open request answered.
 * The pause is for one that gives back again and again. */
static void what_a_worker_gives_back_waits_from_the_second_time_on(void **state)
{
    const struct pl_sched_row back = {.index = 0, .gave_back = true};
    struct pl_sched_action lease;

    (void)state;
    open_one((struct pl_sched_stage){.workers = 1});
    lease = one_lease(1, 1);
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker); /* ahead */
    kit_result(&k, &lease, back);
    lease = *kit_the(&k, PL_SCHED_LEASE);
    assert_int_equal(lease.lease.failures + lease.lease.losses, 0);
    for (unsigned again = 0; again < 3; again++) {
        kit_result(&k, &lease, back);
        kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker);
        assert_int_equal(kit_count(&k, PL_SCHED_LEASE), 0);
        kit_wait(&k, 1000);
        lease = *kit_the(&k, PL_SCHED_LEASE);
    }
    kit_result(&k, &lease, (struct pl_sched_row){.index = 0});
    IS(k, 1, 1, PL_SCHED_FINISHING);
    kit_close(&k);
}

static void one_row_is_not_asked_for(void **state)
{
    uint64_t other;

    (void)state;
    open_one((struct pl_sched_stage){.workers = 2});
    kit_push(&k, 1, 1);
    kit_planned(&k, 1, 1, 2);
    other = kit_nth(&k, PL_SCHED_START_WORKER, 1)->worker.id;
    kit_up(&k, kit_nth(&k, PL_SCHED_START_WORKER, 0)->worker.id);
    kit_up(&k, other);
    kit_finish(&k, *kit_the(&k, PL_SCHED_LEASE), 100000);
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, other);
    assert_int_equal(kit_count(&k, PL_SCHED_RECALL), 0);
    kit_close(&k);
}

/* Where many wait, a row behind one that takes hours holds up nobody. */
static void the_first_of_many_datums_need_not_be_measured_to_fetch_ahead(void **state)
{
    struct pl_sched_action lease;

    (void)state;
    open_one((struct pl_sched_stage){.workers = 2});
    kit_push(&k, 1, 1);
    kit_planned(&k, 1, 1, 2 + 2 * PL_SCHED_AHEAD_ROWS);
    kit_up(&k, kit_nth(&k, PL_SCHED_START_WORKER, 0)->worker.id);
    lease = *kit_the(&k, PL_SCHED_LEASE);
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker);
    assert_int_equal(kit_the(&k, PL_SCHED_LEASE)->lease.count, 1);
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker);
    assert_int_equal(kit_the(&k, PL_SCHED_LEASE)->lease.count, 1);
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker);
    assert_int_equal(kit_count(&k, PL_SCHED_LEASE), 0); /* three at most */
    kit_close(&k);
}

static void a_worker_of_short_datums_holds_three_tasks(void **state)
{
    struct pl_sched_action lease;

    (void)state;
    open_one((struct pl_sched_stage){0});
    lease = one_lease(1, 15);
    kit_finish(&k, lease, 100000); /* 0.1 s */
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker);
    assert_int_equal(kit_the(&k, PL_SCHED_LEASE)->lease.count, 4);
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker);
    assert_int_equal(kit_the(&k, PL_SCHED_LEASE)->lease.count, 4);
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker);
    lease = *kit_the(&k, PL_SCHED_LEASE);
    assert_int_equal(lease.lease.count, 4);
    kit_finish(&k, lease, 100000);
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker);
    assert_int_equal(kit_the(&k, PL_SCHED_LEASE)->lease.count, 2); /* all that is left */
    kit_close(&k);
}

static void no_more_workers_than_datums(void **state)
{
    (void)state;
    open_one((struct pl_sched_stage){.workers = 4});
    kit_push(&k, 1, 1);
    kit_planned(&k, 1, 1, 2);
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 2);
    kit_close(&k);
}

/* --- workers */

static void an_idle_worker_is_warm_for_the_next_push_and_then_ends(void **state)
{
    struct pl_sched_action lease;

    (void)state;
    open_one((struct pl_sched_stage){0});
    lease = one_lease(1, 1);
    kit_finish(&k, lease, 1000);
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker);
    kit_committed(&k, 1, 1);
    kit_wait(&k, 1900);
    kit_push(&k, 2, 1);
    kit_planned(&k, 1, 2, 1);
    assert_int_equal(kit_the(&k, PL_SCHED_LEASE)->lease.worker, lease.lease.worker);
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 0);
    kit_finish(&k, *kit_the(&k, PL_SCHED_LEASE), 1000);
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker);
    kit_committed(&k, 1, 2);
    kit_wait(&k, 1999);
    assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 0);
    kit_wait(&k, 1);
    assert_false(kit_the(&k, PL_SCHED_STOP_WORKER)->worker.kill);
    kit_wait(&k, PL_SCHED_STOP_GRACE_MS);
    assert_true(kit_the(&k, PL_SCHED_STOP_WORKER)->worker.kill); /* asked, it did not */
    kit_close(&k);
}

/* Attached, and its command's container waits for its image: nothing of its job must be left that holds a device. */
static void a_worker_that_is_not_ready_goes_with_its_job(void **state)
{
    uint64_t worker;

    (void)state;
    open_one((struct pl_sched_stage){.keep_warm_ms = 60000});
    kit_push(&k, 1, 1);
    kit_planned(&k, 1, 1, 1);
    worker = kit_the(&k, PL_SCHED_START_WORKER)->worker.id;
    kit_worker(&k, PL_SCHED_EV_WORKER_ATTACHED, worker);
    kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_STOP_JOB, .id = kit_job(&k, 1, 1)->id, .text = "stopped by a user"});
    assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 0);
    kit_wait(&k, 2000);
    assert_int_equal(kit_the(&k, PL_SCHED_STOP_WORKER)->worker.id, worker);
    assert_true(kit_the(&k, PL_SCHED_STOP_WORKER)->worker.kill);
    kit_close(&k);
}

static void a_worker_that_is_not_ready_goes_at_once_when_its_stage_has_changed(void **state)
{
    uint64_t worker;

    (void)state;
    open_one((struct pl_sched_stage){0});
    kit_push(&k, 1, 1);
    kit_planned(&k, 1, 1, 1);
    worker = kit_the(&k, PL_SCHED_START_WORKER)->worker.id;
    kit_worker(&k, PL_SCHED_EV_WORKER_ATTACHED, worker);
    kit_do(&k, kit_stage(1, 1, (struct pl_sched_stage){.version = 2}));
    kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_STOP_JOB, .id = kit_job(&k, 1, 1)->id, .text = "stopped by a user"});
    assert_int_equal(kit_the(&k, PL_SCHED_STOP_WORKER)->worker.id, worker);
    kit_close(&k);
}

/* What it was started with is no longer so: another one of the same version takes its place. */
static void a_retired_worker_that_holds_nothing_ends_at_once(void **state)
{
    struct pl_sched_action lease;
    uint64_t worker;

    (void)state;
    open_one((struct pl_sched_stage){.keep_warm_ms = 60000});
    lease = one_lease(1, 1);
    kit_finish(&k, lease, 1000);
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker);
    kit_committed(&k, 1, 1);
    kit_worker(&k, PL_SCHED_EV_WORKER_RETIRE, lease.lease.worker);
    assert_int_equal(kit_the(&k, PL_SCHED_STOP_WORKER)->worker.id, lease.lease.worker);
    assert_false(kit_the(&k, PL_SCHED_STOP_WORKER)->worker.kill);
    kit_worker(&k, PL_SCHED_EV_WORKER_RETIRE, lease.lease.worker); /* it is ending */
    assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 0);
    kit_push(&k, 2, 1);
    kit_planned(&k, 1, 2, 1);
    worker = kit_the(&k, PL_SCHED_START_WORKER)->worker.id;
    kit_worker(&k, PL_SCHED_EV_WORKER_RETIRE, worker); /* one that has not attached */
    assert_int_equal(kit_the(&k, PL_SCHED_STOP_WORKER)->worker.id, worker);
    assert_true(kit_the(&k, PL_SCHED_STOP_WORKER)->worker.kill);
    kit_close(&k);
}

static void a_retired_worker_ends_what_it_has_begun_and_gets_nothing_more(void **state)
{
    struct pl_sched_action lease;
    struct pl_sched_lease held;
    uint64_t other;

    (void)state;
    lease = open_two(&other);
    kit_worker(&k, PL_SCHED_EV_WORKER_RETIRE, lease.lease.worker);
    assert_int_equal(kit_count(&k, PL_SCHED_RECALL), 2); /* of rows 1 … 3, and of 4 and 5 ahead */
    assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 0);
    gives_back(&lease, kit_nth(&k, PL_SCHED_RECALL, 1)->lease.task, 4, 6);
    gives_back(&lease, lease.lease.task, 2, 4);
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker);
    assert_int_equal(kit_count(&k, PL_SCHED_LEASE) + kit_count(&k, PL_SCHED_STOP_WORKER), 0);
    kit_wait(&k, 5000);
    kit_do(&k, renewal(&lease, &held));
    assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 0);
    kit_result(&k, &lease, (struct pl_sched_row){.index = 1});
    assert_int_equal(kit_the(&k, PL_SCHED_STOP_WORKER)->worker.id, lease.lease.worker);
    assert_false(kit_the(&k, PL_SCHED_STOP_WORKER)->worker.kill);
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker);
    assert_int_equal(kit_count(&k, PL_SCHED_LEASE), 0);
    kit_close(&k);
}

static void an_idle_worker_gives_its_place_to_another_stage(void **state)
{
    struct pl_sched_action lease;

    (void)state;
    kit_open(&k, 1, 0);
    kit_do(&k, kit_stage(1, 1, (struct pl_sched_stage){0}));
    kit_do(&k, kit_stage(2, 101, (struct pl_sched_stage){0}));
    kit_ready(&k);
    lease = one_lease(1, 1);
    kit_finish(&k, lease, 1000);
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker);
    kit_committed(&k, 1, 1);
    kit_planned(&k, 2, 1, 1);
    assert_int_equal(kit_the(&k, PL_SCHED_STOP_WORKER)->worker.id, lease.lease.worker);
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 0); /* not before it is gone for certain */
    SAYS(k, 2, 1, "waiting for 1 CPU: 0 of 1 free, used by stage prepare, which is ending");
    kit_worker(&k, PL_SCHED_EV_WORKER_EXITED, lease.lease.worker);
    assert_int_equal(kit_the(&k, PL_SCHED_START_WORKER)->worker.stage, 2);
    kit_close(&k);
}

static void pipelines_share_fairly(void **state)
{
    uint32_t got[3] = {0};

    (void)state;
    kit_open(&k, 0, 0);
    kit_do(&k, kit_stage(1, 1, (struct pl_sched_stage){.workers = 8, .pipeline = 1}));
    kit_do(&k, kit_stage(2, 1, (struct pl_sched_stage){.workers = 8, .pipeline = 1}));
    kit_do(&k, kit_stage(3, 1, (struct pl_sched_stage){.workers = 8, .pipeline = 2}));
    kit_ready(&k);
    kit_push(&k, 1, 1);
    for (unsigned stage = 1; stage <= 3; stage++)
        kit_planned(&k, stage, 1, 100);
    kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_CAPACITY, .capacity = {.cpu_milli = 8000}});
    for (size_t i = 0; i < 8; i++)
        got[kit_nth(&k, PL_SCHED_START_WORKER, i)->worker.stage - 1]++;
    assert_int_equal(got[0], 2);
    assert_int_equal(got[1], 2);
    assert_int_equal(got[2], 4);
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 8);
    kit_close(&k);
}

static void the_stage_with_more_priority_goes_first(void **state)
{
    static const int32_t priorities[] = {0, -5, 7, 0};
    static const unsigned wanted[] = {3, 3, 4, 4, 1, 1, 2, 2};

    (void)state;
    kit_open(&k, 0, 0);
    for (unsigned i = 0; i < PL_ARRAY_SIZE(priorities); i++)
        kit_do(&k, kit_stage(i + 1, 1, (struct pl_sched_stage){.workers = 2, .pipeline = 1 + i % 2, .priority = priorities[i]}));
    kit_ready(&k);
    kit_push(&k, 1, 1);
    for (unsigned stage = 1; stage <= 4; stage++)
        kit_planned(&k, stage, 1, 100);
    for (size_t i = 0; i < PL_ARRAY_SIZE(wanted); i++) {
        kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_CAPACITY, .capacity = {.cpu_milli = 1000 * (i + 1)}});
        assert_int_equal(kit_the(&k, PL_SCHED_START_WORKER)->worker.stage, wanted[i]);
    }
    kit_close(&k);
}

static void a_stage_is_kept_warm_for_as_long_as_it_says(void **state)
{
    struct pl_sched_action lease;

    (void)state;
    open_one((struct pl_sched_stage){.keep_warm_ms = 30000});
    lease = one_lease(1, 1);
    kit_finish(&k, lease, 1000);
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker);
    kit_committed(&k, 1, 1);
    for (int i = 0; i < 3; i++) {
        kit_wait(&k, 9999);
        kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, lease.lease.worker); /* it asks on */
        assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 0);
    }
    kit_wait(&k, 3);
    assert_int_equal(kit_the(&k, PL_SCHED_STOP_WORKER)->worker.id, lease.lease.worker);
    kit_close(&k);
}

static void memory_is_a_bound_too(void **state)
{
    (void)state;
    kit_open(&k, 4, 0);
    kit_do(&k, kit_stage(1, 1, (struct pl_sched_stage){.memory_bytes = 4ull << 30}));
    kit_do(&k, kit_stage(2, 1, (struct pl_sched_stage){.memory_bytes = 2ull << 30}));
    kit_do(&k,
           (struct pl_sched_event){.kind = PL_SCHED_EV_CAPACITY, .capacity = {.cpu_milli = 4000, .memory_bytes = 3ull << 30}});
    kit_ready(&k);
    kit_push(&k, 1, 1);
    kit_planned(&k, 1, 1, 1);
    SAYS(k, 1, 1, "waiting for 4096 MiB of memory per worker: the executor offers 3072 MiB");
    kit_planned(&k, 2, 1, 1);
    assert_int_equal(kit_the(&k, PL_SCHED_START_WORKER)->worker.stage, 2); /* who can never start keeps nobody waiting */
    kit_close(&k);
}

/* The machine was switched off: its workers are gone, and that is no sign that none can be started. */
static void restored_workers_that_are_gone_do_not_count_as_failed_starts(void **state)
{
    enum { WORKERS = PL_SCHED_LOSSES_MAX + 10 };
    struct pl_sched_event ev;

    (void)state;
    kit_open(&k, WORKERS, 0);
    kit_do(&k, kit_stage(1, 1, (struct pl_sched_stage){.workers = WORKERS}));
    ev = kit_restored_job(&k, WORKERS);
    ev.job.state = PL_SCHED_RUNNING;
    kit_do(&k, ev);
    for (unsigned i = 0; i < WORKERS; i++) {
        ev = (struct pl_sched_event){.kind = PL_SCHED_EV_RESTORE_WORKER};
        ev.worker.id = 20 + i;
        ev.worker.stage = ev.worker.version = 1;
        kit_do(&k, ev);
    }
    kit_ready(&k);
    for (unsigned i = 0; i < WORKERS; i++)
        kit_worker(&k, PL_SCHED_EV_WORKER_EXITED, 20 + i);
    IS(k, 1, 1, PL_SCHED_STARTING);
    assert_true(kit_count(&k, PL_SCHED_START_WORKER) > 0); /* at once, not after a pause that grows */
    kit_close(&k);
}

/* A node takes all its pods with it, and some of them had not come up: that is one failure, not twenty. */
static void workers_that_go_together_are_one_failed_start(void **state)
{
    enum { WORKERS = PL_SCHED_LOSSES_MAX + 10 };
    uint64_t started[WORKERS];
    unsigned n = 0;

    (void)state;
    kit_open(&k, WORKERS, 0);
    kit_do(&k, kit_stage(1, 1, (struct pl_sched_stage){.workers = WORKERS}));
    kit_ready(&k);
    kit_push(&k, 1, 1);
    kit_planned(&k, 1, 1, WORKERS);
    for (size_t i = 0; i < k.n; i++)
        if (k.actions[i].kind == PL_SCHED_START_WORKER)
            started[n++] = k.actions[i].worker.id;
    assert_int_equal(n, WORKERS);
    for (unsigned i = 0; i < WORKERS; i++)
        kit_worker(&k, PL_SCHED_EV_WORKER_EXITED, started[i]);
    IS(k, 1, 1, PL_SCHED_STARTING);
    SAYS(k, 1, 1, "a worker failed to start (1 in a row; the next one starts after 10s): killed by signal 9");
    kit_wait(&k, 10000);
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), WORKERS);
    kit_close(&k);
}

/* --- GPUs */

static void open_gpu(unsigned gpus, struct pl_sched_stage train)
{
    kit_open(&k, 4, gpus);
    kit_do(&k, kit_stage(1, 1, (struct pl_sched_stage){.gpu_count = gpus ? gpus : 1, .gpu_required = gpus > 0}));
    kit_do(&k, kit_stage(2, 2, train));
    kit_do(&k, kit_stage(3, 3, (struct pl_sched_stage){0}));
    kit_ready(&k);
}

static void restore_one(int64_t busy_ms)
{
    struct pl_sched_range row = {0, 1};
    struct pl_sched_event ev = kit_restored_job(&k, 2);

    ev.job.state = PL_SCHED_RUNNING;
    ev.job.leased = true;
    ev.job.busy_ms = busy_ms;
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
    ev.task.rows = &row;
    ev.task.n_rows = 1;
    kit_do(&k, ev);
    kit_ready(&k);
}

static void a_restored_job_that_did_without_a_gpu_does_not_wait_for_one_again(void **state)
{
    (void)state;
    kit_open(&k, 4, 1);
    kit_do(&k, kit_stage(1, 1, (struct pl_sched_stage){.workers = 2, .gpu_count = 1, .gpu_wait_ms = -1}));
    restore_one(0);
    assert_int_equal(kit_the(&k, PL_SCHED_START_WORKER)->worker.n_gpus, 0);
    kit_close(&k);
}

static void a_restored_job_times_out_after_what_is_left_of_its_time(void **state)
{
    struct pl_sched_job_info info;

    (void)state;
    kit_open(&k, 1, 0);
    kit_do(&k, kit_stage(1, 1, (struct pl_sched_stage){.job_timeout_ms = 20000}));
    restore_one(15000);
    kit_wait(&k, 4999);
    kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_TICK});
    IS(k, 1, 1, PL_SCHED_RUNNING);
    assert_int_equal(pl_sched_job_info(k.s, 10, &info, NULL), 0);
    assert_int_equal(info.busy_ms, 19999);
    kit_wait(&k, 1);
    IS(k, 1, 1, PL_SCHED_KILLED);
    kit_close(&k);
}

static void a_gpu_is_waited_for_and_the_sentence_says_who_has_it(void **state)
{
    struct pl_sched_action first;

    (void)state;
    open_gpu(2, (struct pl_sched_stage){.gpu_count = 1, .gpu_required = true});
    kit_push(&k, 1, 1);
    kit_planned(&k, 1, 1, 1);
    first = *kit_the(&k, PL_SCHED_START_WORKER);
    assert_int_equal(first.worker.n_gpus, 2);
    assert_int_equal(first.worker.gpus[0] + first.worker.gpus[1], 1);
    kit_push(&k, 2, 2);
    kit_planned(&k, 2, 2, 1);
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 0);
    SAYS(k, 2, 2, "waiting for 1 GPU: 0 of 2 free, used by stage prepare of run 11111111");
    kit_push(&k, 3, 3); /* a CPU stage passes by, and gets none */
    kit_planned(&k, 3, 3, 1);
    assert_int_equal(kit_the(&k, PL_SCHED_START_WORKER)->worker.n_gpus, 0);
    kit_up(&k, first.worker.id);
    kit_finish(&k, *kit_the(&k, PL_SCHED_LEASE), 1000);
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, first.worker.id);
    assert_int_equal(kit_the(&k, PL_SCHED_STOP_WORKER)->worker.id, first.worker.id);
    SAYS(k, 2, 2, "waiting for 1 GPU: 0 of 2 free, used by stage prepare, which is ending");
    kit_worker(&k, PL_SCHED_EV_WORKER_EXITED, first.worker.id);
    assert_int_equal(kit_the(&k, PL_SCHED_START_WORKER)->worker.n_gpus, 1);
    kit_close(&k);
}

static void a_gpu_that_is_not_on_offer_is_named(void **state)
{
    (void)state;
    open_gpu(1, (struct pl_sched_stage){.gpu_count = 2, .gpu_required = true});
    kit_push(&k, 1, 2);
    kit_planned(&k, 2, 1, 1);
    SAYS(k, 2, 1, "waiting for 2 GPUs per worker: the executor offers 1");
    kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_CAPACITY, .capacity = {.cpu_milli = 1000, .gpu_slots = 2}});
    assert_int_equal(kit_the(&k, PL_SCHED_START_WORKER)->worker.n_gpus, 2);
    kit_close(&k);
}

/* Slots 0 and 1 are of one product, slot 2 of another. */
static void only_some_of_the_gpus_will_do(void **state)
{
    static const uint16_t large[] = {2}, liked[] = {2, 0}, small[] = {0, 1};
    struct pl_sched_action first;

    (void)state;
    kit_open(&k, 8, 3);
    kit_do(&k, kit_stage(1, 1,
                         (struct pl_sched_stage){
                             .gpu_count = 1, .gpu_required = true, .gpu_chosen = true, .gpu_slots = liked, .n_gpu_slots = 2}));
    kit_do(&k, kit_stage(2, 2,
                         (struct pl_sched_stage){
                             .gpu_count = 1, .gpu_required = true, .gpu_chosen = true, .gpu_slots = large, .n_gpu_slots = 1}));
    kit_do(&k, kit_stage(3, 3,
                         (struct pl_sched_stage){
                             .gpu_count = 1, .gpu_required = true, .gpu_chosen = true, .gpu_slots = small, .n_gpu_slots = 2}));
    kit_do(&k, kit_stage(4, 4,
                         (struct pl_sched_stage){.gpu_count = 2,
                                                 .gpu_required = true,
                                                 .gpu_chosen = true,
                                                 .gpu_slots = large,
                                                 .n_gpu_slots = 1,
                                                 .gpu_text = "with product *H100*: this machine has one"}));
    kit_ready(&k);
    kit_push(&k, 1, 1);
    kit_planned(&k, 1, 1, 1);
    first = *kit_the(&k, PL_SCHED_START_WORKER);
    assert_int_equal(first.worker.gpus[0], 2); /* what it likes best */
    kit_push(&k, 2, 2);
    kit_planned(&k, 2, 2, 1);
    SAYS(k, 2, 2, "waiting for 1 GPU: 0 of 1 free, used by stage prepare of run 11111111");
    kit_push(&k, 3, 3); /* it wants none of what that waits for */
    kit_planned(&k, 3, 3, 1);
    assert_int_equal(kit_the(&k, PL_SCHED_START_WORKER)->worker.gpus[0], 0);
    kit_push(&k, 4, 4);
    kit_planned(&k, 4, 4, 1);
    SAYS(k, 4, 4, "waiting for 2 GPUs per worker with product *H100*: this machine has one");
    kit_worker(&k, PL_SCHED_EV_WORKER_EXITED, first.worker.id);
    assert_int_equal(kit_nth(&k, PL_SCHED_START_WORKER, 0)->worker.stage, 2);
    kit_close(&k);
}

static void without_any_gpu_on_offer_a_stage_that_needs_none_goes_to_the_cpu_at_once(void **state)
{
    (void)state;
    open_gpu(0, (struct pl_sched_stage){.gpu_count = 1, .gpu_wait_ms = -1});
    kit_push(&k, 1, 2);
    kit_planned(&k, 2, 1, 1);
    assert_int_equal(kit_the(&k, PL_SCHED_START_WORKER)->worker.n_gpus, 0);
    kit_close(&k);
}

static void after_its_wait_it_goes_to_the_cpu(void **state)
{
    (void)state;
    open_gpu(1, (struct pl_sched_stage){.gpu_count = 1, .gpu_wait_ms = -1});
    kit_push(&k, 1, 1);
    kit_planned(&k, 1, 1, 1);
    kit_push(&k, 2, 2);
    kit_planned(&k, 2, 2, 1);
    SAYS(k, 2, 2, "waiting for 1 GPU: 0 of 1 free, used by stage prepare of run 11111111; after 10m it runs on the CPU");
    for (int i = 0; i < 600; i++) {
        kit_worker(&k, PL_SCHED_EV_WORKER_ATTACHED, kit_job(&k, 1, 1)->id + 1); /* the other one lives */
        assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 0);
        kit_wait(&k, 1000);
    }
    assert_int_equal(kit_the(&k, PL_SCHED_START_WORKER)->worker.n_gpus, 0);
    assert_int_equal(kit_the(&k, PL_SCHED_START_WORKER)->worker.stage, 2);
    kit_close(&k);
}

static void a_worker_left_on_the_cpu_does_not_keep_the_next_job_there(void **state)
{
    struct pl_sched_action gpu, cpu;

    (void)state;
    open_gpu(1, (struct pl_sched_stage){.gpu_count = 1, .gpu_wait_ms = 1000});
    kit_push(&k, 1, 1);
    kit_planned(&k, 1, 1, 1);
    gpu = *kit_the(&k, PL_SCHED_START_WORKER);
    kit_push(&k, 2, 2);
    kit_planned(&k, 2, 2, 1);
    kit_wait(&k, 1000);
    cpu = *kit_the(&k, PL_SCHED_START_WORKER);
    kit_up(&k, cpu.worker.id);
    kit_finish(&k, *kit_the(&k, PL_SCHED_LEASE), 1000);
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, cpu.worker.id);
    kit_committed(&k, 2, 2);
    kit_worker(&k, PL_SCHED_EV_WORKER_EXITED, gpu.worker.id); /* now there is one */
    kit_push(&k, 3, 2);
    kit_planned(&k, 2, 3, 1);
    assert_int_equal(kit_the(&k, PL_SCHED_STOP_WORKER)->worker.id, cpu.worker.id);
    assert_int_equal(kit_count(&k, PL_SCHED_LEASE), 0);
    kit_worker(&k, PL_SCHED_EV_WORKER_EXITED, cpu.worker.id);
    kit_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(tasks_grow_to_ten_seconds_of_compute),
        cmocka_unit_test(no_task_is_larger_than_a_workers_share),
        cmocka_unit_test(a_busy_worker_fetches_ahead_only_when_all_have_work),
        cmocka_unit_test(the_first_of_many_datums_need_not_be_measured_to_fetch_ahead),
        cmocka_unit_test(a_worker_of_short_datums_holds_three_tasks),
        cmocka_unit_test(what_stands_behind_a_long_row_goes_to_who_has_nothing),
        cmocka_unit_test(nobody_is_asked_twice_for_what_it_has_begun),
        cmocka_unit_test(a_worker_that_ends_gets_nothing_more),
        cmocka_unit_test(what_a_worker_gives_back_waits_from_the_second_time_on),
        cmocka_unit_test(one_row_is_not_asked_for),
        cmocka_unit_test(no_more_workers_than_datums),
        cmocka_unit_test(an_idle_worker_is_warm_for_the_next_push_and_then_ends),
        cmocka_unit_test(a_worker_that_is_not_ready_goes_with_its_job),
        cmocka_unit_test(a_worker_that_is_not_ready_goes_at_once_when_its_stage_has_changed),
        cmocka_unit_test(a_retired_worker_that_holds_nothing_ends_at_once),
        cmocka_unit_test(a_retired_worker_ends_what_it_has_begun_and_gets_nothing_more),
        cmocka_unit_test(an_idle_worker_gives_its_place_to_another_stage),
        cmocka_unit_test(pipelines_share_fairly),
        cmocka_unit_test(the_stage_with_more_priority_goes_first),
        cmocka_unit_test(a_stage_is_kept_warm_for_as_long_as_it_says),
        cmocka_unit_test(only_some_of_the_gpus_will_do),
        cmocka_unit_test(memory_is_a_bound_too),
        cmocka_unit_test(restored_workers_that_are_gone_do_not_count_as_failed_starts),
        cmocka_unit_test(workers_that_go_together_are_one_failed_start),
        cmocka_unit_test(a_restored_job_that_did_without_a_gpu_does_not_wait_for_one_again),
        cmocka_unit_test(a_restored_job_times_out_after_what_is_left_of_its_time),
        cmocka_unit_test(a_gpu_is_waited_for_and_the_sentence_says_who_has_it),
        cmocka_unit_test(a_gpu_that_is_not_on_offer_is_named),
        cmocka_unit_test(without_any_gpu_on_offer_a_stage_that_needs_none_goes_to_the_cpu_at_once),
        cmocka_unit_test(after_its_wait_it_goes_to_the_cpu),
        cmocka_unit_test(a_worker_left_on_the_cpu_does_not_keep_the_next_job_there),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
