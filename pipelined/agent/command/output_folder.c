/* Detects that the command has replaced its output folder: compares device and inode of the path with those
 * of the open descriptor. The descriptor keeps the old folder alive, so its inode number cannot have been
 * reused. */
#include "pipelined/agent/command/output_folder.h"

#include "storage/system/io.h"
#include <fcntl.h>
#include <stdio.h>

int pl_out_folder_open(struct pl_out_folder *f, const char *work, struct pl_err *err)
{
    struct stat st;

    snprintf(f->path, sizeof(f->path), "%s/pfs/out", work);
    f->fd = open(f->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (f->fd < 0 || fstat(f->fd, &st) < 0)
        return pl_err_errno(err, errno, "%s", f->path);
    f->mode = st.st_mode & 07777;
    return 0;
}

void pl_out_folder_close(struct pl_out_folder *f)
{
    pl_closep(&f->fd);
}

/* Opens the folder at the path, even if the command has removed the owner's permissions on it. */
static int open_there(const char *path)
{
    _cleanup_close_ int path_fd = open(path, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    int fd = path_fd < 0 ? -1 : openat(path_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

    return path_fd >= 0 && fd < 0 && errno == EACCES ? pl_io_open_up(path_fd) : fd;
}

int pl_out_folder_follow(struct pl_out_folder *f, struct pl_err *err)
{
    _cleanup_close_ int fd = -1;
    struct stat held, there;

    if (fstat(f->fd, &held) < 0)
        return pl_err_errno(err, errno, "%s", f->path);
    if (lstat(f->path, &there) < 0)
        return errno != ENOENT && errno != ENOTDIR
                   ? pl_err_errno(err, errno, "%s", f->path)
                   : pl_err_set(err, PL_EINVAL,
                                "the command removed its output folder %s: write files into it, or create it again", f->path);
    if (!S_ISDIR(there.st_mode))
        return pl_err_set(err, PL_EINVAL,
                          "the command replaced its output folder by %s: %s may only be replaced by another folder",
                          S_ISLNK(there.st_mode) ? "a link" : "a file", f->path);
    if (held.st_dev == there.st_dev && held.st_ino == there.st_ino)
        return 0;
    fd = open_there(f->path);
    if (fd < 0 || dup3(fd, f->fd, O_CLOEXEC) < 0)
        return pl_err_errno(err, errno, "%s", f->path);
    return 0;
}

/* Replaces what is at the path by an empty folder. */
static int make_anew(struct pl_out_folder *f, struct pl_err *err)
{
    int r = pl_io_remove_tree(f->path, err);

    r = r < 0 ? r : pl_io_mkdirs(f->path, 0755, err);
    return r < 0 ? r : pl_out_folder_follow(f, err);
}

int pl_out_folder_restore(struct pl_out_folder *f, struct pl_err *err)
{
    struct pl_err why = {0};
    struct stat st;
    int r = pl_out_folder_follow(f, err);

    if (r < 0 && make_anew(f, &why) < 0)
        return pl_err_set(err, PL_EUNAVAILABLE, "cannot create the output folder again: %s", why.msg);
    if (fstat(f->fd, &st) == 0 && (st.st_mode & 07777) != f->mode)
        /* ignore errors: in a pod fchmod fails if the command changed the folder's owner, and the later step
         * that moves the output reports that */
        (void)fchmod(f->fd, f->mode);
    return r;
}
