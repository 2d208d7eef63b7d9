// link: pipelined/db/open_commits pipelined/db/pipelines pipelined/db/tx pipelined/db/writer pipelined/plan pipelined/spec storage/base storage/chunk storage/dataset/file storage/dataset/fsck storage/dataset/ingest storage/pack storage/store storage/system storage/tree storage/tree_edit
/* heads: after every step of a workload they are what the database has, though they were asked for before each. */
#include "tests/support/fixtures/db_world.h"

#include "pipelined/db/open_commits/head_cache.h"

static const char *const repos[][2] = {{"default", "digits"}, {"vision", "cats"},    {"default", "prepare"},
                                       {"default", "train"},  {"default", "nobody"}, {"vision", "digits"}};
static const char *const branches[] = {"master", "dev", "none"};

/* Those that others have asked for before, against those that nobody has. */
static void assert_as_read(struct pl_head_cache *kept, struct pl_db *db, const char *project, const char *repo,
                           const char *branch, size_t step)
{
    struct pl_head_cache_entry got = {0}, want = {0};
    struct pl_head_cache *anew;
    struct pl_err err = {0};
    int r;

    assert_ok(pl_head_cache_create(db, &anew, &err), &err);
    r = pl_head_cache_get(anew, project, repo, branch, &want, NULL);
    if (pl_head_cache_get(kept, project, repo, branch, &got, NULL) != r)
        fail_msg("after step %zu: %s/%s@%s: not %d", step, project, repo, branch, r);
    if (got.repo.id != want.repo.id || got.repo.commit_window_ms != want.repo.commit_window_ms || got.branch != want.branch ||
        got.commit.id != want.commit.id || strcmp(got.commit.run, want.commit.run) != 0 ||
        !pl_hash_eq(&got.commit.root, &want.commit.root))
        fail_msg("after step %zu: %s/%s@%s is commit \"%s\", not \"%s\"", step, project, repo, branch, got.commit.run,
                 want.commit.run);
    pl_head_cache_destroy(anew);
}

static void assert_all(struct pl_head_cache *kept, struct pl_db *db, size_t step)
{
    for (size_t i = 0; i < PL_ARRAY_SIZE(repos); i++)
        for (size_t b = 0; b < PL_ARRAY_SIZE(branches); b++)
            assert_as_read(kept, db, repos[i][0], repos[i][1], branches[b], step);
}

static void set_window(struct pl_db *db, int64_t ms)
{
    struct pl_repo_args a = {.project = "default", .name = "digits", .set_window = true, .commit_window_ms = ms};
    struct pl_err err = {0};

    assert_ok(pl_db_run(db, PL_TX_LOGGED, pl_tx_repo_update, &a, &err), &err);
}

static void heads_are_those_of_the_database_after_every_change(void **state)
{
    struct world *w = calloc(1, sizeof *w);
    struct pl_head_cache *kept;
    struct pl_head_cache_entry head;
    struct pl_err err = {0};

    (void)state;
    w->dir = fixture_dir();
    assert_ok(world_open(w, "data", &err), &err);
    assert_ok(pl_head_cache_create(w->db, &kept, &err), &err);
    assert_all(kept, w->db, 0);
    for (size_t i = 0; i < STEPS; i++) {
        assert_ok(world_step(w, i, &err), &err);
        assert_all(kept, w->db, i + 1);
        assert_all(kept, w->db, i + 1);
    }
    assert_ok(pl_head_cache_get(kept, "default", "digits", "master", &head, &err), &err);
    assert_true(head.branch);
    assert_int_not_equal(head.commit.id, 0);
    pl_head_cache_destroy(kept);
    world_close(w);
    fixture_remove(w->dir);
    free(w);
}

static void options_of_a_repo_and_names_without_end(void **state)
{
    char name[3 * PL_NAME_MAX_BYTES];
    struct world *w = calloc(1, sizeof *w);
    struct pl_head_cache *kept;
    struct pl_head_cache_entry head;
    struct pl_err err = {0};

    (void)state;
    w->dir = fixture_dir();
    assert_ok(world_open(w, "data", &err), &err);
    assert_ok(pl_head_cache_create(w->db, &kept, &err), &err);
    assert_ok(world_step(w, 0, &err), &err);
    for (int64_t ms = 1000; ms <= 3000; ms += 1000) {
        set_window(w->db, ms);
        assert_ok(pl_head_cache_get(kept, "default", "digits", "master", &head, &err), &err);
        assert_int_equal(head.repo.commit_window_ms, ms);
    }
    memset(name, 'x', sizeof name - 1);
    name[sizeof name - 1] = '\0';
    for (int i = 0; i < 2; i++) {
        assert_ok(pl_head_cache_get(kept, "default", "digits", name, &head, &err), &err);
        assert_false(head.branch);
    }
    for (unsigned i = 0; i < 3 * PL_HEAD_CACHE_MAX; i++) { /* more than there is room for */
        snprintf(name, sizeof name, "b%u", i);
        assert_ok(pl_head_cache_get(kept, "default", "digits", name, &head, &err), &err);
        assert_false(head.branch);
    }
    assert_as_read(kept, w->db, "default", "digits", "master", 0);
    pl_head_cache_destroy(kept);
    world_close(w);
    fixture_remove(w->dir);
    free(w);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(heads_are_those_of_the_database_after_every_change),
        cmocka_unit_test(options_of_a_repo_and_names_without_end),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
