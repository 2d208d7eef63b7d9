// link: pipelined/db/open_commits pipelined/db/pipelines pipelined/db/tx pipelined/db/writer pipelined/plan pipelined/spec storage/base storage/chunk storage/dataset/file storage/dataset/fsck storage/dataset/ingest storage/pack storage/store storage/system storage/tree storage/tree_edit s3_mock
/* Open commits whose store is a bucket: one that refuses for a while loses nothing and changes no order; what is acknowledged with
 * `durable: bucket` comes back from the bucket alone; a daemon that was taken over acknowledges nothing. */
#include "tests/support/s3_server/s3_mock.h"
#include "tests/unit/db/open_commits/open_commits_world.h"

#include <unistd.h>

static struct s3_mock *mock;
static struct opens_world world;
static struct pl_open_commit_args gathered = {.project = "default", .repo = "digits", .branch = "master"};

static int open_bucket(struct pl_object_store **ret, struct pl_err *err)
{
    const struct pl_object_config c = {.url = "s3://" S3_MOCK_BUCKET "/x",
                                       .endpoint = s3_mock_url(mock),
                                       .region = S3_MOCK_REGION,
                                       .access_key = S3_MOCK_KEY,
                                       .secret_key = S3_MOCK_SECRET,
                                       .tmp_dir = world.w.dir,
                                       .cache_dir = fixture_path(world.w.dir, "cache"),
                                       .pause_ms = 1,
                                       .deadline_ms = 5000};

    return pl_object_open(&c, ret, err);
}

static int setup(void **state)
{
    struct pl_err err = {0};

    (void)state;
    mock = s3_mock_start(&(struct s3_mock_config){0});
    world = (struct opens_world){.w = {.open_objects = open_bucket}, .retry_ms = 20};
    world.w.dir = fixture_dir();
    assert_ok(opens_world_open(&world, &err), &err);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    opens_world_close(&world);
    if (s3_mock_violations(mock) != 0)
        fail_msg("%s", s3_mock_violation(mock));
    s3_mock_stop(mock);
    fixture_remove(world.w.dir);
    return 0;
}

static void assert_state(const char *want)
{
    char *got = opens_state(&world);

    assert_string_equal(got, want);
    free(got);
}

/* Into what gathers on the branch, which is due `window_ms` later. */
static int put(const char *puts, char letter, int64_t window_ms, struct pl_err *err)
{
    _cleanup_(pl_open_commit_unrefp) struct pl_open_commit *c = NULL;
    int r = PL_ERETRY;

    while (r == PL_ERETRY) {
        pl_open_commit_unrefp(&c);
        c = NULL;
        r = pl_open_commits_gather(world.opens, &gathered, window_ms, &c, err);
        r = r < 0 ? r : open_put(c, puts, letter, err);
    }
    return r;
}

/* ---- a bucket that refuses ---- */

static int count_failed(void *self, struct pl_open_commit *c)
{
    struct pl_open_commit_info info;

    pl_open_commit_info(c, &info);
    *(size_t *)self += *info.blocked != '\0';
    return 0;
}

/* Until so many open commits say why they are not finished. */
static void wait_for_failed(size_t want)
{
    size_t n = want + 1;

    for (int i = 0; i < 2000 && n != want; i++, usleep(5000)) {
        n = 0;
        assert_int_equal(pl_open_commits_each(world.opens, "default", "digits", count_failed, &n), 0);
    }
    assert_int_equal(n, want);
}

