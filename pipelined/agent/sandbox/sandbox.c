/* Builds the argument list of bwrap step by step, and creates the folders of the work folder. */
#include "pipelined/agent/sandbox/sandbox.h"

#include "pipelined/net/agent_protocol/agent_protocol.h"
#include "pipelined/net/agent_protocol/runner_protocol.h"
#include "pipelined/nvml/nvml.h"
#include "pipelined/sandbox_view/python_env.h"

#include "storage/system/io.h"
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

/* Top-level folders that are links into /usr on systems with a merged /usr, and real folders on other
 * systems. */
static const char *const system_folders[] = {"/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"};

/* Entries of /etc that are shown: those for resolving names, users, time zones, libraries and certificates.
 * No secrets and no configuration of services. */
static const char *const etc_shown[] = {
    "alternatives",
    "ca-certificates",
    "ca-certificates.conf",
    "fonts",
    "gai.conf",
    "group",
    "host.conf",
    "hosts",
    "java",
    "java-11-openjdk",
    "java-17-openjdk",
    "java-21-openjdk",
    "java-25-openjdk",
    "ld.so.cache",
    "ld.so.conf",
    "ld.so.conf.d",
    "localtime",
    "locale.alias",
    "magic",
    "mime.types",
    "networks",
    "nsswitch.conf",
    "nvidia",
    "OpenCL",
    "os-release",
    "passwd",
    "pki",
    "protocols",
    "python3",
    "python3.11",
    "R",
    "resolv.conf",
    "rpc",
    "services",
    "ssl",
    "terminfo",
    "timezone",
    "vulkan",
    "glvnd",
    "mailcap",
    "perl",
    "php",
    "lsb-release",
    "debian_version",
};

/* Private keys of host services inside the shown folders. A daemon that runs as root could read them, so
 * empty folders are mounted over them. */
static const char *const etc_private[] = {"/etc/ssl/private", "/etc/pki/tls/private"};

/* Capabilities of a root command: enough to own files of several users (tar, unpacking by apt), to switch the
 * user, and to kill such processes. None of them has an effect outside the sandbox. */
static const char *const root_caps[] = {"CAP_CHOWN",  "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_FSETID",
                                        "CAP_SETUID", "CAP_SETGID",       "CAP_KILL"};

static int add(struct pl_sandbox_argv *a, const char *text, struct pl_err *err)
{
    if (a->n + 2 > a->cap) {
        size_t cap = a->cap ? 2 * a->cap : 128;
        char **v = realloc(a->v, cap * sizeof(*v));
        if (!v)
            return pl_err_nomem(err);
        a->v = v;
        a->cap = cap;
    }
    a->v[a->n] = strdup(text);
    if (!a->v[a->n])
        return pl_err_nomem(err);
    a->v[++a->n] = NULL;
    return 0;
}

static int add_all(struct pl_sandbox_argv *a, const char *const *texts, struct pl_err *err)
{
    int r = 0;

    for (; r == 0 && *texts; texts++)
        r = add(a, *texts, err);
    return r;
}
#define ADD(a, err, ...) add_all(a, (const char *const[]){__VA_ARGS__, NULL}, err)

void pl_sandbox_argv_finish(struct pl_sandbox_argv *argv)
{
    for (size_t i = 0; i < argv->n; i++)
        free(argv->v[i]);
    free(argv->v);
    free(argv->env[0]);
    *argv = (struct pl_sandbox_argv){0};
}

/* Shows the system's folders and the listed entries of /etc. */
static int add_system(struct pl_sandbox_argv *a, struct pl_err *err)
{
    char path[300], target[300];
    int r = ADD(a, err, "--ro-bind", "/usr", "/usr");

    for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(system_folders); i++) {
        ssize_t n = readlink(system_folders[i], target, sizeof(target) - 1);
        if (n > 0) {
            target[n] = 0;
            r = ADD(a, err, "--symlink", target, system_folders[i]);
        } else {
            r = ADD(a, err, "--ro-bind-try", system_folders[i], system_folders[i]);
        }
    }
    for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(etc_shown); i++) {
        snprintf(path, sizeof(path), "/etc/%s", etc_shown[i]);
        r = ADD(a, err, "--ro-bind-try", path, path);
    }
    for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(etc_private); i++)
        if (access(etc_private[i], F_OK) == 0)
            r = ADD(a, err, "--tmpfs", etc_private[i], "--remount-ro", etc_private[i]);
    return r;
}

