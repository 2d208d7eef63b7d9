// link: pipelined/db/pipelines pipelined/db/tx pipelined/db/writer pipelined/engine pipelined/plan pipelined/spec storage/base storage/chunk storage/dataset/file storage/dataset/fsck storage/dataset/ingest storage/pack storage/store storage/system storage/tree storage/tree_edit
/* What the engine gives to a pool or a database without room: it waits its time, and nothing of it is done in the wrong place or lost. */
#include "tests/support/fixtures/db_world.h"

#include "pipelined/engine/engine_internal.h"
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

/* ---- ends ---- */

/* While it is there no job can be written. */
static int trigger_tx(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    return pl_sql_script(pl_tx_conn(tx),
                         arg ? "CREATE TRIGGER no_job BEFORE INSERT ON job BEGIN SELECT RAISE(ABORT, 'no job now'); END"
                             : "DROP TRIGGER no_job",
                         err);
}

static void bar_jobs(struct fixture *f, bool barred)
{
    struct pl_err err = {0};

    assert_ok(pl_db_run(f->world.db, PL_TX_UNLOGGED, trigger_tx, barred ? f : NULL, &err), &err);
}

/* "job running job failure run failure": the events of the run, in their order. */
static char *events_of(struct fixture *f, const char *run)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(f->world.db);
    struct pl_err err = {0};
    char *text = NULL;

    assert_ok(
        pl_sql_text(
            rd.conn, &err, &text,
            "SELECT coalesce(group_concat(type || ' ' || (data ->> 'state'), ' '), '') FROM"
            " (SELECT type, data FROM event WHERE type IN ('job', 'run') AND ?1 IN (data ->> 'run', data ->> 'id') ORDER BY id)",
            "s", run),
        &err);
    return text;
}

static void passed(void *arg, int r, const struct pl_err *err)
{
    struct note *n = arg;

    (void)err;
    n->calls++;
    n->result = r;
    pl_loop_stop(n->loop);
}

static void a_run_ends_after_its_jobs_although_they_could_not_be_written_at_first(void **state)
{
    struct fixture *f = *state;
    struct pl_stage def = {.name = "prepare"};
    struct pl_estage stage = {.refs = 10, .project = (char *)"default", .pipeline = (char *)"flow", .def = &def};
    struct pl_run_args run = {.id = "0123456789abcdef0123456789abcdef", .cause = "manual", .state = "running"};
    struct pl_sched_action end = {.kind = PL_SCHED_RUN_STATE, .run = {.id = run.id, .state = PL_SCHED_FAILURE}};
    struct note n = {.loop = f->loop, .result = 1};
    struct pl_err err = {0};
    struct pl_ejob *j;
    char *events;

    end.run.jobs[PL_SCHED_FAILURE] = 1;
    assert_ok(pl_db_run(f->world.db, PL_TX_LOGGED, pl_tx_run_create, &run, &err), &err);
    assert_ok(pl_engine_add_job(f->engine, 7, 1, run.id, &stage, &j, &err), &err);
    j->state = PL_SCHED_FAILURE;
    bar_jobs(f, true);
    pl_engine_end_job(j);
    pl_engine_end_run(f->engine, &end);
    pl_engine_after_completion(f->engine, passed, &n);
    bar_jobs(f, false); /* behind the first try, which has failed */
    events = events_of(f, run.id);
    assert_null(strstr(events, "run failure"));
    free(events);
    pl_loop_run(f->loop);
    assert_int_equal(n.result, 0);
    events = events_of(f, run.id);
    assert_string_equal(strstr(events, "job"), "job failure run failure");
    free(events);
    assert_ok(pl_db_run(f->world.db, PL_TX_UNLOGGED, pl_tx_job_progress,
                        &(struct pl_job_args){.run = run.id, .project = "default", .stage = "prepare", .state = "running"}, &err),
              &err);
    events = events_of(f, run.id);
    assert_string_equal(strstr(events, "job"), "job failure run failure"); /* nothing is told after the end */
    free(events);
    pl_engine_forget_job(f->engine, j);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(work_for_a_full_pool_waits_and_is_never_done_by_who_gives_it),
        T(a_transaction_for_a_full_queue_waits_and_is_done),
        T(an_engine_that_fails_says_so_once_and_gives_up_what_waits),
        T(a_run_ends_after_its_jobs_although_they_could_not_be_written_at_first),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
