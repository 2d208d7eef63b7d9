// link: pipelined/db/pipelines pipelined/db/tx pipelined/db/writer pipelined/plan pipelined/spec storage/base storage/chunk storage/dataset/file storage/dataset/fsck storage/dataset/ingest storage/pack storage/store storage/system storage/tree storage/tree_edit
/* A crash, or a failure, at every single write, sync and rename that the workload of db_world.h makes, in the store, the log and SQLite,
 * also one that stays until there is room again: what was acknowledged is there, nothing is half there, the log alone gives the same database, and work goes on. */
#include "tests/support/faults/crash_sweep.h"
#include "tests/support/fixtures/db_world.h"

#include "pipelined/db/writer/db_recover.h"
#include "pipelined/db/writer/db_snapshot.h"

/* Hundreds of forks and reopened databases: what the sanitizer keeps of freed memory, and fills, would be most of the time. */
const char *__asan_default_options(void) __attribute__((visibility("default")));
const char *__asan_default_options(void)
{
    return "quarantine_size_mb=1:malloc_context_size=4:max_malloc_fill_size=0:allocator_release_to_os_interval_ms=-1";
}

static char *expected[STEPS + 1]; /* the model after so many steps */

static int setup(void **state)
{
    struct world *w = calloc(1, sizeof *w);

    if (access("/dev/shm", W_OK) == 0) /* syncs cost nothing there */
        setenv("TMPDIR", "/dev/shm", 0);
    w->dir = fixture_dir();
    *state = w;
    return 0;
}

static int teardown(void **state)
{
    struct world *w = *state;

    crash_disarm();
    world_close(w);
    fixture_remove(w->dir);
    free(w);
    return 0;
}

/* ---- checks ---- */

static void assert_text(const char *got, const char *want, const char *what)
{
    if (!pl_streq(got, want))
        fail_msg("%s:\n--- wanted\n%s--- got\n%s", what, want, got);
}

/* The state is that after `low` or, when `may_be_more`, after `low` + 1 steps: which. */
static size_t assert_state(struct world *w, size_t low, bool may_be_more, const char *what)
{
    char *state = world_state(w);
    bool more = may_be_more && low < STEPS && pl_streq(state, expected[low + 1]);

    if (!more)
        assert_text(state, expected[low], what);
    free(state);
    return low + more;
}

/* Another machine, which has but the store, comes to the same tables. */
static void assert_log_is_enough(struct world *w, const char *what)
{
    struct world other = {.dir = w->dir};
    struct pl_err err = {0};
    char *was = world_logged_tables(w), *is;

    world_close(w);
    assert_ok(world_open(&other, "other", &err), &err);
    is = world_logged_tables(&other);
    assert_text(is, was, what);
    world_close(&other);
    free(was);
    free(is);
}

/* ---- the work ---- */

static int open_world(void *world, struct pl_err *err)
{
    return world_open(world, "data", err);
}

static void close_world(void *world)
{
    world_close(world);
}

static int step(void *world, size_t i, struct pl_err *err)
{
    return world_step(world, i, err);
}

static size_t check(void *world, size_t low, bool may_be_more, const char *what)
{
    return assert_state(world, low, may_be_more, what);
}

static bool gave_up(void *world)
{
    return ((struct world *)world)->fatal != 0;
}

static void look(void *world, bool closely, const char *what)
{
    world_fsck(world);
    if (closely)
        assert_log_is_enough(world, what);
}

static struct crash_work work(void **state)
{
    struct world *w = *state;

    return (struct crash_work){.steps = STEPS,
                               .world = w,
                               .dir = w->dir,
                               .open = open_world,
                               .close = close_world,
                               .step = step,
                               .check = check,
                               .gave_up = gave_up,
                               .look = look};
}

static void crashes(void **state, enum where where, int how, uint64_t stride)
{
    const struct crash_work w = work(state);

    crash_sweep(&w, where, how, stride);
}

static void failures(void **state, enum where where, int how, bool lasting, uint64_t stride)
{
    const struct crash_work w = work(state);

    crash_sweep_failures(&w, where, how, lasting, stride);
}

/* ---- crashes ---- */

static void test_a_crash_before_any_write_of_the_store(void **state)
{
    crashes(state, FILE_WRITE, PL_IO_EXIT_BEFORE, 1);
}

static void test_a_crash_before_any_sync_of_the_store(void **state)
{
    crashes(state, FILE_FSYNC, PL_IO_EXIT_BEFORE, 1);
}

static void test_a_crash_after_any_rename_of_the_store(void **state)
{
    crashes(state, FILE_RENAME, PL_IO_EXIT_AFTER, 1);
}

/* SQLite has a proof of its own; this is of how we use it. */
static void test_a_crash_before_writes_and_syncs_of_the_database(void **state)
{
    crashes(state, DATABASE, PL_IO_EXIT_BEFORE, 19);
}

static void test_kill_9_at_random_moments(void **state)
{
    const struct crash_work w = work(state);

    crash_kill_at_random(&w, 12);
}

/* ---- failures ---- */

static void test_a_full_disk_at_any_write_of_the_store(void **state)
{
    failures(state, FILE_WRITE, ENOSPC, false, 1);
}

static void test_an_error_at_any_sync_of_the_store(void **state)
{
    failures(state, FILE_FSYNC, EIO, false, 1);
}

static void test_an_error_at_any_rename_of_the_store(void **state)
{
    failures(state, FILE_RENAME, EIO, false, 1);
}

static void test_a_full_disk_at_writes_of_the_database(void **state)
{
    failures(state, DATABASE, SQLITE_FULL, false, 37);
}

static void test_an_error_at_writes_and_syncs_of_the_database(void **state)
{
    failures(state, DATABASE, SQLITE_IOERR, false, 37);
}

