// link: pipelined/db/tx pipelined/db/writer storage/base storage/system s3_mock
/* The log in a bucket: what is acknowledged is in it, whatever happens on the way; what is refused is not; and of two daemons one goes. */
#include "tests/support/fixtures/store_fixture.h"

#include "pipelined/db/tx/repo_tx.h"
#include "pipelined/db/writer/db.h"
#include "pipelined/db/writer/name_lookup.h"
#include "tests/support/s3_server/s3_mock.h"

#include <pthread.h>

static char *dir;
static struct s3_mock *mock;

static int setup(void **state)
{
    (void)state;
    dir = fixture_dir();
    mock = s3_mock_start(&(struct s3_mock_config){0});
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    if (s3_mock_violations(mock))
        fail_msg("%s", s3_mock_violation(mock));
    s3_mock_stop(mock);
    fixture_remove(dir);
    return 0;
}

/* A daemon's database over the bucket. */
struct world {
    struct pl_object_store *objects;
    struct pl_db *db;
    struct pl_err fatal;
};

static void on_fatal(void *arg, const struct pl_err *err)
{
    ((struct world *)arg)->fatal = *err;
}

static int world_open(struct world *w, const char *name, struct pl_err *err)
{
    struct pl_object_config c = {.url = "s3://" S3_MOCK_BUCKET "/x",
                                 .endpoint = s3_mock_url(mock),
                                 .region = S3_MOCK_REGION,
                                 .access_key = S3_MOCK_KEY,
                                 .secret_key = S3_MOCK_SECRET,
                                 .tmp_dir = dir,
                                 .pause_ms = 1,
                                 .stall_ms = 10000,
                                 .deadline_ms = 20000};
    struct pl_db_config db = {.dir = fixture_path(dir, name), .readers = 1, .fatal = on_fatal, .arg = w};
    int r = pl_io_mkdirs(db.dir, 0700, err);

    *w = (struct world){0};
    r = r < 0 ? r : pl_object_open(&c, &w->objects, err);
    db.objects = w->objects;
    return r < 0 ? r : pl_db_open(&db, &w->db, err);
}

static void world_close(struct world *w)
{
    w->db = pl_db_close(w->db);
    w->objects = pl_object_close(w->objects);
}

static int make_repo(struct world *w, const char *name, struct pl_err *err)
{
    struct pl_repo_args a = {.project = "default", .name = name};

    return pl_db_run(w->db, PL_TX_LOGGED, pl_tx_repo_create, &a, err);
}

static bool has_repo(struct world *w, const char *name)
{
    _cleanup_(pl_db_reading_finish) struct pl_db_reading rd = pl_db_read(w->db);
    struct pl_repo_row row;

    return pl_db_repo_find(rd.conn, "default", name, &row, NULL) == 0;
}

static void what_was_acknowledged_is_rebuilt_from_the_bucket_alone(void **state)
{
    struct world w, other;
    struct pl_err err;

    (void)state;
    assert_ok(world_open(&w, "data", &err), &err);
    assert_ok(make_repo(&w, "digits", &err), &err);
    world_close(&w);
    assert_ok(world_open(&other, "elsewhere", &err), &err);
    assert_true(has_repo(&other, "digits"));
    world_close(&other);
}

/* The answer to the log's put is lost for as long as it may be: the transaction waits, and ends well. */
static void an_unknown_put_is_asked_for_until_it_is_known(void **state)
{
    struct world w;
    struct pl_err err;

    (void)state;
    assert_ok(world_open(&w, "data", &err), &err);
    s3_mock_fault(mock, (struct s3_fault){.kind = S3_FAULT_RESET_AFTER, .method = "PUT", .key = "/log/", .times = 1});
    s3_mock_fault(mock, (struct s3_fault){
                            .kind = S3_FAULT_500, .method = "GET", .key = "/log/", .times = 40}); /* nor can it be looked at */
    assert_ok(make_repo(&w, "digits", &err), &err);
    assert_int_equal(w.fatal.code, 0);
    assert_ok(make_repo(&w, "more", &err), &err);
    world_close(&w);
}

