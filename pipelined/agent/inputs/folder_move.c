/* Renames each entry from one folder descriptor to the other, or exchanges two names. */
#include "pipelined/agent/inputs/folder_move.h"

#include "pipelined/agent/sandbox/sandbox.h"
#include "storage/system/io.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>

/* Renames one entry. If the command has removed write permission from its own folder, restores the permission
 * and tries again. */
static int move(int from_fd, const char *name, int to_fd)
{
    if (renameat(from_fd, name, to_fd, name) == 0)
        return 0;
    if (errno != EACCES)
        return -1;
    (void)!fchmod(from_fd, 0755);
    (void)!fchmodat(from_fd, name, 0755, AT_SYMLINK_NOFOLLOW);
    return renameat(from_fd, name, to_fd, name);
}

/* Moves all entries of the folder. Returns 1 if there was at least one. */
static int move_all(DIR *dir, int from_fd, const char *shown, int to_fd, struct pl_err *err)
{
    const struct dirent *e;
    int any = 0;

    for (;;) {
        errno = 0;
        e = readdir(dir);
        if (!e && errno)
            return pl_err_errno(err, errno, "%s", shown);
        if (!e)
            return any;
        if (pl_streq(e->d_name, ".") || pl_streq(e->d_name, ".."))
            continue;
        if (move(from_fd, e->d_name, to_fd) < 0)
            return pl_err_errno(err, errno, "%s/%s", shown, e->d_name);
        any = 1;
    }
}

/* Opens the folder again, for reading its entries; restores its permissions if the command removed them. */
static DIR *open_again(int from_fd)
{
    int fd = openat(from_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir;

    if (fd < 0 && errno == EACCES && fchmod(from_fd, 0755) == 0)
        fd = openat(from_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir && fd >= 0)
        close(fd);
    return dir;
}

int pl_folder_move(int from_fd, const char *shown, const char *to, struct pl_err *err)
{
    _cleanup_close_ int to_fd = open(to, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = to_fd < 0 ? NULL : open_again(from_fd);
    int r;

    if (!dir)
        return pl_err_errno(err, errno, "%s", to_fd < 0 ? to : shown);
    r = move_all(dir, from_fd, shown, to_fd, err);
    closedir(dir);
    return r;
}

int pl_folder_put(const char *next, const char *at, struct pl_err *err)
{
    if (renameat2(AT_FDCWD, next, AT_FDCWD, at, RENAME_EXCHANGE) == 0)
        return 1;
    if (errno != ENOENT && errno != EINVAL)
        return pl_err_errno(err, errno, "%s", at);
    if (errno == EINVAL && pl_io_remove_tree(at, err) < 0)
        return PL_EIO;
    return rename(next, at) < 0 ? pl_err_errno(err, errno, "%s", at) : 0;
}

int pl_folder_refill(const char *from, const char *to, struct pl_err *err)
{
    _cleanup_close_ int fd = open(from, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int r;

    if (fd < 0)
        return pl_err_errno(err, errno, "%s", from);
    r = pl_io_mkdirs(to, 0755, err);
    r = r < 0 ? r : pl_sandbox_clear(to, err);
    r = r < 0 ? r : pl_folder_move(fd, from, to, err);
    return r < 0 ? r : 0;
}

int pl_folder_link(const char *from, const char *seen, const char *to, struct pl_err *err)
{
    _cleanup_close_ int fd = open(to, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    DIR *dir = fd < 0 ? NULL : opendir(from);
    char target[PATH_MAX];
    const struct dirent *e;
    int r = 0;

    if (!dir)
        return pl_err_errno(err, errno, "%s", fd < 0 ? to : from);
    while (r == 0 && (e = readdir(dir))) {
        if (pl_streq(e->d_name, ".") || pl_streq(e->d_name, ".."))
            continue;
        snprintf(target, sizeof target, "%s/%s", seen, e->d_name);
        if (symlinkat(target, fd, e->d_name) < 0)
            r = pl_err_errno(err, errno, "%s/%s", to, e->d_name);
    }
    closedir(dir);
    return r;
}
