// link: pipelined/db/pipelines pipelined/db/tx pipelined/db/writer pipelined/plan pipelined/spec storage/base storage/chunk storage/dataset/file storage/dataset/fsck storage/dataset/ingest storage/pack storage/store storage/system storage/tree storage/tree_edit
/* From what people write to rows: repos, commits by branch, id, prefix and ^n, runs by prefix; and what the errors say. */
#include "tests/support/fixtures/db_world.h"

struct names {
    struct world w;
    struct pl_push_result a, b, c; /* on master, oldest first */
};

static struct pl_push_result push(struct world *w, const char *branch, const char *text)
{
    struct step s = {PUSH, "default", "digits", branch, text};
    struct pl_push_result ret;
    struct pl_err err = {0};

    assert_ok(world_push(w, &s, 0, &ret, &err), &err);
    return ret;
}

static void branch(struct world *w, const char *name, const char *from)
{
    struct pl_branch_args a = {.project = "default", .repo = "digits", .name = name, .from = from};
    struct pl_err err = {0};

    assert_ok(pl_db_run(w->db, PL_TX_LOGGED, pl_tx_branch_create, &a, &err), &err);
}

static int setup(void **state)
{
    struct names *n = calloc(1, sizeof *n);
    struct pl_err err = {0};

    n->w.dir = fixture_dir();
    assert_ok(world_open(&n->w, "data", &err), &err);
    assert_ok(world_step(&n->w, 0, &err), &err);
    n->a = push(&n->w, "master", "+a:1");
    n->b = push(&n->w, "master", "+b:1");
    n->c = push(&n->w, "master", "+c:1");
    *state = n;
    return 0;
}

static int teardown(void **state)
{
    struct names *n = *state;

    world_close(&n->w);
    fixture_remove(n->w.dir);
    free(n);
    return 0;
}

static int find(struct names *n, const char *ref, struct pl_commit_row *ret, struct pl_err *err)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(n->w.db);

    *err = (struct pl_err){0};
    return pl_db_commit_named(rd.conn, "default", "digits", ref, ret, err);
}

static void assert_names(struct names *n, const char *ref, const struct pl_push_result *want)
{
    struct pl_commit_row row;
    struct pl_err err;

    assert_ok(find(n, ref, &row, &err), &err);
    assert_string_equal(row.run, want->commit);
    assert_true(pl_hash_eq(&row.root, &want->root));
}

static void assert_refused(struct names *n, const char *ref, int code, const char *message)
{
    struct pl_commit_row row = {.id = -7};
    struct pl_err err;

    assert_int_equal(find(n, ref, &row, &err), code);
    if (!strstr(err.msg, message))
        fail_msg("%s: \"%s\" is not in: %s", ref, message, err.msg);
    assert_int_equal(row.id, -7); /* untouched */
}

/* The row of a commit with this id, as a push would have made it. */
static void plant(struct names *n, const char *id)
{
    struct pl_commit_row head;
    struct pl_err err;
    struct pl_commit_args c = {
        .project = "default", .repo = "digits", .branch = "planted", .run = id, .expect = -1, .generation = 1};

    assert_ok(find(n, "master", &head, &err), &err);
    c.object = head.object;
    c.root = head.root;
    assert_ok(pl_db_run(n->w.db, PL_TX_LOGGED, pl_tx_commit, &c, &err), &err);
}

static void test_nothing_is_the_master_branch(void **state)
{
    struct names *n = *state;

    assert_names(n, "", &n->c);
    assert_names(n, "master", &n->c);
}

static void test_back_from_branch_and_id(void **state)
{
    struct names *n = *state;
    char ref[64];

    assert_names(n, "master^", &n->b);
    assert_names(n, "master^^", &n->a);
    assert_names(n, "master^2", &n->a);
    assert_names(n, n->b.commit, &n->b);
    snprintf(ref, sizeof ref, "%s^1", n->b.commit);
    assert_names(n, ref, &n->a);
}

static void test_further_back_than_there_is(void **state)
{
    struct names *n = *state;

    assert_refused(n, "master^3", PL_ENOTFOUND, "default/digits has only 2 commits before that one, not 3");
    assert_refused(n, "master^^^", PL_ENOTFOUND, "only 2 commits before");
    branch(&n->w, "old", "master^1");
    assert_names(n, "old", &n->b);
    assert_refused(n, "old^2", PL_ENOTFOUND, "only 1 commit before that one, not 2");
}

