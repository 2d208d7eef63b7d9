/* A crash, or a failure, at every single write, sync and rename that the workload of db_world.h makes, in the store, the log and SQLite:
 * what was acknowledged is there, nothing is half there, the log alone gives the same database, and work goes on. */
// link: pl_db
#include "db_world.h"
#include "sqlite_faults.h"

#include <signal.h>
#include <sys/wait.h>

/* Hundreds of forks and reopened databases: what the sanitizer keeps of freed memory, and fills, would be most of the time. */
const char *__asan_default_options(void) __attribute__((visibility("default")));
const char *__asan_default_options(void)
{
    return "quarantine_size_mb=1:malloc_context_size=4:max_malloc_fill_size=0:allocator_release_to_os_interval_ms=-1";
}

static char *expected[STEPS + 1]; /* the model after so many steps */

/* ---- places where to crash or fail ---- */

enum where { STORE_WRITE = PL_IO_WRITE, STORE_FSYNC = PL_IO_FSYNC, STORE_RENAME = PL_IO_RENAME, DATABASE = PL_IO_CALLS, WHERES };

static void arm(enum where where, uint64_t nth, int how)
{
    if (where == DATABASE)
        sqlite_fail_nth(nth, how);
    else
        pl_io_fail_nth((enum pl_io_call)where, nth, how);
}

static uint64_t calls(enum where where)
{
    return where == DATABASE ? sqlite_faults.calls : pl_io_calls((enum pl_io_call)where);
}

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

    for (int where = 0; where < WHERES; where++)
        arm((enum where)where, 0, 0);
    world_close(w);
    fixture_remove(w->dir);
    free(w);
    return 0;
}

