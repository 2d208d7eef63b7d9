// link: pipelined/agent/runner pipelined/agent/sandbox pl_dep_seccomp
/* What the filters of system calls answer, on this machine's ABI and on those that it cannot run: the programs are interpreted as the kernel does
 * it, over numbers as each ABI has them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "pipelined/agent/runner/no_network.h"
#include "pipelined/agent/sandbox/seccomp.h"
#include <errno.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#define STEPS_MAX 4096

struct program {
    struct sock_filter steps[STEPS_MAX];
    size_t n;
};

static uint32_t word_at(const struct seccomp_data *call, uint32_t offset)
{
    uint32_t word;

    assert_true(offset % 4 == 0 && offset + 4 <= sizeof *call);
    memcpy(&word, (const uint8_t *)call + offset, sizeof word);
    return word;
}

static bool jumps(const struct sock_filter *step, uint32_t a)
{
    switch (BPF_OP(step->code)) {
    case BPF_JEQ:
        return a == step->k;
    case BPF_JGT:
        return a > step->k;
    case BPF_JGE:
        return a >= step->k;
    case BPF_JSET:
        return (a & step->k) != 0;
    default:
        fail_msg("a jump of kind %x", step->code);
        return false;
    }
}

/* The filter's answer (SECCOMP_RET_…). Every step leads forward, so it ends. */
static uint32_t answer(const struct program *p, const struct seccomp_data *call)
{
    uint32_t a = 0;

    for (size_t at = 0; at < p->n; at++) {
        const struct sock_filter *step = &p->steps[at];

        switch (step->code) {
        case BPF_LD | BPF_W | BPF_ABS:
            a = word_at(call, step->k);
            break;
        case BPF_ALU | BPF_AND | BPF_K:
            a &= step->k;
            break;
        case BPF_JMP | BPF_JA:
            at += step->k;
            break;
        case BPF_RET | BPF_K:
            return step->k;
        default:
            assert_int_equal(BPF_CLASS(step->code), BPF_JMP);
            at += jumps(step, a) ? step->jt : step->jf;
        }
    }
    fail_msg("the filter has no end");
    return 0;
}

static const uint32_t allowed = SECCOMP_RET_ALLOW;

/* A call and what is answered: an errno, or 0 where it is let through. */
struct row {
    const char *name;
    int nr;
    uint64_t arg;
    int refused;
    uint64_t second; /* argument */
};

static void holds(const struct program *p, uint32_t arch, const struct row *rows, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const struct seccomp_data call = {.nr = rows[i].nr, .arch = arch, .args = {rows[i].arg, rows[i].second}};
        const uint32_t got = answer(p, &call), want = rows[i].refused ? SECCOMP_RET_ERRNO | (uint32_t)rows[i].refused : allowed;

        if (got != want)
            fail_msg("%s (%d, %llx): %x, not %x", rows[i].name, rows[i].nr, (unsigned long long)rows[i].arg, got, want);
    }
}

/* ---- a command without a network, beside an agent that has one ---- */

static void no_network(uint32_t arch, struct program *p)
{
    assert_true(pl_no_network_filter(arch, p->steps));
    p->n = PL_NO_NETWORK_STEPS;
}

static void sockets_are_refused_by_the_numbers_of_x86_64(void **state)
{
    static const struct row rows[] = {{"socket AF_INET", 41, AF_INET, EAFNOSUPPORT},
                                      {"socket AF_INET6", 41, AF_INET6, EAFNOSUPPORT},
                                      {"socket AF_VSOCK", 41, AF_VSOCK, EAFNOSUPPORT},
                                      {"socket AF_UNIX", 41, AF_UNIX, 0},
                                      {"socket AF_NETLINK", 41, AF_NETLINK, 0},
                                      {"io_uring_setup", 425, 8, ENOSYS},
                                      {"x32's socket", 0x40000000 + 41, AF_INET, ENOSYS},
                                      {"x32's read", 0x40000000, 0, ENOSYS},
                                      {"read", 0, 0, 0},
                                      {"connect", 42, 3, 0},
                                      {"arm64's socket", 198, AF_INET, 0}};
    static struct program p;

    (void)state;
    no_network(AUDIT_ARCH_X86_64, &p);
    holds(&p, AUDIT_ARCH_X86_64, rows, PL_ARRAY_SIZE(rows));
}

static void sockets_are_refused_by_the_numbers_of_arm64(void **state)
{
    static const struct row rows[] = {{"socket AF_INET", 198, AF_INET, EAFNOSUPPORT},
                                      {"socket AF_INET6", 198, AF_INET6, EAFNOSUPPORT},
                                      {"socket AF_VSOCK", 198, AF_VSOCK, EAFNOSUPPORT},
                                      {"socket AF_UNIX", 198, AF_UNIX, 0},
                                      {"socket AF_NETLINK", 198, AF_NETLINK, 0},
                                      {"socketpair", 199, AF_UNIX, 0},
                                      {"io_uring_setup", 425, 8, ENOSYS},
                                      {"read", 63, 0, 0},
                                      {"openat", 56, 0, 0},
                                      {"connect", 203, 3, 0},
                                      {"pivot_root, which x86-64's socket is not", 41, AF_INET, 0}};
    static struct program p;

    (void)state;
    no_network(AUDIT_ARCH_AARCH64, &p);
    holds(&p, AUDIT_ARCH_AARCH64, rows, PL_ARRAY_SIZE(rows));
}

