// link: pipelined/db/pipelines pipelined/db/retention pipelined/db/tx pipelined/db/writer pipelined/plan pipelined/spec storage/base storage/chunk storage/dataset/file storage/dataset/fsck storage/dataset/ingest storage/pack storage/store storage/system storage/tree storage/tree_edit
/* keep_pass: what is decided over one state of the database is dropped from a later one, and whoever has come to stand on it meanwhile keeps
 * it. */
#include "tests/support/fixtures/db_world.h"
#include "tests/support/fixtures/output_repo.h"

#include "pipelined/db/retention/retention.h"

#define COMMITS 6

/* Repo digits with six commits on master, their runs over; it keeps one. */
struct keeping {
    struct world w;
    char ids[COMMITS][PL_ID_HEX + 1];
    int asked;                            /* how often the pass has asked whether to stop: before each of its transactions */
    void (*meanwhile)(struct keeping *k); /* done when it asks first */
    bool stop;
};

static int end_run(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_run_args end = {.id = arg, .state = "success"};

    return pl_tx_run_end(tx, &end, err);
}

static void push(struct keeping *k, size_t i, const char *repo)
{
    char text[32];
    struct step s = {PUSH, "default", repo, "master", text};
    struct pl_push_result pushed;
    struct pl_err err = {0};

    snprintf(text, sizeof text, "+f:%zu", 10 + i);
    assert_ok(world_push(&k->w, &s, i, &pushed, &err), &err);
    strcpy(k->ids[i], pushed.commit);
    assert_ok(pl_db_run(k->w.db, PL_TX_LOGGED, end_run, k->ids[i], &err), &err);
}

static void set_rule(struct keeping *k, struct pl_retention_rule keep)
{
    struct pl_repo_args args = {.project = "default", .name = "digits", .keep = &keep};
    struct pl_err err = {0};

    assert_ok(pl_db_run(k->w.db, PL_TX_LOGGED, pl_tx_repo_update, &args, &err), &err);
}

static int setup(void **state)
{
    struct keeping *k = calloc(1, sizeof *k);
    struct pl_err err = {0};

    k->w.dir = fixture_dir();
    assert_ok(world_open(&k->w, "data", &err), &err);
    assert_ok(world_step(&k->w, 0, &err), &err);
    for (size_t i = 0; i < COMMITS; i++)
        push(k, i, "digits");
    set_rule(k, (struct pl_retention_rule){.commits = 1});
    *state = k;
    return 0;
}

static int teardown(void **state)
{
    struct keeping *k = *state;

    world_close(&k->w);
    fixture_remove(k->w.dir);
    free(k);
    return 0;
}

static bool on_ask(void *self)
{
    struct keeping *k = self;

    if (k->asked++ == 0 && k->meanwhile)
        k->meanwhile(k);
    return k->stop;
}

static int pass_over(struct keeping *k, struct pl_err *err)
{
    struct pl_retention_run pass = {.db = k->w.db, .stop = on_ask, .self = k};
    int r = pl_retention_run(&pass, err);

    json_decref(pass.report);
    return r;
}

/* A digit each commit that is there, by its place. */
static const char *there(struct keeping *k)
{
    static char text[COMMITS + 1];
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(k->w.db);
    size_t n = 0;

    for (size_t i = 0; i < COMMITS; i++) {
        int64_t is = 0;

        assert_int_equal(pl_sql_int(rd.conn, NULL, &is, "SELECT count(*) FROM commit_ WHERE run = ?", "s", k->ids[i]), 0);
        if (is)
            text[n++] = (char)('0' + i);
    }
    text[n] = '\0';
    return text;
}

/* ---- what others do meanwhile ---- */

static void nothing(struct keeping *k)
{
    (void)k;
}

static void a_branch_on_an_old_one(struct keeping *k)
{
    struct pl_branch_args branch = {.project = "default", .repo = "digits", .name = "old", .from = k->ids[2]};
    struct pl_err err = {0};

    assert_ok(pl_db_run(k->w.db, PL_TX_LOGGED, pl_tx_branch_create, &branch, &err), &err);
}

