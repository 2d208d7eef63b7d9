/* A crash, or a failure, at every single write, sync and rename that the workload of db_world.h makes, in the store, the log and SQLite,
 * also one that stays until there is room again: what was acknowledged is there, nothing is half there, the log alone gives the same database, and work goes on. */
// link: pl_db
#include "crash_sweep.h"
#include "db_world.h"

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
    };

    return cmocka_run_group_tests(tests, before_all, after_all);
}
