// link: storage/base storage/system
/* io: whole reads and writes, what is left when the disk fails, and who goes first (patience). */
#include "tests/support/fixtures/store_fixture.h"

#include "storage/system/sync_priority.h"

#include <fcntl.h>
#include <linux/fs.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/wait.h>

static char *dir;

static int setup(void **state)
{
    (void)state;
    dir = fixture_dir();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    for (int i = 0; i < PL_IO_CALLS; i++)
        pl_io_fail_nth((enum pl_io_call)i, 0, 0);
    fixture_remove(dir);
    return 0;
}

static void a_file_is_written_and_read_whole(void **state)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {.max = 1 << 20};
    _cleanup_free_ uint8_t *bytes = fixture_alloc(1 << 20, 1);
    const char *path = fixture_path(dir, "f");
    struct pl_err err;
    struct stat st;

    (void)state;
    assert_ok(pl_io_write_file(path, bytes, 1 << 20, 0600, &err), &err);
    assert_int_equal(stat(path, &st), 0);
    assert_int_equal(st.st_mode & 0777, 0600);
    assert_ok(pl_io_read_file(path, &b, &err), &err);
    assert_int_equal(b.len, 1 << 20);
    assert_memory_equal(b.data, bytes, 1 << 20);
    b.max = (1 << 20) - 1;
    assert_int_equal(pl_io_read_file(path, &b, &err), PL_ETOOBIG);
    assert_int_equal(pl_io_read_file(fixture_path(dir, "none"), &b, &err), PL_ENOTFOUND);
    assert_ok(pl_io_write_file(path, "", 0, 0644, &err), &err);
    assert_ok(pl_io_read_file(path, &b, &err), &err);
    assert_int_equal(b.len, 0);
    b.max = 0;
    assert_ok(pl_io_read_file("/proc/self/status", &b, &err), &err); /* a file whose size says 0 */
    assert_true(b.len > 100);
}

static void a_failed_write_leaves_the_old_file_and_nothing_else(void **state)
{
    static const enum pl_io_call calls[] = {PL_IO_WRITE, PL_IO_FSYNC, PL_IO_RENAME};
    const char *path = fixture_path(dir, "f");
    struct pl_err err;

    (void)state;
    assert_ok(pl_io_write_file(path, "old", 3, 0644, &err), &err);
    for (size_t i = 0; i < PL_ARRAY_SIZE(calls); i++) {
        _cleanup_(pl_buf_finish) struct pl_buf b = {0};

        pl_io_fail_nth(calls[i], 1, ENOSPC);
        assert_int_equal(pl_io_write_file(path, "new", 3, 0644, &err), PL_ENOSPC);
        assert_ok(pl_io_read_file(path, &b, &err), &err);
        assert_string_equal(pl_buf_str(&b), "old");
        assert_int_equal(fixture_count(dir), 1);
    }
    assert_ok(pl_io_write_file(path, "new", 3, 0644, &err), &err);
}

/* Pieces that end within, at and behind what goes to the disk at a time. */
static void a_file_written_behind_has_all_its_pieces(void **state)
{
    static const size_t sizes[] = {0, 1, PL_IO_BEHIND_BYTES - 1, PL_IO_BEHIND_BYTES, 3 * PL_IO_BEHIND_BYTES + 5, 7};
    struct iovec iov[PL_ARRAY_SIZE(sizes)];
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    _cleanup_free_ uint8_t *bytes = NULL;
    const char *path = fixture_path(dir, "f");
    struct pl_err err;
    size_t all = 0;
    int fd;

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(sizes); i++)
        all += sizes[i];
    bytes = fixture_alloc(all, 1);
    for (size_t i = 0, at = 0; i < PL_ARRAY_SIZE(sizes); at += sizes[i++])
        iov[i] = (struct iovec){bytes + at, sizes[i]};
    b.max = all;
    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    assert_ok(pl_io_write_behind(fd, iov, PL_ARRAY_SIZE(sizes), path, &err), &err);
    close(fd);
    assert_ok(pl_io_read_file(path, &b, &err), &err);
    assert_int_equal(b.len, all);
    assert_memory_equal(b.data, bytes, all);
}

static void a_failed_write_behind_is_told(void **state)
{
    _cleanup_free_ uint8_t *bytes = fixture_alloc(3 * PL_IO_BEHIND_BYTES, 1);
    struct iovec iov = {bytes, 3 * PL_IO_BEHIND_BYTES};
    const char *path = fixture_path(dir, "f");
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    struct pl_err err;

    (void)state;
    pl_io_fail_nth(PL_IO_WRITE, 3, ENOSPC);
    assert_int_equal(pl_io_write_behind(fd, &iov, 1, path, &err), PL_ENOSPC);
    close(fd);
}

