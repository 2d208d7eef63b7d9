// link: pipelined/db/open_commits pipelined/db/pipelines pipelined/db/tx pipelined/db/writer pipelined/plan pipelined/spec storage/base storage/chunk storage/dataset/file storage/dataset/fsck storage/dataset/ingest storage/pack storage/store storage/system storage/tree storage/tree_edit
/* A crash, or a failure, at every single write, sync and rename of a workload on open commits: what was answered is in them, or in the
 * commit that they became, once; what was finished or dropped comes back no more. Every start is one after a power failure: objects that
 * no flush has seen are gone. Or it is one after a death of the process alone: these objects are there, and go with a later power failure,
 * unless their folder, or all of the disk, was synced meanwhile. */
#include "tests/support/faults/crash_sweep.h"
#include "tests/unit/db/open_commits/open_commits_world.h"

/* Hundreds of forks and reopened databases: what the sanitizer keeps of freed memory, and fills, would be most of the time. */
const char *__asan_default_options(void) __attribute__((visibility("default")));
const char *__asan_default_options(void)
{
    return "quarantine_size_mb=1:malloc_context_size=4:max_malloc_fill_size=0:allocator_release_to_os_interval_ms=-1";
}

/* ---- power failures ---- */

/* An object store that writes down what it took since its last flush, and has lost that when it is opened. */
static struct {
    const struct pl_object_ops *real;
    struct pl_object_ops ops;
    char store[PATH_MAX], list[PATH_MAX]; /* folder; file of keys */
    char left[PATH_MAX];                  /* the same, of what processes before this one had not flushed */
    bool stays;                           /* the machine: the next start is after a death of the process alone */
    pthread_mutex_t lock;
} power = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void power_note(const char *key)
{
    FILE *f = fopen(power.list, "ae");

    assert_non_null(f);
    assert_true(fprintf(f, "%s\n", key) > 0);
    assert_int_equal(fclose(f), 0);
}

static int power_put(struct pl_object_store *s, const char *key, const struct iovec *iov, int n, bool exclusive,
                     struct pl_err *err)
{
    int r;

    pthread_mutex_lock(&power.lock);
    r = power.real->put(s, key, iov, n, exclusive, err);
    if (r == 0)
        power_note(key);
    pthread_mutex_unlock(&power.lock);
    return r;
}

/* Calls `one` with each key of the file. */
static void each_key(const char *list, void (*one)(const char *key))
{
    FILE *f = fopen(list, "re");
    char key[PL_OBJECT_KEY_MAX + 2];

    while (f && fgets(key, sizeof key, f)) {
        key[strcspn(key, "\n")] = '\0';
        one(key);
    }
    if (f)
        fclose(f);
}

static char *flushed_folders; /* " a/b  c " */

static void note_folder(const char *key)
{
    char *more;

    assert_true(asprintf(&more, "%s %.*s ", flushed_folders, (int)(strrchr(key, '/') - key), key) > 0);
    free(flushed_folders);
    flushed_folders = more;
}

static void leave_unless_flushed(const char *key)
{
    char folder[PL_OBJECT_KEY_MAX + 4];
    FILE *f;

    snprintf(folder, sizeof folder, " %.*s ", (int)(strrchr(key, '/') - key), key);
    if (strstr(flushed_folders, folder))
        return;
    f = fopen(power.left, "ae");
    assert_non_null(f);
    assert_true(fprintf(f, "%s\n", key) > 0);
    assert_int_equal(fclose(f), 0);
}

/* A sync of a folder is one of all its names. */
static void power_flushed(void)
{
    char before[PATH_MAX + 8];

    flushed_folders = strdup("");
    each_key(power.list, note_folder);
    snprintf(before, sizeof before, "%s.before", power.left);
    if (rename(power.left, before) == 0)
        each_key(before, leave_unless_flushed);
    (void)unlink(before);
    (void)unlink(power.list);
    free(flushed_folders);
}