/* Folders of the image in which something else is mounted, so that the sandbox needs folders of its own in their place,
 * and paths of the image that are not shown, since something else is at their place. */
static const char *const image_open[] = {"", "/etc", "/var"};
static const char *const image_hidden[] = {
    "/proc",      "/sys",          "/dev",      "/tmp",     "/run",    "/pfs", "/pl", "/code", "/etc/resolv.conf",
    "/etc/hosts", "/etc/hostname", "/etc/mtab", "/var/tmp", "/var/run"};

/* True if the path is, or contains, the folder of one of the command's secrets. */
static bool has_secret(const struct pl_sandbox_config *config, const char *path, bool *ret_is_one)
{
    const size_t len = strlen(path);
    bool found = false;

    for (size_t i = 0; i < config->n_secrets; i++) {
        const char *mount = config->secret_uses[i].mount;

        if (!mount || strncmp(mount, path, len) != 0 || (mount[len] && mount[len] != '/'))
            continue;
        found = true;
        *ret_is_one = *ret_is_one || !mount[len];
    }
    return found;
}

/* Opens a folder of the image and finds its path on this machine. Returns -1 with errno. */
static int open_folder(const struct pl_image *image, const char *folder, char ret_path[PATH_MAX])
{
    _cleanup_close_ int fd = pl_image_open(image, *folder ? folder : "/", O_RDONLY | O_DIRECTORY);
    char own[64];
    ssize_t n;

    if (fd < 0)
        return -1;
    snprintf(own, sizeof(own), "/proc/self/fd/%d", fd);
    n = readlink(own, ret_path, PATH_MAX);
    if (n <= 0 || n == PATH_MAX) { /* an empty path would be this machine's root */
        errno = n < 0 ? errno : ENAMETOOLONG;
        return -1;
    }
    ret_path[n] = 0;
    return TAKE_FD(fd);
}

/* Shows the entries of a folder of the image, each by a mount of its own: the sandbox's root is a file system of its own, in
 * which other folders can be made. A folder of the image in which a secret is mounted is made anew in the same way.
 * `folder`: "" or an absolute path. */
static int add_entries(const struct pl_sandbox_config *config, const char *folder, struct pl_sandbox_argv *a, struct pl_err *err)
{
    char real[PATH_MAX], from[PATH_MAX + 256], to[4096 + 256], target[PATH_MAX];
    int fd = open_folder(config->image, folder, real), r;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *e;

    if (!dir) {
        r = (errno == ENOENT || errno == ENOTDIR) && *folder
                ? 0
                : pl_err_errno(err, errno, "image %.200s: %.600s", config->image->name, *folder ? folder : "/");
        pl_closep(&fd);
        return r;
    }
    r = *folder ? ADD(a, err, "--dir", folder) : 0;
    while (r == 0 && (e = readdir(dir))) {
        bool left_out = pl_streq(e->d_name, ".") || pl_streq(e->d_name, ".."), is_secret = false;
        ssize_t n;

        snprintf(from, sizeof(from), "%s/%s", real, e->d_name);
        snprintf(to, sizeof(to), "%.4095s/%s", folder, e->d_name);
        for (size_t i = 0; i < PL_ARRAY_SIZE(image_open); i++)
            left_out = left_out || pl_streq(image_open[i], to);
        for (size_t i = 0; i < PL_ARRAY_SIZE(image_hidden); i++)
            left_out = left_out || pl_streq(image_hidden[i], to);
        if (left_out)
            continue;
        if (has_secret(config, to, &is_secret)) {
            r = is_secret ? 0 : add_entries(config, to, a, err);
            continue;
        }
        n = readlink(from, target, sizeof(target) - 1);
        if (n > 0) {
            target[n] = 0;
            r = ADD(a, err, "--symlink", target, to);
        } else {
            r = ADD(a, err, "--ro-bind", from, to);
        }
    }
    closedir(dir);
    return r;
}