static void reads_at_an_offset_are_exact(void **state)
{
    const char *path = fixture_path(dir, "f");
    _cleanup_close_ int fd = open(path, O_RDWR | O_CREAT, 0644);
    char out[8] = {0};
    struct pl_err err;

    (void)state;
    assert_ok(pl_io_write(fd, "0123456789", 10, path, &err), &err);
    assert_ok(pl_io_pwrite(fd, "AB", 2, 4, path, &err), &err);
    assert_ok(pl_io_pread(fd, out, 4, 3, path, &err), &err);
    assert_memory_equal(out, "3AB6", 4);
    assert_int_equal(pl_io_pread(fd, out, 4, 7, path, &err), PL_ECORRUPT);
    assert_non_null(strstr(err.msg, "ends early"));
    lseek(fd, 8, SEEK_SET);
    assert_int_equal(pl_io_read(fd, out, 8, path, &err), 2);
    assert_ok(pl_io_fdatasync(fd, path, &err), &err);
}

static void rename_noreplace_never_replaces(void **state)
{
    struct pl_err err;

    (void)state;
    assert_ok(pl_io_write_file(fixture_path(dir, "a"), "a", 1, 0644, &err), &err);
    assert_ok(pl_io_write_file(fixture_path(dir, "b"), "b", 1, 0644, &err), &err);
    assert_int_equal(pl_io_rename_noreplace(fixture_path(dir, "a"), fixture_path(dir, "b"), &err), PL_EEXISTS);
    assert_ok(pl_io_rename_noreplace(fixture_path(dir, "a"), fixture_path(dir, "c"), &err), &err);
    assert_ok(pl_io_rename(fixture_path(dir, "c"), fixture_path(dir, "b"), &err), &err);
    assert_int_equal(fixture_count(dir), 1);
    assert_int_equal(pl_io_rename_noreplace(fixture_path(dir, "x"), fixture_path(dir, "y"), &err), PL_ENOTFOUND);
}

static void folders_are_made_with_their_parents(void **state)
{
    struct pl_err err;

    (void)state;
    assert_ok(pl_io_mkdirs(fixture_path(dir, "a/b/c"), 0755, &err), &err);
    assert_ok(pl_io_mkdirs(fixture_path(dir, "a/b/c/"), 0755, &err), &err);
    assert_int_equal(fixture_count(dir), 3);
    assert_ok(pl_io_write_file(fixture_path(dir, "a/f"), "", 0, 0644, &err), &err);
    assert_int_equal(pl_io_mkdirs(fixture_path(dir, "a/f/g"), 0755, &err), PL_EIO);
    assert_int_equal(pl_io_mkdirs(fixture_path(dir, "a/f"), 0755, &err), PL_EIO);
}

static void a_tree_is_removed_without_following_links(void **state)
{
    struct pl_err err;

    (void)state;
    assert_ok(pl_io_mkdirs(fixture_path(dir, "keep"), 0755, &err), &err);
    assert_ok(pl_io_write_file(fixture_path(dir, "keep/f"), "x", 1, 0644, &err), &err);
    assert_ok(pl_io_mkdirs(fixture_path(dir, "t/locked/inner"), 0755, &err), &err);
    assert_ok(pl_io_write_file(fixture_path(dir, "t/locked/f"), "x", 1, 0444, &err), &err);
    assert_int_equal(symlink(fixture_path(dir, "keep"), fixture_path(dir, "t/link")), 0);
    assert_int_equal(chmod(fixture_path(dir, "t/locked"), 0000), 0);
    assert_ok(pl_io_remove_tree(fixture_path(dir, "t"), &err), &err);
    assert_ok(pl_io_remove_tree(fixture_path(dir, "t"), &err), &err);
    assert_int_equal(fixture_count(dir), 2);
    assert_ok(pl_io_remove_tree(fixture_path(dir, "keep/f"), &err), &err);
    assert_int_equal(fixture_count(dir), 1);
}

static void a_tree_deeper_than_any_path_is_removed(void **state)
{
    int fd = open(dir, O_RDONLY | O_DIRECTORY);
    struct pl_err err;

    (void)state;
    for (int i = 0; i < 3000; i++) {
        int next;

        assert_int_equal(mkdirat(fd, "deep", 0755), 0);
        next = openat(fd, "deep", O_RDONLY | O_DIRECTORY);
        assert_true(next >= 0);
        close(fd);
        fd = next;
    }
    close(fd);
    assert_ok(pl_io_remove_tree(fixture_path(dir, "deep"), &err), &err);
    assert_int_equal(fixture_count(dir), 0);
}

/* Sets or clears "immutable" (chattr +i). False where the file system or the user may not. */
static bool set_immutable(const char *path, bool on)
{
    const int fd = open(path, O_RDONLY | O_CLOEXEC);
    int flags = 0;
    bool done = fd >= 0 && ioctl(fd, FS_IOC_GETFLAGS, &flags) == 0;

    flags = on ? flags | FS_IMMUTABLE_FL : flags & ~FS_IMMUTABLE_FL;
    done = done && ioctl(fd, FS_IOC_SETFLAGS, &flags) == 0;
    close(fd);
    return done;
}