static void numbers_of_another_abi_are_none(void **state)
{
    static const struct {
        uint32_t own, other;
    } pairs[] = {{AUDIT_ARCH_X86_64, AUDIT_ARCH_I386},
                 {AUDIT_ARCH_X86_64, AUDIT_ARCH_AARCH64},
                 {AUDIT_ARCH_AARCH64, AUDIT_ARCH_ARM},
                 {AUDIT_ARCH_AARCH64, AUDIT_ARCH_X86_64}};
    static const struct row rows[] = {{"any", 0, 0, ENOSYS}, {"any", 41, AF_UNIX, ENOSYS}, {"any", 198, AF_UNIX, ENOSYS}};
    static struct program p;

    (void)state;
    for (size_t i = 0; i < PL_ARRAY_SIZE(pairs); i++) {
        no_network(pairs[i].own, &p);
        holds(&p, pairs[i].other, rows, PL_ARRAY_SIZE(rows));
    }
    assert_false(pl_no_network_filter(AUDIT_ARCH_PPC64LE, p.steps));
}

/* ---- a command in a sandbox ---- */

static void sandbox(uint32_t arch, struct program *p)
{
    struct pl_err err = {0};
    ssize_t n;
    int fd;

    if (pl_seccomp_filter_for(arch, &fd, &err) < 0)
        fail_msg("%s", err.msg);
    n = read(fd, p->steps, sizeof p->steps);
    close(fd);
    assert_true(n > 0 && (size_t)n % sizeof p->steps[0] == 0 && (size_t)n < sizeof p->steps);
    p->n = (size_t)n / sizeof p->steps[0];
}

#define THREAD (CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD)

static void a_sandbox_refuses_by_the_numbers_of_x86_64(void **state)
{
    static const struct row rows[] = {{"mount", 165, 0, EPERM},
                                      {"umount2", 166, 0, EPERM},
                                      {"pivot_root", 155, 0, EPERM},
                                      {"chroot", 161, 0, EPERM},
                                      {"setns", 308, 0, EPERM},
                                      {"bpf", 321, 0, EPERM},
                                      {"perf_event_open", 298, 0, EPERM},
                                      {"keyctl", 250, 0, EPERM},
                                      {"reboot", 169, 0, EPERM},
                                      {"iopl", 172, 0, EPERM},
                                      {"clone3", 435, 0, ENOSYS},
                                      {"io_uring_setup", 425, 0, ENOSYS},
                                      {"clone a thread", 56, THREAD, 0},
                                      {"clone a user namespace", 56, CLONE_NEWUSER | SIGCHLD, EPERM},
                                      {"unshare files", 272, 0x400, 0},
                                      {"unshare the network", 272, CLONE_NEWNET, EPERM},
                                      {"vmsplice", 278, 0, ENOSYS},
                                      {"fanotify_init", 300, 0, ENOSYS},
                                      {"kcmp", 312, 0, ENOSYS},
                                      {"statmount", 457, 0, ENOSYS},
                                      {"a call of a kernel to come", 900, 0, ENOSYS},
                                      {"read", 0, 0, 0},
                                      {"ptrace", 101, 0, 0},
                                      {"mbind", 237, 0, 0},
                                      {"rseq", 334, 0, 0},
                                      {"futex_waitv", 449, 0, 0},
                                      {"execve", 59, 0, 0},
                                      {"socket", 41, AF_INET, 0},
                                      {"socket AF_VSOCK", 41, AF_VSOCK, EAFNOSUPPORT},
                                      {"socket AF_VSOCK, in 64 bits", 41, 1ull << 32 | AF_VSOCK, EAFNOSUPPORT},
                                      {"ioctl TIOCSTI", 16, 0, EPERM, 0x5412},
                                      {"ioctl TIOCSTI, in 64 bits", 16, 0, EPERM, 1ull << 32 | 0x5412},
                                      {"ioctl TIOCLINUX", 16, 0, EPERM, 0x541c},
                                      {"ioctl TCGETS", 16, 0, 0, 0x5401}};
    static struct program p;

    (void)state;
    sandbox(SCMP_ARCH_X86_64, &p);
    holds(&p, AUDIT_ARCH_X86_64, rows, PL_ARRAY_SIZE(rows));
    holds(&p, AUDIT_ARCH_I386,
          (const struct row[]){{"mount of 32 bits", 21, 0, EPERM},
                               {"socket AF_VSOCK of 32 bits", 359, AF_VSOCK, EAFNOSUPPORT},
                               {"a socket by socketcall, whose family lies in memory", 102, 1, EAFNOSUPPORT},
                               {"ioctl TIOCSTI of 32 bits", 54, 0, EPERM, 0x5412},
                               {"vmsplice of 32 bits", 316, 0, ENOSYS},
                               {"a call of 32 bits to come", 900, 0, ENOSYS},
                               {"mmap2 of 32 bits", 192, 0, 0},
                               {"read of 32 bits", 3, 0, 0}},
          8);
}