static void test_a_disk_that_stays_full_from_any_write_of_the_store_on(void **state)
{
    failures(state, FILE_WRITE, ENOSPC, true, 1);
}

static void test_a_disk_that_stays_full_from_a_write_of_the_database_on(void **state)
{
    failures(state, DATABASE, SQLITE_FULL, true, 37);
}

/* ---- a database that is made anew ---- */

/* Half of the work, a checkpoint, the other half: where a recovery stands on both. The id of the store. */
static void work_with_checkpoint(struct world *w, uint8_t ret_store[16])
{
    struct pl_snapshot_options o = {.dir = w->dir};
    struct pl_err err = {0};
    uint64_t seq;

    assert_ok(world_open(w, "data", &err), &err);
    for (size_t i = 0; i < STEPS; i++) {
        assert_ok(world_step(w, i, &err), &err);
        if (i == STEPS / 2)
            assert_ok(pl_db_checkpoint(w->db, &o, &seq, &err), &err);
    }
    assert_true(pl_hex_decode(pl_db_store_id(w->db), ret_store, 16));
}

/* What is in place after a recovery that was given an error: nothing, or all. */
static void assert_all_or_nothing(struct world *w, int r, const char *was, const char *what)
{
    struct world other = {.dir = w->dir};
    char database[PATH_MAX];
    struct pl_err err = {0};
    char *is;

    snprintf(database, sizeof database, "%s/other/pipelined.db", w->dir);
    if (r < 0 && access(database, F_OK) == 0)
        fail_msg("%s: refused (%d), but a database is in place", what, r);
    if (world_open(&other, "other", &err) < 0)
        fail_msg("%s: after %d: %s", what, r, err.msg);
    is = world_logged_tables(&other);
    assert_text(is, was, what);
    free(is);
    assert_state(&other, STEPS, false, what);
    world_close(&other);
}

static void recover_with_errors(struct world *w, int how, bool lasting)
{
    char dir[PATH_MAX];
    unsigned failed = 0, done = 0;
    uint8_t store[16];
    char *was, what[64];

    snprintf(dir, sizeof dir, "%s/other", w->dir);
    work_with_checkpoint(w, store);
    was = world_logged_tables(w);
    for (uint64_t n = 1; done == 0; n += 7) {
        struct pl_recover_report report = {0};
        struct pl_err err = {0};
        uint64_t before = crash_calls(DATABASE);
        int r;

        snprintf(what, sizeof what, "error %d %s call %llu", how, lasting ? "from" : "at", (unsigned long long)n);
        assert_int_equal(mkdir(dir, 0700), 0);
        crash_arm(DATABASE, n, how);
        crash_last(DATABASE, lasting);
        r = pl_db_recover(dir, w->objects, store, false, &report, &err);
        done = crash_calls(DATABASE) - before < n;
        crash_disarm();
        failed += r < 0;
        if (r == 0)
            assert_true(report.recovered);
        else
            assert_true(*err.msg);
        pl_recover_report_finish(&report);
        if (n / 7 % 8 == 0 || r == 0)
            assert_all_or_nothing(w, r, was, what);
        assert_int_equal(pl_io_remove_tree(dir, NULL), 0);
    }
    assert_true(failed > 4);
    free(was);
}

static void test_a_full_disk_at_writes_of_a_recovery(void **state)
{
    recover_with_errors(*state, SQLITE_FULL, false);
}

static void test_an_error_at_writes_and_syncs_of_a_recovery(void **state)
{
    recover_with_errors(*state, SQLITE_IOERR, false);
}

static void test_a_disk_that_stays_full_from_a_write_of_a_recovery_on(void **state)
{
    recover_with_errors(*state, SQLITE_FULL, true);
}

/* ---- without either ---- */

static void test_every_step_does_what_the_model_says(void **state)
{
    struct world *w = *state;
    struct pl_err err = {0};

    assert_ok(world_open(w, "data", &err), &err);
    for (size_t i = 0; i < STEPS; i++) {
        assert_state(w, i, false, "before a step");
        assert_ok(world_step(w, i, &err), &err);
    }
    assert_state(w, STEPS, false, "at the end");
    world_fsck(w);
    assert_log_is_enough(w, "at the end");
}

static int before_all(void **state)
{
    (void)state;
    sqlite_faults_install();
    for (size_t i = 0; i <= STEPS; i++)
        expected[i] = model_after(i);
    return 0;
}

static int after_all(void **state)
{
    (void)state;
    for (size_t i = 0; i <= STEPS; i++)
        free(expected[i]);
    return 0;
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_every_step_does_what_the_model_says),
        T(test_a_crash_before_any_write_of_the_store),
        T(test_a_crash_before_any_sync_of_the_store),
        T(test_a_crash_after_any_rename_of_the_store),
        T(test_a_crash_before_writes_and_syncs_of_the_database),
        T(test_kill_9_at_random_moments),
        T(test_a_full_disk_at_any_write_of_the_store),
        T(test_an_error_at_any_sync_of_the_store),
        T(test_an_error_at_any_rename_of_the_store),
        T(test_a_full_disk_at_writes_of_the_database),
        T(test_an_error_at_writes_and_syncs_of_the_database),
        T(test_a_disk_that_stays_full_from_any_write_of_the_store_on),
        T(test_a_disk_that_stays_full_from_a_write_of_the_database_on),
        T(test_a_full_disk_at_writes_of_a_recovery),
        T(test_an_error_at_writes_and_syncs_of_a_recovery),
        T(test_a_disk_that_stays_full_from_a_write_of_a_recovery_on),
    };

    return cmocka_run_group_tests(tests, before_all, after_all);
}