static void the_head_goes(struct keeping *k)
{
    struct pl_commit_delete_args commit = {.project = "default", .repo = "digits", .run = "master"};
    struct pl_err err = {0};

    assert_ok(pl_db_run(k->w.db, PL_TX_LOGGED, pl_tx_commit_delete, &commit, &err), &err);
}

static void the_head_goes_and_another_has_its_row(struct keeping *k)
{
    char was[PL_ID_HEX + 1];

    the_head_goes(k);
    memcpy(was, k->ids[5], sizeof was);
    push(k, 5, "digits");
    assert_string_not_equal(was, k->ids[5]);
}

/* An output that was made from an old one, and is a stage's own. */
static void an_output_of_an_old_one(struct keeping *k)
{
    struct pl_repo_args repo = {.project = "default", .name = "made", .output = true};
    struct pl_commit_args args = {.project = "default",
                                  .repo = "made",
                                  .branch = "master",
                                  .run = k->ids[1],
                                  .output = true,
                                  .expect = -1,
                                  .object = {.b = {1}},
                                  .root = {.b = {1}}};
    struct pl_err err = {0};

    args.provenance =
        json_pack("[{s:s, s:s, s:s, s:s}]", "project", "default", "repo", "digits", "branch", "master", "commit", k->ids[1]);
    assert_ok(pl_db_run(k->w.db, PL_TX_LOGGED, make_output_tx, &repo, &err), &err);
    assert_ok(pl_db_run(k->w.db, PL_TX_LOGGED, pl_tx_commit, &args, &err), &err);
    json_decref(args.provenance);
}

static int add_job(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct keeping *k = arg;
    _cleanup_(json_decrefp) json_t *inputs =
        json_pack("[{s:s, s:s, s:s, s:s}]", "project", "default", "repo", "digits", "branch", "master", "commit", k->ids[3]);
    _cleanup_free_ char *text = json_dumps(inputs, 0);

    return PL_MIN(pl_sql_exec(pl_tx_conn(tx), err,
                              "INSERT INTO job(run, project, stage, version, pipeline, state, inputs, created_us)"
                              " VALUES (?, 'default', 'made', 1, 'p', 'running', ?, 1)",
                              "ss", k->ids[3], text),
                  0);
}

static void a_job_over_an_old_one(struct keeping *k)
{
    struct pl_err err = {0};

    assert_ok(pl_db_run(k->w.db, PL_TX_UNLOGGED, add_job, k, &err), &err);
}

static void the_repo_goes(struct keeping *k)
{
    struct pl_repo_args repo = {.project = "default", .name = "digits"};
    struct pl_err err = {0};

    assert_ok(pl_db_run(k->w.db, PL_TX_LOGGED, pl_tx_repo_delete, &repo, &err), &err);
}

static void a_push(struct keeping *k)
{
    push(k, 0, "digits"); /* takes the place of the first, which goes */
}

static void who_comes_to_stand_on_a_commit_keeps_it(void **state)
{
    static const struct {
        void (*meanwhile)(struct keeping *k);
        const char *there;
        bool again; /* the decision is made anew */
    } table[] = {
        {nothing, "5", false},
        {a_push, "05", false}, /* what was the head when it was decided stays until the next pass */
        {a_branch_on_an_old_one, "25", true},
        {the_head_goes, "4", true},
        {the_head_goes_and_another_has_its_row, "5", true},
        {an_output_of_an_old_one, "15", true},
        {a_job_over_an_old_one, "35", true},
    };

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        struct keeping *k;
        struct pl_err err = {0};

        setup((void **)&k);
        k->meanwhile = table[i].meanwhile;
        assert_ok(pass_over(k, &err), &err);
        if (!pl_streq(there(k), table[i].there) || (k->asked > 1) != table[i].again)
            fail_msg("row %zu: %s is there, not %s, after %d transactions", i, there(k), table[i].there, k->asked);
        teardown((void **)&k);
    }
}

static void a_repo_that_goes_meanwhile_is_gone(void **state)
{
    struct keeping *k = *state;
    struct pl_err err = {0};

    k->meanwhile = the_repo_goes;
    assert_ok(pass_over(k, &err), &err);
    assert_string_equal(there(k), "");
}