static void test_the_start_of_an_id(void **state)
{
    struct names *n = *state;
    char ref[PL_ID_HEX + 1];
    struct pl_commit_row row;
    struct pl_err err;

    plant(n, "beefbeef00000000000000000000000a");
    plant(n, "beefbeef00000000000000000000000b");
    assert_ok(find(n, "beefbeef00000000000000000000000", &row, &err) == PL_ECONFLICT ? 0 : PL_EINTERNAL, &err);
    assert_refused(n, "beef", PL_ECONFLICT, "\"beef\" is the start of several commit ids: give more digits");
    assert_ok(find(n, "beefbeef00000000000000000000000b", &row, &err), &err);
    plant(n, "dead0000000000000000000000000000");
    assert_ok(find(n, "dead", &row, &err), &err);
    assert_string_equal(row.run, "dead0000000000000000000000000000");
    assert_refused(n, "feed", PL_ENOTFOUND, "default/digits has no branch or commit \"feed\"");
    assert_refused(n, "feed0000000000000000000000000000", PL_ENOTFOUND, "has no commit \"feed0000");
    snprintf(ref, sizeof ref, "%.31s", n->c.commit);
    assert_names(n, ref, &n->c);
}

static void test_a_branch_wins_over_the_start_of_an_id(void **state)
{
    struct names *n = *state;

    plant(n, "beef0000000000000000000000000000");
    branch(&n->w, "beef", "master^2");
    assert_names(n, "beef", &n->a);
}

static void test_a_branch_without_a_commit_says_so(void **state)
{
    struct names *n = *state;

    branch(&n->w, "empty", "");
    assert_refused(n, "empty", PL_ENOTFOUND, "branch default/digits@empty has no commit yet");
    assert_refused(n, "none", PL_ENOTFOUND, "default/digits has no branch \"none\"");
    assert_refused(n, "a b", PL_ENAME, "");
}

static void test_the_nearest_repo_is_proposed(void **state)
{
    struct names *n = *state;
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(n->w.db);
    struct pl_repo_row row;
    struct pl_err err = {0};

    assert_int_equal(pl_db_repo_find(rd.conn, "default", "digist", &row, &err), PL_ENOTFOUND);
    assert_string_equal(err.msg, "repo \"digist\" does not exist in project \"default\"");
    assert_string_equal(err.hint, "did you mean \"digits\"?");
    assert_int_equal(pl_db_repo_find(rd.conn, "default", "weather", &row, &err), PL_ENOTFOUND);
    assert_string_equal(err.hint, "pipelinectl create repo weather");
    assert_int_equal(pl_db_repo_find(rd.conn, "vision", "digits", &row, &err), PL_ENOTFOUND);
    assert_string_equal(err.hint, "there is no such project: pipelinectl create project vision");
    assert_int_equal(pl_db_repo_find(rd.conn, "default", "digits", &row, &err), 0);
    assert_false(row.output);
}

static void test_commits_of_other_repos_do_not_count(void **state)
{
    struct names *n = *state;
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = {0};
    struct pl_repo_args repo = {.project = "default", .name = "other"};
    struct pl_commit_row row;
    struct pl_err err = {0};

    assert_ok(pl_db_run(n->w.db, PL_TX_LOGGED, pl_tx_repo_create, &repo, &err), &err);
    rd = pl_db_read(n->w.db);
    assert_int_equal(pl_db_commit_named(rd.conn, "default", "other", n->a.commit, &row, &err), PL_ENOTFOUND);
    assert_int_equal(pl_db_commit_named(rd.conn, "default", "other", "master", &row, &err), PL_ENOTFOUND);
}

static bool may_read(const void *who, const char *project, const char *name)
{
    (void)project;
    (void)name;
    return *(const bool *)who;
}

