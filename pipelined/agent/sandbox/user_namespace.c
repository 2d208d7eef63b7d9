/* A child process is created in a new user namespace. It opens the namespace in a descriptor table that it
 * shares with the agent. The agent writes the id maps and kills the child. */
#include "pipelined/agent/sandbox/user_namespace.h"

#include "storage/system/io.h"
#include "storage/system/log_line.h"
#include "storage/system/program_run.h"

#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#define ALL_USERS "0 0 4294967295\n"
#define PROBE_MS  10000
/* lowest number for the namespace's descriptor; bwrap's child uses lower numbers for other descriptors */
#define FD_FROM 64

static int write_map(pid_t pid, const char *name)
{
    char path[64];
    _cleanup_close_ int fd = -1;

    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    fd = open(path, O_WRONLY | O_CLOEXEC);
    return fd >= 0 && write(fd, ALL_USERS, strlen(ALL_USERS)) == (ssize_t)strlen(ALL_USERS) ? 0 : -1;
}

/* Makes a namespace and opens it. The child shares the agent's descriptor table and opens its own
 * /proc/self/ns/user, because other processes cannot read /proc of this process or its children. The child
 * calls only functions that are safe after fork, because the agent has other threads. */
static int make(void)
{
    const pid_t agent = getpid();
    int pipe_fds[2], fd = -1;
    pid_t pid;

    if (pipe2(pipe_fds, O_CLOEXEC) < 0)
        return -1;
    pid = (pid_t)syscall(SYS_clone, CLONE_NEWUSER | CLONE_FILES, NULL, NULL, NULL, NULL);
    if (pid == 0) {
        int low;

        if (prctl(PR_SET_PDEATHSIG, SIGKILL) < 0 ||
            /* if the agent ended, the child must end too, because it holds all of the agent's descriptors */
            getppid() != agent)
            _exit(1);
        low = open("/proc/self/ns/user", O_RDONLY | O_CLOEXEC);
        fd = fcntl(low, F_DUPFD_CLOEXEC, FD_FROM);
        close(low);
        if (write(pipe_fds[1], &fd, sizeof fd) == sizeof fd)
            for (;;)
                pause();
        _exit(1);
    }
    if (pid > 0) {
        if (read(pipe_fds[0], &fd, sizeof fd) != sizeof fd)
            fd = -1;
        if (fd >= 0 && (write_map(pid, "uid_map") < 0 || write_map(pid, "gid_map") < 0)) {
            close(fd);
            fd = -1;
        }
        kill(pid, SIGKILL);
        while (waitpid(pid, NULL, __WALL) < 0 && errno == EINTR)
            ;
    }
    close(pipe_fds[0]);
    close(pipe_fds[1]);
    return fd;
}

/* True if bubblewrap can mount /proc in a user namespace. The kernel forbids that where mounts cover parts of
 * /proc, as in containers. Set by probe(). */
static bool works;

static void probe(void)
{
    _cleanup_close_ int fd = make();
    char number[16], said[200] = "the kernel refused to create one";
    struct pl_err err = {0};

    if (fd >= 0 && fcntl(fd, F_SETFD, 0) == 0) {
        const char *const argv[] = {"/usr/bin/env", "bwrap", "--userns",  number,   "--unshare-pid", "--unshare-ipc",
                                    "--ro-bind",    "/",     "/",         "--proc", "/proc",         "--dev",
                                    "/dev",         "--",    "/bin/true", NULL};

        snprintf(number, sizeof number, "%d", fd);
        works = pl_program_run(argv, PROBE_MS, said, sizeof said, &err) == 0;
    }
    if (!works)
        pl_log_info("sandbox", "stages run without a user namespace of their own: %s", *said ? said : err.msg);
}

int pl_userns_open(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    if (geteuid() != 0)
        return -1;
    pthread_once(&once, probe);
    return works ? make() : -1;
}
