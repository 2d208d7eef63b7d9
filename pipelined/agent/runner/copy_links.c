/* Walks the output folder. Each copy is made under a temporary name in the output folder and then renamed
 * over the link. */
#include "pipelined/agent/runner/copy_links.h"

#include "pipelined/agent/runner/link_target.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define ASIDE ".pl-link" /* temporary name of a copy; no file of this name is left when the program ends */

struct copying {
    const char *out, *pfs;
    int out_fd;
    dev_t out_dev; /* device and inode of the output folder */
    ino_t out_ino;
    unsigned items;      /* files and folders copied so far */
    char path[PATH_MAX]; /* path of the link below the output folder */
    char text[PATH_MAX]; /* text of the link */
};

/* Prints an error about the current link; returns -1. */
__attribute__((format(printf, 2, 3))) static int fail(const struct copying *c, const char *fmt, ...)
{
    va_list ap;

    fprintf(stderr, "output: %s/%s is a link to %s: ", c->out, c->path, c->text);
    va_start(ap, fmt);
    vfprintf(stderr, fmt, ap);
    va_end(ap);
    fputc('\n', stderr);
    return -1;
}

/* ---- one file ---- */

static int copy_bytes(const struct copying *c, int from, int to)
{
    static char buffer[1 << 16];
    ssize_t n;

    while ((n = copy_file_range(from, NULL, to, NULL, 1 << 30, 0)) > 0)
        ;
    if (n == 0)
        return 0; /* for a file in /proc copy_file_range may return 0 at once: read() gets its content */
    while ((n = read(from, buffer, sizeof(buffer))) > 0)
        for (ssize_t at = 0, wrote; at < n; at += wrote) {
            wrote = write(to, buffer + at, (size_t)(n - at));
            if (wrote < 0)
                return fail(c, "%s", strerror(errno));
        }
    return n < 0 ? fail(c, "%s", strerror(errno)) : 0;
}

static int copy_file(struct copying *c, int from, const struct stat *st, int dir, const char *name)
{
    int to = openat(dir, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600), r;

    if (to < 0)
        return fail(c, "%s", strerror(errno));
    r = copy_bytes(c, from, to);
    if (r == 0 && fchmod(to, st->st_mode & 0111 ? 0755 : 0644) < 0)
        r = fail(c, "%s", strerror(errno));
    if (close(to) < 0 && r == 0)
        r = fail(c, "%s", strerror(errno));
    return r;
}

/* ---- a folder ---- */

static int copy_any(struct copying *c, int from, int dir, const char *name, unsigned depth);

/* Copies one entry of a folder; follows a link to a file. */
static int copy_item(struct copying *c, int from_dir, const char *name, int to_dir, unsigned depth)
{
    int fd = openat(from_dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), r;
    struct stat own, st;

    if (fd < 0 || fstatat(from_dir, name, &own, AT_SYMLINK_NOFOLLOW) < 0 || fstat(fd, &st) < 0)
        r = fail(c, "inside it, %s: %s", name, strerror(errno));
    else if (S_ISLNK(own.st_mode) && S_ISDIR(st.st_mode))
        r = fail(c, "inside it, %s is a link to a folder: copy the folder", name);
    else
        r = copy_any(c, fd, to_dir, name, depth);
    if (fd >= 0)
        close(fd);
    return r;
}

/* Copies a folder and everything in it. */
static int copy_folder(struct copying *c, int from, int dir, const char *name, unsigned depth)
{
    int copy = dup(from), to = -1, r = 0;
    DIR *entries = copy < 0 ? NULL : fdopendir(copy);
    const struct dirent *e;

    if (depth == PL_COPY_DEPTH_MAX)
        r = fail(c, "its folders are more than %u levels deep", PL_COPY_DEPTH_MAX);
    else if (!entries || mkdirat(dir, name, 0755) < 0 ||
             (to = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)) < 0)
        r = fail(c, "%s", strerror(errno));
    while (r == 0 && (e = readdir(entries)))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            r = copy_item(c, from, e->d_name, to, depth + 1);
    if (to >= 0)
        close(to);
    if (entries)
        closedir(entries);
    else if (copy >= 0)
        close(copy);
    return r;
}

