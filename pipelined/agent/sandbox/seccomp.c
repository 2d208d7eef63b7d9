/* Makes two programs with libseccomp and exports each as BPF. The "allow" results of the first program are
 * rewritten into jumps to the second. */
#include "pipelined/agent/sandbox/seccomp.h"

#include <asm/ioctls.h>
#include <linux/filter.h>
#include <linux/net.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <seccomp.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>

static const int denied[] = {
    /* system calls for mounts and namespaces */
    SCMP_SYS(mount),
    SCMP_SYS(umount),
    SCMP_SYS(umount2),
    SCMP_SYS(pivot_root),
    SCMP_SYS(mount_setattr),
    SCMP_SYS(move_mount),
    SCMP_SYS(open_tree),
    SCMP_SYS(fsopen),
    SCMP_SYS(fsconfig),
    SCMP_SYS(fsmount),
    SCMP_SYS(fspick),
    SCMP_SYS(setns),
    SCMP_SYS(chroot),
    /* system calls that change or reveal the state of the kernel and the machine */
    SCMP_SYS(bpf),
    SCMP_SYS(perf_event_open),
    SCMP_SYS(userfaultfd),
    SCMP_SYS(init_module),
    SCMP_SYS(finit_module),
    SCMP_SYS(delete_module),
    SCMP_SYS(kexec_load),
    SCMP_SYS(kexec_file_load),
    SCMP_SYS(reboot),
    SCMP_SYS(swapon),
    SCMP_SYS(swapoff),
    SCMP_SYS(settimeofday),
    SCMP_SYS(clock_settime),
    SCMP_SYS(clock_adjtime),
    SCMP_SYS(adjtimex),
    SCMP_SYS(sethostname),
    SCMP_SYS(setdomainname),
    SCMP_SYS(syslog),
    SCMP_SYS(acct),
    SCMP_SYS(quotactl),
    SCMP_SYS(iopl),
    SCMP_SYS(ioperm),
    SCMP_SYS(vhangup),
    SCMP_SYS(nfsservctl),
    SCMP_SYS(lookup_dcookie),
    /* system calls that reach kernel keys, and files by handle, of other users */
    SCMP_SYS(keyctl),
    SCMP_SYS(add_key),
    SCMP_SYS(request_key),
    SCMP_SYS(open_by_handle_at),
    SCMP_SYS(name_to_handle_at),
};

static const int absent[] = {SCMP_SYS(io_uring_setup), SCMP_SYS(io_uring_enter), SCMP_SYS(io_uring_register)};

/* Allowed calls: the calls that the default profile of container runtimes allows without capabilities, minus
 * the calls in the arrays above, plus some newer calls of the same kind. Calls that libseccomp or the
 * machine does not know are left out. */
