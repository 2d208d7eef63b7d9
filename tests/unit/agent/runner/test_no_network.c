// link: pipelined/agent/runner
/* What a command whose network was taken can still open, and that what it starts can no more. */
#include "pipelined/agent/runner/no_network.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

/* In a child without a network; what it gives. */
static int without(int (*what)(void))
{
    int status = -1;
    pid_t pid = fork();

    assert_true(pid >= 0);
    if (pid == 0)
        _exit(pl_no_network_begin() == 0 ? what() : 99);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    return WEXITSTATUS(status);
}

static int errno_of(int domain, int type)
{
    return socket(domain, type, 0) < 0 ? errno : 0;
}

static int try_inet(void)
{
    return errno_of(AF_INET, SOCK_STREAM);
}

static int try_inet6(void)
{
    return errno_of(AF_INET6, SOCK_DGRAM);
}

static int try_vsock(void)
{
    return errno_of(AF_VSOCK, SOCK_STREAM);
}

static int try_unix(void)
{
    int pair[2];

    return errno_of(AF_UNIX, SOCK_STREAM) || socketpair(AF_UNIX, SOCK_STREAM, 0, pair) < 0;
}

static int try_netlink(void)
{
    return errno_of(AF_NETLINK, SOCK_RAW);
}

static int try_ring(void)
{
    return syscall(SYS_io_uring_setup, 1, NULL) < 0 ? errno : 0;
}

static void sockets_that_leave_the_pod_are_refused(void **state)
{
    (void)state;
    assert_true(pl_no_network_works());
    assert_int_equal(without(try_inet), EAFNOSUPPORT);
    assert_int_equal(without(try_inet6), EAFNOSUPPORT);
    assert_int_equal(without(try_vsock), EAFNOSUPPORT);
    assert_int_equal(without(try_ring), ENOSYS);
}

static void what_stays_within_goes_on(void **state)
{
    (void)state;
    assert_int_equal(without(try_unix), 0);
    assert_int_equal(without(try_netlink), 0);
    assert_int_equal(errno_of(AF_INET, SOCK_STREAM), 0); /* ours is as it was */
}

static int exec_and_try(void)
{
    execl("/usr/bin/python3", "python3", "-c", "import socket, sys\ntry: socket.socket()\nexcept OSError as e: sys.exit(e.errno)",
          NULL);
    return 98;
}

static void programs_that_it_starts_have_none_either(void **state)
{
    (void)state;
    assert_int_equal(without(exec_and_try), EAFNOSUPPORT);
}

#if defined(__x86_64__)
#define X32 0x40000000

static int try_x32(void)
{
    return syscall(X32 + SYS_socket, AF_INET, SOCK_STREAM, 0) < 0 ? errno : 0;
}

/* socket(2) of the 32-bit ABI: number 359. */
static int try_i386(void)
{
    long r;

    __asm__ volatile("int $0x80"
                     : "=a"(r)
                     : "a"(359L), "b"((long)AF_INET), "c"((long)SOCK_STREAM), "d"(0L)
                     : "memory", "r8", "r9", "r10", "r11");
    return (int)(r < 0 ? -r : 0);
}

static void other_numbers_for_the_same_call_are_no_way_around(void **state)
{
    (void)state;
    assert_int_equal(without(try_x32), ENOSYS);
    assert_int_equal(without(try_i386), ENOSYS);
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sockets_that_leave_the_pod_are_refused),
        cmocka_unit_test(what_stays_within_goes_on),
        cmocka_unit_test(programs_that_it_starts_have_none_either),
#if defined(__x86_64__)
        cmocka_unit_test(other_numbers_for_the_same_call_are_no_way_around),
#endif
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
