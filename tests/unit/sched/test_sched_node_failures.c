// link: pipelined/sched
/* Another node after two on one: where workers of a job were lost, and who then runs where. */
#include "tests/unit/sched/sched_fixture.h"

static void said(enum pl_sched_event_kind kind, uint64_t worker, bool on, const char *text)
{
    kit_do(&k, (struct pl_sched_event){.kind = kind, .id = worker, .on = on, .text = text});
}

/* One stage of so many workers, with a job of so many rows. */
static void open_job(struct pl_sched_stage def, uint32_t rows)
{
    def.shape = 7;
    kit_open(&k, 1, 0);
    kit_do(&k, kit_stage(1, 1, def));
    kit_ready(&k);
    kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_SHAPE, .shape = {.id = 7, .offered = true, .pending_max = 4}});
    kit_push(&k, 1, 1);
    kit_planned(&k, 1, 1, rows);
}

/* The worker that was started last, whose pod avoids just these ("" = none). */
static uint64_t started(const char *avoided)
{
    const struct pl_sched_action *a = kit_nth(&k, PL_SCHED_START_WORKER, kit_count(&k, PL_SCHED_START_WORKER) - 1);
    char got[128] = "";

    for (size_t i = 0; i < a->worker.n_avoid; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%s", i ? " " : "", a->worker.avoid[i]);
    assert_string_equal(got, avoided);
    return a->worker.id;
}

static void on(uint64_t worker, const char *node)
{
    said(PL_SCHED_EV_WORKER_PLACED, worker, true, node);
    kit_up(&k, worker);
}

static void lost(uint64_t worker)
{
    said(PL_SCHED_EV_WORKER_EXITED, worker, false, "Evicted: the node was low on memory");
}

static void after_two_on_one_node_comes_another(void **state)
{
    static const struct {
        const char *node, *avoided;
        int64_t wait_ms;
    } rounds[] = {{"a", "", 0}, {"a", "", 10000}, {"b", "a", 20000}, {"b", "a", 40000}, {"c", "a b", 80000}};

    (void)state;
    open_job((struct pl_sched_stage){.workers = 1}, 1);
    for (size_t i = 0; i < PL_ARRAY_SIZE(rounds); i++) {
        uint64_t worker = started(rounds[i].avoided);

        on(worker, rounds[i].node);
        assert_int_equal(kit_count(&k, PL_SCHED_LEASE), 1);
        lost(worker);
        kit_wait(&k, rounds[i].wait_ms);
    }
    kit_close(&k);
}

/* Its node's admission refuses it, say: it never comes to a row. */
static void a_node_on_which_none_comes_up_counts_as_well(void **state)
{
    (void)state;
    open_job((struct pl_sched_stage){.workers = 1}, 1);
    for (int i = 0; i < 2; i++) {
        uint64_t worker = started("");

        said(PL_SCHED_EV_WORKER_PLACED, worker, false, "a");
        lost(worker);
        kit_wait(&k, i ? 20000 : 10000);
    }
    (void)started("a");
    kit_close(&k);
}

static void a_command_s_own_end_says_nothing_of_its_node(void **state)
{
    (void)state;
    open_job((struct pl_sched_stage){.workers = 1, .tries = 9}, 1);
    for (int i = 0; i < 3; i++) {
        uint64_t worker = started("");

        on(worker, "a");
        kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_WORKER_EXITED, .id = worker, .counts = true, .text = "OOMKilled"});
        if (!kit_count(&k, PL_SCHED_START_WORKER))
            kit_wait(&k, 10000);
    }
    kit_close(&k);
}

static void those_that_go_together_are_once(void **state)
{
    uint64_t first, second;

    (void)state;
    open_job((struct pl_sched_stage){.workers = 2}, 2);
    first = kit_nth(&k, PL_SCHED_START_WORKER, 0)->worker.id;
    second = kit_nth(&k, PL_SCHED_START_WORKER, 1)->worker.id;
    on(first, "a");
    on(second, "a");
    lost(first);
    (void)started("");
    lost(second);
    (void)started("");
    kit_close(&k);
}

