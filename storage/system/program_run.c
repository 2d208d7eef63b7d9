/* program_run: posix_spawn with standard error in a pipe, which is read with a deadline, and standard output in
 * the same pipe or in memory. */
#include "storage/system/program_run.h"

#include "storage/base/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

/* Starts the program. Returns the read end of a pipe for its output, or -1 with errno. `out` receives its standard
 * output instead of the pipe; -1 = none does. */
static int start(const char *const *argv, int out, pid_t *ret)
{
    posix_spawn_file_actions_t actions;
    int ends[2], r;

    if (pipe2(ends, O_CLOEXEC) < 0)
        return -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, out < 0 ? ends[1] : out, 1);
    posix_spawn_file_actions_adddup2(&actions, ends[1], 2);
    r = posix_spawnp(ret, argv[0], &actions, NULL, (char *const *)(uintptr_t)argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (r != 0) {
        close(ends[0]);
        errno = r;
        return -1;
    }
    return ends[0];
}

/* Reads from the pipe to its end and stores the beginning in `text`. Returns false if the time limit is reached
 * before that. */
static bool listen_to(int fd, int64_t ms, char *text, size_t size)
{
    int64_t end = pl_clock_mono_ms() + ms;
    size_t len = 0;

    for (;;) {
        struct pollfd p = {.fd = fd, .events = POLLIN};
        int64_t left = end - pl_clock_mono_ms();
        char rest[256];
        ssize_t n;

        if (left <= 0 || (poll(&p, 1, (int)PL_MIN(left, INT32_MAX)) < 0 && errno != EINTR))
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
    return true;
}

/* The pipe is closed before waitpid, so that a program that still writes is ended by SIGPIPE. */
static int run(const char *const *argv, int64_t ms, int out, char *text, size_t size, struct pl_err *err)
{
    pid_t pid = 0;
    int fd = start(argv, out, &pid), status = -1;
    bool in_time;

    text[0] = '\0';
    if (fd < 0)
        return pl_err_set(err, PL_EUNAVAILABLE, "%s: %s", argv[0], strerror(errno));
    in_time = listen_to(fd, ms, text, size);
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

int pl_program_run(const char *const *argv, int64_t ms, char *line, size_t size, struct pl_err *err)
{
    int r = run(argv, ms, -1, line, size, err);

    line[strcspn(line, "\n")] = '\0';
    return r;
}

int pl_program_read(const char *const *argv, int64_t ms, struct pl_buf *out, char *said, size_t size, struct pl_err *err)
{
    _cleanup_close_ int file = memfd_create("output", MFD_CLOEXEC);
    int status = file < 0 ? pl_err_errno(err, errno, "memfd_create") : run(argv, ms, file, said, size, err), r = 0;
    uint8_t part[4096];

    for (ssize_t n = 1, at = 0; status >= 0 && r == 0 && n > 0; at += n) {
        n = pread(file, part, sizeof part, at);
        r = n < 0 ? pl_err_errno(err, errno, "output of %s", argv[0]) : n == 0 ? 0 : pl_buf_add(out, part, (size_t)n, err);
    }
    return r < 0 ? r : status;
}

int pl_program_folder_file(const char *name, char ret[PATH_MAX], struct pl_err *err)
{
    ssize_t n = readlink("/proc/self/exe", ret, PATH_MAX - 1 - strlen(name));

    if (n < 0)
        return pl_err_errno(err, errno, "/proc/self/exe");
    ret[n] = '\0';
    strcpy(strrchr(ret, '/') + 1, name);
    return 0;
}

int pl_program_beside(const char *name, char ret[PATH_MAX], struct pl_err *err)
{
    int r = pl_program_folder_file(name, ret, err);

    if (r < 0)
        return r;
    return access(ret, X_OK) == 0 ? 0 : pl_err_errno(err, errno, "%s, which must be in the folder of the other programs", ret);
}

int64_t pl_program_start(pid_t pid)
{
    char path[64], text[1024], *p;
    FILE *f;

    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    f = fopen(path, "re");
    if (!f)
        return 0;
    p = fgets(text, sizeof text, f);
    fclose(f);
    p = p ? strrchr(text, ')') : NULL; /* field 2, the name, may contain blanks and parentheses */
    for (int field = 2; p && field < 22; field++)
        p = strchr(p + 1, ' ');
    return p ? strtoll(p, NULL, 10) : 0;
}