static int copy_any(struct copying *c, int from, int dir, const char *name, unsigned depth)
{
    struct stat st;

    if (++c->items > PL_COPY_ITEMS_MAX)
        return fail(c, "it has more than %u files and folders", PL_COPY_ITEMS_MAX);
    if (fstat(from, &st) < 0)
        return fail(c, "%s", strerror(errno));
    if (S_ISREG(st.st_mode))
        return copy_file(c, from, &st, dir, name);
    if (!S_ISDIR(st.st_mode))
        return fail(c, "only files and folders can be copied");
    if (st.st_dev == c->out_dev && st.st_ino == c->out_ino)
        return fail(c, "it contains the output folder itself");
    return copy_folder(c, from, dir, name, depth);
}

/* ---- links ---- */

/* Copies the link's target under the temporary name and puts the copy in the link's place. */
static int replace(struct copying *c, int dir, const char *name)
{
    int from = openat(dir, name, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), r;

    if (from < 0)
        return fail(c, "%s", errno == ENOENT ? "the target does not exist" : strerror(errno));
    r = copy_any(c, from, c->out_fd, ASIDE, 0);
    close(from);
    if (r == 0 && (unlinkat(dir, name, 0) < 0 || renameat(c->out_fd, ASIDE, dir, name) < 0))
        r = fail(c, "%s", strerror(errno));
    return r;
}

static int look_at_link(struct copying *c, int dir, const char *name)
{
    static struct pl_link_target target;
    ssize_t n = readlinkat(dir, name, c->text, sizeof(c->text) - 1);

    c->text[n > 0 ? n : 0] = 0;
    if (n < 0)
        return fail(c, "%s", strerror(errno));
    pl_link_target_find(c->path, c->text, c->pfs, &target);
    return target.where == PL_LINK_ELSEWHERE ? replace(c, dir, name) : 0;
}

static int look_into(struct copying *c, int dir, size_t len, unsigned depth);

/* Handles one entry of the output: a link, or a folder to walk into. */
static int look_at(struct copying *c, int dir, const char *name, size_t len, unsigned depth)
{
    struct stat st;
    int fd, r = 0;

    if (snprintf(c->path + len, sizeof(c->path) - len, "%s%s", len ? "/" : "", name) >= (int)(sizeof(c->path) - len))
        return 0; /* skip it: the path is too long, and the agent reports that when it reads the output */
    if (fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return 0;
    if (S_ISLNK(st.st_mode))
        return look_at_link(c, dir, name);
    if (!S_ISDIR(st.st_mode) || depth == PL_COPY_DEPTH_MAX)
        return 0;
    fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    /* a folder that cannot be opened is skipped: the agent opens it when it reads the output, and refuses
     * links in it */
    if (fd >= 0)
        r = look_into(c, fd, strlen(c->path), depth + 1);
    if (fd >= 0)
        close(fd);
    return r;
}

static int look_into(struct copying *c, int dir, size_t len, unsigned depth)
{
    int copy = dup(dir), r = 0;
    DIR *entries = copy < 0 ? NULL : fdopendir(copy);
    const struct dirent *e;

    if (!entries) {
        if (copy >= 0)
            close(copy);
        return 0;
    }
    while (r == 0 && (e = readdir(entries)))
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            r = look_at(c, dir, e->d_name, len, depth);
    closedir(entries);
    return r;
}

int pl_copy_links(const char *out, const char *pfs)
{
    struct copying c = {.out = out, .pfs = pfs};
    struct stat st;
    int r;

    c.out_fd = open(out, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (c.out_fd < 0 || fstat(c.out_fd, &st) < 0) {
        fprintf(stderr, "output: %s: %s\n", out, strerror(errno));
        return 1;
    }
    c.out_dev = st.st_dev;
    c.out_ino = st.st_ino;
    r = look_into(&c, c.out_fd, 0, 0);
    close(c.out_fd);
    return r < 0;
}
