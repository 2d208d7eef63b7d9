/* Breadth-first: a list of folders still to be read, each opened below the output folder without following
 * links. */
#include "pipelined/agent/outputs/early_scan.h"

#include "pipelined/agent/outputs/metrics_file.h"
#include "storage/base/path.h"
#include "storage/system/io.h"
#include "storage/tree/tree.h"
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>

struct walk {
    struct pl_early_scan_files *f;
    int out_fd;
    size_t max, n_folders;
    struct pl_buf folders; /* paths of folders still to be read, NUL-terminated, one after another */
    size_t next_folder;
};

struct pl_early_scan_stamp pl_early_scan_stamp_of(const struct stat *st)
{
    return (struct pl_early_scan_stamp){.dev = st->st_dev,
                                        .ino = st->st_ino,
                                        .size = st->st_size,
                                        .mode = st->st_mode,
                                        .mtime = st->st_mtim,
                                        .ctime = st->st_ctim};
}

static bool time_eq(const struct timespec *a, const struct timespec *b)
{
    return a->tv_sec == b->tv_sec && a->tv_nsec == b->tv_nsec;
}

bool pl_early_scan_stamp_eq(const struct pl_early_scan_stamp *a, const struct pl_early_scan_stamp *b)
{
    return a->dev == b->dev && a->ino == b->ino && a->size == b->size && a->mode == b->mode && time_eq(&a->mtime, &b->mtime) &&
           time_eq(&a->ctime, &b->ctime);
}

static int add_file(struct walk *k, const char *path, const struct stat *st, struct pl_err *err)
{
    struct pl_early_scan_files *f = k->f;

    if (f->n == k->max)
        return pl_err_set(err, PL_ELIMIT, "the output has more than %zu files", k->max);
    if (f->n == f->cap) {
        size_t cap = f->cap ? 2 * f->cap : 16;
        struct pl_early_scan_file *more = realloc(f->files, cap * sizeof(*more));
        if (!more)
            return pl_err_nomem(err);
        f->files = more;
        f->cap = cap;
    }
    f->files[f->n++] = (struct pl_early_scan_file){.path = (uint32_t)f->names.len, .stamp = pl_early_scan_stamp_of(st)};
    return pl_buf_add(&f->names, path, strlen(path) + 1, err);
}

/* Handles one entry of a folder: a file to list, or a folder to read later. */
static int visit(struct walk *k, const char *path, int folder_fd, const char *name, struct pl_err *err)
{
    struct stat st;

    if (pl_path_check(path, strlen(path), NULL) < 0 || fstatat(folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        /* skip it: a bad name is reported when the command has ended, and a missing file was just removed */
        return 0;
    if (S_ISDIR(st.st_mode)) {
        if (k->n_folders++ == k->max)
            return pl_err_set(err, PL_ELIMIT, "the output has more than %zu folders", k->max);
        return pl_buf_add(&k->folders, path, strlen(path) + 1, err);
    }
    if (!S_ISREG(st.st_mode) || st.st_size <= PL_INLINE_MAX_BYTES || pl_streq(path, PL_METRICS_FILE))
        return 0;
    return add_file(k, path, &st, err);
}

/* Reads one folder. `path` must be the caller's copy, because the list of folders grows meanwhile. */
static int read_folder(struct walk *k, const char *path, struct pl_err *err)
{
    char child[PL_PATH_MAX_BYTES + NAME_MAX + 3];
    int fd = pl_io_open_beneath(k->out_fd, *path ? path : ".", O_RDONLY | O_DIRECTORY), r = 0;
    DIR *dir = fd < 0 ? NULL : fdopendir(fd);
    const struct dirent *e;

    if (!dir) {
        if (fd >= 0)
            close(fd);
        return 0;
    }
    while (r == 0 && (e = readdir(dir))) {
        if (pl_streq(e->d_name, ".") || pl_streq(e->d_name, ".."))
            continue;
        snprintf(child, sizeof(child), "%s%s%s", path, *path ? "/" : "", e->d_name);
        r = visit(k, child, fd, e->d_name, err);
    }
    closedir(dir);
    return r;
}

static int by_path(const void *a, const void *b, void *names)
{
    const struct pl_early_scan_file *x = a, *y = b;

    return strcmp((const char *)names + x->path, (const char *)names + y->path);
}

int pl_early_scan_folder(int out_fd, size_t max, struct pl_early_scan_files *ret, struct pl_err *err)
{
    struct walk k = {.f = ret, .out_fd = out_fd, .max = max};
    char path[PL_PATH_MAX_BYTES + 1] = "";
    int r;

    *ret = (struct pl_early_scan_files){0};
    r = read_folder(&k, path, err);
    while (r == 0 && k.next_folder < k.folders.len) {
        const char *folder = (const char *)k.folders.data + k.next_folder;
        /* the path fits, because paths in the list have passed pl_path_check */
        memcpy(path, folder, strlen(folder) + 1);
        k.next_folder += strlen(path) + 1;
        r = read_folder(&k, path, err);
    }
    pl_buf_finish(&k.folders);
    if (r < 0) {
        pl_early_scan_files_finish(ret);
        return r;
    }
    if (ret->n > 1)
        qsort_r(ret->files, ret->n, sizeof(*ret->files), by_path, ret->names.data);
    return 0;
}

void pl_early_scan_files_finish(struct pl_early_scan_files *f)
{
    pl_buf_finish(&f->names);
    free(f->files);
    *f = (struct pl_early_scan_files){0};
}
