// link: pipelined/db/pipelines pipelined/db/tx pipelined/db/writer pipelined/plan pipelined/spec storage/base storage/chunk storage/dataset/file storage/dataset/fsck storage/dataset/ingest storage/pack storage/store storage/system storage/tree storage/tree_edit
/* Stopped pipelines as transactions: what runs leave out, what a start begins, and what the log gives back. */
#include "tests/support/fixtures/db_world.h"

#include "pipelined/db/pipelines/manual_run.h"
#include "pipelined/db/pipelines/pipeline_state.h"
#include "pipelined/db/tx/job_tx.h"

#define NEWEST_RUN "SELECT coalesce((SELECT stages FROM run ORDER BY ord DESC LIMIT 1), '')"
#define STOPPED    "SELECT group_concat(stopped) FROM pipeline"
#define CHANGES    "SELECT group_concat(data ->> 'change') FROM (SELECT data FROM event WHERE type = 'pipeline' ORDER BY id)"

static const struct step flow = {PIPELINE, "default", "flow", "", "copy next"};

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    struct pl_err err = {0};

    w->dir = fixture_dir();
    assert_ok(world_open(w, "data", &err), &err);
    assert_ok(world_step(w, 0, &err), &err); /* repo digits */
    assert_ok(world_pipeline(w, &flow, &err), &err);
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    world_close(w);
    fixture_remove(w->dir);
    free(w);
    return 0;
}

static void push(struct world *w)
{
    struct step s = {PUSH, "default", "digits", "master", "+a:1"};
    struct pl_push_result ret;
    struct pl_err err = {0};

    assert_ok(world_push(w, &s, 0, &ret, &err), &err);
}

static struct pl_pipeline_state_args set(struct world *w, bool stop)
{
    struct pl_pipeline_state_args args = {.project = "default", .name = "flow", .stop = stop};
    struct pl_err err = {0};

    assert_ok(pl_db_run(w->db, PL_TX_LOGGED, pl_tx_pipeline_state, &args, &err), &err);
    return args;
}

static void assert_is(struct world *w, const char *sql, const char *wanted)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(w->db);
    _cleanup_free_ char *text = NULL;

    assert_int_equal(pl_sql_text(rd.conn, NULL, &text, sql, ""), 0);
    assert_string_equal(text, wanted);
}

static int run_by_hand(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_manual_run_args args = {.project = "default", .pipeline = "flow"};
    int r = pl_tx_manual_run(tx, &args, err);

    (void)arg;
    json_decref(args.stages);
    return r;
}

static int run_readers(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    _cleanup_(json_decrefp) json_t *branches = json_pack("[s]", "master");

    return pl_tx_run_readers(tx, "default", "digits", branches, "push", "", arg, err);
}

static void stopping_twice_and_starting_twice_change_nothing(void **state)
{
    struct world *w = *state;

    assert_false(set(w, false).changed);
    assert_true(set(w, true).changed);
    assert_is(w, STOPPED, "hand");
    assert_false(set(w, true).changed);
    assert_true(set(w, false).changed);
    assert_false(set(w, false).changed);
    assert_is(w, STOPPED, "");
    assert_is(w, CHANGES, "created,stopped,started");
}

static void a_start_runs_all_stages_that_have_something_to_read(void **state)
{
    struct world *w = *state;
    struct pl_pipeline_state_args started;

    set(w, true);
    assert_string_equal(set(w, false).run, "");
    push(w);
    set(w, true);
    started = set(w, false);
    assert_is(w, "SELECT id FROM run ORDER BY ord DESC LIMIT 1", started.run);
    assert_is(w, NEWEST_RUN, "[[\"default\",\"copy\"],[\"default\",\"next\"]]");
}

static void nothing_runs_a_stopped_pipeline(void **state)
{
    struct world *w = *state;
    struct pl_err err = {0};
    char run[PL_ID_HEX + 1];

    push(w);
    assert_ok(pl_db_run(w->db, PL_TX_LOGGED, run_readers, run, &err), &err);
    assert_string_not_equal(run, "");
    set(w, true);
    assert_ok(pl_db_run(w->db, PL_TX_LOGGED, run_readers, run, &err), &err);
    assert_string_equal(run, "");
    assert_int_equal(pl_db_run(w->db, PL_TX_LOGGED, run_by_hand, NULL, &err), PL_ECONFLICT);
    assert_string_equal(err.msg, "pipeline \"flow\" is stopped");
    assert_string_equal(err.hint, "pipelinectl start pipeline flow");
}

static int may_commit(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    return pl_tx_job_may_commit(tx, arg, err);
}

static void a_job_of_a_stopped_pipeline_commits_nothing(void **state)
{
    struct world *w = *state;
    struct pl_err err = {0};
    struct pl_job_args job = {.run = "00000000000000000000000000000001", .project = "default", .stage = "copy", .version = 1};

    assert_ok(pl_db_run(w->db, PL_TX_UNLOGGED, may_commit, &job, &err), &err);
    set(w, true);
    assert_int_equal(pl_db_run(w->db, PL_TX_UNLOGGED, may_commit, &job, &err), PL_ECANCELED);
    assert_non_null(strstr(err.msg, "the pipeline of stage copy was stopped while its job committed"));
}

static void a_pipeline_that_does_not_exist(void **state)
{
    struct world *w = *state;
    struct pl_pipeline_state_args args = {.project = "default", .name = "none", .stop = true};
    struct pl_err err = {0};

    assert_int_equal(pl_db_run(w->db, PL_TX_LOGGED, pl_tx_pipeline_state, &args, &err), PL_ENOTFOUND);
    assert_string_equal(err.msg, "pipeline \"none\" does not exist in project \"default\"");
}

/* The id of the newest stage is part of it: the engine reads stages again when it changes. */
static void a_start_makes_the_engine_read_the_stages_again(void **state)
{
    struct world *w = *state;

    assert_is(w, "SELECT seq FROM sqlite_sequence WHERE name = 'stage'", "2");
    set(w, true);
    assert_is(w, "SELECT seq FROM sqlite_sequence WHERE name = 'stage'", "2");
    set(w, false);
    assert_is(w, "SELECT seq FROM sqlite_sequence WHERE name = 'stage'", "3");
}

static void the_log_gives_the_state_back(void **state)
{
    struct world *w = *state, other = {.dir = w->dir};
    struct pl_err err = {0};
    char *was, *is;

    set(w, true);
    set(w, false);
    push(w);
    set(w, true);
    was = world_logged_tables(w);
    world_close(w);
    assert_ok(world_open(&other, "other", &err), &err);
    is = world_logged_tables(&other);
    assert_string_equal(is, was);
    assert_is(&other, STOPPED, "hand");
    world_close(&other);
    free(was);
    free(is);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(stopping_twice_and_starting_twice_change_nothing),
        T(a_start_runs_all_stages_that_have_something_to_read),
        T(nothing_runs_a_stopped_pipeline),
        T(a_job_of_a_stopped_pipeline_commits_nothing),
        T(a_pipeline_that_does_not_exist),
        T(a_start_makes_the_engine_read_the_stages_again),
        T(the_log_gives_the_state_back),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
