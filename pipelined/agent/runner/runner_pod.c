/* Connecting to the agent, the command's environment, sharing folders, probing, and reading the container's
 * memory limits. */
#include "pipelined/agent/runner/runner_pod.h"

#include "pipelined/net/agent_protocol/runner_protocol.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define LOOK_MS 20 /* interval of the attempts to connect */
/* a memory limit of at least this many bytes means that there is none: without a limit cgroup version 1
 * reports a huge number */
#define NO_LIMIT    (1ULL << 60)
#define PATH_PREFIX "PATH="
#define USUAL_PATH  "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

/* ---- connecting ---- */

/* Connects to the socket. Returns -1 with errno on failure. */
static int connect_once(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), errnum;

    if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof(*address)) == 0)
        return fd;
    errnum = errno;
    close(fd);
    errno = errnum;
    return -1;
}

/* True if `error` says that the agent does not listen yet. */
static bool not_yet(int errnum)
{
    return errnum == ENOENT || errnum == ECONNREFUSED || errnum == EINTR;
}

/* Receives the descriptor that the agent sends with the first byte; -1 = none came. */
static int take_pipe(int fd)
{
    char byte, control[CMSG_SPACE(sizeof(int))];
    struct iovec part = {.iov_base = &byte, .iov_len = 1};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof(control)};
    const struct cmsghdr *c;
    int got = -1;
    ssize_t n;

    do
        n = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
    while (n < 0 && errno == EINTR);
    c = n == 1 ? CMSG_FIRSTHDR(&message) : NULL;
    if (c && c->cmsg_level == SOL_SOCKET && c->cmsg_type == SCM_RIGHTS && c->cmsg_len == CMSG_LEN(sizeof(int)))
        memcpy(&got, CMSG_DATA(c), sizeof(got));
    return got;
}

bool pl_pod_connect(const char *socket_path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = -1, output;

    if (strlen(socket_path) >= sizeof(address.sun_path)) {
        dprintf(STDERR_FILENO, "pl-runner: %s: longer than %zu bytes\n", socket_path, sizeof(address.sun_path) - 1);
        return false;
    }
    memcpy(address.sun_path, socket_path, strlen(socket_path) + 1);
    for (int i = 0; i < PL_POD_WAIT_S * 1000 / LOOK_MS && (fd = connect_once(&address)) < 0 && not_yet(errno); i++)
        poll(NULL, 0, LOOK_MS);
    output = fd < 0 ? -1 : take_pipe(fd);
    if (output < 0) {
        dprintf(STDERR_FILENO, "pl-runner: the agent did not answer at %s: %s; see the pod's container \"agent\"\n", socket_path,
                strerror(errno));
        return false;
    }
    return dup2(fd, STDIN_FILENO) >= 0 && dup2(output, STDOUT_FILENO) >= 0 && dup2(output, STDERR_FILENO) >= 0;
}

/* ---- environment ---- */

static bool has_name(char *const *env, const char *word)
{
    size_t n = strcspn(word, "=") + 1;

    for (; *env; env++)
        if (strncmp(*env, word, n) == 0)
            return true;
    return false;
}

/* `word` is a variable of the RUN frame. If it is a PATH that ends in ':', returns it with the container's
 * PATH appended; otherwise returns `word`. */
static char *join_path(char *word)
{
    static char joined[8192];
    const char *own = getenv("PATH");
    size_t n = strlen(word);

    if (strncmp(word, PATH_PREFIX, sizeof(PATH_PREFIX) - 1) != 0 || word[n - 1] != ':')
        return word;
    snprintf(joined, sizeof(joined), "%s%s", word, own && *own ? own : USUAL_PATH);
    return joined;
}

char **pl_pod_env(char *const *run)
{
    static char *words[PL_RUNNER_ARGS_MAX + 1];
    extern char **environ;
    size_t n = 0;

    for (; n < PL_RUNNER_ARGS_MAX && run[n]; n++)
        words[n] = join_path(run[n]);
    for (char **own = environ; *own && n < PL_RUNNER_ARGS_MAX; own++)
        if (!has_name(run, *own))
            words[n++] = *own;
    words[n] = NULL;
    return words;
}

/* ---- sharing ---- */

static void open_up(int dir, const char *name, gid_t group, unsigned depth);

static void open_folder(int dir, const char *name, gid_t group, unsigned depth)
{
    int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *entries = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *e;

    if (!entries) {
        if (fd >= 0)
            close(fd);
        return;
    }
    while ((e = readdir(entries)))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0 && e->d_type != DT_LNK)
            open_up(fd, e->d_name, group, depth + 1);
    closedir(entries);
}

/* Makes one file or folder, and everything below it, accessible to the group. */
static void open_up(int dir, const char *name, gid_t group, unsigned depth)
{
    struct stat st;
    mode_t want;

    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0 || (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode)))
        return;
    want = (st.st_mode & 07777) | (S_ISDIR(st.st_mode) ? 0770 : 0660);
    if (st.st_gid != group) /* chown first and chmod after it, because chown clears the set-id bits */
        (void)!fchownat(dir, name, (uid_t)-1, group, AT_SYMLINK_NOFOLLOW);
    if (want != (st.st_mode & 07777))
        /* Follows a link. That is harmless even if a running command puts one here, because the runner has no
         * more rights than the command. */
        (void)!fchmodat(dir, name, want, 0);
    if (S_ISDIR(st.st_mode) && depth < PL_POD_DEPTH_MAX)
        open_folder(dir, name, group, depth);
}

void pl_pod_share(const char *folder)
{
    struct stat st;

    if (stat(folder, &st) == 0 && S_ISDIR(st.st_mode))
        open_folder(AT_FDCWD, folder, st.st_gid, 0);
}

/* ---- probing ---- */

int pl_pod_probe(char *const *folders)
{
    char path[4200];
    int fd;

    for (; *folders; folders++) {
        snprintf(path, sizeof(path), "%s/.pl-probe", *folders);
        fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
        if (fd < 0) {
            printf("user %u cannot write to %s: %s\n", (unsigned)getuid(), *folders, strerror(errno));
            return 1;
        }
        close(fd);
        unlink(path);
    }
    printf("as user %u, group %u\n", (unsigned)getuid(), (unsigned)getgid());
    return 0;
}

/* ---- memory ---- */

/* Reads the number after `name` at the start of a line. */
static bool read_number(const char *path, const char *name, uint64_t *ret)
{
    char text[4096], *at;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

    if (fd >= 0)
        close(fd);
    if (n <= 0)
        return false;
    text[n] = 0;
    for (at = text; at; at = strchr(at, '\n') ? strchr(at, '\n') + 1 : NULL)
        if (strncmp(at, name, strlen(name)) == 0) {
            *ret = strtoull(at + strlen(name), NULL, 10);
            return true;
        }
    return false;
}

uint64_t pl_pod_ooms(void)
{
    uint64_t n = 0;

    /* cgroup version 2 */
    if (!read_number("/sys/fs/cgroup/memory.events", "oom_kill ", &n))
        /* cgroup version 1 */
        (void)!read_number("/sys/fs/cgroup/memory/memory.oom_control", "oom_kill ", &n);
    return n;
}

uint64_t pl_pod_memory_limit(void)
{
    uint64_t bytes = 0;

    if (!read_number("/sys/fs/cgroup/memory.max", "", &bytes)) /* cgroup version 2; "max" is read as 0 */
        (void)!read_number("/sys/fs/cgroup/memory/memory.limit_in_bytes", "", &bytes);
    return bytes < NO_LIMIT ? bytes : 0;
}