static void stopped_it_leaves_the_rest(void **state)
{
    struct keeping *k = *state;

    k->stop = true;
    assert_int_equal(pass_over(k, NULL), PL_ECANCELED);
    assert_string_equal(there(k), "012345");
    k->stop = false;
    assert_int_equal(pass_over(k, NULL), 0);
    assert_string_equal(there(k), "5");
}

/* Children of what goes have its parent instead: the history of what stays is in one piece. */
static void what_stays_has_a_history(void **state)
{
    struct keeping *k = *state;
    struct pl_commit_row row;
    struct pl_err err = {0};

    a_branch_on_an_old_one(k); /* keeps the third, and the run of what follows reads nothing */
    set_rule(k, (struct pl_retention_rule){.commits = 2});
    assert_ok(pass_over(k, &err), &err);
    assert_string_equal(there(k), "1245");
    {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(k->w.db);

        assert_ok(pl_db_commit_named(rd.conn, "default", "digits", "master^2", &row, &err), &err);
        assert_string_equal(row.run, k->ids[2]);
        assert_int_equal(pl_db_commit_named(rd.conn, "default", "digits", "master^4", &row, &err), PL_ENOTFOUND);
        assert_int_equal(pl_db_commit_named(rd.conn, "default", "digits", k->ids[3], &row, &err), PL_ENOTFOUND);
        assert_non_null(strstr(err.msg, "was removed on"));
    }
    /* replayed from the log alone it is the same */
    world_close(&k->w);
    assert_ok(world_open(&k->w, "anew", &err), &err);
    assert_string_equal(there(k), "1245");
}

/* ---- what jobs of deleted stages left ---- */

static int leave_rest(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    static const char *const sql[] = {
        /* of a stage: gone with its repo, gone from its repo, and one that is */
        "INSERT INTO repo(project, name, kind, created_us) VALUES ('default', 'left', 'output', 1), ('default', 'is', 'output', "
        "1)",
        "INSERT INTO pipeline(id, project, name, version, created_us, updated_us) VALUES (7, 'default', 'p', 1, 1, 1)",
        "INSERT INTO stage(pipeline, version, position, project, name, spec, code_identity, current)"
        " VALUES (7, 1, 0, 'default', 'is', '{}', x'00', 1)",
        "INSERT INTO job(id, run, project, stage, version, pipeline, state, final, kept, created_us, finished_us)"
        " SELECT value, printf('%032d', value), 'default', CASE value / 10 WHEN 1 THEN 'gone' WHEN 2 THEN 'left' ELSE 'is' END, "
        "1,"
        " 'p', 'failure', 1, value % 10 < 2, 1, 2 FROM json_each('[10, 11, 12, 13, 20, 21, 30, 31]')",
        "INSERT INTO result(job, id, rows) SELECT id, 0, x'00' FROM job WHERE kept = 1",
        "INSERT INTO log_segment(job, id, worker, blob, raw_bytes, created_us) SELECT id, 0, 'w', zeroblob(32), 1, 1 FROM job",
        "INSERT INTO attempt(job, datum, attempt, state, finished_us) SELECT id, x'00', 1, 'success', 1 FROM job",
        "INSERT INTO metric(job, id, datum, at_us, data) SELECT id, 0, x'00', 1, '{}' FROM job",
    };
    int r = 0;

    (void)arg;
    for (size_t i = 0; i < PL_ARRAY_SIZE(sql) && r >= 0; i++)
        r = pl_sql_exec(pl_tx_conn(tx), err, sql[i], "");
    return PL_MIN(r, 0);
}

/* Of which jobs the table has something. */
static char *jobs_in(struct keeping *k, const char *table)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(k->w.db);
    char sql[128], *text = NULL;

    snprintf(sql, sizeof sql, "SELECT coalesce(group_concat(job, ' '), '') FROM (SELECT job FROM %s ORDER BY job)", table);
    assert_int_equal(pl_sql_text(rd.conn, NULL, &text, sql, ""), 0);
    return text;
}

static void assert_jobs_in(struct keeping *k, const char *table, const char *want)
{
    _cleanup_free_ char *has = jobs_in(k, table);

    assert_string_equal(has, want);
}

