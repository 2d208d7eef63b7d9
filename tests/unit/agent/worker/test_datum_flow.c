// link: pipelined/agent/connection pipelined/agent/worker storage/base
/* Rows on their way through three threads: in order, within the bounds, and all threads end together; a row that is asked back is either given
 * back or computed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pipelined/agent/connection/task_lease.h"
#include "pipelined/agent/worker/datum_flow.h"
#include "storage/base/clock.h"
#include "tests/support/faults/seeded_random.h"
#include <pthread.h>
#include <sched.h>
#include <stdio.h>

#define TASKS    40u
#define ROWS_MAX 20u
#define NEVER_MS 60000

enum { COMPUTED = 1, GIVEN_BACK = 2 };

struct world {
    struct pl_flow *flow;
    bool alone;
    unsigned seed;
    atomic_uint fetched, placed, computed, uploaded, tasks; /* how many so far; tasks: held */
    unsigned rows_of[TASKS];
    unsigned total;
    unsigned fail_at; /* row whose upload fails; 0 = none */
    bool recalls;
    atomic_bool over;
    atomic_uint became[TASKS][ROWS_MAX];
};

static void dawdle(unsigned *seed)
{
    for (unsigned i = some(seed, 4); i > 0; i--)
        sched_yield();
}

static struct pl_agent_protocol_lease lease_of(unsigned i)
{
    struct pl_agent_protocol_lease lease = {.fence = i};

    snprintf(lease.task, sizeof(lease.task), "%u", i);
    return lease;
}

static struct pl_datum_flow_task *add(struct world *w, unsigned number)
{
    const unsigned n = w->rows_of[number];
    struct pl_agent_protocol_task task = {.lease = lease_of(number), .n_rows = n};
    struct pl_datum_flow_task *t = NULL;

    task.rows = calloc(n, sizeof(*task.rows));
    for (unsigned i = 0; i < n; i++)
        task.rows[i].index = i;
    assert_int_equal(pl_datum_flow_add(w->flow, &task, &t, NULL), 0);
    assert_true(atomic_fetch_add(&w->tasks, 1) < (w->alone ? 1 : PL_TASK_LEASE_TASKS_MAX));
    return t;
}

static void *fetch(void *arg)
{
    struct world *w = arg;
    unsigned seed = w->seed;

    for (unsigned i = 0; i < TASKS && pl_datum_flow_may_ask(w->flow, w->alone); i++) {
        struct pl_datum_flow_task *t = add(w, i);
        for (unsigned row = 0; row < w->rows_of[i]; row++) {
            if (!pl_datum_flow_wait_room(w->flow, w->alone))
                return pl_datum_flow_close_input(w->flow), NULL;
            assert_int_equal(w->fetched, w->placed); /* one ahead */
            if (w->alone)
                assert_int_equal(w->fetched, w->uploaded);
            dawdle(&seed);
            w->fetched++;
            pl_datum_flow_fetched(w->flow, &t->rows[row]);
        }
    }
    pl_datum_flow_close_input(w->flow);
    return NULL;
}

static void *upload(void *arg)
{
    struct world *w = arg;
    unsigned seed = w->seed + 1, at = 0, row_at = 0;
    struct pl_datum_flow_item *row;
    bool over = false;

    while ((row = pl_datum_flow_to_upload(w->flow, NEVER_MS, &over))) {
        assert_int_equal(row->outcome->index, row_at);
        dawdle(&seed);
        if (w->fail_at && w->uploaded + 1 == w->fail_at) {
            const struct pl_err why = {.code = PL_EIO, .msg = "no more"};
            pl_datum_flow_fail(w->flow, PL_EIO, &why);
        }
        w->uploaded++;
        pl_datum_flow_uploaded(w->flow, row);
        row_at++;
        if (!row->last)
            continue;
        assert_int_equal(row_at, w->rows_of[at++]);
        row_at = 0;
        atomic_fetch_sub(&w->tasks, 1);
        pl_datum_flow_handed_in(w->flow, row->task);
    }
    assert_true(over);
    return NULL;
}

