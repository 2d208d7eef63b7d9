// link: pipelined/db/pipelines pipelined/db/tx pipelined/db/writer pipelined/plan pipelined/spec storage/base storage/chunk storage/dataset/file storage/dataset/fsck storage/dataset/ingest storage/pack storage/store storage/system storage/tree storage/tree_edit
/* Runs aside: which branches they may write, which commits their stages read, that the log alone brings both back, and that memory which
 * lacks is said. */
#include "tests/support/faults/alloc_jansson.h"

#include "tests/support/fixtures/db_world.h"

#include "pipelined/db/pipelines/rerun.h"
#include "pipelined/db/tx/rerun_branch.h"

#define FIRST  "00000000000000000000000000000001"
#define SECOND "00000000000000000000000000000002"
#define THIRD  "00000000000000000000000000000003"

static struct world w;

static const struct pl_rerun_branch aside = {SECOND, FIRST, "exp"}; /* that of the second run, which does the first one again */

static void run(const char *id, const char *of, const char *as)
{
    json_t *stages = json_pack("[[s, s, s], [s, s, s]]", "default", "prepare", "force", "default", "train", "force");
    struct pl_run_args a = {.id = id, .cause = "manual", .state = "running", .of = of, .as = as, .stages = stages};
    struct pl_err err = {0};

    assert_ok(pl_db_run(w.db, PL_TX_LOGGED, pl_tx_run_create, &a, &err), &err);
    json_decref(stages);
}

static void output(const char *stage, const char *branch, const char *id)
{
    struct pl_commit_args c = {.project = "default",
                               .repo = stage,
                               .branch = branch,
                               .run = id,
                               .output = true,
                               .expect = -1,
                               .generation = 1,
                               .stage = stage};
    struct pl_err err = {0};

    c.object.b[0] = 1;
    assert_ok(pl_db_run(w.db, PL_TX_LOGGED, pl_tx_commit, &c, &err), &err);
}

static void job(const char *id, const char *stage, json_t *inputs)
{
    struct pl_job_args a = {
        .run = id, .project = "default", .stage = stage, .pipeline = "flow", .version = 1, .state = "success", .inputs = inputs};
    struct pl_err err = {0};

    assert_ok(pl_db_run(w.db, PL_TX_LOGGED, pl_tx_job_end, &a, &err), &err);
    json_decref(inputs);
}

static struct pl_push_result push(const char *text)
{
    struct step s = {PUSH, "default", "digits", "master", text};
    struct pl_push_result ret;
    struct pl_err err = {0};

    assert_ok(world_push(&w, &s, 0, &ret, &err), &err);
    return ret;
}

static int setup(void **state)
{
    static const struct step pipeline = {PIPELINE, "default", "flow", "", "prepare train"};
    struct pl_err err = {0};

    (void)state;
    w = (struct world){.dir = fixture_dir()};
    assert_ok(world_open(&w, "data", &err), &err);
    assert_ok(world_step(&w, 0, &err), &err);
    assert_ok(world_pipeline(&w, &pipeline, &err), &err);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    world_close(&w);
    fixture_remove(w.dir);
    return 0;
}

static int check(const char *branch, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(w.db);

    *err = (struct pl_err){0};
    return pl_rerun_branch_check(rd.conn, "default", "prepare", branch, err);
}

static void test_a_branch_may_be_new_or_an_earlier_ones(void **state)
{
    struct pl_err err;

    (void)state;
    run(FIRST, NULL, NULL);
    run(SECOND, FIRST, "exp");
    run(THIRD, FIRST, "other");
    assert_int_equal(check("exp", &err), 0);
    output("prepare", "exp", SECOND);
    assert_int_equal(check("exp", &err), 0);
    output("prepare", "was", FIRST);
    assert_int_equal(check("was", &err), PL_EEXISTS);
    assert_non_null(strstr(err.msg, "branch \"was\" of repo \"prepare\" has commit 00000000, which no rerun --as has written"));
    output("prepare", "exp", THIRD); /* of a run that was to write elsewhere */
    assert_int_equal(check("exp", &err), PL_EEXISTS);
    assert_int_equal(check("master", &err), PL_EINVAL);
    assert_non_null(strstr(err.msg, "branch \"master\" is the one that stage \"prepare\" writes"));
}

/* Input 0 of stage "s", which reads repo@branch: the run whose commit it is, "" for none. */
static const char *reads(const struct pl_rerun_branch *a, const char *stage, const char *repo, const char *branch, bool before)
{
    static struct pl_commit_row row;
    struct pl_input leaf = {
        .kind = PL_INPUT_LEAF, .name = "x", .project = "default", .repo = repo, .branch = branch, .previous = before};
    struct pl_input *leaves[] = {&leaf};
    struct pl_stage s = {.name = stage, .leaves = leaves, .n_leaves = 1};
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(w.db);
    struct pl_err err = {0};
    int r = pl_rerun_branch_input(rd.conn, a, "default", &s, 0, &row, &err);

    return r < 0 ? pl_err_info(r)->name : r ? row.run : "";
}