/* Libraries of this machine's NVIDIA driver, which an image does not have. */
static bool is_driver_library(const char *name)
{
    return strncmp(name, "libcuda.so", 10) == 0 || (strncmp(name, "libnvidia-", 10) == 0 && strstr(name, ".so")) ||
           strncmp(name, "libcudadebugger.so", 18) == 0 || strncmp(name, "libnvcuvid.so", 13) == 0;
}

/* Shows the libraries of the GPU driver in PL_SANDBOX_DRIVER. */
static int add_driver(struct pl_sandbox_argv *a, struct pl_err *err)
{
    char folder[PATH_MAX], from[PATH_MAX + 256], to[300];
    const struct dirent *e;
    int r = 0;
    DIR *dir;

    if (!pl_nvml_folder(folder) || !(dir = opendir(folder)))
        return 0;
    while (r == 0 && (e = readdir(dir)))
        if (is_driver_library(e->d_name)) {
            snprintf(from, sizeof(from), "%s/%s", folder, e->d_name);
            snprintf(to, sizeof(to), "%s/%s", PL_SANDBOX_DRIVER, e->d_name);
            r = ADD(a, err, "--ro-bind", from, to);
        }
    closedir(dir);
    return r;
}

/* Shows the files of an image. The network's settings are this machine's. */
static int add_image(const struct pl_sandbox_config *config, struct pl_sandbox_argv *a, struct pl_err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < PL_ARRAY_SIZE(image_open); i++)
        r = add_entries(config, image_open[i], a, err);
    if (r < 0)
        return r;
    r = ADD(a, err, "--ro-bind-try", "/etc/resolv.conf", "/etc/resolv.conf", "--ro-bind-try", "/etc/hosts", "/etc/hosts");
    return r < 0 || config->n_gpus == 0 ? r : add_driver(a, err);
}

/* Adds /proc, devices and private folders. Also adds the parts of /sys that describe cores and memory, and
 * if there are GPUs, the parts that describe PCI devices. */
static int add_private(const struct pl_sandbox_config *config, struct pl_sandbox_argv *a, struct pl_err *err)
{
    const char *sys = config->n_gpus ? "/sys" : "/sys/devices/system";
    char text[64];
    int r = ADD(a, err, "--proc", "/proc", "--dev", "/dev", "--ro-bind-try", sys, sys);

    /* Kernel settings may be written by user 0 even without capabilities, and bubblewrap 0.8 leaves them
     * writable when it runs as root. */
    if (r == 0 && geteuid() == 0)
        r = ADD(a, err, "--ro-bind", "/proc/sys", "/proc/sys", "--ro-bind-try", "/proc/sysrq-trigger", "/proc/sysrq-trigger");
    if (r == 0 && config->shm_bytes) {
        snprintf(text, sizeof(text), "%llu", (unsigned long long)config->shm_bytes);
        r = ADD(a, err, "--perms", "1777", "--size", text, "--tmpfs", "/dev/shm");
    }
    for (size_t i = 0; r == 0 && i < config->n_gpus; i++) {
        snprintf(text, sizeof(text), "/dev/nvidia%u", config->gpus[i]);
        r = ADD(a, err, "--dev-bind-try", text, text);
    }
    if (r == 0 && config->n_gpus)
        r = ADD(a, err, "--dev-bind-try", "/dev/nvidiactl", "/dev/nvidiactl", "--dev-bind-try", "/dev/nvidia-uvm",
                "/dev/nvidia-uvm", "--dev-bind-try", "/dev/nvidia-uvm-tools", "/dev/nvidia-uvm-tools");
    if (r == 0)
        r = ADD(a, err, "--perms", "1777", "--tmpfs", "/tmp", "--dir", "/tmp/home", "--tmpfs", "/run", "--dir", "/var",
                "--symlink", "../tmp", "/var/tmp", "--symlink", "../run", "/var/run");
    /* those of an image have what the image put there, those of this machine are private */
    return r < 0 || config->image ? r : ADD(a, err, "--tmpfs", "/home", "--tmpfs", "/root");
}

