// link: pipelined/s3gateway/formats storage/base storage/s3 storage/system
/* s3_cors: rules of branches that are no more are removed, while other threads use the rules. */
#include "tests/support/fixtures/store_fixture.h"

#include "pipelined/s3gateway/formats/s3_cors.h"
#include "pipelined/s3gateway/formats/s3_error.h"
#include "storage/s3/s3_xml.h"

#define BUCKETS 20

static char *dir;
static struct pl_s3_cors *rules;

static int start(void **state)
{
    struct pl_err err = {0};

    (void)state;
    dir = fixture_dir();
    assert_ok(pl_s3_cors_open(dir, &rules, &err), &err);
    return 0;
}

static int stop(void **state)
{
    (void)state;
    rules = pl_s3_cors_close(rules);
    fixture_remove(dir);
    return 0;
}

static void put(const struct pl_s3_cors_bucket *b)
{
    static const char text[] = "<CORSConfiguration><CORSRule><AllowedMethod>GET</AllowedMethod><AllowedOrigin>*</AllowedOrigin>"
                               "</CORSRule></CORSConfiguration>";
    struct pl_s3_xml *xml = NULL;
    struct pl_err err = {0};

    assert_ok(pl_s3_xml_parse((const uint8_t *)text, sizeof text - 1, &xml, &err), &err);
    assert_ok(pl_s3_cors_put(rules, b, xml, &err), &err);
}

static bool has_rules(const struct pl_s3_cors_bucket *b)
{
    _cleanup_(pl_buf_finish) struct pl_buf out = {0};
    int r = pl_s3_cors_get(rules, b, &out, NULL);

    assert_true(r == 0 || r == PL_S3_NO_SUCH_CORS);
    return r == 0;
}

/* Every second branch is there. It uses the rules as another thread might, so it must be called without the lock. */
static bool is_there(void *arg, int64_t repo_id, int64_t created_us)
{
    size_t *asked = arg;
    struct pl_s3_cors_bucket b = {.repo_id = repo_id, .created_us = created_us, .branch = "b"};

    (*asked)++;
    assert_true(has_rules(&b));
    assert_false(pl_s3_cors_is_full(rules));
    return repo_id % 2 == 0;
}

static void check(void)
{
    for (int64_t i = 1; i <= BUCKETS; i++) {
        struct pl_s3_cors_bucket b = {.repo_id = i, .created_us = 1000 + i, .branch = "b"},
                                 master = {.repo_id = i, .branch = "master"};

        assert_int_equal(has_rules(&b), i % 2 == 0);
        assert_true(has_rules(&master));
    }
}

static void test_a_sweep_asks_without_the_lock_and_removes_what_is_gone(void **state)
{
    struct pl_err err = {0};
    size_t asked = 0;

    (void)state;
    for (int64_t i = 1; i <= BUCKETS; i++) {
        put(&(struct pl_s3_cors_bucket){.repo_id = i, .created_us = 1000 + i, .branch = "b"});
        put(&(struct pl_s3_cors_bucket){.repo_id = i, .branch = "master"});
    }
    pl_s3_cors_sweep(rules, is_there, &asked);
    assert_int_equal(asked, BUCKETS); /* master is as old as its repo */
    check();
    rules = pl_s3_cors_close(rules);
    assert_ok(pl_s3_cors_open(dir, &rules, &err), &err);
    check();
}

static void test_the_rules_of_a_deleted_repo_go(void **state)
{
    struct pl_s3_cors_bucket one = {.repo_id = 1, .branch = "master"}, ten = {.repo_id = 10, .branch = "master"};

    (void)state;
    put(&one);
    put(&ten);
    pl_s3_cors_drop_repo(rules, 1);
    assert_false(has_rules(&one));
    assert_true(has_rules(&ten));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_a_sweep_asks_without_the_lock_and_removes_what_is_gone, start, stop),
        cmocka_unit_test_setup_teardown(test_the_rules_of_a_deleted_repo_go, start, stop),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
