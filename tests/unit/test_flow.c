/* Rows on their way through three threads: in order, within the bounds, and all threads end together. */
// link: pl_agent
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pipelined/agent/flow.h"
#include "pipelined/agent/lease.h"
#include "storage/base/clock.h"
#include <pthread.h>
#include <sched.h>

#define TASKS    40u
#define NEVER_MS 60000

struct world {
    struct pl_flow *flow;
    bool alone;
    unsigned seed;
    atomic_uint fetched, placed, computed, uploaded, tasks; /* how many so far; tasks: held */
    unsigned rows_of[TASKS];
    unsigned total;
    unsigned fail_at; /* row whose upload fails; 0 = none */
};

static unsigned some(unsigned *seed, unsigned n)
{
    *seed = *seed * 1103515245u + 12345u;
    return (*seed >> 16) % n;
}

static void dawdle(unsigned *seed)
{
    for (unsigned i = some(seed, 4); i > 0; i--)
        sched_yield();
}

static struct pl_flow_task *add(struct world *w, unsigned n)
{
    struct pl_wire_task task = {.n_rows = n};
    struct pl_flow_task *t = NULL;

    task.rows = calloc(n, sizeof(*task.rows));
    for (unsigned i = 0; i < n; i++)
        task.rows[i].index = i;
    assert_int_equal(pl_flow_add(w->flow, &task, &t, NULL), 0);
    assert_true(atomic_fetch_add(&w->tasks, 1) < (w->alone ? 1 : PL_LEASE_TASKS_MAX));
    return t;
}

static void *fetch(void *arg)
{
    struct world *w = arg;
    unsigned seed = w->seed;

    for (unsigned i = 0; i < TASKS && pl_flow_may_ask(w->flow, w->alone); i++) {
        struct pl_flow_task *t = add(w, w->rows_of[i]);
        for (unsigned row = 0; row < w->rows_of[i]; row++) {
            if (!pl_flow_wait_room(w->flow, w->alone))
                return pl_flow_no_more(w->flow), NULL;
            assert_int_equal(w->fetched, w->placed); /* one ahead */
            if (w->alone)
                assert_int_equal(w->fetched, w->uploaded);
            dawdle(&seed);
            w->fetched++;
            pl_flow_fetched(w->flow, &t->rows[row]);
        }
    }
    pl_flow_no_more(w->flow);
    return NULL;
}

static void *upload(void *arg)
{
    struct world *w = arg;
    unsigned seed = w->seed + 1, at = 0, row_at = 0;
    struct pl_flow_row *row;
    bool over = false;

    while ((row = pl_flow_to_upload(w->flow, NEVER_MS, &over))) {
        assert_int_equal(row->outcome->index, row_at);
        dawdle(&seed);
        if (w->fail_at && w->uploaded + 1 == w->fail_at) {
            const struct pl_err why = {.code = PL_EIO, .msg = "no more"};
            pl_flow_fail(w->flow, PL_EIO, &why);
        }
        w->uploaded++;
        pl_flow_uploaded(w->flow, row);
        row_at++;
        if (!row->last)
            continue;
        assert_int_equal(row_at, w->rows_of[at++]);
        row_at = 0;
        atomic_fetch_sub(&w->tasks, 1);
        pl_flow_handed_in(w->flow, row->task);
    }
    assert_true(over);
    return NULL;
}

static void compute(struct world *w)
{
    unsigned seed = w->seed + 2;
    struct pl_flow_row *row;

    while ((row = pl_flow_next(w->flow))) {
        w->placed++;
        pl_flow_placed(w->flow);
        dawdle(&seed);
        if (some(&seed, 3) && pl_flow_take_folder(w->flow, row)) {
            assert_in_range(row->folder, 0, PL_FLOW_BEHIND - 1);
            if (!some(&seed, 4))
                pl_flow_return_folder(w->flow, row);
        }
        w->computed++;
        pl_flow_computed(w->flow, row);
    }
}

static void run(struct world *w)
{
    pthread_t threads[2];

    assert_int_equal(pl_flow_create(&w->flow, NULL), 0);
    for (unsigned i = 0, seed = w->seed; i < TASKS; i++)
        w->total += w->rows_of[i] = 1 + some(&seed, 20);
    assert_int_equal(pthread_create(&threads[0], NULL, fetch, w), 0);
    assert_int_equal(pthread_create(&threads[1], NULL, upload, w), 0);
    compute(w);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
}

static void rows_pass_in_order_and_within_the_bounds(void **state)
{
    (void)state;
    for (unsigned seed = 0; seed < 60; seed++) {
        struct world w = {.seed = seed, .alone = seed % 3 == 0};
        run(&w);
        assert_int_equal(w.uploaded, w.total);
        assert_int_equal(pl_flow_result(w.flow, NULL), 0);
        pl_flow_destroy(w.flow);
    }
}

static void one_failure_ends_all_threads(void **state)
{
    (void)state;
    for (unsigned seed = 0; seed < 60; seed++) {
        struct world w = {.seed = seed, .alone = seed % 3 == 0, .fail_at = 1 + seed};
        struct pl_err err = {0};
        run(&w);
        assert_true(w.uploaded < w.total);
        assert_int_equal(pl_flow_result(w.flow, &err), PL_EIO);
        assert_string_equal(err.msg, "no more");
        pl_flow_destroy(w.flow); /* with the tasks that were under way */
    }
}

static void the_upload_thread_looks_up_after_a_while(void **state)
{
    struct pl_flow *flow;
    bool over = true;

    (void)state;
    assert_int_equal(pl_flow_create(&flow, NULL), 0);
    assert_null(pl_flow_to_upload(flow, 1, &over));
    assert_false(over);
    pl_flow_destroy(flow);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_pass_in_order_and_within_the_bounds),
        cmocka_unit_test(one_failure_ends_all_threads),
        cmocka_unit_test(the_upload_thread_looks_up_after_a_while),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