/* True if `path` is `folder` or below it. */
static bool below(const char *path, size_t len, const char *folder, size_t folder_len)
{
    while (folder_len > 1 && folder[folder_len - 1] == '/')
        folder_len--;
    return len >= folder_len && memcmp(path, folder, folder_len) == 0 &&
           (folder_len == 1 || len == folder_len || path[folder_len] == '/');
}

/* Shows the folders of the daemon's setting sandbox_read_only, which PIPELINED_SANDBOX_RO contains. */
static int add_extra(const struct pl_sandbox_config *config, struct pl_sandbox_argv *a, struct pl_err *err)
{
    const char *p = config->extra_ro ? config->extra_ro : "";
    char path[4096];
    int r = 0;

    for (size_t n; r == 0 && *p; p += n + (p[n] == ':')) {
        n = strcspn(p, ":");
        if (n == 0)
            continue;
        if (*p != '/' || n >= sizeof(path))
            return pl_err_set(err, PL_EINVAL, "sandbox_read_only: \"%.*s\" is not an absolute folder", (int)PL_MIN(n, 200), p);
        if (below(config->work, strlen(config->work), p, n))
            return pl_err_set(err, PL_EINVAL,
                              "sandbox_read_only: %.*s contains the work folder %s: choose a folder that does not", (int)n, p,
                              config->work);
        memcpy(path, p, n);
        path[n] = 0;
        if (access(path, F_OK) < 0)
            return pl_err_set(err, PL_EINVAL, "sandbox_read_only: %s does not exist", path);
        r = ADD(a, err, "--ro-bind", path, path);
    }
    return r;
}

/* Mounts the writable inputs inside the read-only /pfs. */
static int add_writable(const struct pl_sandbox_config *config, struct pl_sandbox_argv *a, struct pl_err *err)
{
    char from[4200], to[128];
    int r = 0;

    for (size_t i = 0; r == 0 && i < json_array_size(config->writable); i++) {
        const char *name = json_string_value(json_array_get(config->writable, i));

        snprintf(from, sizeof(from), "%s/pfs/%s", config->work, name);
        snprintf(to, sizeof(to), "/pfs/%s", name);
        r = ADD(a, err, "--bind", from, to);
    }
    return r;
}

/* Mounts secrets as folders, not as copies, so that the command sees a changed value. */
static int add_secrets(const struct pl_sandbox_config *config, struct pl_sandbox_argv *a, struct pl_err *err)
{
    char from[4400];
    int r = 0;

    for (size_t i = 0; r == 0 && i < config->n_secrets; i++) {
        if (!config->secret_uses[i].mount)
            continue;
        snprintf(from, sizeof(from), "%s/%s", config->secrets, config->secret_uses[i].name);
        r = ADD(a, err, "--ro-bind", from, config->secret_uses[i].mount);
    }
    return r;
}

/* Mounts the parts of the work folder and the agent's programs. */
static int add_ours(const struct pl_sandbox_config *config, struct pl_sandbox_argv *a, struct pl_err *err)
{
    char pfs[4096], out[4096], code[4096], script[4096], python[4096], sock[4096], input[4096];
    int r;

    snprintf(pfs, sizeof(pfs), "%s/pfs", config->work);
    snprintf(out, sizeof(out), "%s/pfs/out", config->work);
    snprintf(code, sizeof(code), "%s/code", config->work);
    snprintf(script, sizeof(script), "%s/script", config->work);
    snprintf(python, sizeof(python), "%s/bin/py", config->work);
    snprintf(sock, sizeof(sock), "%s/sock", config->work);
    r = ADD(a, err, "--ro-bind", pfs, "/pfs", "--bind", out, "/pfs/out", "--ro-bind", config->runner, "/pl/bin/pl-runner");
    if (r == 0)
        r = add_writable(config, a, err);
    if (r == 0 && config->has_code)
        r = ADD(a, err, "--bind", code, "/code");
    if (r == 0 && config->has_script)
        r = ADD(a, err, "--ro-bind", script, "/pl/script");
    if (r == 0 && config->next)
        r = ADD(a, err, "--ro-bind", config->next, "/pl/bin/pl-next", "--symlink", "pl-next", "/pl/bin/pachctl", "--ro-bind",
                python, "/pl/bin/py");
    if (r == 0 && config->batch)
        r = ADD(a, err, "--ro-bind", sock, "/pl/sock");
    snprintf(input, sizeof(input), "%s/stdin", config->work);
    if (r == 0 && config->has_stdin)
        r = ADD(a, err, "--ro-bind", input, "/pl/stdin");
    snprintf(input, sizeof(input), "%s/checkpoint", config->work);
    if (r == 0 && config->has_checkpoint)
        r = ADD(a, err, "--bind", input, "/pl/checkpoint");
    snprintf(input, sizeof(input), "%s/env", config->work);
    if (r == 0 && config->makes_environment)
        r = ADD(a, err, "--bind", out, PL_ENVIRONMENT);
    else if (r == 0 && config->environment)
        r = ADD(a, err, "--ro-bind", input, PL_ENVIRONMENT);
    return r;
}

