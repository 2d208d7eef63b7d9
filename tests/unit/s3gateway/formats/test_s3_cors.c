// link: pipelined/s3gateway/formats storage/base storage/s3 storage/system
/* s3_cors: rules are found by the names of their bucket, without a look-up elsewhere; those of branches and repos that
 * are no more are removed, while other threads use the rules. */
#include "tests/support/fixtures/store_fixture.h"

#include "pipelined/s3gateway/formats/s3_cors.h"
#include "pipelined/s3gateway/formats/s3_error.h"
#include "storage/s3/s3_xml.h"

#define BUCKETS 20

static char *dir;
static struct pl_s3_cors *rules;

/* Names each repo after its number, up to 1,000, and counts the look-ups. */
static size_t named;

static int name_repo(void *arg, int64_t repo_id, char ret_project[PL_NAME_MAX_BYTES + 1], char ret_repo[PL_NAME_MAX_BYTES + 1],
                     struct pl_err *err)
{
    (void)arg;
    named++;
    if (repo_id > 1000)
        return pl_err_set(err, PL_ENOTFOUND, "no such repo");
    strcpy(ret_project, "p");
    snprintf(ret_repo, PL_NAME_MAX_BYTES + 1, "r%lld", (long long)repo_id % 100);
    return 0;
}

static void reopen(void)
{
    struct pl_err err = {0};

    pl_s3_cors_close(rules);
    assert_ok(pl_s3_cors_open(dir, name_repo, NULL, &rules, &err), &err);
}

/* Returns the bucket of a branch of the repo with this number. */
static struct pl_s3_cors_bucket bucket(int64_t repo_id, int64_t created_us, const char *branch)
{
    static char names[8][32];
    static size_t next;
    char *repo = names[next++ % 8];

    snprintf(repo, sizeof *names, "r%lld", (long long)repo_id % 100);
    return (
        struct pl_s3_cors_bucket){.repo_id = repo_id, .created_us = created_us, .project = "p", .repo = repo, .branch = branch};
}

static int start(void **state)
{
    struct pl_err err = {0};

    (void)state;
    dir = fixture_dir();
    assert_ok(pl_s3_cors_open(dir, name_repo, NULL, &rules, &err), &err);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    rules = pl_s3_cors_close(rules);
    fixture_remove(dir);
    return 0;
}

static int try_put(const struct pl_s3_cors_bucket *b)
{
    static const char text[] = "<CORSConfiguration><CORSRule><AllowedMethod>GET</AllowedMethod><AllowedOrigin>*</AllowedOrigin>"
                               "</CORSRule></CORSConfiguration>";
    struct pl_s3_xml *xml = NULL;
    struct pl_err err = {0};

    assert_ok(pl_s3_xml_parse((const uint8_t *)text, sizeof text - 1, &xml, &err), &err);
    return pl_s3_cors_put(rules, b, xml, &err);
}

static void put(const struct pl_s3_cors_bucket *b)
{
    assert_int_equal(try_put(b), 0);
}

static bool has_rules(const struct pl_s3_cors_bucket *b)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    int r = pl_s3_cors_get(rules, b, &out, NULL);

    assert_true(r == 0 || r == PL_S3_NO_SUCH_CORS);
    return r == 0;
}

/* Every second branch is there, and every repo. It uses the rules as another thread might, so it must be called without the lock. */
static bool is_there(void *arg, int64_t repo_id, int64_t created_us)
{
    size_t *asked = arg;
    struct pl_s3_cors_bucket b = bucket(repo_id, created_us, created_us ? "b" : "master");

    (*asked)++;
    assert_true(has_rules(&b));
    assert_false(pl_s3_cors_is_full(rules));
    return !created_us || repo_id % 2 == 0;
}

static void check(void)
{
    for (int64_t i = 1; i <= BUCKETS; i++) {
        struct pl_s3_cors_bucket b = bucket(i, 1000 + i, "b"), master = bucket(i, 0, "master");

        assert_int_equal(has_rules(&b), i % 2 == 0);
        assert_true(has_rules(&master));
    }
}