static void a_sandbox_refuses_by_the_numbers_of_arm64(void **state)
{
    static const struct row rows[] = {{"mount", 40, 0, EPERM},
                                      {"umount2", 39, 0, EPERM},
                                      {"pivot_root", 41, 0, EPERM},
                                      {"chroot", 51, 0, EPERM},
                                      {"setns", 268, 0, EPERM},
                                      {"bpf", 280, 0, EPERM},
                                      {"perf_event_open", 241, 0, EPERM},
                                      {"keyctl", 219, 0, EPERM},
                                      {"add_key", 217, 0, EPERM},
                                      {"request_key", 218, 0, EPERM},
                                      {"reboot", 142, 0, EPERM},
                                      {"init_module", 105, 0, EPERM},
                                      {"finit_module", 273, 0, EPERM},
                                      {"kexec_load", 104, 0, EPERM},
                                      {"swapon", 224, 0, EPERM},
                                      {"settimeofday", 170, 0, EPERM},
                                      {"clock_settime", 112, 0, EPERM},
                                      {"adjtimex", 171, 0, EPERM},
                                      {"sethostname", 161, 0, EPERM},
                                      {"syslog", 116, 0, EPERM},
                                      {"acct", 89, 0, EPERM},
                                      {"quotactl", 60, 0, EPERM},
                                      {"userfaultfd", 282, 0, EPERM},
                                      {"open_by_handle_at", 265, 0, EPERM},
                                      {"name_to_handle_at", 264, 0, EPERM},
                                      {"open_tree", 428, 0, EPERM},
                                      {"move_mount", 429, 0, EPERM},
                                      {"fsopen", 430, 0, EPERM},
                                      {"mount_setattr", 442, 0, EPERM},
                                      {"clone3", 435, 0, ENOSYS},
                                      {"io_uring_setup", 425, 0, ENOSYS},
                                      {"io_uring_enter", 426, 0, ENOSYS},
                                      {"clone a thread", 220, THREAD, 0},
                                      {"clone a user namespace", 220, CLONE_NEWUSER | SIGCHLD, EPERM},
                                      {"clone a mount namespace", 220, CLONE_NEWNS | SIGCHLD, EPERM},
                                      {"unshare files", 97, 0x400, 0},
                                      {"unshare the network", 97, CLONE_NEWNET, EPERM},
                                      {"read", 63, 0, 0},
                                      {"openat", 56, 0, 0},
                                      {"execve", 221, 0, 0},
                                      {"socket", 198, AF_INET, 0},
                                      {"socket AF_VSOCK", 198, AF_VSOCK, EAFNOSUPPORT},
                                      {"ioctl TIOCSTI", 29, 0, EPERM, 0x5412},
                                      {"ioctl TIOCLINUX", 29, 0, EPERM, 0x541c},
                                      {"ioctl TCGETS", 29, 0, 0, 0x5401},
                                      {"vmsplice", 75, 0, ENOSYS},
                                      {"a call of a kernel to come", 900, 0, ENOSYS},
                                      {"ppoll", 73, 0, 0},
                                      {"futex", 98, 0, 0}};
    static struct program p;

    (void)state;
    sandbox(SCMP_ARCH_AARCH64, &p);
    holds(&p, AUDIT_ARCH_AARCH64, rows, PL_ARRAY_SIZE(rows));
}

static void a_sandbox_s_own_filter_is_that_of_its_machine(void **state)
{
    static struct program own, made;
    struct pl_err err = {0};
    ssize_t n;
    int fd;

    (void)state;
    assert_int_equal(pl_seccomp_filter_fd(&fd, &err), 0);
    n = read(fd, own.steps, sizeof own.steps);
    close(fd);
    sandbox(seccomp_arch_native(), &made);
    assert_int_equal((size_t)n, made.n * sizeof made.steps[0]);
    assert_memory_equal(own.steps, made.steps, (size_t)n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sockets_are_refused_by_the_numbers_of_x86_64),
        cmocka_unit_test(sockets_are_refused_by_the_numbers_of_arm64),
        cmocka_unit_test(numbers_of_another_abi_are_none),
        cmocka_unit_test(a_sandbox_refuses_by_the_numbers_of_x86_64),
        cmocka_unit_test(a_sandbox_refuses_by_the_numbers_of_arm64),
        cmocka_unit_test(a_sandbox_s_own_filter_is_that_of_its_machine),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
