// link: pipelined/db/pipelines pipelined/db/tx pipelined/db/writer pipelined/engine pipelined/kube/pod pipelined/plan pipelined/spec storage/base storage/chunk storage/dataset/file storage/dataset/fsck storage/dataset/ingest storage/pack storage/store storage/system storage/tree storage/tree_edit
/* What pods are rendered by has changed: each stage's shapes are asked for anew, by one who goes through them, however often it changes. */
#include "tests/support/fixtures/db_world.h"
#include "tests/unit/kube/pod/pod_fixture.h"

#include "pipelined/engine/engine_internal.h"

enum { STAGES = 100 };

struct fixture {
    struct world world;
    struct pl_loop *loop;
    struct pl_pool *pool;
    struct pl_engine *engine;
    struct pl_executor executor;
    struct pl_executor_ops ops;
    struct pl_executor_events events;
    struct pl_spec *spec;
    unsigned asked[STAGES + 1]; /* by version */
    unsigned total, change_at;  /* there are changes when so many were asked for */
};

static struct fixture *now;

static int shape(struct pl_executor *x, const char *project, const struct pl_stage *def, uint64_t version, bool gpu,
                 uint64_t *ret, struct pl_err *err)
{
    (void)x, (void)project, (void)def, (void)gpu, (void)err;
    now->asked[version]++;
    if (++now->total == now->change_at)
        for (int i = 0; i < 500; i++)
            now->events.reshape(now->events.self);
    *ret = version;
    return 0;
}

static void note_failure(void *arg, const char *what)
{
    (void)arg;
    fail_msg("%s", what);
}

static void add_stage(struct fixture *f, uint64_t version)
{
    struct pl_estage *s = calloc(1, sizeof *s);

    s->refs = 1;
    s->version = s->stage = version;
    s->project = strdup("default");
    s->pipeline = strdup("p");
    s->effective = strdup("{}");
    s->def = &f->spec->stages[0];
    assert_int_equal(pl_map_put(&f->engine->stages, &s->version, sizeof s->version, s, NULL, NULL), 0);
}

static int setup(void **state)
{
    static const uint8_t key[32];
    struct fixture *f = now = calloc(1, sizeof *f);
    struct pl_engine_config config = {.master_key = key, .epoch = 1, .failed = note_failure};
    struct pl_err err = {0};

    f->world.dir = fixture_dir();
    assert_ok(world_open(&f->world, "data", &err), &err);
    assert_ok(pl_loop_create(&f->loop, &err), &err);
    assert_ok(pl_pool_create("test", 1, 1, &f->pool, &err), &err);
    config.db = f->world.db;
    config.stores = f->world.stores;
    config.loop = f->loop;
    config.pool = f->pool;
    assert_ok(pl_engine_create(&config, &f->engine, &err), &err);
    f->ops.shape = shape;
    f->executor.ops = &f->ops;
    pl_engine_take_executor(f->engine, &f->executor);
    f->events = pl_engine_executor_events(f->engine);
    f->spec = pod_spec_of("");
    for (uint64_t i = 1; i <= STAGES; i++)
        add_stage(f, i);
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
    pl_spec_destroy(f->spec);
    free(f);
    return 0;
}

static void stop_when_over(void *arg)
{
    struct fixture *f = arg;

    if (f->engine->reshaping)
        pl_engine_post(f->engine, "test.again", stop_when_over, f);
    else
        pl_loop_stop(f->loop);
}

static void run(struct fixture *f)
{
    pl_engine_post(f->engine, "test.again", stop_when_over, f);
    pl_loop_run(f->loop);
}

static void many_changes_at_once_are_looked_at_once_and_once_more(void **state)
{
    struct fixture *f = *state;

    for (int i = 0; i < 500; i++)
        f->events.reshape(f->events.self);
    run(f);
    for (unsigned i = 1; i <= STAGES; i++)
        assert_int_equal(f->asked[i], 2);
}

static void what_changes_meanwhile_is_looked_at_for_all(void **state)
{
    struct fixture *f = *state;

    f->change_at = STAGES / 2;
    f->events.reshape(f->events.self);
    run(f);
    for (unsigned i = 1; i <= STAGES; i++)
        assert_int_equal(f->asked[i], 2);
    f->events.reshape(f->events.self); /* nothing is left of it */
    run(f);
    for (unsigned i = 1; i <= STAGES; i++)
        assert_int_equal(f->asked[i], 3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(many_changes_at_once_are_looked_at_once_and_once_more, setup, teardown),
        cmocka_unit_test_setup_teardown(what_changes_meanwhile_is_looked_at_for_all, setup, teardown),
    };

    return cmocka_run_group_tests_name("engine_reshape", tests, NULL, NULL);
}