static void what_was_lost_is_not_given_to_who_is_there_still(void **state)
{
    struct pl_sched_action lease;
    uint64_t first, stays;

    (void)state;
    open_job((struct pl_sched_stage){.workers = 2, .keep_warm_ms = 600000}, 2);
    first = kit_nth(&k, PL_SCHED_START_WORKER, 0)->worker.id;
    stays = kit_nth(&k, PL_SCHED_START_WORKER, 1)->worker.id;
    on(first, "a");
    on(stays, "a");
    lease = *kit_the(&k, PL_SCHED_LEASE);
    lost(first);
    first = started("");
    on(first, "a");
    assert_int_equal(kit_count(&k, PL_SCHED_LEASE), 1);
    lost(first);
    kit_result(&k, &lease, (struct pl_sched_row){.index = k.rows[0].lo == 0 ? 1 : 0});
    kit_worker(&k, PL_SCHED_EV_WORKER_NEXT, stays);
    kit_wait(&k, 10000);
    assert_int_equal(kit_count(&k, PL_SCHED_LEASE), 0);
    assert_int_equal(kit_the(&k, PL_SCHED_STOP_WORKER)->worker.id, stays);
    assert_string_equal(kit_the(&k, PL_SCHED_STOP_WORKER)->worker.reason,
                        "the waiting datums were lost on its node before, so they must run on another node");
    first = started("a");
    on(first, "a"); /* it was the only one that there is, after all */
    assert_int_equal(kit_count(&k, PL_SCHED_LEASE), 1);
    kit_close(&k);
}

/* A preempted worker is replaced at once, perhaps on the node that is taken back: not a third time. */
static void a_replacement_that_goes_as_well_is_another_loss(void **state)
{
    (void)state;
    open_job((struct pl_sched_stage){.workers = 1}, 1);
    for (int i = 0; i < 2; i++) {
        uint64_t worker = started("");

        on(worker, "a");
        kit_do(&k, (struct pl_sched_event){
                       .kind = PL_SCHED_EV_WORKER_EXITED, .id = worker, .exit = PL_SCHED_EXIT_DISRUPTED, .text = "preempted"});
    }
    (void)started("a");
    kit_close(&k);
}

static void where_no_other_node_takes_it_the_same_will_do(void **state)
{
    uint64_t worker = 0;

    (void)state;
    open_job((struct pl_sched_stage){.workers = 1}, 1);
    for (int i = 0; i < 2; i++) {
        worker = started("");
        on(worker, "a");
        lost(worker);
        kit_wait(&k, i ? 10000 : 0);
    }
    worker = started("a");
    kit_wait(&k, PL_SCHED_ELSEWHERE_MS - 1);
    assert_int_equal(kit_count(&k, PL_SCHED_STOP_WORKER), 0);
    kit_wait(&k, 1);
    assert_int_equal(kit_the(&k, PL_SCHED_STOP_WORKER)->worker.id, worker);
    assert_string_equal(kit_the(&k, PL_SCHED_STOP_WORKER)->worker.reason,
                        "only nodes on which workers were lost had room for it within 10m");
    if (!kit_count(&k, PL_SCHED_START_WORKER))
        lost(worker);
    (void)started("");
    kit_close(&k);
}

/* Nothing asks for it. */
static void pass(int64_t ms)
{
    for (; ms > 0; ms -= PL_SCHED_GAP_MS) {
        k.now += PL_SCHED_GAP_MS;
        kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_TICK});
    }
}

/* Also of a pod that was found again by a daemon that came back. */
static void an_hour_without_a_loss_makes_it_good(void **state)
{
    struct pl_sched_event ev = {.kind = PL_SCHED_EV_RESTORE_WORKER};

    (void)state;
    kit_open(&k, 1, 0);
    kit_do(&k, (struct pl_sched_event){.kind = PL_SCHED_EV_SHAPE, .shape = {.id = 7, .offered = true, .pending_max = 4}});
    kit_do(&k, kit_stage(1, 1, (struct pl_sched_stage){.shape = 7, .workers = 1}));
    ev.worker.id = 500;
    ev.worker.stage = ev.worker.version = 1;
    ev.worker.shape = 7;
    ev.worker.starting = true;
    ev.worker.node = "a";
    kit_do(&k, ev);
    kit_ready(&k);
    kit_push(&k, 1, 1);
    kit_planned(&k, 1, 1, 1);
    lost(500);
    kit_wait(&k, 10000);
    for (int i = 0; i < 2; i++) {
        uint64_t worker = started("");

        said(PL_SCHED_EV_WORKER_PLACED, worker, false, "a"); /* where it takes long to come up */
        pass(i ? PL_SCHED_BACKOFF_MIN_MS : PL_SCHED_NODE_FORGET_MS);
        lost(worker);
        kit_wait(&k, i ? 40000 : 20000);
    }
    (void)started("a");
    kit_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(after_two_on_one_node_comes_another),
        cmocka_unit_test(a_node_on_which_none_comes_up_counts_as_well),
        cmocka_unit_test(a_command_s_own_end_says_nothing_of_its_node),
        cmocka_unit_test(those_that_go_together_are_once),
        cmocka_unit_test(what_was_lost_is_not_given_to_who_is_there_still),
        cmocka_unit_test(a_replacement_that_goes_as_well_is_another_loss),
        cmocka_unit_test(where_no_other_node_takes_it_the_same_will_do),
        cmocka_unit_test(an_hour_without_a_loss_makes_it_good),
    };

    return cmocka_run_group_tests_name("sched_nodes", tests, NULL, NULL);
}