static void test_what_a_bucket_refuses_stays_and_is_finished_in_its_order(void **state)
{
    static const enum s3_fault_kind kinds[] = {S3_FAULT_403, S3_FAULT_500, S3_FAULT_409};
    struct pl_err err = {0};

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(kinds); i++) {
        struct pl_open_commit **list;
        size_t n;

        assert_ok(put("+a:70", (char)('p' + i), PL_REPO_COMMIT_WINDOW_MAX_MS, &err), &err);
        s3_mock_fault(mock, (struct s3_fault){.kind = kinds[i], .method = "PUT"});
        assert_ok(put("+due:1", 'd', 1, &err), &err);
        wait_for_failed(1);
        /* it is seen still, and before what gathers now */
        assert_ok(put("+a:71", (char)('q' + i), 1, &err), &err);
        assert_ok(pl_open_commits_gathering(world.opens, "default", "digits", "master", &list, &n, &err), &err);
        assert_true(n >= 2);
        for (size_t k = 0; k < n; k++)
            pl_open_commit_unref(list[k]);
        free(list);
        s3_mock_chaos(mock, 0, 0);
        wait_for_failed(0);
        assert_ok(pl_open_commits_flush(world.opens, "default", "digits", "master", &err), &err);
        assert_int_equal(opens_files(&world), 0);
    }
    assert_state("digits a:71:s due:1:d; vault");
}

/* One whose operations cannot be applied is set aside for good: the next start does not put it over what came after it. */
static void test_one_that_collides_is_set_aside_over_a_restart(void **state)
{
    struct pl_tree_op file = {.op = PL_TREE_PUT, .path = "a/b", .path_len = 3, .entry = pl_entry_inline(PL_KIND_FILE, "x", 1)};
    struct pl_push_args args = {.project = "default", .repo = "digits", .branch = "master", .list = &file, .n_list = 1};
    struct pl_push_result pushed;
    struct pl_err err = {0};

    (void)state;
    assert_ok(put("+a:70", 'p', PL_REPO_COMMIT_WINDOW_MAX_MS, &err), &err);
    assert_ok(pl_db_push(world.w.db, world.w.stores, &args, &pushed, &err), &err); /* behind the back of what gathers */
    assert_ok(put("+c:1", 'p', 1, &err), &err);
    wait_for_failed(1);
    opens_world_close(&world);
    assert_ok(opens_world_open(&world, &err), &err);
    wait_for_failed(1);
    args.list = &(struct pl_tree_op){.op = PL_TREE_DELETE_PREFIX, .path = "a", .path_len = 1}; /* now it could be applied */
    assert_ok(pl_db_push(world.w.db, world.w.stores, &args, &pushed, &err), &err);
    assert_ok(pl_open_commits_flush(world.opens, "default", "digits", "master", &err), &err);
    opens_world_close(&world);
    assert_ok(opens_world_open(&world, &err), &err);
    wait_for_failed(1);
    assert_state("digits [gathers a:70:p c:1:p]; vault");
}

/* ---- taken over ---- */

static struct world other;

/* Another daemon starts on the bucket, in a folder of its own. */
static void take_over(void)
{
    struct pl_err err = {0};

    other = (struct world){.dir = world.w.dir, .open_objects = open_bucket};
    assert_ok(world_open(&other, "other", &err), &err);
}

static void test_nothing_is_answered_after_a_takeover(void **state)
{
    struct pl_err err = {0};

    (void)state;
    for (int i = 0; i < 3; i++) { /* with looks and the log's own writer at once */
        assert_ok(put("+a:70", 'a', PL_REPO_COMMIT_WINDOW_MAX_MS, &err), &err);
        assert_ok(pl_open_commits_flush(world.opens, "default", "digits", "master", &err), &err);
    }
    assert_ok(put("+b:70", 'b', PL_REPO_COMMIT_WINDOW_MAX_MS, &err), &err);
    take_over();
    assert_int_equal(put("+c:1", 'c', PL_REPO_COMMIT_WINDOW_MAX_MS, &err), PL_EFENCED);
    assert_int_equal(world.w.fatal, PL_EFENCED);
    assert_true(pl_open_commits_flush(world.opens, "default", "digits", "master", &err) < 0);
    assert_state("digits a:70:a [gathers a:70:a b:70:b]; vault");
    world_close(&other);
}

