/* git_fence: rlimits, no_new_privs and a Landlock ruleset, by system calls, which glibc 2.36 does not wrap. */
#include "pipelined/git/git_fence.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/prctl.h>
#include <sys/resource.h>
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

static int allow(int rules, const char *folder, uint64_t access, struct pl_err *err)
{
    _cleanup_close_ int fd = open(folder, O_PATH | O_CLOEXEC);
    const struct landlock_path_beneath_attr rule = {.allowed_access = access, .parent_fd = fd};

    if (fd < 0)
        return errno == ENOENT || errno == ENOTDIR ? 0 : pl_err_errno(err, errno, "%s", folder);
    if (syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0) < 0)
        return pl_err_errno(err, errno, "%s", folder);
    return 0;
}

static int close_in(const char *folder, const char *const *readable, size_t n_readable, struct pl_err *err)
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
        /* a rule on a file may name no rights of folders */
        r = allow(rules, needed[i], i + 1 < PL_ARRAY_SIZE(needed) ? READ : LANDLOCK_ACCESS_FS_READ_FILE, err);
    if (r == 0 && SANITIZED)
        r = allow(rules, "/proc", READ, err);
    if (r == 0)
        r = allow(rules, "/dev/null", LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE, err);
    if (r == 0 && syscall(SYS_landlock_restrict_self, rules, 0) < 0)
        r = pl_err_errno(err, errno, "cannot set Landlock rules");
    return r;
}

int pl_git_fence(const char *folder, const char *const *readable, size_t n_readable, struct pl_err *err)
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
    return close_in(folder, readable, n_readable, err);
}