static void what_never_got_there_fails_and_the_next_goes_on(void **state)
{
    struct world w;
    struct pl_err err;

    (void)state;
    assert_ok(world_open(&w, "data", &err), &err);
    s3_mock_fault(mock, (struct s3_fault){.kind = S3_FAULT_403, .method = "PUT", .key = "/log/", .times = 1});
    assert_int_equal(make_repo(&w, "digits", &err), PL_EFORBIDDEN);
    assert_int_equal(w.fatal.code, 0);
    assert_false(has_repo(&w, "digits"));
    assert_ok(make_repo(&w, "digits", &err), &err);
    world_close(&w);
}

static void the_older_of_two_daemons_is_fenced(void **state)
{
    struct world old, new;
    struct pl_err err;

    (void)state;
    assert_ok(world_open(&old, "old", &err), &err);
    assert_ok(make_repo(&old, "before", &err), &err);
    assert_ok(world_open(&new, "new", &err), &err);
    assert_true(has_repo(&new, "before"));
    assert_int_equal(make_repo(&old, "lost", &err), PL_EFENCED);
    assert_int_equal(old.fatal.code, PL_EFENCED);
    assert_ok(make_repo(&new, "after", &err), &err);
    assert_false(has_repo(&new, "lost"));
    world_close(&old);
    world_close(&new);
}

/* Two at once, on a network that loses, repeats and delays: PL_S3_SEEDS runs. A name that one acknowledged is in the log, in the order in
 * which it was; a name that was refused is not; what both were told is made is made by one. */
struct writer {
    struct world world;
    const char *name;
    pthread_t thread;
    bool made[12], refused[12];
};

static void *write_names(void *arg)
{
    struct writer *w = arg;
    struct pl_err err;
    char name[32];
    int r = world_open(&w->world, w->name, &err);

    for (int i = 0; r == 0 && i < 12; i++) {
        snprintf(name, sizeof name, "%s-%d", w->name, i);
        r = make_repo(&w->world, name, &err);
        w->made[i] = r == 0;
        w->refused[i] = r < 0 && r != PL_ENET && r != PL_ETIMEOUT; /* with these two it is said that nobody knows */
        r = r == PL_EIO ? 0 : r;
    }
    return NULL;
}

static void check_names(struct world *w, const struct writer *writer, uint64_t seed)
{
    char name[32];

    for (int i = 0; i < 12; i++) {
        snprintf(name, sizeof name, "%s-%d", writer->name, i);
        if (has_repo(w, name) ? writer->refused[i] : writer->made[i])
            fail_msg("seed %llu: %s", (unsigned long long)seed, name);
    }
}

static void under_any_faults_one_daemon_owns_the_log(void **state)
{
    const char *many = getenv("PL_S3_SEEDS"), *first = getenv("PL_S3_SEED");
    const uint64_t n = many ? strtoull(many, NULL, 10) / 4 + 1 : 8, from = first ? strtoull(first, NULL, 10) : 1;

    for (uint64_t seed = from; seed < from + n; seed++) {
        struct writer a = {.name = "a"}, b = {.name = "b"};
        struct world judge;
        struct pl_err err;

        s3_mock_chaos(mock, seed, 5 + (unsigned)(seed * 7 % 30));
        pthread_create(&a.thread, NULL, write_names, &a);
        pthread_create(&b.thread, NULL, write_names, &b);
        pthread_join(a.thread, NULL);
        pthread_join(b.thread, NULL);
        s3_mock_chaos(mock, 0, 0);
        world_close(&a.world);
        world_close(&b.world);
        assert_ok(world_open(&judge, "judge", &err), &err);
        check_names(&judge, &a, seed);
        check_names(&judge, &b, seed);
        world_close(&judge);
        (void)teardown(state);
        (void)setup(state);
    }
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(what_was_acknowledged_is_rebuilt_from_the_bucket_alone),
        TEST(an_unknown_put_is_asked_for_until_it_is_known),
        TEST(what_never_got_there_fails_and_the_next_goes_on),
        TEST(the_older_of_two_daemons_is_fenced),
        TEST(under_any_faults_one_daemon_owns_the_log),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