static json_t *read_at(const char *repo, const char *commit)
{
    return json_pack("[{s:s, s:s, s:s, s:s}]", "project", "default", "repo", repo, "branch", "master", "commit", commit);
}

static void test_inputs_are_what_was_read_or_this_runs_own(void **state)
{
    struct pl_push_result then = push("+a:1");
    const struct pl_rerun_branch third = {THIRD, SECOND, "exp"};

    (void)state;
    run(FIRST, NULL, NULL);
    output("prepare", "master", FIRST);
    output("train", "master", FIRST);
    push("+a:2");
    job(FIRST, "prepare", read_at("digits", then.commit));
    job(FIRST, "train", read_at("prepare", FIRST));
    run(SECOND, FIRST, "exp");
    assert_string_equal(reads(&aside, "prepare", "digits", "master", false), then.commit);
    assert_string_equal(reads(&aside, "train", "prepare", "master", false), "not_found"); /* not written yet */
    output("prepare", "exp", SECOND);
    assert_string_equal(reads(&aside, "train", "prepare", "master", false), SECOND);
    assert_string_equal(reads(&aside, "train", "prepare", "master", true), FIRST);
    job(SECOND, "prepare", read_at("digits", then.commit));
    job(SECOND, "train", read_at("prepare", SECOND));
    run(THIRD, SECOND, "exp");
    output("prepare", "exp", THIRD);
    assert_string_equal(reads(&third, "train", "prepare", "master", false), THIRD);
    assert_string_equal(reads(&third, "prepare", "digits", "master", false), then.commit);
}

static void test_an_input_that_had_no_commit_has_none_again(void **state)
{
    (void)state;
    run(FIRST, NULL, NULL);
    job(FIRST, "prepare", read_at("digits", ""));
    push("+a:1");
    run(SECOND, FIRST, "exp");
    assert_string_equal(reads(&aside, "prepare", "digits", "master", false), "");
}

/* As it would have: also when the run that is done again was one aside. */
static void test_a_job_that_was_never_planned_reads_what_was_there_when_its_run_began(void **state)
{
    struct pl_push_result then = push("+a:1");
    const struct pl_rerun_branch third = {THIRD, SECOND, "exp"};

    (void)state;
    run(FIRST, NULL, NULL);
    push("+a:2");
    run(SECOND, FIRST, "exp");
    run(THIRD, SECOND, "exp");
    for (int recorded = 0; recorded < 2; recorded++) {
        assert_string_equal(reads(&aside, "train", "digits", "master", false), then.commit);
        assert_string_equal(reads(&third, "train", "digits", "master", false), then.commit);
        if (!recorded) {
            job(FIRST, "train", json_array());
            job(SECOND, "train", json_array());
        }
    }
    output("prepare", "exp", THIRD);
    assert_string_equal(reads(&third, "train", "prepare", "master", false), THIRD);
}

static void test_a_job_of_another_version_is_another_computation(void **state)
{
    json_t *two = read_at("digits", "");

    (void)state;
    json_array_append_new(two, json_object());
    run(FIRST, NULL, NULL);
    job(FIRST, "train", two);
    run(SECOND, FIRST, "exp");
    assert_string_equal(reads(&aside, "train", "digits", "master", false), "conflict");
}

/* ---- memory ---- */

/* What the last look found. */
static struct {
    struct pl_rerun_branch aside;
    struct pl_commit_row input, own;
    bool made;
} seen;

/* All that is asked of a run aside while a stage of it is planned. */
static int ask(void *arg, struct pl_err *err)
{
    struct pl_input leaf = {.kind = PL_INPUT_LEAF, .name = "x", .project = "default", .repo = "digits", .branch = "master"};
    struct pl_input other = {.kind = PL_INPUT_LEAF, .name = "y", .project = "default", .repo = "prepare", .branch = "master"};
    struct pl_input *leaves[] = {&leaf}, *others[] = {&other};
    struct pl_stage prepare = {.name = "prepare", .leaves = leaves, .n_leaves = 1},
                    train = {.name = "train", .leaves = others, .n_leaves = 1};
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(w.db);
    struct pl_repo_row repo;
    int r = pl_rerun_branch_find(rd.conn, SECOND, &seen.aside, err);

    (void)arg;
    r = r < 0 ? r : pl_rerun_branch_input(rd.conn, &aside, "default", &prepare, 0, &seen.input, err);
    r = r < 0 ? r : pl_rerun_branch_input(rd.conn, &aside, "default", &train, 0, &seen.own, err);
    r = r < 0 ? r : pl_db_repo_find(rd.conn, "default", "prepare", &repo, err);
    r = r < 0 ? r : pl_rerun_branch_made(rd.conn, repo.id, "exp", &seen.made, err);
    return r < 0 ? r : pl_rerun_branch_check(rd.conn, "default", "train", "exp", err);
}