static void test_a_run_by_its_first_digits(void **state)
{
    struct names *n = *state;
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = {0};
    char id[PL_ID_HEX + 1] = "", prefix[PL_ID_HEX + 1];
    struct pl_err err = {0};

    plant(n, "beefbeef00000000000000000000000a");
    plant(n, "beefbeef00000000000000000000000b");
    rd = pl_db_read(n->w.db);
    assert_ok(pl_db_run_find(rd.conn, n->b.commit, id, &err), &err);
    assert_string_equal(id, n->b.commit);
    snprintf(prefix, sizeof prefix, "%.31s", n->c.commit);
    assert_ok(pl_db_run_find(rd.conn, prefix, id, &err), &err);
    assert_string_equal(id, n->c.commit);
    assert_int_equal(pl_db_run_find(rd.conn, "beef", id, &err), PL_ECONFLICT);
    assert_string_equal(err.msg, "\"beef\" is the start of several run ids: give more digits");
    assert_int_equal(pl_db_run_find(rd.conn, "feed", id, &err), PL_ENOTFOUND);
    assert_int_equal(pl_db_run_find(rd.conn, "fee", id, &err), PL_EINVAL);
    assert_int_equal(pl_db_run_find(rd.conn, "", id, &err), PL_EINVAL);
    assert_int_equal(pl_db_run_find(rd.conn, "BEEF", id, &err), PL_EINVAL);
    assert_int_equal(pl_db_run_find(rd.conn, "beefbeef00000000000000000000000a0", id, &err), PL_EINVAL);
    assert_string_equal(id, n->c.commit);
    for (int seen = 0; seen < 2; seen++) { /* a run that the reader does not see is not there, and counts for nothing */
        const bool who = seen != 0;

        rd.conn->readable = may_read;
        rd.conn->who = &who;
        assert_int_equal(pl_db_run_find(rd.conn, "beef", id, &err), who ? PL_ECONFLICT : PL_ENOTFOUND);
        assert_int_equal(pl_db_run_find(rd.conn, prefix, id, &err), who ? 0 : PL_ENOTFOUND);
    }
}

static void run_id(int i, char ret[PL_ID_HEX + 1])
{
    snprintf(ret, PL_ID_HEX + 1, "%08x%024d", (unsigned)i * 2654435761u, i);
}

enum { TRACED = PL_RUN_TRACES_MAX + 3 };

static int trace_runs(struct pl_tx *tx, void *arg, struct pl_err *err)
{
    struct pl_conn *c = pl_tx_conn(tx);
    char id[PL_ID_HEX + 1];
    int r = 0;

    (void)arg;
    for (int i = 0; r >= 0 && i < TRACED; i++) {
        run_id(i, id);
        r = pl_sql_exec(c, err, "INSERT INTO run(id, seq, ord, state, created_us) VALUES (?, 1, ?, 'success', 1)", "si", id,
                        (int64_t)1000 + i);
        r = r < 0 ? r : pl_db_run_trace_write(c, id, id, err);
    }
    return PL_MIN(r, 0);
}

/* Ids are random: only the order of the runs tells which are the oldest. */
static void test_the_newest_runs_keep_their_traces(void **state)
{
    struct names *n = *state;
    struct pl_err err = {0};
    int64_t rows;

    assert_ok(pl_db_run(n->w.db, PL_TX_UNLOGGED, trace_runs, NULL, &err), &err);
    {
        _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(n->w.db);

        for (int i = 0; i < TRACED; i++) {
            _cleanup_free_ char *kept = NULL;
            char id[PL_ID_HEX + 1];

            run_id(i, id);
            assert_ok(pl_db_run_trace_read(rd.conn, id, &kept, &err), &err);
            assert_true(i < TRACED - PL_RUN_TRACES_MAX ? kept == NULL : pl_streq(kept, id));
        }
        assert_ok(pl_sql_int(rd.conn, &err, &rows, "SELECT count(*) FROM meta WHERE key GLOB 'traceparent/*'", ""), &err);
    }
    assert_int_equal(rows, PL_RUN_TRACES_MAX);
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_nothing_is_the_master_branch),
        T(test_back_from_branch_and_id),
        T(test_further_back_than_there_is),
        T(test_the_start_of_an_id),
        T(test_a_branch_wins_over_the_start_of_an_id),
        T(test_a_branch_without_a_commit_says_so),
        T(test_the_nearest_repo_is_proposed),
        T(test_commits_of_other_repos_do_not_count),
        T(test_a_run_by_its_first_digits),
        T(test_the_newest_runs_keep_their_traces),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