static void test_a_look_costs_one_request_and_passes_own_objects(void **state)
{
    struct pl_err err = {0};
    unsigned before;

    (void)state;
    assert_ok(pl_db_check_owner(world.w.db, &err), &err);
    before = s3_mock_requests(mock, NULL);
    assert_ok(pl_db_check_owner(world.w.db, &err), &err);
    assert_int_equal(s3_mock_requests(mock, NULL), before + 1);
    s3_mock_fault(mock, (struct s3_fault){.kind = S3_FAULT_403, .method = "HEAD", .key = "log/"});
    assert_int_equal(put("+c:1", 'c', PL_REPO_COMMIT_WINDOW_MAX_MS, &err), PL_EFORBIDDEN); /* nobody knows: nothing is answered */
    s3_mock_chaos(mock, 0, 0);
    assert_ok(put("+c:1", 'c', PL_REPO_COMMIT_WINDOW_MAX_MS, &err), &err);
    assert_int_equal(world.w.fatal, 0);
}

/* ---- from the bucket alone ---- */

static void lose_folder(void)
{
    struct pl_err err = {0};

    opens_world_close(&world);
    assert_ok(pl_io_remove_tree(fixture_path(world.w.dir, "data"), &err), &err);
    assert_ok(pl_io_remove_tree(fixture_path(world.w.dir, "cache"), &err), &err);
    assert_ok(opens_world_open(&world, &err), &err);
}

static int count_key(void *arg, const char *key, uint64_t size, struct pl_err *err)
{
    (void)key;
    (void)size;
    (void)err;
    ++*(size_t *)arg;
    return 0;
}

static size_t saved_objects(void)
{
    struct pl_err err = {0};
    size_t n = 0;

    assert_ok(pl_object_list(world.w.objects, "open/", count_key, &n, &err), &err);
    return n;
}

static struct pl_open_commit *open_of_vault(void)
{
    const struct pl_open_commit_args args = {.project = "default", .repo = "vault", .branch = "master"};
    struct pl_open_commit *c = NULL;
    struct pl_err err = {0};

    if (pl_open_commits_find(world.opens, "default", "vault", "master", true, &c, &err) < 0)
        assert_ok(pl_open_commits_start(world.opens, &args, &c, &err), &err);
    return c;
}

static int put_vault(const char *puts, char letter, struct pl_err *err)
{
    _cleanup_(pl_open_commit_unrefp) struct pl_open_commit *c = open_of_vault();

    return open_put(c, puts, letter, err);
}

static void test_what_was_answered_comes_back_from_the_bucket_alone(void **state)
{
    struct pl_push_result pushed;
    struct pl_err err = {0};

    (void)state;
    assert_ok(put_vault("+a:70 +b:3000", 'a', &err), &err);
    assert_ok(put_vault("-a +c:1", 'b', &err), &err);
    lose_folder();
    assert_state("digits; vault [started b:3000:a c:1:b]");
    assert_ok(put_vault("+d:65", 'd', &err), &err);
    lose_folder();
    assert_state("digits; vault [started b:3000:a c:1:b d:65:d]");
    {
        _cleanup_(pl_open_commit_unrefp) struct pl_open_commit *c = open_of_vault();
        assert_ok(pl_open_commit_pack_records(c, &err), &err); /* what is in packs is not fetched twice */
        assert_ok(open_put(c, "+e:66", 'e', &err), &err);
        assert_ok(open_put(c, "+f:67", 'f', &err), &err);
    }
    lose_folder();
    assert_state("digits; vault [started b:3000:a c:1:b d:65:d e:66:e f:67:f]");
    {
        _cleanup_(pl_open_commit_unrefp) struct pl_open_commit *c = open_of_vault();
        assert_ok(pl_open_commit_finish(c, "", &pushed, &err), &err);
    }
    assert_int_equal(saved_objects(), 0);
    assert_ok(put_vault("+g:1", 'g', &err), &err);
    {
        _cleanup_(pl_open_commit_unrefp) struct pl_open_commit *c = open_of_vault();
        assert_ok(pl_open_commit_abort(c, "not wanted", &err), &err);
    }
    assert_int_equal(saved_objects(), 0);
    lose_folder();
    assert_state("digits; vault b:3000:a c:1:b d:65:d e:66:e f:67:f");
    world_fsck(&world.w);
}