static int add_privileges(const struct pl_sandbox_config *config, struct pl_sandbox_argv *a, struct pl_err *err)
{
    int r = ADD(a, err, "--unshare-pid", "--unshare-ipc", "--die-with-parent", "--as-pid-1", "--clearenv");

    if (r == 0 && config->no_network)
        r = add(a, "--unshare-net", err);
    if (r == 0 && geteuid() == 0) {
        /* in podman's namespace root is an ordinary user of this machine, who could not remove files of other users */
        const bool is_user = config->image && config->image->holder;

        r = ADD(a, err, "--cap-drop", "ALL");
        for (size_t i = 0; r == 0 && !is_user && i < PL_ARRAY_SIZE(root_caps); i++)
            r = ADD(a, err, "--cap-add", root_caps[i]);
    }
    return r;
}

int pl_sandbox_argv(const struct pl_sandbox_config *config, int seccomp_fd, int userns_fd, struct pl_sandbox_argv *ret,
                    struct pl_err *err)
{
    _cleanup_(pl_sandbox_argv_finish) struct pl_sandbox_argv a = {0};
    char number[16], procs[PATH_MAX];
    int r = 0;

    if (config->work[0] != '/' || strlen(config->work) > 3900)
        return pl_err_set(err, PL_EINVAL, "the work folder \"%.200s\" must be an absolute path of at most 3,900 bytes",
                          config->work);
    if (config->cgroup) {
        snprintf(procs, sizeof(procs), "%s/cgroup.procs", config->cgroup);
        r = ADD(&a, err, config->runner, PL_ENTER_CGROUP, procs);
        /* the program that enters the cgroup finds bwrap through PATH */
        if (r == 0 && asprintf(&a.env[0], "PATH=%s", getenv("PATH") ? getenv("PATH") : PL_SANDBOX_USUAL_PATH) < 0)
            r = (a.env[0] = NULL, pl_err_nomem(err));
    }
    if (config->mode == PL_SANDBOX_NONE) {
        r = r < 0 ? r : add(&a, config->runner, err);
    } else {
        r = r < 0 ? r : add(&a, "bwrap", err);
        snprintf(number, sizeof(number), "%d", userns_fd);
        if (r == 0 && userns_fd >= 0)
            r = ADD(&a, err, "--userns", number);
        if (r == 0)
            r = add_privileges(config, &a, err);
        if (r == 0)
            r = config->image ? add_image(config, &a, err) : add_system(&a, err);
        if (r == 0)
            r = add_private(config, &a, err);
        if (r == 0 && !config->image) /* an image may lack the folders on which they would be mounted */
            r = add_extra(config, &a, err);
        if (r == 0)
            r = add_ours(config, &a, err);
        if (r == 0)
            r = add_secrets(config, &a, err);
        snprintf(number, sizeof(number), "%d", seccomp_fd);
        if (r == 0 && seccomp_fd >= 0)
            r = ADD(&a, err, "--seccomp", number);
        if (r == 0)
            r = ADD(&a, err, "--remount-ro", "/", "--chdir", "/", "--", "/pl/bin/pl-runner");
    }
    if (r < 0)
        return r;
    *ret = a;
    a = (struct pl_sandbox_argv){0};
    return 0;
}

