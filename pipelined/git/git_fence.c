/* git_fence: rlimits, no_new_privs and a Landlock ruleset, by system calls, which glibc 2.36 does not wrap. */
#include "pipelined/git/git_fence.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>

/* What the rules of Landlock's first version can name. Later versions name more (truncation, devices), which stays allowed:
 * these rights are enough to keep the process in. */
#define READ (LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define WRITE                                                                                                                    \
    (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |                            \
     LANDLOCK_ACCESS_FS_MAKE_CHAR | LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_MAKE_SOCK |   \
     LANDLOCK_ACCESS_FS_MAKE_FIFO | LANDLOCK_ACCESS_FS_MAKE_BLOCK | LANDLOCK_ACCESS_FS_MAKE_SYM)

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define SANITIZED true /* sanitizers map terabytes of address space, and read /proc */
#else
#define SANITIZED false
#endif

static int allow(int rules, const char *path, uint64_t access, struct pl_err *err)
{
    _cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);
    struct landlock_path_beneath_attr rule = {.allowed_access = access, .parent_fd = fd};
    struct stat st;

    if (fd >= 0 && fstat(fd, &st) == 0 && !S_ISDIR(st.st_mode)) /* a rule on a file may name no rights of folders */
        rule.allowed_access &= LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE;
    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? 0 : pl_err_errno(err, errno, "%s", path);
    if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
        return pl_err_errno(err, errno, "%s", path);
    return 0;
}

static int close_in(const char *folder, const char *ca, const char *const *readable, size_t n_readable, struct pl_err *err)
{
    static const char *const needed[] = {"/usr", "/lib", "/lib64", "/etc", "/run/systemd/resolve", "/dev/urandom"};
    const long version = syscall(SYS_landlock_create_ruleset, NULL, 0, LANDLOCK_CREATE_RULESET_VERSION);
    /* the first version refuses moves from folder to folder; from the second on they can be allowed */
    const uint64_t write = version >= 2 ? WRITE | LANDLOCK_ACCESS_FS_REFER : WRITE;
    const struct landlock_ruleset_attr attr = {.handled_access_fs = READ | write};
    _cleanup_close_ int rules = version < 1 ? -1 : (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof attr, 0);
    int r;

    if (rules < 0) /* the kernel has no Landlock, or it is turned off */
        return errno == ENOSYS || errno == EOPNOTSUPP ? 0 : pl_err_errno(err, errno, "cannot make Landlock rules");
    r = allow(rules, folder, READ | write, err);
    for (size_t i = 0; r == 0 && i < n_readable; i++)
        r = allow(rules, readable[i], READ, err);
    for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(needed); i++)
        r = allow(rules, needed[i], READ, err);
    if (r == 0 && *ca)
        r = allow(rules, ca, READ, err);
    if (r == 0 && SANITIZED)
        r = allow(rules, "/proc", READ, err);
    if (r == 0)
        r = allow(rules, "/dev/null", READ | WRITE, err);
    if (r == 0 && syscall(SYS_landlock_restrict_self, rules, 0) < 0)
        r = pl_err_errno(err, errno, "cannot set Landlock rules");
    return r;
}

/* Refuses system calls that neither git nor a connection needs: programs, other processes, mounts, the kernel's keys and
 * modules. What is refused fails with EPERM. Without seccomp in the kernel nothing is refused. */
static int refuse_calls(struct pl_err *err)
{
    static const char *const refused[] = {"execve",
                                          "execveat",
                                          "fork",
                                          "vfork",
                                          "ptrace",
                                          "process_vm_readv",
                                          "process_vm_writev",
                                          "pidfd_getfd",
                                          "kill",
                                          "tgkill",
                                          "tkill",
                                          "mount",
                                          "umount2",
                                          "pivot_root",
                                          "chroot",
                                          "setns",
                                          "unshare",
                                          "open_tree",
                                          "move_mount",
                                          "fsopen",
                                          "fsmount",
                                          "bpf",
                                          "perf_event_open",
                                          "userfaultfd",
                                          "io_uring_setup",
                                          "keyctl",
                                          "add_key",
                                          "request_key",
                                          "init_module",
                                          "finit_module",
                                          "delete_module",
                                          "kexec_load",
                                          "reboot",
                                          "swapon",
                                          "swapoff",
                                          "settimeofday",
                                          "clock_settime",
                                          "acct",
                                          "quotactl",
                                          "listen",
                                          "accept",
                                          "accept4",
                                          "open_by_handle_at",
                                          "name_to_handle_at"};
    scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
    int e = filter ? 0 : -ENOMEM;

    for (size_t i = 0; e == 0 && i < PL_ARRAY_SIZE(refused); i++) {
        const int number = seccomp_syscall_resolve_name(refused[i]);

        if (number != __NR_SCMP_ERROR) /* a call that libseccomp does not know yet cannot be named */
            e = seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), number, 0);
    }
    if (e == 0)
        e = seccomp_load(filter);
    if (filter)
        seccomp_release(filter);
    return e == 0 || e == -ENOSYS || e == -EINVAL ? 0 : pl_err_errno(err, -e, "cannot limit the system calls");
}

int pl_git_fence(const char *folder, const char *ca, const char *const *readable, size_t n_readable, struct pl_err *err)
{
    static const struct {
        int what;
        rlim_t max;
    } limits[] = {{RLIMIT_AS, PL_GIT_MEMORY_BYTES}, {RLIMIT_FSIZE, PL_GIT_FILE_BYTES}, {RLIMIT_CORE, 0}};

    for (size_t i = 0; i < PL_ARRAY_SIZE(limits); i++)
        if (!(SANITIZED && limits[i].what == RLIMIT_AS) &&
            setrlimit((__rlimit_resource_t)limits[i].what, &(struct rlimit){limits[i].max, limits[i].max}) < 0)
            return pl_err_errno(err, errno, "cannot limit the process");
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) < 0)
        return pl_err_errno(err, errno, "cannot give up new privileges");
    if (close_in(folder, ca, readable, n_readable, err) < 0)
        return err->code;
    return SANITIZED ? 0 : refuse_calls(err); /* sanitizers send signals, and stop threads with ptrace */
}
