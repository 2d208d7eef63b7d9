// link: storage/base storage/system
/* pool: all work is done, the queue is bounded, one thread keeps the order. */
#include "tests/support/fixtures/store_fixture.h"

#include "storage/system/thread_pool.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

static _Atomic int done;

static void count(void *arg)
{
    (void)arg;
    atomic_fetch_add(&done, 1);
}

static void all_work_is_done_before_drain_returns(void **state)
{
    struct pl_pool *p;
    struct pl_err err;

    (void)state;
    atomic_store(&done, 0);
    assert_ok(pl_pool_create("test", 4, 8, &p, &err), &err);
    for (int i = 0; i < 1000; i++)
        assert_ok(pl_pool_submit_wait(p, count, NULL, &err), &err);
    pl_pool_drain(p);
    assert_int_equal(atomic_load(&done), 1000);
    for (int i = 0; i < 8; i++)
        assert_ok(pl_pool_submit_wait(p, count, NULL, &err), &err);
    assert_null(pl_pool_destroy(p));
    assert_int_equal(atomic_load(&done), 1008);
    assert_null(pl_pool_destroy(NULL));
}

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;

static void pass_gate(void *arg)
{
    pthread_mutex_lock(&gate);
    *(int *)arg = atomic_fetch_add(&done, 1);
    pthread_mutex_unlock(&gate);
}

static void a_full_queue_is_busy_and_one_thread_keeps_the_order(void **state)
{
    int order[16], submitted = 0, r = 0;
    struct pl_pool *p;
    struct pl_err err;

    (void)state;
    atomic_store(&done, 0);
    assert_ok(pl_pool_create("test", 1, 4, &p, &err), &err);
    pthread_mutex_lock(&gate);
    while (submitted < 16 && (r = pl_pool_submit(p, pass_gate, &order[submitted], &err)) == 0)
        submitted++;
    assert_int_equal(r, PL_EBUSY);
    assert_in_range(submitted, 4, 5); /* four wait, one may run */
    pthread_mutex_unlock(&gate);
    pl_pool_destroy(p);
    for (int i = 0; i < submitted; i++)
        assert_int_equal(order[i], i);
}

static void work_that_waits_for_the_caller_is_not_waited_for_without_end(void **state)
{
    struct pl_pool *p;
    struct pl_err err;
    int order = -1;

    (void)state;
    atomic_store(&done, 0);
    assert_ok(pl_pool_create("test", 1, 4, &p, &err), &err);
    pthread_mutex_lock(&gate);
    assert_ok(pl_pool_submit(p, pass_gate, &order, &err), &err);
    assert_false(pl_pool_drain_for(p, 1));
    pthread_mutex_unlock(&gate);
    while (!pl_pool_drain_for(p, 1100))
        ;
    assert_int_equal(order, 0);
    assert_true(pl_pool_drain_for(p, 0));
    pl_pool_destroy(p);
}

static void impossible_pools_are_refused(void **state)
{
    struct pl_pool *p;

    (void)state;
    assert_int_equal(pl_pool_create("test", 0, 4, &p, NULL), PL_EINVAL);
    assert_int_equal(pl_pool_create("test", 65, 4, &p, NULL), PL_EINVAL);
    assert_int_equal(pl_pool_create("test", 1, 0, &p, NULL), PL_EINVAL);
    assert_in_range(pl_cores(), 1, 64);
}

static void post(void *semaphore)
{
    sem_post(semaphore);
}

static void quick_work_does_not_wait_for_slow_work(void **state)
{
    struct pl_pool *p;
    struct pl_err err;
    int order[8];
    sem_t passed;

    (void)state;
    atomic_store(&done, 0);
    sem_init(&passed, 0, 0);
    assert_ok(pl_pool_create("test", 4, 8, &p, &err), &err);
    assert_int_equal(pl_pool_slow_threads(p), 2);
    pthread_mutex_lock(&gate);
    for (int i = 0; i < 8; i++)
        assert_ok(pl_pool_submit_slow(p, pass_gate, &order[i], &err), &err);
    for (int i = 0; i < 8; i++) {
        assert_ok(pl_pool_submit(p, post, &passed, &err), &err);
        sem_wait(&passed);
    }
    assert_int_equal(atomic_load(&done), 0);
    pthread_mutex_unlock(&gate);
    pl_pool_drain(p);
    assert_int_equal(atomic_load(&done), 8);
    for (int i = 0; i < 8; i++)
        assert_ok(pl_pool_submit_slow(p, pass_gate, &order[i], &err), &err);
    pl_pool_destroy(p);
    assert_int_equal(atomic_load(&done), 16);
    sem_destroy(&passed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_work_is_done_before_drain_returns),
        cmocka_unit_test(a_full_queue_is_busy_and_one_thread_keeps_the_order),
        cmocka_unit_test(work_that_waits_for_the_caller_is_not_waited_for_without_end),
        cmocka_unit_test(quick_work_does_not_wait_for_slow_work),
        cmocka_unit_test(impossible_pools_are_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
