/* killed_at.so, preloaded: kills the daemon right before the Nth of its calls that change a file or a folder, or make it durable. The file
 * $KILLED_AT holds N, counted from when it was set (0 = off), and then the name of the call at which the daemon was killed.
 *
 * The program `pipelined` is killed, and no program that it starts. What a log or a socket gets is not counted. */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

struct shared {
    _Atomic int64_t left;
    char call[24];
};

static struct shared *shared;

__attribute__((constructor)) static void open_shared(void)
{
    const char *path = getenv("KILLED_AT");
    int fd = path && strcmp(program_invocation_short_name, "pipelined") == 0 ? open(path, O_RDWR | O_CLOEXEC) : -1;
    void *p = fd < 0 ? MAP_FAILED : mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);

    if (fd >= 0)
        close(fd);
    if (p != MAP_FAILED)
        shared = p;
}

static void step(const char *call)
{
    if (!shared || atomic_load(&shared->left) <= 0 || atomic_fetch_sub(&shared->left, 1) != 1)
        return;
    snprintf(shared->call, sizeof shared->call, "%s", call);
    kill(getpid(), SIGKILL);
}

/* A write counts if it is to a file that is not a log. */
static void write_step(int fd, const char *call)
{
    struct stat st;

    if (shared && fd > STDERR_FILENO && fstat(fd, &st) == 0 && S_ISREG(st.st_mode))
        step(call);
}

ssize_t write(int fd, const void *data, size_t n)
{
    write_step(fd, "write");
    return syscall(SYS_write, fd, data, n);
}

ssize_t pwrite64(int fd, const void *data, size_t n, off_t at)
{
    write_step(fd, "pwrite");
    return syscall(SYS_pwrite64, fd, data, n, at);
}

ssize_t pwrite(int fd, const void *data, size_t n, off_t at)
{
    return pwrite64(fd, data, n, at);
}

ssize_t writev(int fd, const struct iovec *parts, int n)
{
    write_step(fd, "writev");
    return syscall(SYS_writev, fd, parts, n);
}

ssize_t pwritev64(int fd, const struct iovec *parts, int n, off_t at)
{
    write_step(fd, "pwritev");
    return syscall(SYS_pwritev, fd, parts, n, at, 0);
}

ssize_t pwritev(int fd, const struct iovec *parts, int n, off_t at)
{
    return pwritev64(fd, parts, n, at);
}

int ftruncate64(int fd, off_t size)
{
    step("ftruncate");
    return (int)syscall(SYS_ftruncate, fd, size);
}

int ftruncate(int fd, off_t size)
{
    return ftruncate64(fd, size);
}

int fsync(int fd)
{
    step("fsync");
    return (int)syscall(SYS_fsync, fd);
}

int fdatasync(int fd)
{
    step("fdatasync");
    return (int)syscall(SYS_fdatasync, fd);
}

int renameat2(int from_at, const char *from, int to_at, const char *to, unsigned flags)
{
    step("rename");
    return (int)syscall(SYS_renameat2, from_at, from, to_at, to, flags);
}

int renameat(int from_at, const char *from, int to_at, const char *to)
{
    return renameat2(from_at, from, to_at, to, 0);
}

int rename(const char *from, const char *to)
{
    return renameat2(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int linkat(int from_at, const char *from, int to_at, const char *to, int flags)
{
    step("link");
    return (int)syscall(SYS_linkat, from_at, from, to_at, to, flags);
}

int link(const char *from, const char *to)
{
    return linkat(AT_FDCWD, from, AT_FDCWD, to, 0);
}

int unlinkat(int at, const char *path, int flags)
{
    step("unlink");
    return (int)syscall(SYS_unlinkat, at, path, flags);
}

int unlink(const char *path)
{
    return unlinkat(AT_FDCWD, path, 0);
}

int rmdir(const char *path)
{
    return unlinkat(AT_FDCWD, path, AT_REMOVEDIR);
}

int mkdirat(int at, const char *path, mode_t mode)
{
    step("mkdir");
    return (int)syscall(SYS_mkdirat, at, path, mode);
}

int mkdir(const char *path, mode_t mode)
{
    return mkdirat(AT_FDCWD, path, mode);
}