static void compute(struct world *w)
{
    unsigned seed = w->seed + 2;
    struct pl_datum_flow_item *row;

    while ((row = pl_datum_flow_next(w->flow))) {
        const struct pl_agent_protocol_lease *lease = &row->task->task.lease;

        w->placed++;
        pl_datum_flow_placed(w->flow);
        dawdle(&seed);
        if (!row->given_back)
            w->became[lease->fence][row->row->index] |= COMPUTED;
        if (some(&seed, 3) && pl_datum_flow_take_folder(w->flow, row)) {
            assert_in_range(row->folder, 0, PL_DATUM_FLOW_BEHIND - 1);
            if (!some(&seed, 4))
                pl_datum_flow_return_folder(w->flow, row);
        }
        w->computed++;
        pl_datum_flow_computed(w->flow, row);
    }
}

/* Asks for any task's rows, over and over. */
static void *recall(void *arg)
{
    struct world *w = arg;
    unsigned seed = w->seed + 3;

    while (!w->over) {
        struct pl_agent_protocol_lease lease = lease_of(some(&seed, TASKS));
        bool whole = false;
        size_t n = 0;
        uint32_t *rows = pl_datum_flow_recall(w->flow, &lease, &n, &whole);

        assert_true(!rows || whole == (n == w->rows_of[lease.fence]));
        for (size_t i = 0; i < n; i++)
            w->became[lease.fence][rows[i]] |= GIVEN_BACK;
        free(rows);
        dawdle(&seed);
    }
    return NULL;
}

static void run(struct world *w)
{
    pthread_t threads[3];

    assert_int_equal(pl_datum_flow_create(&w->flow, NULL), 0);
    for (unsigned i = 0, seed = w->seed; i < TASKS; i++)
        w->total += w->rows_of[i] = 1 + some(&seed, ROWS_MAX);
    assert_int_equal(pthread_create(&threads[0], NULL, fetch, w), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, upload, w), 0);
    if (w->recalls)
        assert_int_equal(pthread_create(&threads[2], NULL, recall, w), 0);
    compute(w);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    w->over = true;
    if (w->recalls)
        pthread_join(threads[2], NULL);
}

static void rows_pass_in_order_and_within_the_bounds(void **state)
{
    (void)state;
    for (unsigned seed = 0; seed < 60; seed++) {
        struct world w = {.seed = seed, .alone = seed % 3 == 0};
        run(&w);
        assert_int_equal(w.uploaded, w.total);
        assert_int_equal(pl_datum_flow_result(w.flow, NULL), 0);
        pl_datum_flow_destroy(w.flow);
    }
}

static void a_row_is_computed_or_given_back_never_both(void **state)
{
    unsigned given_back = 0;

    (void)state;
    for (unsigned seed = 0; seed < 60; seed++) {
        struct world w = {.seed = seed, .alone = seed % 3 == 0, .recalls = true};
        run(&w);
        for (unsigned i = 0; i < TASKS; i++)
            for (unsigned row = 0; row < w.rows_of[i]; row++) {
                assert_in_range(w.became[i][row], COMPUTED, GIVEN_BACK);
                given_back += w.became[i][row] == GIVEN_BACK;
            }
        pl_datum_flow_destroy(w.flow);
    }
    assert_true(given_back > 0);
}

static void one_failure_ends_all_threads(void **state)
{
    (void)state;
    for (unsigned seed = 0; seed < 60; seed++) {
        struct world w = {.seed = seed, .alone = seed % 3 == 0, .fail_at = 1 + seed};
        struct pl_err err = {0};
        run(&w);
        assert_true(w.uploaded < w.total);
        assert_int_equal(pl_datum_flow_result(w.flow, &err), PL_EIO);
        assert_string_equal(err.msg, "no more");
        pl_datum_flow_destroy(w.flow); /* with the tasks that were under way */
    }
}

static void the_upload_thread_looks_up_after_a_while(void **state)
{
    struct pl_flow *flow;
    bool over = true;

    (void)state;
    assert_int_equal(pl_datum_flow_create(&flow, NULL), 0);
    assert_null(pl_datum_flow_to_upload(flow, 1, &over));
    assert_false(over);
    pl_datum_flow_destroy(flow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_pass_in_order_and_within_the_bounds),
        cmocka_unit_test(a_row_is_computed_or_given_back_never_both),
        cmocka_unit_test(one_failure_ends_all_threads),
        cmocka_unit_test(the_upload_thread_looks_up_after_a_while),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