int pl_sandbox_paths(const struct pl_sandbox_config *config, struct pl_sandbox_paths *ret, struct pl_err *err)
{
    const char *base = config->mode == PL_SANDBOX_NONE ? config->work : "", *own;

    if (strlen(config->work) > 3900)
        return pl_err_set(err, PL_EINVAL, "the path of the work folder \"%.200s…\" is longer than 3,900 bytes", config->work);
    own = config->mode == PL_SANDBOX_POD ? "/pl/bin" : *base ? base : "/pl";
    snprintf(ret->pfs, sizeof(ret->pfs), "%s/pfs", base);
    snprintf(ret->code, sizeof(ret->code), "%s/code", base);
    snprintf(ret->tmp, sizeof(ret->tmp), "%s/tmp", base);
    snprintf(ret->home, sizeof(ret->home), "%s/tmp/home", base);
    snprintf(ret->script, sizeof(ret->script), "%s/script", own);
    snprintf(ret->bin, sizeof(ret->bin), "%s%s/bin", base, *base ? "" : "/pl");
    snprintf(ret->sock, sizeof(ret->sock), "%s%s/sock", base, *base ? "" : "/pl");
    snprintf(ret->input, sizeof(ret->input), "%s/stdin", own);
    snprintf(ret->checkpoint, sizeof(ret->checkpoint), "%s%s/checkpoint", base, *base ? "" : "/pl");
    snprintf(ret->runner, sizeof(ret->runner), "%s", *base ? config->runner : "/pl/bin/pl-runner");
    return 0;
}

int pl_sandbox_clear(const char *folder, struct pl_err *err)
{
    /* does not follow a link: the folder may be the command's, and a command that still runs could replace it
     * by a link */
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), r = 0;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *e;

    if (!dir) {
        r = pl_err_errno(err, errno, "%s", folder);
        return pl_closep(&fd), r;
    }
    while (r == 0 && (e = readdir(dir))) {
        if (pl_streq(e->d_name, ".") || pl_streq(e->d_name, ".."))
            continue;
        r = pl_io_remove_tree_at(fd, e->d_name, err);
    }
    closedir(dir);
    return r < 0 ? pl_err_wrap(err, r, "%s", folder) : r;
}

int pl_sandbox_remove_folders(const struct pl_sandbox_config *config, struct pl_err *err)
{
    int r;

    if (config->mode == PL_SANDBOX_POD || (access(config->work, F_OK) < 0 && errno == ENOENT))
        return 0;
    r = pl_sandbox_clear(config->work, err);
    if (r == 0 && rmdir(config->work) < 0 && errno != EBUSY)
        r = pl_err_errno(err, errno, "%s", config->work);
    return r;
}

/* Without a sandbox, commands find pl-next through links in WORK/bin. */
static int link_programs(const struct pl_sandbox_config *config, struct pl_err *err)
{
    static const char *const names[] = {"pl-next", "pachctl"};
    char path[4200];

    for (size_t i = 0; config->mode == PL_SANDBOX_NONE && config->next && i < PL_ARRAY_SIZE(names); i++) {
        snprintf(path, sizeof(path), "%s/bin/%s", config->work, names[i]);
        if (symlink(config->next, path) < 0)
            return pl_err_errno(err, errno, "%s", path);
    }
    return 0;
}

static const char *const folders[] = {"pfs/out", "next",     "done/0", "done/1", "done/2",     "done/3",
                                      "code",    "tmp/home", "bin/py", "sock",   "checkpoint", "env"};

/* Makes the path of the work folder's i-th folder; PL_ENOTFOUND after the last. */
static int folder_at(const struct pl_sandbox_config *config, size_t i, char out[4200])
{
    const char *input =
        i < PL_ARRAY_SIZE(folders) ? NULL : json_string_value(json_array_get(config->writable, i - PL_ARRAY_SIZE(folders)));

    if (i < PL_ARRAY_SIZE(folders))
        snprintf(out, 4200, "%s/%s", config->work, folders[i]);
    else if (input)
        snprintf(out, 4200, "%s/pfs/%s", config->work, input);
    else
        return PL_ENOTFOUND;
    return 0;
}