static void plant(const char *commit, uint64_t offset, uint64_t epoch, unsigned try, const char *bytes)
{
    char key[200];

    snprintf(key, sizeof key, "x/open/%s/%016llx-%016llx-%08x", commit, (unsigned long long)offset, (unsigned long long)epoch,
             try);
    s3_mock_plant(mock, key, bytes, strlen(bytes));
}

/* A put that came late, one of a daemon that was taken over, and what is left of a commit whose beginning is gone. */
static void test_objects_that_nobody_was_answered_for_hurt_nothing(void **state)
{
    struct pl_err err = {0};
    char commit[PL_ID_HEX + 1], path[PATH_MAX];
    struct stat st;

    (void)state;
    s3_mock_fault(mock, (struct s3_fault){.kind = S3_FAULT_403, .method = "PUT", .key = "/open/", .times = 1});
    assert_int_equal(put_vault("+a:70", 'x', &err), PL_EFORBIDDEN);
    assert_ok(put_vault("+a:71", 'a', &err), &err);
    lose_folder(); /* the next is of a higher epoch */
    {
        _cleanup_(pl_open_commit_unrefp) struct pl_open_commit *c = open_of_vault();
        memcpy(commit, pl_open_commit_head(c)->commit, sizeof commit);
        assert_ok(open_put(c, "+b:72", 'b', &err), &err);
        snprintf(path, sizeof path, "%s/data/open/%s.spool", world.w.dir, commit);
        assert_int_equal(stat(path, &st), 0);
    }
    plant(commit, 0, 1, 0, "late");
    plant(commit, (uint64_t)st.st_size, 1, 7, "of the daemon before");
    plant("0123456789abcdef0123456789abcdef", 500, 1, 0, "no beginning");
    lose_folder();
    assert_state("digits; vault [started a:71:a b:72:b]");
    assert_ok(put_vault("+c:1", 'c', &err), &err);
    lose_folder();
    assert_state("digits; vault [started a:71:a b:72:b c:1:c]");
}

/* What the bucket does not remove when a commit ends goes later, and never comes back. */
static void test_what_is_left_of_an_ended_commit_is_swept(void **state)
{
    struct pl_push_result pushed;
    struct pl_err err = {0};

    (void)state;
    assert_ok(put_vault("+a:70", 'a', &err), &err);
    {
        _cleanup_(pl_open_commit_unrefp) struct pl_open_commit *c = open_of_vault();

        s3_mock_fault(mock, (struct s3_fault){.kind = S3_FAULT_403, .method = "DELETE", .times = 1});
        assert_int_equal(pl_open_commit_abort(c, "not wanted", &err), PL_EFORBIDDEN); /* else it could come back */
        s3_mock_fault(mock, (struct s3_fault){.kind = S3_FAULT_403, .method = "DELETE", .times = 1});
        assert_ok(pl_open_commit_finish(c, "", &pushed, &err), &err);
    }
    for (int i = 0; i < 2000 && saved_objects(); i++)
        usleep(5000);
    assert_int_equal(saved_objects(), 0);
    lose_folder();
    assert_state("digits; vault a:70:a");
}

int main(void)
{
#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)
    const struct CMUnitTest tests[] = {
        TEST(test_what_a_bucket_refuses_stays_and_is_finished_in_its_order),
        TEST(test_one_that_collides_is_set_aside_over_a_restart),
        TEST(test_nothing_is_answered_after_a_takeover),
        TEST(test_a_look_costs_one_request_and_passes_own_objects),
        TEST(test_what_was_answered_comes_back_from_the_bucket_alone),
        TEST(test_objects_that_nobody_was_answered_for_hurt_nothing),
        TEST(test_what_is_left_of_an_ended_commit_is_swept),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