static void assert_deleted(const json_t *report, json_int_t results, json_int_t logs)
{
    const json_t *deleted = json_object_get(report, "deleted");

    assert_int_equal(json_integer_value(json_object_get(deleted, "results")), results);
    assert_int_equal(json_integer_value(json_object_get(deleted, "logs")), logs);
}

static void what_jobs_of_a_deleted_stage_left_goes(void **state)
{
    struct keeping *k = *state;
    struct pl_retention_dropped going = {0};
    struct pl_retention_run foresee = {.db = k->w.db, .dry_run = true, .going = &going}, pass = {.db = k->w.db},
                            one = {.db = k->w.db, .project = "default", .repo = "digits"};
    struct pl_err err = {0};

    assert_ok(pl_db_run(k->w.db, PL_TX_UNLOGGED, leave_rest, NULL, &err), &err);
    assert_ok(pl_retention_run(&one, &err), &err); /* is asked of one repo alone */
    assert_ok(pl_retention_run(&foresee, &err), &err);
    assert_jobs_in(k, "log_segment", "10 11 12 13 20 21 30 31");
    assert_deleted(foresee.report, 6, 4);
    assert_int_equal(going.results.len, 6);
    assert_int_equal(going.logs.len, 4);
    assert_ok(pl_retention_run(&pass, &err), &err);
    assert_deleted(pass.report, 6, 4);
    assert_jobs_in(k, "log_segment", "20 21 30 31"); /* the rule of its repo says how long */
    assert_jobs_in(k, "attempt", "20 21 30 31");
    assert_jobs_in(k, "metric", "20 21 30 31");
    assert_jobs_in(k, "result", "30 31");
    {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(k->w.db);

        assert_int_equal(pl_retention_check_job(rd.conn, 10, PL_KEEP_LOGS, &err), PL_ENOTFOUND);
        assert_non_null(strstr(err.msg, "there is no stage"));
        assert_int_equal(pl_retention_check_job(rd.conn, 20, PL_KEEP_LOGS, &err), 0);
    }
    json_decref(one.report);
    json_decref(foresee.report);
    json_decref(pass.report);
    pl_retention_dropped_finish(&going);
}

/* ---- bounds ---- */

static int make_many(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    return PL_MIN(pl_sql_exec(pl_tx_conn(tx), err, arg, ""), 0);
}

static void more_than_it_decides_about_is_refused(void **state)
{
    static const struct {
        const char *sql, *says;
    } table[] = {
        {"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 262144) INSERT INTO branch(repo, name, head,"
         " created_us) SELECT (SELECT min(id) FROM repo), 'b' || i, (SELECT max(id) FROM commit_), 1 FROM n",
         "262145 branches are too many: retention rules can be applied to at most 262144"},
        {"WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 131072) INSERT INTO repo(project, name, kind,"
         " created_us) SELECT 'default', 'r' || i, 'input', 1 FROM n",
         "131073 repos are too many: retention rules can be applied to at most 131072"},
    };
    struct keeping *k = *state;
    struct pl_err err = {0};

    for (size_t i = 0; i < PL_ARRAY_SIZE(table); i++) {
        assert_ok(pl_db_run(k->w.db, PL_TX_UNLOGGED, make_many, (void *)(uintptr_t)table[i].sql, &err), &err);
        assert_int_equal(pass_over(k, &err), PL_ELIMIT);
        if (!strstr(err.msg, table[i].says))
            fail_msg("row %zu: %s", i, err.msg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(who_comes_to_stand_on_a_commit_keeps_it),
        cmocka_unit_test_setup_teardown(a_repo_that_goes_meanwhile_is_gone, setup, teardown),
        cmocka_unit_test_setup_teardown(stopped_it_leaves_the_rest, setup, teardown),
        cmocka_unit_test_setup_teardown(what_stays_has_a_history, setup, teardown),
        cmocka_unit_test_setup_teardown(what_jobs_of_a_deleted_stage_left_goes, setup, teardown),
        cmocka_unit_test_setup_teardown(more_than_it_decides_about_is_refused, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