static void what_cannot_be_removed_is_an_error(void **state)
{
    static const char *const names[] = {"alone", "tree/inner/f"};
    struct pl_err err = {0};

    (void)state;
    assert_ok(pl_io_mkdirs(fixture_path(dir, "tree/inner"), 0755, &err), &err);
    for (size_t i = 0; i < PL_ARRAY_SIZE(names); i++) {
        const char *path = fixture_path(dir, names[i]);
        int r;

        assert_ok(pl_io_write_file(path, "x", 1, 0600, &err), &err);
        if (!set_immutable(path, true))
            skip();
        r = pl_io_remove_tree(i == 0 ? path : fixture_path(dir, "tree"), &err);
        assert_true(set_immutable(path, false));
        assert_true(r < 0);
        assert_non_null(strstr(err.msg, strerror(EPERM)));
    }
}

/* The file that pl_io_write_file was to make is there only when the process ended after its rename. */
static void a_process_can_be_made_to_end_at_any_call(void **state)
{
    static const struct {
        enum pl_io_call call;
        int how;
        bool there;
    } rows[] = {{PL_IO_WRITE, PL_IO_EXIT_BEFORE, false}, {PL_IO_WRITE, PL_IO_EXIT_AFTER, false},
                {PL_IO_FSYNC, PL_IO_EXIT_AFTER, false},  {PL_IO_RENAME, PL_IO_EXIT_BEFORE, false},
                {PL_IO_RENAME, PL_IO_EXIT_AFTER, true},  {PL_IO_FSYNC, 0, true}};
    const char *path = fixture_path(dir, "f");

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(rows); i++) {
        pid_t pid = fork();
        int status;

        if (pid == 0) {
            pl_io_fail_nth(rows[i].call, rows[i].how ? 1 : 0, rows[i].how);
            _exit(pl_io_write_file(path, "x", 1, 0600, NULL) < 0);
        }
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), rows[i].how ? PL_IO_EXIT_STATUS : 0);
        assert_int_equal(access(path, F_OK) == 0, rows[i].there);
        unlink(path);
    }
}

/* ---- who is patient ---- */

static void *work_patiently(void *arg)
{
    int64_t *waited_us = arg;

    pl_sync_priority_set(true);
    pl_sync_priority_sync_begins(); /* its own: nobody waits for it */
    pl_sync_priority_sync_ends();
    waited_us[0] = pl_sync_priority_wait();
    pl_sync_priority_set(false);
    waited_us[1] = pl_sync_priority_wait();
    return NULL;
}

static void work_beside(int64_t waited_us[2])
{
    pthread_t thread;

    assert_int_equal(pthread_create(&thread, NULL, work_patiently, waited_us), 0);
    pthread_join(thread, NULL);
}

static void who_is_patient_waits_for_those_who_sync_and_not_for_ever(void **state)
{
    int64_t waited_us[2];

    (void)state;
    pl_sync_priority_sync_begins();
    work_beside(waited_us); /* goes on all the same */
    assert_true(waited_us[0] >= PL_SYNC_PRIORITY_MAX_US && waited_us[1] == 0);
    pl_sync_priority_sync_ends();
    assert_int_equal(pl_sync_priority_wait(), 0);    /* who is not patient */
    while (work_beside(waited_us), waited_us[0] > 0) /* until the last sync is long ago */
        assert_true(waited_us[1] == 0);
}

static void syncs_of_files_and_folders_are_waited_for(void **state)
{
    _cleanup_close_ int fd = open(fixture_path(dir, "f"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    int64_t waited_us[2];
    struct pl_err err;

    (void)state;
    for (int i = 0; i < 2; i++) {
        do
            assert_ok(i ? pl_io_fsync_dir(dir, &err) : pl_io_fdatasync(fd, "f", &err), &err);
        while (work_beside(waited_us),
               waited_us[0] == 0); /* the machine was busy elsewhere for as long as it would have waited */
        assert_true(waited_us[0] > 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(a_file_is_written_and_read_whole, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failed_write_leaves_the_old_file_and_nothing_else, setup, teardown),
        cmocka_unit_test_setup_teardown(a_file_written_behind_has_all_its_pieces, setup, teardown),
        cmocka_unit_test_setup_teardown(a_failed_write_behind_is_told, setup, teardown),
        cmocka_unit_test_setup_teardown(reads_at_an_offset_are_exact, setup, teardown),
        cmocka_unit_test_setup_teardown(a_process_can_be_made_to_end_at_any_call, setup, teardown),
        cmocka_unit_test_setup_teardown(rename_noreplace_never_replaces, setup, teardown),
        cmocka_unit_test_setup_teardown(folders_are_made_with_their_parents, setup, teardown),
        cmocka_unit_test_setup_teardown(a_tree_is_removed_without_following_links, setup, teardown),
        cmocka_unit_test_setup_teardown(a_tree_deeper_than_any_path_is_removed, setup, teardown),
        cmocka_unit_test_setup_teardown(what_cannot_be_removed_is_an_error, setup, teardown),
        cmocka_unit_test_setup_teardown(who_is_patient_waits_for_those_who_sync_and_not_for_ever, setup, teardown),
        cmocka_unit_test_setup_teardown(syncs_of_files_and_folders_are_waited_for, setup, teardown),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
