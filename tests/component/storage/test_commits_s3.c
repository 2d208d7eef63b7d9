// link: pipelined/db/pipelines pipelined/db/tx pipelined/db/writer pipelined/plan pipelined/spec storage/base storage/chunk storage/dataset/file storage/dataset/fsck storage/dataset/ingest storage/pack storage/store storage/system storage/tree storage/tree_edit s3_mock
/* Commits in a bucket whose server and network fail in every way: what was acknowledged is there, on the disk and from the bucket alone;
 * what was refused is not. */
#include "tests/support/fixtures/db_world.h"
#include "tests/support/s3_server/s3_mock.h"
#include "tests/support/s3_server/s3_seed_runs.h"

#define OPEN_TRIES 200
#define STEP_TRIES 200

static struct s3_mock *mock;
static char *tmp;

static int open_bucket(struct pl_object_store **ret, struct pl_err *err)
{
    const struct pl_object_config c = {.url = "s3://" S3_MOCK_BUCKET "/x",
                                       .endpoint = s3_mock_url(mock),
                                       .region = S3_MOCK_REGION,
                                       .access_key = S3_MOCK_KEY,
                                       .secret_key = S3_MOCK_SECRET,
                                       .tmp_dir = tmp,
                                       .cache_dir = fixture_path(tmp, "cache"),
                                       .pause_ms = 1,
                                       .stall_ms = 400,
                                       .deadline_ms = 20000};

    return pl_object_open(&c, ret, err);
}

static bool is_refusal(int r)
{
    return r == PL_ENET || r == PL_ETIMEOUT || r == PL_EBUSY || r == PL_EFORBIDDEN || r == PL_EIO || r == PL_ERETRY;
}

/* A run: a world, the faults it meets, and how many steps were acknowledged. */
struct seed_run {
    struct world w;
    uint64_t seed, random;
    unsigned percent, folders;
    size_t done;
};

static void assert_state(struct seed_run *s, const char *when)
{
    char *got, *want = model_after(s->done);

    s3_mock_chaos(mock, 0, 0); /* what was late comes now */
    got = world_state(&s->w);
    if (!pl_streq(got, want))
        fail_msg("seed %llu, after %zu steps, %s:\n%s\nbut it should be:\n%s", (unsigned long long)s->seed, s->done, when, got,
                 want);
    s3_mock_chaos(mock, pl_splitmix64(&s->random), s->percent);
    free(got);
    free(want);
}

static void open_anywhere(struct seed_run *s, bool anew)
{
    struct pl_err err = {0};
    char name[32];
    int r = -1;

    s->folders += anew;
    snprintf(name, sizeof name, "data-%u", s->folders);
    for (unsigned i = 0; i < OPEN_TRIES && r < 0; i++) {
        r = world_open(&s->w, name, &err);
        if (r < 0 && !is_refusal(r))
            fail_msg("seed %llu: open: %d %s", (unsigned long long)s->seed, r, err.msg);
    }
    assert_ok(r, &err);
}

static void one_step(struct seed_run *s)
{
    struct pl_err err = {0};
    int r = -1;

    for (unsigned i = 0; i < STEP_TRIES && r < 0; i++) {
        r = world_step(&s->w, s->done, &err);
        if (s->w.fatal != 0)
            fail_msg("seed %llu, step %zu: it gave up with %d: %s", (unsigned long long)s->seed, s->done, s->w.fatal, err.msg);
        if (r < 0 && !is_refusal(r))
            fail_msg("seed %llu, step %zu: %d %s", (unsigned long long)s->seed, s->done, r, err.msg);
        if (r < 0 && pl_splitmix64(&s->random) % 4 == 0)
            assert_state(s, "when one was refused");
    }
    assert_ok(r, &err);
    s->done++;
}

static void one_seed(uint64_t seed)
{
    struct seed_run s = {.w = {.open_objects = open_bucket}, .seed = seed, .random = seed};

    tmp = s.w.dir = fixture_dir();
    mock = s3_mock_start(&(struct s3_mock_config){.page_keys = 7, .cruel = true});
    s.percent = 5 + (unsigned)(pl_splitmix64(&s.random) % 30);
    s3_mock_chaos(mock, seed, s.percent);
    open_anywhere(&s, true);
    while (s.done < STEPS) {
        if (pl_splitmix64(&s.random) % 4 == 0)
            s3_mock_set_clock(mock, (int64_t)(pl_splitmix64(&s.random) % 14400) - 7200);
        one_step(&s);
        if (pl_splitmix64(&s.random) % 6 == 0) { /* it ends; sometimes its disk is lost */
            world_close(&s.w);
            open_anywhere(&s, pl_splitmix64(&s.random) % 2 == 0);
            assert_state(&s, "when it was opened again");
        }
    }
    assert_state(&s, "at the end");
    s3_mock_chaos(mock, 0, 0);
    world_close(&s.w);
    open_anywhere(&s, true);
    s.percent = 0;
    assert_state(&s, "from the bucket alone");
    world_fsck(&s.w);
    world_close(&s.w);
    if (s3_mock_violations(mock) != 0)
        fail_msg("seed %llu: %s", (unsigned long long)seed, s3_mock_violation(mock));
    s3_mock_stop(mock);
    fixture_remove(s.w.dir);
}

static void under_any_faults_commits_are_there_or_refused(void **state)
{
    (void)state;
    run_seeds(12, one_seed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(under_any_faults_commits_are_there_or_refused),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
