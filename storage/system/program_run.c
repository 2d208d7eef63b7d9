/* program_run: posix_spawn with standard output and standard error in one pipe, which is read with a
 * deadline. */
#include "storage/system/program_run.h"

#include "storage/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Starts the program. Returns the read end of a pipe for its output, or -1 with errno. */
static int start(const char *const *argv, pid_t *ret)
{
    posix_spawn_file_actions_t actions;
    int ends[2], r;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    r = posix_spawn(ret, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (r != 0) {
        close(ends[0]);
        errno = r;
        return -1;
    }
    return ends[0];
}

/* Reads the program's output to its end and stores the first line in `line`. Returns false if the time limit
 * is reached before that. Output that does not fit in `line` is discarded. */
static bool listen_to(int fd, int64_t ms, char *line, size_t size)
{
    int64_t end = pl_clock_mono_ms() + ms;
    size_t len = 0;

    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int64_t left = end - pl_clock_mono_ms();
        char rest[256];
        ssize_t n;

        if (left <= 0 || (poll(&p, 1, (int)left) < 0 && errno != EINTR))
            return false;
        if (p.revents == 0)
            continue;
        n = len + 1 < size ? read(fd, line + len, size - 1 - len) : read(fd, rest, sizeof rest);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        len = PL_MIN(len + (size_t)n, size - 1);
    }
    line[len] = '\0';
    line[strcspn(line, "\n")] = '\0';
    return true;
}

/* The pipe is closed before waitpid, so that a program that still writes is ended by SIGPIPE. */
int pl_program_run(const char *const *argv, int64_t ms, char *line, size_t size, struct pl_err *err)
{
    pid_t pid = 0;
    int fd = start(argv, &pid), status = -1;
    bool in_time;

    line[0] = '\0';
    if (fd < 0)
        return pl_err_set(err, PL_EUNAVAILABLE, "%s: %s", argv[0], strerror(errno));
    in_time = listen_to(fd, ms, line, size);
    if (!in_time)
        kill(pid, SIGKILL);
    close(fd);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (!in_time)
        return pl_err_set(err, PL_EUNAVAILABLE, "%s did not end within %d s", argv[0], (int)(ms / 1000));
    if (!WIFEXITED(status))
        return pl_err_set(err, PL_EUNAVAILABLE, "%s ended by signal %d", argv[0], WTERMSIG(status));
    return WEXITSTATUS(status);
}
