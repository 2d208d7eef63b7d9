// link: pipelined/exec/local storage/system
/* The agents' log: what was written is kept once more and no longer, and who has the file open goes on writing to it. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pipelined/exec/local/workers_log.h"
#include "storage/system/io.h"

#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

static char dir[64], log_path[128], old_path[132];

static int setup(void **state)
{
    (void)state;
    strcpy(dir, "/tmp/pl-workers-log-XXXXXX");
    assert_non_null(mkdtemp(dir));
    snprintf(log_path, sizeof log_path, "%s/logs/workers.log", dir);
    snprintf(old_path, sizeof old_path, "%s.1", log_path);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    return pl_io_remove_tree(dir, NULL);
}

static off_t size_of(const char *path)
{
    struct stat st;

    return stat(path, &st) == 0 ? st.st_size : -1;
}

/* Lines of 64 bytes that begin with their number. */
static void write_lines(int fd, unsigned first, unsigned n)
{
    char line[65];

    for (unsigned i = first; i < first + n; i++) {
        snprintf(line, sizeof line, "%-63u\n", i);
        assert_int_equal(write(fd, line, 64), 64);
    }
}

static unsigned first_line(const char *path)
{
    FILE *f = fopen(path, "r");
    unsigned n = 0;

    assert_non_null(f);
    assert_int_equal(fscanf(f, "%u", &n), 1);
    fclose(f);
    return n;
}

#define FULL (PL_WORKERS_LOG_BYTES / 64)

static void it_is_left_alone_until_it_is_full(void **state)
{
    struct pl_err err = {0};
    int fd;

    (void)state;
    assert_int_equal(pl_workers_log_bound(dir, &err), 0); /* there is none */
    fd = pl_workers_log_open(dir);
    assert_true(fd >= 0);
    write_lines(fd, 0, FULL - 1);
    assert_int_equal(pl_workers_log_bound(dir, &err), 0);
    assert_int_equal(size_of(log_path), 64 * (FULL - 1));
    assert_int_equal(size_of(old_path), -1);
    close(fd);
}

static void who_has_it_open_writes_on_and_the_last_lines_are_kept(void **state)
{
    struct pl_err err = {0};
    int fd = pl_workers_log_open(dir);

    (void)state;
    for (unsigned round = 0; round < 3; round++) {
        write_lines(fd, round * 2 * FULL, 2 * FULL);
        assert_int_equal(pl_workers_log_bound(dir, &err), 0);
        assert_int_equal(size_of(log_path), 0);
        assert_int_equal(size_of(old_path), 64 * FULL); /* the last of it */
        assert_int_equal(first_line(old_path), (round * 2 + 1) * FULL);
    }
    write_lines(fd, 77, 1);
    assert_int_equal(size_of(log_path), 64); /* at its begin, not behind a hole */
    assert_int_equal(first_line(log_path), 77);
    close(fd);
}

static void what_cannot_be_kept_is_no_reason_to_grow(void **state)
{
    struct pl_err err = {0};
    int fd = pl_workers_log_open(dir);

    (void)state;
    assert_int_equal(mkdir(old_path, 0700), 0);
    write_lines(fd, 0, FULL);
    assert_int_equal(pl_workers_log_bound(dir, &err), 0);
    assert_int_equal(size_of(log_path), 0);
    write_lines(fd, 0, FULL);
    assert_int_equal(rmdir(old_path), 0);
    pl_io_fail_nth(PL_IO_WRITE, 2, ENOSPC);
    assert_int_equal(pl_workers_log_bound(dir, &err), 0);
    pl_io_fail_nth(PL_IO_WRITE, 0, 0);
    assert_int_equal(size_of(log_path), 0);
    close(fd);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(it_is_left_alone_until_it_is_full),
        TEST(who_has_it_open_writes_on_and_the_last_lines_are_kept),
        TEST(what_cannot_be_kept_is_no_reason_to_grow),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
