// link: pipelined/sched
/* Workers whose pods the cluster takes away: what waits for it, what counts, and what the job says meanwhile. */
#include "tests/unit/sched/sched_fixture.h"

#define EVICTED "its pod was preempted: Evicted: the node was low on memory"

static void said(enum pl_sched_event_kind kind, uint64_t worker, bool on, const char *text)
{
    kit_do(&k, (struct pl_sched_event){.kind = kind, .id = worker, .on = on, .text = text});
}

static void ended(uint64_t worker, enum pl_sched_exit how, const char *text)
{
    kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_WORKER_EXITED, .id = worker, .exit = how, .text = text});
}

/* One stage of so many workers, whose pods have shape 7, with a job of so many datums. */
static void open_job(uint32_t workers, uint32_t datums)
{
    kit_open(&k, 1, 0);
    kit_do(&k, kit_stage(1, 1, (struct pl_sched_stage){.shape = 7, .workers = workers}));
    kit_ready(&k);
    kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_SHAPE, .shape = {.id = 7, .offered = true, .pending_max = 9}});
    kit_push(&k, 1, 1);
    kit_planned(&k, 1, 1, datums);
}

static uint64_t started(void)
{
    return kit_the(&k, PL_SCHED_START_WORKER)->worker.id;
}

/* The datum has one try; the spot node is taken back more often than a datum may be lost. */
static void a_preempted_worker_is_replaced_at_once_however_often(void **state)
{
    struct pl_sched_action lease;
    uint64_t worker;

    (void)state;
    open_job(1, 1);
    for (unsigned i = 0; i < 3 * PL_SCHED_LOSSES_MAX; i++) {
        worker = started();
        said(PL_SCHED_EV_WORKER_PLACED, worker, true, "a");
        kit_up(&k, worker);
        assert_int_equal(kit_the(&k, PL_SCHED_LEASE)->lease.losses, 0);
        ended(worker, PL_SCHED_EXIT_DISRUPTED, EVICTED);
        SAYS(k, 1, 1, "starting 1 worker (" EVICTED ")");
    }
    worker = started();
    kit_up(&k, worker);
    lease = *kit_the(&k, PL_SCHED_LEASE);
    assert_null(strstr(kit_job(&k, 1, 1)->reason, "preempted"));
    kit_finish(&k, lease, 1000);
    kit_committed(&k, 1, 1);
    IS(k, 1, 1, PL_SCHED_SUCCESS);
    kit_close(&k);
}

/* Its agent is there, its command's image is still pulled. */
static void a_worker_that_has_attached_did_not_fail_to_start(void **state)
{
    uint64_t worker;

    (void)state;
    open_job(1, 1);
    worker = started();
    kit_worker(&k, PL_SCHED_EV_WORKER_ATTACHED, worker);
    ended(worker, PL_SCHED_EXIT_DISRUPTED, EVICTED);
    worker = started(); /* at once */
    ended(worker, PL_SCHED_EXIT_DISRUPTED, EVICTED);
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 0);
    SAYS(k, 1, 1, "a worker failed to start (1 in a row; the next one starts after 10s): " EVICTED);
    kit_close(&k);
}

/* If no command can be started the job ends, although each agent attaches. */
static void a_command_that_cannot_be_started_is_a_failed_start(void **state)
{
    (void)state;
    open_job(1, 1);
    for (unsigned i = 0; i <= PL_SCHED_LOSSES_MAX; i++) {
        uint64_t worker = started();

        kit_worker(&k, PL_SCHED_EV_WORKER_ATTACHED, worker);
        ended(worker, PL_SCHED_EXIT_OWN, "StartError of main");
        if (i < PL_SCHED_LOSSES_MAX)
            kit_wait(&k, PL_SCHED_BACKOFF_MAX_MS);
    }
    SAYS(k, 1, 1, "21 workers in a row failed to start: StartError of main");
    kit_close(&k);
}

static void the_count_of_failed_starts_begins_again_with_a_worker_that_comes_up(void **state)
{
    uint64_t worker;

    (void)state;
    open_job(1, 1);
    for (unsigned i = 0; i < 3; i++) {
        ended(started(), PL_SCHED_EXIT_OWN, "CreateContainerError");
        kit_wait(&k, 10000 << i);
    }
    worker = started();
    kit_up(&k, worker);
    ended(worker, PL_SCHED_EXIT_DISRUPTED, EVICTED);
    ended(started(), PL_SCHED_EXIT_OWN, "CreateContainerError");
    assert_non_null(strstr(kit_job(&k, 1, 1)->reason, "a worker failed to start (1 in a row; the next one starts after 10s)"));
    kit_close(&k);
}

/* A failed start holds up the others of its stage; one of these coming up says that there is no need to. */
static void a_worker_that_comes_up_ends_the_back_off(void **state)
{
    uint64_t first, second;

    (void)state;
    open_job(2, 4);
    first = kit_nth(&k, PL_SCHED_START_WORKER, 0)->worker.id;
    second = kit_nth(&k, PL_SCHED_START_WORKER, 1)->worker.id;
    ended(first, PL_SCHED_EXIT_OWN, "CreateContainerError");
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 0);
    kit_up(&k, second);
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 1);
    kit_close(&k);
}