static void test_a_sweep_asks_without_the_lock_and_removes_what_is_gone(void **state)
{
    size_t asked = 0;

    (void)state;
    for (int64_t i = 1; i <= BUCKETS; i++) {
        struct pl_s3_cors_bucket b = bucket(i, 1000 + i, "b"), master = bucket(i, 0, "master");

        put(&b);
        put(&master);
    }
    pl_s3_cors_sweep(rules, is_there, &asked);
    assert_int_equal(asked, 2 * BUCKETS);
    check();
    reopen();
    check();
}

static void test_the_rules_of_a_deleted_repo_go(void **state)
{
    struct pl_s3_cors_bucket one = bucket(1, 0, "master"), ten = bucket(10, 0, "master");

    (void)state;
    put(&one);
    put(&ten);
    pl_s3_cors_drop_repo(rules, 1);
    assert_false(has_rules(&one));
    assert_true(has_rules(&ten));
}

/* Returns whether a page may read the bucket with these names; `ret` is the bucket that allows it. */
static bool allows(const char *repo, const char *branch, struct pl_s3_cors_bucket *ret)
{
    _cleanup_(pl_s3_cors_answer_finish) struct pl_s3_cors_answer answer = {0};
    const struct pl_s3_cors_question question = {.origin = "https://page.example", .method = "GET"};
    struct pl_err err = {0};
    int r;

    *ret = (struct pl_s3_cors_bucket){.project = "p", .repo = repo, .branch = branch};
    r = pl_s3_cors_match(rules, ret, &question, &answer, &err);
    assert_true(r >= 0);
    return r;
}

/* A stranger who asks for many buckets makes no work elsewhere, whether they exist or not. */
static void test_rules_are_found_by_names_without_a_look_up(void **state)
{
    struct pl_s3_cors_bucket b = bucket(7, 1234, "b"), found;

    (void)state;
    put(&b);
    reopen();
    named = 0;
    assert_true(allows("r7", "b", &found));
    assert_int_equal(found.repo_id, 7);
    assert_int_equal(found.created_us, 1234);
    assert_false(allows("r7", "master", &found)); /* it exists, without rules */
    for (int i = 0; i < 1000; i++) {
        char repo[32];

        snprintf(repo, sizeof repo, "guess-%d", i);
        assert_false(allows(repo, "b", &found));
    }
    assert_int_equal(named, 0);
}

static void test_a_bucket_that_is_made_again_replaces_the_rules_of_its_names(void **state)
{
    struct pl_s3_cors_bucket old = bucket(7, 1000, "b"), branch = bucket(7, 2000, "b"), repo = bucket(107, 1500, "b"), found;
    struct pl_err err = {0};

    (void)state;
    put(&old);
    assert_false(has_rules(&branch));
    put(&branch);
    assert_false(has_rules(&old));
    put(&repo);
    assert_false(has_rules(&branch));
    assert_int_equal(try_put(&branch), PL_S3_NO_SUCH_BUCKET); /* a request that began before the repo was deleted */
    reopen();
    assert_true(has_rules(&repo));
    assert_true(allows("r7", "b", &found));
    assert_int_equal(found.repo_id, 107);
    assert_ok(pl_s3_cors_delete(rules, &branch, &err), &err); /* of the older one: it has none */
    assert_true(allows("r7", "b", &found));
    assert_ok(pl_s3_cors_delete(rules, &repo, &err), &err);
    reopen();
    assert_false(allows("r7", "b", &found));
}

static void test_rules_of_a_repo_that_went_meanwhile_are_not_read(void **state)
{
    struct pl_s3_cors_bucket gone = bucket(1007, 0, "master"), found;

    (void)state;
    put(&gone);
    assert_true(allows("r7", "master", &found));
    reopen();
    assert_false(allows("r7", "master", &found));
    named = 0;
    reopen(); /* the file is removed */
    assert_int_equal(named, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_sweep_asks_without_the_lock_and_removes_what_is_gone, start, stop),
        cmocka_unit_test_setup_teardown(test_the_rules_of_a_deleted_repo_go, start, stop),
        cmocka_unit_test_setup_teardown(test_rules_are_found_by_names_without_a_look_up, start, stop),
        cmocka_unit_test_setup_teardown(test_a_bucket_that_is_made_again_replaces_the_rules_of_its_names, start, stop),
        cmocka_unit_test_setup_teardown(test_rules_of_a_repo_that_went_meanwhile_are_not_read, start, stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