/* In the place of the C library's. */
int syncfs(int fd) __attribute__((visibility("default")));
int syncfs(int fd)
{
    (void)fd;
    (void)unlink(power.left);
    return 0;
}

static int power_flush(struct pl_object_store *s, struct pl_err *err)
{
    int r;

    pthread_mutex_lock(&power.lock);
    r = power.real->flush(s, err);
    if (r == 0)
        power_flushed();
    pthread_mutex_unlock(&power.lock);
    return r;
}

static void lose(const char *key)
{
    char path[2 * PATH_MAX];

    snprintf(path, sizeof path, "%s/%s", power.store, key);
    assert_true(unlink(path) == 0 || errno == ENOENT);
}

static void power_lose(void)
{
    each_key(power.list, lose);
    each_key(power.left, lose);
    (void)unlink(power.list);
    (void)unlink(power.left);
}

static void power_leave(void)
{
    flushed_folders = strdup("");
    each_key(power.list, leave_unless_flushed);
    (void)unlink(power.list);
    free(flushed_folders);
}

static int power_open(struct pl_object_store **ret, struct pl_err *err)
{
    int r;

    if (power.stays)
        power_leave();
    else
        power_lose();
    r = pl_object_file_open(power.store, ret, err);
    if (r < 0)
        return r;
    power.real = (*ret)->ops;
    power.ops = *power.real;
    power.ops.put = power_put;
    power.ops.flush = power_flush;
    (*ret)->ops = &power.ops;
    return 0;
}

/* ---- life ---- */

static int setup(void **state)
{
    struct opens_world *o = calloc(1, sizeof *o);

    if (access("/dev/shm", W_OK) == 0) /* syncs cost nothing there */
        setenv("TMPDIR", "/dev/shm", 0);
    o->w.dir = fixture_dir();
    o->w.open_objects = power_open;
    snprintf(power.store, sizeof power.store, "%s/store", o->w.dir);
    snprintf(power.list, sizeof power.list, "%s/unflushed", o->w.dir);
    snprintf(power.left, sizeof power.left, "%s/left", o->w.dir);
    power.stays = false;
    *state = o;
    return 0;
}

static int teardown(void **state)
{
    struct opens_world *o = *state;

    crash_disarm();
    opens_world_close(o);
    fixture_remove(o->w.dir);
    free(o);
    return 0;
}

/* ---- the work ---- */

static int open_world(void *world, struct pl_err *err)
{
    return opens_world_open(world, err);
}

static void close_world(void *world)
{
    opens_world_close(world);
}

static int step(void *world, size_t i, struct pl_err *err)
{
    return opens_step(world, i, err);
}

static size_t check(void *world, size_t low, bool may_be_more, const char *what)
{
    char *state = opens_state(world);
    size_t n = low;

    if (!pl_streq(state, opens_expected(low)) && may_be_more && low < OPEN_STEPS && pl_streq(state, opens_expected(low + 1)))
        n++;
    if (!pl_streq(state, opens_expected(n)))
        fail_msg("%s, after %zu steps:\n--- wanted\n%s\n--- got\n%s", what, low, opens_expected(low), state);
    free(state);
    return n;
}

static bool gave_up(void *world)
{
    return ((struct opens_world *)world)->w.fatal != 0;
}

static void look(void *world, bool closely, const char *what)
{
    struct opens_world *o = world;
    size_t files = 0;
    char *state = opens_state(o);

    for (const char *at = state; (at = strchr(at, '[')); at++)
        files++;
    if (opens_files(o) != files)
        fail_msg("%s: %zu files of open commits in state %s", what, opens_files(o), state);
    free(state);
    if (closely)
        world_fsck(&o->w);
}

static struct crash_work work(void **state)
{
    struct opens_world *o = *state;