static const char allowed[] =
    "_llseek _newselect accept accept4 access alarm arch_prctl arm_fadvise64_64 arm_sync_file_range bind breakpoint brk "
    "cacheflush cachestat "
    "capget capset chdir chmod chown chown32 clock_getres clock_getres_time64 clock_gettime clock_gettime64 clock_nanosleep "
    "clock_nanosleep_time64 clone close close_range connect copy_file_range creat dup dup2 dup3 epoll_create epoll_create1 "
    "epoll_ctl "
    "epoll_ctl_old epoll_pwait epoll_pwait2 epoll_wait epoll_wait_old eventfd eventfd2 execve execveat exit exit_group faccessat "
    "faccessat2 "
    "fadvise64 fadvise64_64 fallocate fchdir fchmod fchmodat fchmodat2 fchown fchown32 fchownat fcntl fcntl64 fdatasync "
    "fgetxattr flistxattr "
    "flock fork fremovexattr fsetxattr fstat fstat64 fstatat64 fstatfs fstatfs64 fsync ftruncate ftruncate64 futex futex_requeue "
    "futex_time64 futex_wait futex_waitv futex_wake futimesat get_mempolicy get_robust_list get_thread_area getcpu getcwd "
    "getdents "
    "getdents64 getegid getegid32 geteuid geteuid32 getgid getgid32 getgroups getgroups32 getitimer getpeername getpgid getpgrp "
    "getpid "
    "getppid getpriority getrandom getresgid getresgid32 getresuid getresuid32 getrlimit getrusage getsid getsockname getsockopt "
    "gettid "
    "gettimeofday getuid getuid32 getxattr getxattrat inotify_add_watch inotify_init inotify_init1 inotify_rm_watch io_cancel "
    "io_destroy "
    "io_getevents io_pgetevents io_pgetevents_time64 io_setup io_submit ioctl ioprio_get ioprio_set ipc kill landlock_add_rule "
    "landlock_create_ruleset landlock_restrict_self lchown lchown32 lgetxattr link linkat listen listxattr listxattrat "
    "llistxattr "
    "lremovexattr lseek lsetxattr lstat lstat64 madvise map_shadow_stack mbind membarrier memfd_create memfd_secret mincore "
    "mkdir mkdirat "
    "mknod mknodat mlock mlock2 mlockall mmap mmap2 modify_ldt mprotect mq_getsetattr mq_notify mq_open mq_timedreceive "
    "mq_timedreceive_time64 mq_timedsend mq_timedsend_time64 mq_unlink mremap mseal msgctl msgget msgrcv msgsnd msync munlock "
    "munlockall "
    "munmap nanosleep newfstatat nice open openat openat2 pause personality pidfd_getfd pidfd_open pidfd_send_signal pipe pipe2 "
    "pkey_alloc "
    "pkey_free pkey_mprotect poll ppoll ppoll_time64 prctl pread64 preadv preadv2 prlimit64 process_mrelease process_vm_readv "
    "process_vm_writev pselect6 pselect6_time64 ptrace pwrite64 pwritev pwritev2 read readahead readdir readlink readlinkat "
    "readv recv "
    "recvfrom recvmmsg recvmmsg_time64 recvmsg remap_file_pages removexattr removexattrat rename renameat renameat2 "
    "restart_syscall rmdir "
    "rseq rt_sigaction rt_sigpending rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait "
    "rt_sigtimedwait_time64 "
    "rt_tgsigqueueinfo sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr sched_getparam "
    "sched_getscheduler "
    "sched_rr_get_interval sched_rr_get_interval_time64 sched_setaffinity sched_setattr sched_setparam sched_setscheduler "
    "sched_yield "
    "seccomp select semctl semget semop semtimedop semtimedop_time64 send sendfile sendfile64 sendmmsg sendmsg sendto "
    "set_mempolicy "
    "set_mempolicy_home_node set_robust_list set_thread_area set_tid_address set_tls setfsgid setfsgid32 setfsuid setfsuid32 "
    "setgid setgid32 "
    "setgroups setgroups32 setitimer setpgid setpriority setregid setregid32 setresgid setresgid32 setresuid setresuid32 "
    "setreuid setreuid32 "
    "setrlimit setsid setsockopt setuid setuid32 setxattr setxattrat shmat shmctl shmdt shmget shutdown sigaction sigaltstack "
    "signal "
    "signalfd signalfd4 sigpending sigprocmask sigreturn sigsuspend socket socketcall socketpair splice stat stat64 statfs "
    "statfs64 statx "
    "symlink symlinkat sync sync_file_range sync_file_range2 syncfs sysinfo tee tgkill time timer_create timer_delete "
    "timer_getoverrun "
    "timer_gettime timer_gettime64 timer_settime timer_settime64 timerfd timerfd_create timerfd_gettime timerfd_gettime64 "
    "timerfd_settime "
    "timerfd_settime64 times tkill truncate truncate64 ugetrlimit umask uname unlink unlinkat unshare utime utimensat "
    "utimensat_time64 "
    "utimes vfork wait4 waitid waitpid write writev ";

static const unsigned long namespaces[] = {CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWPID,   CLONE_NEWNET,
                                           CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP};

static const unsigned long terminal[] = {TIOCSTI, TIOCLINUX};

/* Adds the rules of the first program, which deny calls, some of them by their arguments. */
static int add_denied(scmp_filter_ctx ctx)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(denied); i++)
        r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), denied[i], 0);
    for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(absent); i++)
        r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), absent[i], 0);
    /* clone3 has its flags in memory, where a filter cannot read them. Without clone3, libc uses clone. */
    if (r == 0)
        r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(namespaces); i++) {
        const struct scmp_arg_cmp makes_namespace = SCMP_A0(SCMP_CMP_MASKED_EQ, namespaces[i], namespaces[i]);
        r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(unshare), 1, makes_namespace);
        if (r == 0)
            r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1, makes_namespace);
    }
    /* Denies typing into the terminal that the shell of `try` shares with its user. The kernel reads only 32
     * bits of the request number. */
    for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(terminal); i++)
        r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(ioctl), 1,
                             SCMP_A1(SCMP_CMP_MASKED_EQ, UINT32_MAX, terminal[i]));
    /* A network namespace does not isolate vsock, which connects to the host of a virtual machine. The
     * address family is an int, so 32 bits are compared. */
    if (r == 0)
        r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
                             SCMP_A0(SCMP_CMP_MASKED_EQ, UINT32_MAX, AF_VSOCK));
    return r;
}