/* The daemon was killed between its database and the cluster: it makes the pod now. */
static void a_pod_that_was_written_down_and_not_made_is_no_failed_start(void **state)
{
    struct pl_sched_event ev;

    (void)state;
    kit_open(&k, 1, 0);
    kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_SHAPE, .shape = {.id = 7, .offered = true, .pending_max = 4}});
    kit_do(&k, kit_stage(1, 1, (struct pl_sched_stage){.shape = 7}));
    kit_do(&k, kit_restored_job(&k, 1));
    ev = (struct pl_sched_event){.kind = PL_SCHED_EV_RESTORE_WORKER};
    ev.worker.id = 500;
    ev.worker.stage = ev.worker.version = 1;
    ev.worker.shape = 7;
    ev.worker.starting = true;
    kit_do(&k, ev);
    kit_ready(&k);
    assert_int_equal(kit_count(&k, PL_SCHED_START_WORKER), 0);
    ended(500, PL_SCHED_EXIT_UNMADE, "its pod no longer existed when the daemon restarted");
    assert_int_not_equal(started(), 500);
    kit_close(&k);
}

/* ---- how soon the datum of a lost worker is leased again ---- */

/* Ways to lose a worker. The lease of a silent one has to end before it is known to be lost. */
static const struct loss {
    enum pl_sched_exit how;
    const char *text;
} losses[] = {
    {PL_SCHED_EXIT_DISRUPTED, EVICTED},
    {PL_SCHED_EXIT_DISRUPTED, "its pod was deleted"},
    {PL_SCHED_EXIT_DISRUPTED, "its node a is gone"},
    {PL_SCHED_EXIT_OWN, "killed by signal 9"},
    {PL_SCHED_EXIT_OWN, NULL},
};

/* more ticks than the scheduler asks for until a lease has ended */
#define ROUNDS_MAX 100

/* Loses the worker, and returns when the scheduler learned of it, which is in the step whose actions are the kit's last ones. */
static int64_t lose(uint64_t worker, const struct loss *loss)
{
    if (loss->text)
        ended(worker, loss->how, loss->text);
    for (unsigned i = 0; kit_count(&k, PL_SCHED_RETURNED) == 0; i++) {
        assert_true(i < ROUNDS_MAX && k.timer_at != INT64_MAX);
        kit_wait(&k, k.timer_at - k.now);
    }
    return k.now;
}

static void an_idle_worker_has_the_datum_of_a_lost_one_in_the_same_step(void **state)
{
    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(losses); i++) {
        struct pl_sched_action lease;
        uint64_t first, second;

        kit_open(&k, 1, 0);
        kit_do(&k, kit_stage(1, 1, (struct pl_sched_stage){.shape = 7, .workers = 2, .keep_warm_ms = 3600000}));
        kit_ready(&k);
        kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_SHAPE, .shape = {.id = 7, .offered = true, .pending_max = 9}});
        kit_push(&k, 1, 1);
        kit_planned(&k, 1, 1, 2);
        first = kit_nth(&k, PL_SCHED_START_WORKER, 0)->worker.id;
        second = kit_nth(&k, PL_SCHED_START_WORKER, 1)->worker.id;
        kit_up(&k, first);
        kit_up(&k, second);
        lease = *kit_the(&k, PL_SCHED_LEASE);
        kit_finish(&k, lease, 1000);
        kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, second);
        assert_int_equal(kit_count(&k, PL_SCHED_LEASE), 0);
        (void)lose(first, &losses[i]);
        lease = *kit_the(&k, PL_SCHED_LEASE);
        assert_int_equal(lease.lease.worker, second);
        assert_int_equal(lease.lease.job, kit_job(&k, 1, 1)->id);
        kit_close(&k);
    }
}

static void a_new_worker_for_the_datum_of_a_lost_one_is_started_in_the_same_moment(void **state)
{
    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(losses); i++) {
        uint64_t worker;
        int64_t at;

        open_job(1, 1);
        worker = started();
        kit_up(&k, worker);
        (void)kit_the(&k, PL_SCHED_LEASE);
        at = lose(worker, &losses[i]);
        worker = started();
        kit_up(&k, worker);
        assert_int_equal(kit_the(&k, PL_SCHED_LEASE)->lease.worker, worker);
        assert_int_equal(k.now, at);
        kit_close(&k);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_preempted_worker_is_replaced_at_once_however_often),
        cmocka_unit_test(a_worker_that_has_attached_did_not_fail_to_start),
        cmocka_unit_test(a_command_that_cannot_be_started_is_a_failed_start),
        cmocka_unit_test(the_count_of_failed_starts_begins_again_with_a_worker_that_comes_up),
        cmocka_unit_test(a_worker_that_comes_up_ends_the_back_off),
        cmocka_unit_test(a_pod_that_was_written_down_and_not_made_is_no_failed_start),
        cmocka_unit_test(an_idle_worker_has_the_datum_of_a_lost_one_in_the_same_step),
        cmocka_unit_test(a_new_worker_for_the_datum_of_a_lost_one_is_started_in_the_same_moment),
    };

    return cmocka_run_group_tests_name("sched_disruption", tests, NULL, NULL);
}
