/* file_users: compares the files that /proc/PID/fd lists by device and inode, and detects writers by taking a
 * read lease (fcntl(2), F_SETLEASE). */
#include "storage/system/file_users.h"

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

/* Returns the index of the file with the same device and inode; `n` if there is none. Elements of `files`
 * with mode 0 stand for invalid descriptors and match nothing. */
static size_t index_of(const struct stat *one, const struct stat *files, size_t n)
{
    size_t i = 0;

    while (i < n && (files[i].st_mode == 0 || one->st_dev != files[i].st_dev || one->st_ino != files[i].st_ino))
        i++;
    return i;
}

/* Returns the index of the first of the files that the process has open; `n` if it has none. */
static size_t has_open(int process, const struct stat *files, size_t n)
{
    const int fds = openat(process, "fd", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fds < 0 ? NULL : fdopendir(fds);
    const struct dirent *e;
    struct stat one;
    size_t found = n;

    if (!dir) {
        if (fds >= 0)
            close(fds);
        return n;
    }
    while (found == n && (e = readdir(dir)))
        if (fstatat(dirfd(dir), e->d_name, &one, 0) == 0)
            found = index_of(&one, files, n);
    closedir(dir);
    return found;
}

/* Kills the process if it has the given name and has one of the files open. A pidfd is opened first, because
 * the pid may be reused while the process is examined. Returns the index of the file for which it was killed;
 * `n` if it was not. */
static size_t kill_if(int proc, const char *number, const struct stat *files, size_t n, const char *name)
{
    const pid_t pid = (pid_t)strtol(number, NULL, 10);
    _cleanup_close_ int held = -1, folder = -1;
    size_t i;

    if (pid <= 0 || pid == getpid())
        return n;
    held = (int)syscall(SYS_pidfd_open, pid, 0);
    folder = held < 0 ? -1 : openat(proc, number, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    i = folder >= 0 && is_named(folder, name) ? has_open(folder, files, n) : n;
    return i < n && syscall(SYS_pidfd_send_signal, held, SIGKILL, NULL, 0) == 0 ? i : n;
}

void pl_file_users_kill(const int *fds, size_t n, const char *name, size_t *ret_killed)
{
    _cleanup_free_ struct stat *files = calloc(PL_MAX(n, (size_t)1), sizeof *files);
    DIR *proc = files ? opendir("/proc") : NULL;
    const struct dirent *e;

    for (size_t i = 0; proc && i < n; i++)
        if (fstat(fds[i], &files[i]) < 0)
            files[i].st_mode = 0;
    while (proc && (e = readdir(proc))) {
        const size_t i = isdigit((unsigned char)*e->d_name) ? kill_if(dirfd(proc), e->d_name, files, n, name) : n;

        if (i < n)
            ret_killed[i]++;
    }
    if (proc)
        closedir(proc);
}

int pl_holders_writing(int fd)
{
    /* If a process opens the file while the lease is held, the kernel sends a signal to this process. The
     * default signal, SIGIO, would end this process; SIGURG is ignored by default. */
    if (fcntl(fd, F_SETSIG, SIGURG) < 0 || fcntl(fd, F_SETLEASE, F_RDLCK) < 0)
        return errno == EAGAIN ? PL_EBUSY : PL_EUNAVAILABLE;
    return fcntl(fd, F_SETLEASE, F_UNLCK) == 0 ? 0 : PL_EBUSY;
}