static int add_allowed(scmp_filter_ctx ctx)
{
    int r = 0;

    for (const char *p = allowed; r == 0 && *p; p += strcspn(p, " ") + 1) {
        char name[64];
        int nr;

        snprintf(name, sizeof name, "%.*s", (int)strcspn(p, " "), p);
        nr = seccomp_syscall_resolve_name(name);
        r = nr == __NR_SCMP_ERROR ? 0 : seccomp_rule_add(ctx, SCMP_ACT_ALLOW, nr, 0);
    }
    return r;
}

/* Sets the architectures of the filter: on x86-64 also x86, so that 32-bit programs get the same rules. */
static int choose_arch(scmp_filter_ctx ctx, uint32_t arch)
{
    int r = 0;

    if (arch != seccomp_arch_native()) {
        r = seccomp_arch_add(ctx, arch);
        r = r < 0 ? r : seccomp_arch_remove(ctx, SCMP_ARCH_NATIVE);
    }
    return r == 0 && arch == SCMP_ARCH_X86_64 ? seccomp_arch_add(ctx, SCMP_ARCH_X86) : r;
}

/* Makes a BPF program whose rules come from the function `add`, and appends it to the file `fd`. 0 or a
 * negative errno. */
static int add_program(int fd, uint32_t arch, uint32_t action, int (*add)(scmp_filter_ctx ctx))
{
    scmp_filter_ctx ctx = seccomp_init(action);
    int r = ctx ? choose_arch(ctx, arch) : -ENOMEM;

    if (r == 0)
        /* compile the filter to a binary tree, which is faster for allowed calls */
        r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2);
    if (r == 0)
        r = add(ctx);
    if (r == 0)
        r = seccomp_export_bpf(ctx, fd);
    if (ctx)
        seccomp_release(ctx);
    return r;
}

/* Joins two programs: replaces each "allow" in the first `n` steps by a jump to the step after them. 0 or a
 * negative errno. */
static int join(int fd, size_t n)
{
    struct sock_filter step;

    for (size_t i = 0; i < n; i++) {
        const off_t at = (off_t)(i * sizeof step);

        if (pread(fd, &step, sizeof step, at) != sizeof step)
            return -errno;
        if (step.code != (BPF_RET | BPF_K) || step.k != SECCOMP_RET_ALLOW)
            continue;
        step = (struct sock_filter){.code = BPF_JMP | BPF_JA, .k = (uint32_t)(n - i - 1)};
        if (pwrite(fd, &step, sizeof step, at) != sizeof step)
            return -errno;
    }
    return 0;
}

int pl_seccomp_filter_for(uint32_t arch, int *ret_fd, struct pl_err *err)
{
    _cleanup_close_ int fd = memfd_create("pl-seccomp", MFD_CLOEXEC);
    off_t len;
    int r;

    if (fd < 0)
        return pl_err_errno(err, errno, "cannot make the seccomp filter");
    r = add_program(fd, arch, SCMP_ACT_ALLOW, add_denied);
    len = lseek(fd, 0, SEEK_CUR);
    r = r < 0 ? r : add_program(fd, arch, SCMP_ACT_ERRNO(ENOSYS), add_allowed);
    r = r < 0 ? r : join(fd, (size_t)len / sizeof(struct sock_filter));
    if (r < 0)
        return pl_err_set(err, PL_EUNAVAILABLE, "cannot make the seccomp filter: %s", strerror(-r));
    if (lseek(fd, 0, SEEK_SET) < 0)
        return pl_err_errno(err, errno, "cannot make the seccomp filter");
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int pl_seccomp_filter_fd(int *ret_fd, struct pl_err *err)
{
    return pl_seccomp_filter_for(seccomp_arch_native(), ret_fd, err);
}
