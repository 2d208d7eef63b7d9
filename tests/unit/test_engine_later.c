/* What the engine gives to a pool or a database without room: it waits its time, and nothing of it is done in the wrong place or lost. */
// link: pl_daemon
#include "db_world.h"

#include "pipelined/daemon/engine_internal.h"
#include <pthread.h>
#include <semaphore.h>

struct fixture {
    struct world world;
    struct pl_loop *loop;
    struct pl_pool *pool;
    struct pl_engine *engine;
    char failed[64];
    unsigned times_failed;
};

/* What was called, where, with what. */
struct note {
    struct pl_loop *loop;
    pthread_t thread;
    unsigned calls;
    int result;
};

static pthread_mutex_t gate = PTHREAD_MUTEX_INITIALIZER;
static sem_t begun; /* the transaction at the gate */

static void note_failure(void *arg, const char *what)
{
    struct fixture *f = arg;

    f->times_failed++;
    snprintf(f->failed, sizeof f->failed, "%s", what);
}

static int setup(void **state)
{
    static const uint8_t key[32];
    struct fixture *f = calloc(1, sizeof *f);
    struct pl_engine_config config = {.master_key = key, .epoch = 1, .failed = note_failure, .failed_arg = f};
    struct pl_err err = {0};

    sem_init(&begun, 0, 0);
    f->world.dir = fixture_dir();
    assert_ok(world_open(&f->world, "data", &err), &err);
    assert_ok(pl_loop_create(&f->loop, &err), &err);
    assert_ok(pl_pool_create("test", 1, 1, &f->pool, &err), &err);
    config.db = f->world.db;
    config.stores = f->world.stores;
    config.loop = f->loop;
    config.pool = f->pool;
    assert_ok(pl_engine_create(&config, &f->engine, &err), &err);
    *state = f;
    return 0;
}

static int teardown(void **state)
{
    struct fixture *f = *state;

    pl_pool_drain(f->pool);
    pl_engine_detach(f->engine);
    pl_db_stop(f->world.db);
    pl_pool_destroy(f->pool);
    pl_loop_stop(f->loop); /* what was posted is done */
    pl_loop_run(f->loop);
    pl_engine_destroy(f->engine);
    world_close(&f->world);
    pl_loop_destroy(f->loop);
    fixture_remove(f->world.dir);
    free(f);
    return 0;
}

static void work(void *arg)
{
    struct note *n = arg;

    n->calls++;
    n->thread = pthread_self();
    pl_loop_stop(n->loop);
}

static void wait_at_gate(void *arg)
{
    (void)arg;
    pthread_mutex_lock(&gate);
    pthread_mutex_unlock(&gate);
}

static int wait_at_gate_tx(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    (void)tx;
    (void)err;
    sem_post(&begun);
    wait_at_gate(arg);
    return 0;
}

static int nothing_tx(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    (void)tx;
    (void)arg;
    (void)err;
    return 0;
}

static void written(void *arg, int r, const struct pl_err *err)
{
    struct note *n = arg;

    (void)err;
    n->result = r;
    work(n);
}

static void fill_pool(struct fixture *f)
{
    for (int i = 0; i < 2; i++) /* one runs, one waits */
        assert_int_equal(pl_pool_submit_wait(f->pool, wait_at_gate, NULL, NULL), 0);
}

static void fill_database(struct fixture *f)
{
    struct pl_err err = {0};
    int r = pl_db_submit(f->world.db, PL_TX_UNLOGGED, wait_at_gate_tx, NULL, NULL, &err);

    sem_wait(&begun);
    while (r == 0)
        r = pl_db_submit(f->world.db, PL_TX_UNLOGGED, nothing_tx, NULL, NULL, &err);
    assert_int_equal(r, PL_EBUSY);
}

static void work_for_a_full_pool_waits_and_is_never_done_by_who_gives_it(void **state)
{
    struct fixture *f = *state;
    struct note n = {.loop = f->loop};

    pthread_mutex_lock(&gate);
    fill_pool(f);
    pl_engine_pool(f->engine, work, &n);
    assert_int_equal(n.calls, 0);
    pthread_mutex_unlock(&gate);
    pl_loop_run(f->loop);
    assert_int_equal(n.calls, 1);
    assert_false(pthread_equal(n.thread, pthread_self()));
}

static void a_transaction_for_a_full_queue_waits_and_is_done(void **state)
{
    struct fixture *f = *state;
    struct note n = {.loop = f->loop, .result = 1};

    pthread_mutex_lock(&gate);
    fill_database(f);
    pl_engine_submit(f->engine, PL_TX_UNLOGGED, nothing_tx, written, &n);
    assert_int_equal(n.calls, 0);
    pthread_mutex_unlock(&gate);
    pl_loop_run(f->loop);
    assert_int_equal(n.calls, 1);
    assert_int_equal(n.result, 0);
}

static void an_engine_that_fails_says_so_once_and_gives_up_what_waits(void **state)
{
    struct fixture *f = *state;
    struct note done = {.loop = f->loop}, waited = done;

    pthread_mutex_lock(&gate);
    fill_pool(f);
    fill_database(f);
    pl_engine_pool(f->engine, work, &done);
    pl_engine_submit(f->engine, PL_TX_UNLOGGED, nothing_tx, written, &waited);
    pl_engine_fail(f->engine, "no memory for a plan");
    pl_engine_fail(f->engine, "no memory for a commit");
    assert_int_equal(f->times_failed, 1);
    assert_string_equal(f->failed, "no memory for a plan");
    assert_int_equal(pl_engine_feed(f->engine, &(struct pl_sched_event){.kind = PL_SCHED_EV_TICK}, NULL), PL_ESTOPPING);
    pl_engine_detach(f->engine);
    assert_int_equal(done.calls, 1);
    assert_int_equal(waited.calls, 1);
    assert_int_equal(waited.result, PL_ESTOPPING);
    pthread_mutex_unlock(&gate);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(work_for_a_full_pool_waits_and_is_never_done_by_who_gives_it),
        T(a_transaction_for_a_full_queue_waits_and_is_done),
        T(an_engine_that_fails_says_so_once_and_gives_up_what_waits),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