static int look_at_folders(const struct pl_sandbox_config *config, struct pl_err *err)
{
    char path[4200];

    for (size_t i = 0; folder_at(config, i, path) == 0; i++)
        if (access(path, W_OK) < 0)
            return pl_err_set(err, PL_EUNAVAILABLE, "the pod's folder %s: %s: the pod's init container must create it", path,
                              strerror(errno));
    return 0;
}

int pl_sandbox_make_folders(const struct pl_sandbox_config *config, struct pl_err *err)
{
    char path[4200];
    int r;

    if (config->mode == PL_SANDBOX_POD)
        return look_at_folders(config, err);
    r = pl_sandbox_remove_folders(config, err);
    for (size_t i = 0; r == 0 && folder_at(config, i, path) == 0; i++)
        r = pl_io_mkdirs(path, 0755, err);
    r = r < 0 ? r : link_programs(config, err);
    return r < 0 ? pl_err_wrap(err, r, "work folder") : 0;
}

static int copy_program(const char *from, const char *to, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf b = {0};
    int r = pl_io_read_file(from, &b, err);

    return r < 0 ? r : pl_io_write_file(to, b.data, b.len, 0555, err);
}

int pl_sandbox_install(const struct pl_sandbox_config *config, struct pl_err *err)
{
    char path[4200];
    int r = 0;

    for (size_t i = 0; r == 0 && folder_at(config, i, path) == 0; i++)
        r = pl_io_mkdirs(path, 0775, err);
    snprintf(path, sizeof(path), "%s/tmp", config->work); /* writable for every user, like /tmp */
    if (r == 0 && chmod(path, 01777) < 0)
        r = pl_err_errno(err, errno, "%s", path);
    snprintf(path, sizeof(path), "%s/tmp/home", config->work);
    if (r == 0 && chmod(path, 0777) < 0)
        r = pl_err_errno(err, errno, "%s", path);
    snprintf(path, sizeof(path), "%s/bin/pl-runner", config->work);
    r = r < 0 ? r : copy_program(config->runner, path, err);
    snprintf(path, sizeof(path), "%s/bin/pl-next", config->work);
    r = r < 0 ? r : copy_program(config->next, path, err);
    snprintf(path, sizeof(path), "%s/bin/pachctl", config->work);
    if (r == 0 && symlink("pl-next", path) < 0 && errno != EEXIST)
        r = pl_err_errno(err, errno, "%s", path);
    return r;
}

void pl_sandbox_own_file(const struct pl_sandbox_config *config, const char *name, char out[4200])
{
    snprintf(out, 4200, "%s/%s%s", config->work, config->mode == PL_SANDBOX_POD ? "bin/" : "", name);
}

const char *pl_sandbox_mode_name(enum pl_sandbox_mode mode)
{
    static const char *const names[] = {"bubblewrap", "no sandbox", "a pod"};

    return names[mode];
}

char *pl_sandbox_search_path(const struct pl_sandbox_config *config)
{
    const struct pl_sandbox_view view = pl_sandbox_view_of(config);
    struct pl_python_env python = {0};
    /* a Python that is wrong was refused before (pl_sandbox_view_stage) */
    const bool found = config->python && pl_python_env_find(config->python, &python, NULL) == 0,
               environment = config->environment || config->makes_environment;
    _cleanup_free_ char *rest =
        config->mode == PL_SANDBOX_POD ? strdup(view.path) : pl_sandbox_view_path(&view, found ? python.bin : NULL);
    char *path = NULL;

    if (!rest || asprintf(&path, "%s/bin:%s%s", config->mode == PL_SANDBOX_NONE ? config->work : "/pl",
                          environment ? PL_ENVIRONMENT "/bin:" : "", rest) < 0)
        return NULL;
    return path;
}

struct pl_sandbox_view pl_sandbox_view_of(const struct pl_sandbox_config *config)
{
    const char *own = getenv("PATH");

    return (struct pl_sandbox_view){.all = config->mode != PL_SANDBOX_BWRAP,
                                    .image = config->image,
                                    .read_only = config->extra_ro,
                                    .path = own ? own : PL_SANDBOX_USUAL_PATH};
}
