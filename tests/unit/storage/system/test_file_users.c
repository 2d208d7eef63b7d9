// link: storage/base storage/system
/* holders: processes that have a file open. */
#include "tests/support/fixtures/store_fixture.h"

#include "storage/system/file_users.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>

/* A process of that name that waits to be killed; it has `fd` open, or not, and not the two others. It is there, named and all, when this
 * returns. */
static pid_t start(const char *name, int fd, bool keeps, int without, int nor)
{
    int ready[2];
    char byte;
    pid_t pid;

    assert_int_equal(pipe(ready), 0);
    pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        prctl(PR_SET_NAME, name);
        if (!keeps)
            close(fd);
        close(without);
        close(nor);
        (void)!write(ready[1], "", 1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    close(ready[0]);
    close(ready[1]);
    return pid;
}

static bool was_killed(pid_t pid)
{
    int status = 0;

    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
}

static bool is_there(pid_t pid)
{
    return waitpid(pid, NULL, WNOHANG) == 0;
}

static void those_of_the_name_that_have_it_open_are_killed(void **state)
{
    const int file = memfd_create("file", 0), other = memfd_create("other", 0), unheld = memfd_create("unheld", MFD_CLOEXEC);
    const int files[] = {-1, unheld, file, other};
    size_t killed[PL_ARRAY_SIZE(files)] = {0}, nobody[PL_ARRAY_SIZE(files)] = {0};
    pid_t left[3], others[2];

    (void)state;
    assert_true(file >= 0 && other >= 0 && unheld >= 0);
    left[0] = start("left", file, true, unheld, other);
    left[1] = start("left", file, true, unheld, other);
    left[2] = start("left", other, true, unheld, file);
    others[0] = start("left-over", file, true, unheld, other);
    others[1] = start("left", file, false, unheld, other);

    pl_file_users_kill(files, PL_ARRAY_SIZE(files), "left", killed);
    for (size_t i = 0; i < PL_ARRAY_SIZE(left); i++)
        assert_true(was_killed(left[i]));
    assert_true(killed[0] == 0 && killed[1] == 0 && killed[2] == 2 && killed[3] == 1);
    pl_file_users_kill(files, PL_ARRAY_SIZE(files), "nobody", nobody);
    for (size_t i = 0; i < PL_ARRAY_SIZE(files); i++)
        assert_int_equal(nobody[i], 0);
    for (size_t i = 0; i < PL_ARRAY_SIZE(others); i++) {
        assert_true(is_there(others[i]));
        kill(others[i], SIGKILL);
        assert_true(was_killed(others[i]));
    }
    close(file);
    close(other);
    close(unheld);
}

static void the_caller_is_not_among_them(void **state)
{
    char name[16];
    size_t killed = 0;
    const int file = memfd_create("file", 0);

    (void)state;
    assert_int_equal(prctl(PR_GET_NAME, name), 0);
    pl_file_users_kill(&file, 1, name, &killed);
    assert_int_equal(killed, 0);
    close(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(those_of_the_name_that_have_it_open_are_killed),
        cmocka_unit_test(the_caller_is_not_among_them),
    };

    return cmocka_run_group_tests_name("holders", tests, NULL, NULL);
}