    return (struct crash_work){.steps = OPEN_STEPS,
                               .world = o,
                               .dir = o->w.dir,
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

/* ---- first the process dies, then the power fails ---- */

static int open_after_a_kill(void *world, struct pl_err *err)
{
    int r;

    power.stays = true;
    r = opens_world_open(world, err);
    power.stays = false;
    return r;
}

static void look_after_a_power_failure(void *world, bool closely, const char *what)
{
    char *before = opens_state(world), *after;
    struct pl_err err = {0};

    opens_world_close(world);
    assert_ok(opens_world_open(world, &err), &err);
    after = opens_state(world);
    if (!pl_streq(after, before))
        fail_msg("%s, then a power failure:\n--- wanted\n%s\n--- got\n%s", what, before, after);
    free(before);
    free(after);
    look(world, closely, what);
}

static void test_what_a_killed_process_left_unsynced_survives_a_power_failure(void **state)
{
    struct crash_work w = work(state);

    w.open = open_after_a_kill;
    w.look = look_after_a_power_failure;
    crash_sweep(&w, FILE_FSYNC, PL_IO_EXIT_BEFORE, 1);
}

/* ---- tests ---- */

static void test_every_step_does_what_is_written(void **state)
{
    const struct crash_work w = work(state);
    struct pl_err err = {0};

    crash_open(&w);
    for (size_t i = 0; i < OPEN_STEPS; i++) {
        check(w.world, i, false, "before a step");
        assert_ok(step(w.world, i, &err), &err);
    }
    check(w.world, OPEN_STEPS, false, "at the end");
    look(w.world, true, "at the end");
}

static void test_a_crash_before_any_write(void **state)
{
    crashes(state, FILE_WRITE, PL_IO_EXIT_BEFORE, 1);
}

static void test_a_crash_before_any_sync(void **state)
{
    crashes(state, FILE_FSYNC, PL_IO_EXIT_BEFORE, 1);
}

static void test_a_crash_after_any_rename(void **state)
{
    crashes(state, FILE_RENAME, PL_IO_EXIT_AFTER, 1);
}

static void test_a_crash_before_writes_and_syncs_of_the_database(void **state)
{
    crashes(state, DATABASE, PL_IO_EXIT_BEFORE, 13);
}

static void test_kill_9_at_random_moments(void **state)
{
    const struct crash_work w = work(state);

    crash_kill_at_random(&w, 12);
}

static void test_a_full_disk_at_any_write(void **state)
{
    failures(state, FILE_WRITE, ENOSPC, false, 1);
}

static void test_an_error_at_any_sync(void **state)
{
    failures(state, FILE_FSYNC, EIO, false, 1);
}

static void test_an_error_at_any_rename(void **state)
{
    failures(state, FILE_RENAME, EIO, false, 1);
}

static void test_a_full_disk_at_writes_of_the_database(void **state)
{
    failures(state, DATABASE, SQLITE_FULL, false, 17);
}

static void test_a_disk_that_stays_full_from_any_write_on(void **state)
{
    failures(state, FILE_WRITE, ENOSPC, true, 1);
}

static void test_a_disk_that_stays_full_from_a_write_of_the_database_on(void **state)
{
    failures(state, DATABASE, SQLITE_FULL, true, 17);
}

static int before_all(void **state)
{
    (void)state;
    sqlite_faults_install();
    return 0;
}

int main(void)
{
#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
    const struct CMUnitTest tests[] = {
        T(test_every_step_does_what_is_written),
        T(test_a_crash_before_any_write),
        T(test_a_crash_before_any_sync),
        T(test_a_crash_after_any_rename),
        T(test_a_crash_before_writes_and_syncs_of_the_database),
        T(test_what_a_killed_process_left_unsynced_survives_a_power_failure),
        T(test_kill_9_at_random_moments),
        T(test_a_full_disk_at_any_write),
        T(test_an_error_at_any_sync),
        T(test_an_error_at_any_rename),
        T(test_a_full_disk_at_writes_of_the_database),
        T(test_a_disk_that_stays_full_from_any_write_on),
        T(test_a_disk_that_stays_full_from_a_write_of_the_database_on),
    };

    return cmocka_run_group_tests(tests, before_all, NULL);
}
