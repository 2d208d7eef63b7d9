#include "pipelined/agent/seccomp.h"

#include <sched.h>
#include <seccomp.h>
#include <sys/mman.h>

static const int denied[] = {
    /* mounts and namespaces */
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
    /* the kernel's own state */
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
    /* what belongs to others */
    SCMP_SYS(keyctl),
    SCMP_SYS(add_key),
    SCMP_SYS(request_key),
    SCMP_SYS(open_by_handle_at),
    SCMP_SYS(name_to_handle_at),
};

static const int absent[] = {SCMP_SYS(io_uring_setup), SCMP_SYS(io_uring_enter), SCMP_SYS(io_uring_register)};

static const unsigned long namespaces[] = {CLONE_NEWUSER, CLONE_NEWNS,  CLONE_NEWPID,   CLONE_NEWNET,
                                           CLONE_NEWIPC,  CLONE_NEWUTS, CLONE_NEWCGROUP};

static int add_rules(scmp_filter_ctx ctx)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(denied); i++)
        r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), denied[i], 0);
    for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(absent); i++)
        r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), absent[i], 0);
    /* clone3's flags lie in memory where a filter cannot look: without it libc falls back to clone. */
    if (r == 0)
        r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
    for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(namespaces); i++) {
        const struct scmp_arg_cmp makes_namespace = SCMP_A0(SCMP_CMP_MASKED_EQ, namespaces[i], namespaces[i]);
        r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(unshare), 1, makes_namespace);
        if (r == 0)
            r = seccomp_rule_add(ctx, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(clone), 1, makes_namespace);
    }
    return r;
}

/* The architectures that it is for: 32-bit programs run under the same rules. */
static int choose_arch(scmp_filter_ctx ctx, uint32_t arch)
{
    int r = 0;

    if (arch != seccomp_arch_native()) {
        r = seccomp_arch_add(ctx, arch);
        r = r < 0 ? r : seccomp_arch_remove(ctx, SCMP_ARCH_NATIVE);
    }
    return r == 0 && arch == SCMP_ARCH_X86_64 ? seccomp_arch_add(ctx, SCMP_ARCH_X86) : r;
}

int pl_seccomp_filter_for(uint32_t arch, int *ret_fd, struct pl_err *err)
{
    _cleanup_close_ int fd = -1;
    scmp_filter_ctx ctx;
    int r;

    fd = memfd_create("pl-seccomp", MFD_CLOEXEC);
    if (fd < 0)
        return pl_err_errno(err, errno, "seccomp filter");
    ctx = seccomp_init(SCMP_ACT_ALLOW);
    if (!ctx)
        return pl_err_nomem(err);
    r = choose_arch(ctx, arch);
    if (r == 0)
        r = seccomp_attr_set(ctx, SCMP_FLTATR_CTL_OPTIMIZE, 2); /* a binary tree: less for each allowed call */
    if (r == 0)
        r = add_rules(ctx);
    if (r == 0)
        r = seccomp_export_bpf(ctx, fd);
    seccomp_release(ctx);
    if (r < 0)
        return pl_err_set(err, PL_EUNAVAILABLE, "seccomp filter: %s", strerror(-r));
    if (lseek(fd, 0, SEEK_SET) < 0)
        return pl_err_errno(err, errno, "seccomp filter");
    *ret_fd = TAKE_FD(fd);
    return 0;
}

int pl_seccomp_filter_fd(int *ret_fd, struct pl_err *err)
{
    return pl_seccomp_filter_for(seccomp_arch_native(), ret_fd, err);
}
