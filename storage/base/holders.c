#include "holders.h"

#include <ctype.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <sys/stat.h>
#include <sys/syscall.h>

static bool is_named(int process, const char *name)
{
    _cleanup_close_ int fd = openat(process, "comm", O_RDONLY | O_CLOEXEC);
    char comm[32];
    const ssize_t n = fd < 0 ? -1 : read(fd, comm, sizeof comm - 1);

    if (n <= 0)
        return false;
    comm[n] = '\0';
    comm[strcspn(comm, "\n")] = '\0';
    return pl_streq(comm, name);
}

static bool has_open(int process, const struct stat *file)
{
    const int fds = openat(process, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fds < 0 ? NULL : fdopendir(fds);
    const struct dirent *e;
    struct stat one;
    bool found = false;

    if (!dir) {
        if (fds >= 0)
            close(fds);
        return false;
    }
    while (!found && (e = readdir(dir)))
        found = fstatat(dirfd(dir), e->d_name, &one, 0) == 0 && one.st_dev == file->st_dev && one.st_ino == file->st_ino;
    closedir(dir);
    return found;
}

/* The process is held before it is looked at: its number may be another's by then. */
static bool kill_if(int proc, const char *number, const struct stat *file, const char *name)
{
    const pid_t pid = (pid_t)strtol(number, NULL, 10);
    _cleanup_close_ int held = -1, folder = -1;

    if (pid <= 0 || pid == getpid())
        return false;
    held = (int)syscall(SYS_pidfd_open, pid, 0);
    folder = held < 0 ? -1 : openat(proc, number, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    return folder >= 0 && is_named(folder, name) && has_open(folder, file) &&
           syscall(SYS_pidfd_send_signal, held, SIGKILL, NULL, 0) == 0;
}

size_t pl_holders_kill(int fd, const char *name)
{
    DIR *proc = opendir("/proc");
    const struct dirent *e;
    struct stat file;
    size_t n = 0;

    if (proc && fstat(fd, &file) == 0)
        while ((e = readdir(proc)))
            n += isdigit((unsigned char)*e->d_name) && kill_if(dirfd(proc), e->d_name, &file, name);
    if (proc)
        closedir(proc);
    return n;
}