static void forget_seen(void *arg)
{
    (void)arg;
    memset(&seen, 0, sizeof seen);
}

static void check_seen(void *arg, const char *what)
{
    if (!pl_streq(seen.aside.of, FIRST) || !pl_streq(seen.input.run, arg) || !pl_streq(seen.own.run, SECOND) || !seen.made)
        fail_msg("%s: of %s, input %s, own %s", what, seen.aside.of, seen.input.run, seen.own.run);
}

/* The first run read what is not the newest any more; the second does it again aside, and has got half-way. */
static struct pl_push_result prepare_both(void)
{
    struct pl_push_result then = push("+a:1");

    run(FIRST, NULL, NULL);
    push("+a:2");
    job(FIRST, "prepare", read_at("digits", then.commit));
    job(FIRST, "train", read_at("prepare", FIRST));
    run(SECOND, FIRST, "exp");
    output("prepare", "exp", SECOND);
    return then;
}

static void test_memory_that_lacks_gives_no_other_answer(void **state)
{
    const struct alloc_work work = {.begin = forget_seen, .run = ask, .check = check_seen};
    struct pl_push_result then = prepare_both();

    (void)state;
    alloc_sweep(&work, then.commit);
}

/* ---- and when it is begun ---- */

static int64_t runs_before;
static bool gave_up; /* it could not know whether the run was there */

static int64_t count_runs(void)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(w.db);
    int64_t n = -1;

    assert_int_equal(pl_sql_int(rd.conn, NULL, &n, "SELECT count(*) FROM run WHERE of_run = ? AND as_branch = 'exp'", "s", FIRST),
                     0);
    return n;
}

static void begin_rerun(void *arg)
{
    (void)arg;
    runs_before = count_runs();
    gave_up = false;
}

static int rerun(void *arg, struct pl_err *err)
{
    struct pl_rerun_args a = {.of = FIRST, .as = "exp"};
    int r;

    (void)arg;
    if (w.fatal) {
        gave_up = true;
        world_close(&w);
        assert_ok(world_open(&w, "data", err), err);
    }
    r = pl_db_run(w.db, PL_TX_LOGGED, pl_tx_rerun, &a, err);
    json_decref(a.stages);
    return w.fatal && r < 0 ? pl_err_nomem(err) : r;
}

static void check_rerun(void *arg, const char *what)
{
    int64_t more = count_runs() - runs_before;

    (void)arg;
    if (more != 1 && !(gave_up && more == 2))
        fail_msg("%s: %d runs", what, (int)more);
}

static void test_memory_that_lacks_begins_no_run(void **state)
{
    const struct alloc_work work = {.begin = begin_rerun, .run = rerun, .check = check_rerun, .stride = 3};
    struct pl_run_args end = {.id = FIRST, .state = "success"};
    struct pl_push_result then = push("+a:1");
    struct pl_err err = {0};

    (void)state;
    run(FIRST, NULL, NULL);
    job(FIRST, "prepare", read_at("digits", then.commit));
    assert_ok(pl_db_run(w.db, PL_TX_LOGGED, pl_tx_run_end, &end, &err), &err);
    alloc_sweep(&work, NULL);
}

static void test_the_log_alone_brings_it_back(void **state)
{
    struct pl_err err = {0};
    struct pl_rerun_branch found = {0};

    (void)state;
    run(FIRST, NULL, NULL);
    run(SECOND, FIRST, "exp");
    world_close(&w);
    assert_ok(world_open(&w, "recovered", &err), &err);
    {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(w.db);

        assert_int_equal(pl_rerun_branch_find(rd.conn, FIRST, &found, &err), 0);
        assert_int_equal(pl_rerun_branch_find(rd.conn, SECOND, &found, &err), 1);
    }
    assert_string_equal(found.run, SECOND);
    assert_string_equal(found.of, FIRST);
    assert_string_equal(found.branch, "exp");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_branch_may_be_new_or_an_earlier_ones, setup, teardown),
        cmocka_unit_test_setup_teardown(test_inputs_are_what_was_read_or_this_runs_own, setup, teardown),
        cmocka_unit_test_setup_teardown(test_an_input_that_had_no_commit_has_none_again, setup, teardown),
        cmocka_unit_test_setup_teardown(test_a_job_that_was_never_planned_reads_what_was_there_when_its_run_began, setup,
                                        teardown),
        cmocka_unit_test_setup_teardown(test_a_job_of_another_version_is_another_computation, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_that_lacks_gives_no_other_answer, setup, teardown),
        cmocka_unit_test_setup_teardown(test_memory_that_lacks_begins_no_run, setup, teardown),
        cmocka_unit_test_setup_teardown(test_the_log_alone_brings_it_back, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
