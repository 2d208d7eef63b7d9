#include "sandbox_probe.h"

#include "storage/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Starts it with stdout and stderr going into a pipe; returns the end to read, or -1 with errno. */
static int start(const char *program, pid_t *ret)
{
    char *argv[] = {(char *)program, (char *)"--probe-sandbox", NULL};
    posix_spawn_file_actions_t actions;
    int ends[2], r;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    r = posix_spawn(ret, program, &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (r != 0) {
        close(ends[0]);
        errno = r;
        return -1;
    }
    return ends[0];
}

/* What it says until it ends, as one line; false when it takes too long. */
static bool listen_to(int fd, char *text, size_t size)
{
    int64_t end = pl_clock_mono_ms() + PL_SANDBOX_PROBE_MS;
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
        n = len + 1 < size ? read(fd, text + len, size - 1 - len) : read(fd, rest, sizeof rest);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            break;
        len = PL_MIN(len + (size_t)n, size - 1);
    }
    text[len] = '\0';
    text[strcspn(text, "\n")] = '\0';
    return true;
}

int pl_sandbox_probe(const char *program, struct pl_err *err)
{
    char text[512] = "";
    pid_t pid = 0;
    int fd = start(program, &pid), status = -1;

    if (fd < 0)
        return pl_err_errno(err, errno, "%s --probe-sandbox", program);
    if (!listen_to(fd, text, sizeof text)) {
        snprintf(text, sizeof text, "the probe did not end within %d s", PL_SANDBOX_PROBE_MS / 1000);
        kill(pid, SIGKILL);
    }
    close(fd);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return 0;
    return pl_err_set(err, PL_EUNAVAILABLE,
                      "stages cannot run in a sandbox here: %s: install bubblewrap and allow namespaces, or start with "
                      "--sandbox none (stages then see this machine's files)",
                      text[0] ? text : "the probe ended without a word");
}