/* An empty folder again. */
static void start_over(struct world *w)
{
    world_close(w);
    assert_int_equal(pl_io_remove_tree(w->dir, NULL), 0);
    assert_int_equal(mkdir(w->dir, 0700), 0);
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

static void finish_workload(struct world *w, size_t from)
{
    struct pl_err err = {0};

    for (size_t i = from; i < STEPS; i++)
        assert_ok(world_step(w, i, &err), &err);
}

static void check_after_crash(struct world *w, size_t acknowledged, bool go_on, const char *what)
{
    struct pl_err err = {0};
    size_t n;

    assert_ok(world_open(w, "data", &err), &err);
    n = assert_state(w, acknowledged, true, what);
    world_fsck(w);
    if (go_on) {
        finish_workload(w, n);
        assert_state(w, STEPS, false, what);
    }
    assert_log_is_enough(w, what);
}

/* ---- crashes ---- */

/* In a process of its own: the workload, a byte to `fd` for each step acknowledged. */
static void child_main(struct world *w, enum where where, uint64_t nth, int how, int fd)
{
    struct pl_err err;

    arm(where, nth, how);
    if (world_open(w, "data", &err) < 0)
        _exit(1);
    for (size_t i = 0; i < STEPS; i++)
        if (world_step(w, i, &err) < 0 || write(fd, "", 1) != 1)
            _exit(1);
    world_close(w);
    _exit(0);
}

/* Steps acknowledged. `kill_after`: it is killed as soon as so many are; SIZE_MAX: never. */
static size_t run_child(struct world *w, enum where where, uint64_t nth, int how, size_t kill_after, int *ret_status)
{
    size_t acknowledged = 0;
    int fds[2];
    pid_t pid;
    char byte;

    assert_int_equal(pipe(fds), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        child_main(w, where, nth, how, fds[1]);
    close(fds[1]);
    while (acknowledged < kill_after && read(fds[0], &byte, 1) == 1)
        acknowledged++;
    if (kill_after != SIZE_MAX)
        kill(pid, SIGKILL);
    while (read(fds[0], &byte, 1) == 1)
        acknowledged++;
    close(fds[0]);
    assert_int_equal(waitpid(pid, ret_status, 0), pid);
    return acknowledged;
}

/* At every `stride`th call. */
static void sweep_crashes(struct world *w, enum where where, int how, uint64_t stride)
{
    char what[64];
    int status = 0;
    uint64_t n;

    for (n = 1;; n += stride) {
        size_t acknowledged = run_child(w, where, n, how, SIZE_MAX, &status);

        snprintf(what, sizeof what, "crash %s call %llu of kind %d", how == PL_IO_EXIT_AFTER ? "after" : "before",
                 (unsigned long long)n, (int)where);
        if (!WIFEXITED(status) || (WEXITSTATUS(status) != PL_IO_EXIT_STATUS && WEXITSTATUS(status) != 0))
            fail_msg("%s: status %d after %zu steps", what, status, acknowledged);
        if (WEXITSTATUS(status) == 0)
            break; /* there are no more calls */
        check_after_crash(w, acknowledged, n / stride % 4 == 0, what);
        start_over(w);
    }
    assert_true(n > 2 * STEPS / 3);
    check_after_crash(w, STEPS, false, "no crash");
}

static void test_a_crash_before_any_write_of_the_store(void **state)
{
    sweep_crashes(*state, STORE_WRITE, PL_IO_EXIT_BEFORE, 1);
}

static void test_a_crash_before_any_sync_of_the_store(void **state)
{
    sweep_crashes(*state, STORE_FSYNC, PL_IO_EXIT_BEFORE, 1);
}

static void test_a_crash_after_any_rename_of_the_store(void **state)
{
    sweep_crashes(*state, STORE_RENAME, PL_IO_EXIT_AFTER, 1);
}

/* SQLite has a proof of its own; this is of how we use it. */
static void test_a_crash_before_writes_and_syncs_of_the_database(void **state)
{
    sweep_crashes(*state, DATABASE, PL_IO_EXIT_BEFORE, 19);
}

static void test_kill_9_at_random_moments(void **state)
{
    struct world *w = *state;
    uint64_t seed = 20261121;
    int status;

    for (int round = 0; round < 12; round++) {
        size_t wanted = pl_splitmix64(&seed) % STEPS;
        size_t acknowledged = run_child(w, STORE_WRITE, 0, 0, wanted, &status);

        check_after_crash(w, acknowledged, true, "kill -9");
        start_over(w);
    }
}

/* ---- failures ---- */

static void reopen(struct world *w)
{
    struct pl_err err = {0};

    world_close(w);
    assert_ok(world_open(w, "data", &err), &err);
}

/* Step `i` has failed. The database goes on with it undone, or has given up because it cannot know. Steps done now. */
static size_t after_failure(struct world *w, size_t i, const char *what)
{
    struct pl_err err = {0};

    if (!w->fatal)
        return assert_state(w, i, false, what);
    assert_int_equal(world_step(w, i, &err), PL_ESTOPPING);
    reopen(w);
    return assert_state(w, i, true, what);
}

static void run_with_failure(struct world *w, enum where where, uint64_t nth, int how, const char *what)
{
    struct pl_err err = {0};
    unsigned failures = 0;
    int r;

    arm(where, nth, how);
    r = world_open(w, "data", &err);
    if (r < 0)
        assert_ok(world_open(w, "data", &err), &err);
    for (size_t i = 0; i < STEPS;) {
        r = world_step(w, i, &err);
        if (r >= 0) {
            i++;
            continue;
        }
        if (++failures > 1)
            fail_msg("%s: step %zu fails after one failure: %s", what, i, err.msg);
        assert_true(*err.msg);
        i = after_failure(w, i, what);
    }
}

static void sweep_failures(struct world *w, enum where where, int how, uint64_t stride)
{
    char what[64];
    bool reached = true;

    for (uint64_t n = 1; reached; n += stride) {
        uint64_t before = calls(where);

        snprintf(what, sizeof what, "error %d at call %llu of kind %d", how, (unsigned long long)n, (int)where);
        run_with_failure(w, where, n, how, what);
        reached = calls(where) - before >= n;
        arm(where, 0, 0);
        assert_state(w, STEPS, false, what);
        world_fsck(w);
        if (n / stride % 4 == 0)
            assert_log_is_enough(w, what);
        start_over(w);
    }
}

static void test_a_full_disk_at_any_write_of_the_store(void **state)
{
    sweep_failures(*state, STORE_WRITE, ENOSPC, 1);
}

static void test_an_error_at_any_sync_of_the_store(void **state)
{
    sweep_failures(*state, STORE_FSYNC, EIO, 1);
}

static void test_an_error_at_any_rename_of_the_store(void **state)
{
    sweep_failures(*state, STORE_RENAME, EIO, 1);
}

static void test_a_full_disk_at_writes_of_the_database(void **state)
{
    sweep_failures(*state, DATABASE, SQLITE_FULL, 37);
}

static void test_an_error_at_writes_and_syncs_of_the_database(void **state)
{
    sweep_failures(*state, DATABASE, SQLITE_IOERR, 37);
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
    };

    return cmocka_run_group_tests(tests, before_all, after_all);
}
