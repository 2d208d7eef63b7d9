// link: pipelined/sched
/* sched_queue: what waits for resources, as the API lists it. */
#include "tests/unit/sched/sched_fixture.h"

static struct kit k;

static void the_queue_lists_what_waits_in_the_order_in_which_it_is_served(void **state)
{
    struct pl_sched_wait waits[8];
    struct pl_sched_action first;

    (void)state;
    kit_open(&k, 1, 2);
    kit_do(&k, kit_stage(1, 1, (struct pl_sched_stage){.gpu_count = 2, .gpu_required = true}));
    kit_do(&k, kit_stage(2, 2, (struct pl_sched_stage){.gpu_count = 1, .gpu_required = true, .priority = -1}));
    kit_do(&k, kit_stage(3, 3, (struct pl_sched_stage){.gpu_count = 2, .gpu_required = true, .priority = 5}));
    kit_do(&k, kit_stage(4, 4, (struct pl_sched_stage){.gpu_count = 3, .gpu_required = true}));
    kit_do(&k, kit_stage(5, 5, (struct pl_sched_stage){.memory_bytes = 1}));
    kit_do(&k, kit_stage(6, 6, (struct pl_sched_stage){.workers = 1}));
    kit_ready(&k);
    assert_int_equal(pl_sched_queue(k.s, 0, waits, 8), 0);
    kit_push(&k, 1, 1);
    kit_planned(&k, 1, 1, 1);
    first = *kit_the(&k, PL_SCHED_START_WORKER);
    assert_int_equal(pl_sched_queue(k.s, 0, waits, 8), 1); /* it waits for its worker */
    assert_int_equal(waits[0].what, PL_SCHED_WAITS_START);
    kit_up(&k, first.worker.id);
    assert_int_equal(pl_sched_queue(k.s, 0, waits, 8), 0);
    for (unsigned i = 2; i <= 6; i++) {
        kit_push(&k, i, i);
        kit_planned(&k, i, i, 1);
    }
    assert_int_equal(pl_sched_queue(k.s, 0, waits, 2), 2);
    assert_int_equal(pl_sched_queue(k.s, 0, waits, 8), 5);
    assert_int_equal(waits[0].job, k.jobs[3][3].id);
    assert_int_equal(waits[0].what, PL_SCHED_WAITS_GPU);
    assert_true(waits[0].gpus == 2 && waits[0].ahead == 0 && waits[0].free == 0 && waits[0].slots == 2);
    assert_int_equal(waits[0].n_holders, 1);
    assert_true(waits[0].holders[0].worker == first.worker.id && waits[0].holders[0].gpus == 2);
    assert_int_equal(waits[1].job, k.jobs[2][2].id);
    assert_int_equal(waits[1].ahead, 1);
    assert_int_equal(waits[2].what, PL_SCHED_WAITS_CPU); /* stage 5 has the CPU's worker, which starts */
    assert_int_equal(waits[2].job, k.jobs[6][6].id);
    assert_true(waits[2].gpus == 0 && waits[2].cpu_milli == 1000 && waits[2].n_holders == 1);
    for (size_t i = 3; i < 5; i++)
        assert_int_equal(waits[i].what, waits[i].job == k.jobs[4][4].id ? PL_SCHED_WAITS_EVER : PL_SCHED_WAITS_START);
    /* one job is found behind any number of others, with its place */
    assert_int_equal(pl_sched_queue(k.s, k.jobs[2][2].id, waits, 1), 1);
    assert_true(waits[0].job == k.jobs[2][2].id && waits[0].ahead == 1);
    assert_int_equal(pl_sched_queue(k.s, k.jobs[4][4].id, waits, 1), 1);
    assert_int_equal(waits[0].what, PL_SCHED_WAITS_EVER);
    assert_int_equal(pl_sched_queue(k.s, k.jobs[1][1].id, waits, 1), 0); /* it runs */
    kit_close(&k);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_queue_lists_what_waits_in_the_order_in_which_it_is_served),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
