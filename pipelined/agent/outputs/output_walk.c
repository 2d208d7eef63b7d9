/* Reads an output folder, one folder after the other.
 *
 * The command may keep running (datum.batch) and change the folder while it is read. So no path of several
 * names is looked up: a folder is opened below the output's descriptor without following links, and its
 * entries are accessed by name in that folder. Whatever the command replaces meanwhile, only entries of the
 * output are read or made readable. */
#include "pipelined/agent/outputs/output_walk.h"

#include "storage/base/path.h"
#include "storage/system/io.h"
#include "storage/tree/tree.h"
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#define NAMES_MAX ((size_t)512 << 20)

struct walk {
    struct pl_out_walk *w;
    int root_fd;
    const char *shown;
    size_t max;
    struct pl_buf folders; /* paths of folders still to be read, NUL-terminated, one after another */
    size_t next_folder;
};

#define QUOTE_BYTES 400

/* Formats a path for a message: unprintable bytes as \xNN, a very long one cut off. */
static const char *quote(const char *text, char out[QUOTE_BYTES])
{
    const bool utf8 = pl_utf8_ok(text, strlen(text));
    const uint8_t *p = (const uint8_t *)text;
    size_t at = 0;

    for (; *p && at < QUOTE_BYTES - 8; p++) {
        if (*p < 0x20 || *p == 0x7f || (!utf8 && *p >= 0x80))
            at += (size_t)snprintf(out + at, QUOTE_BYTES - at, "\\x%02x", *p);
        else
            out[at++] = (char)*p;
    }
    strcpy(out + at, *p ? "…" : "");
    return out;
}

static int refuse(const struct walk *k, int code, const char *path, const char *why, struct pl_err *err)
{
    char text[QUOTE_BYTES];

    return pl_err_set(err, code, "%s/%s %s", k->shown, quote(path, text), why);
}

static int check_name(const struct walk *k, const char *path, struct pl_err *err)
{
    const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;

    if (pl_path_check(path, strlen(path), NULL) == 0)
        return 0;
    if (!pl_utf8_ok(name, strlen(name)))
        return refuse(k, PL_EPATH, path, "has a name that is not UTF-8: rename it", err);
    if (strlen(path) > PL_PATH_MAX_BYTES)
        return refuse(k, PL_EPATH, path, "has a path longer than 1,024 bytes: shorten it", err);
    return refuse(k, PL_EPATH, path, "has a name with a control character: rename it", err);
}

/* Appends an item with this path. NULL, with `err` set, at the limit or without memory. */
static struct pl_out_item *add_item(struct walk *k, const char *path, struct pl_err *err)
{
    struct pl_out_walk *w = k->w;

    if (w->n == k->max) {
        pl_err_set(err, PL_ELIMIT, "%s holds more than %zu files", k->shown, k->max);
        return NULL;
    }
    if (w->n == w->cap) {
        size_t cap = w->cap ? 2 * w->cap : 16;
        struct pl_out_item *more = realloc(w->items, cap * sizeof(*more));
        if (!more) {
            pl_err_nomem(err);
            return NULL;
        }
        w->items = more;
        w->cap = cap;
    }
    w->items[w->n] = (struct pl_out_item){.path = (uint32_t)w->names.len};
    if (pl_buf_add(&w->names, path, strlen(path) + 1, err) < 0)
        return NULL;
    return &w->items[w->n++];
}

static int add_link(struct walk *k, int folder_fd, const char *name, struct pl_out_item *item, const char *path,
                    struct pl_err *err)
{
    char text[PL_LINK_MAX_BYTES + 1];
    ssize_t n = readlinkat(folder_fd, name, text, sizeof(text));

    if (n < 0)
        return pl_err_errno(err, errno, "%s/%s", k->shown, path);
    if (n == 0 || (size_t)n > PL_LINK_MAX_BYTES)
        return refuse(k, PL_EINVAL, path, "is a link longer than 4,095 bytes", err);
    text[n] = 0;
    item->text = (uint32_t)k->w->names.len;
    k->w->n_links++;
    return pl_buf_add(&k->w->names, text, (size_t)n + 1, err);
}

static const char *kind_name(mode_t mode)
{
    if (S_ISFIFO(mode))
        return "is a FIFO: only files, folders and links can be kept";
    if (S_ISSOCK(mode))
        return "is a socket: only files, folders and links can be kept";
    return "is a device: only files, folders and links can be kept";
}

/* Handles the entry `name` of the folder; `path` is its path below the output folder. */
static int visit(struct walk *k, int folder_fd, const char *name, const char *path, struct pl_err *err)
{
    struct pl_out_item *item;
    struct stat st;
    int r = check_name(k, path, err);

    if (r < 0)
        return r;
    if (fstatat(folder_fd, name, &st, AT_SYMLINK_NOFOLLOW) < 0)
        return pl_err_errno(err, errno, "%s/%s", k->shown, path);
    if (S_ISDIR(st.st_mode))
        return pl_buf_add(&k->folders, path, strlen(path) + 1, err);
    if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
        return refuse(k, PL_EINVAL, path, kind_name(st.st_mode), err);
    item = add_item(k, path, err);
    if (!item)
        return err ? err->code : PL_ELIMIT;
    item->mode = st.st_mode;
    if (S_ISLNK(st.st_mode))
        return add_link(k, folder_fd, name, item, path, err);
    item->size = (uint64_t)st.st_size;
    k->w->bytes += item->size;
    k->w->n_files++;
    if (!(st.st_mode & 0400) && geteuid() != 0 && fchmodat(folder_fd, name, (st.st_mode & 07777) | 0400, AT_SYMLINK_NOFOLLOW) < 0)
        return pl_err_errno(err, errno, "%s/%s", k->shown, path);
    return 0;
}

/* Opens a folder; gives its owner access first if the command took that away. */
static DIR *open_folder(const struct walk *k, const char *path)
{
    int fd = pl_io_open_beneath(k->root_fd, path, O_RDONLY | O_DIRECTORY);
    DIR *dir;

    if (fd < 0 && errno == EACCES) {
        _cleanup_close_ int closed_fd = pl_io_open_beneath(k->root_fd, path, O_PATH | O_DIRECTORY);

        fd = closed_fd < 0 ? -1 : pl_io_open_up(closed_fd);
    }
    dir = fd < 0 ? NULL : fdopendir(fd);
    if (!dir && fd >= 0)
        close(fd);
    return dir;
}

/* Reads one folder. `path` must be the caller's copy, because the list of folders grows meanwhile. */
static int read_folder(struct walk *k, const char *path, struct pl_err *err)
{
    DIR *dir = open_folder(k, *path ? path : ".");
    const struct dirent *e;
    char child[PL_PATH_MAX_BYTES + NAME_MAX + 3];
    bool empty = true;
    int r = 0;

    if (!dir)
        return pl_err_errno(err, errno, "%s/%s", k->shown, path);
    if (fchmod(dirfd(dir), 0755) < 0 && errno != EPERM) /* lets the agent read and remove the files in it */
        r = pl_err_errno(err, errno, "%s/%s", k->shown, path);
    while (r == 0 && (e = readdir(dir))) {
        if (pl_streq(e->d_name, ".") || pl_streq(e->d_name, ".."))
            continue;
        empty = false;
        snprintf(child, sizeof(child), "%s%s%s", path, *path ? "/" : "", e->d_name);
        r = visit(k, dirfd(dir), e->d_name, child, err);
    }
    closedir(dir);
    if (r == 0 && empty && *path) {
        struct pl_out_item *item = add_item(k, path, err);
        if (!item)
            return err ? err->code : PL_ELIMIT;
        item->mode = S_IFDIR;
    }
    return r;
}

static int by_path(const void *a, const void *b, void *names)
{
    const struct pl_out_item *x = a, *y = b;

    return strcmp((const char *)names + x->path, (const char *)names + y->path);
}

static int walk_all(struct walk *k, struct pl_err *err)
{
    char path[PL_PATH_MAX_BYTES + 1] = "";
    int r = read_folder(k, path, err);

    while (r == 0 && k->next_folder < k->folders.len) {
        const char *folder = (const char *)k->folders.data + k->next_folder;
        /* the path fits, because paths in the list have passed pl_path_check */
        memcpy(path, folder, strlen(folder) + 1);
        k->next_folder += strlen(path) + 1;
        r = read_folder(k, path, err);
    }
    return r;
}

int pl_out_walk(int out_fd, const char *shown, size_t max, struct pl_out_walk *ret, struct pl_err *err)
{
    struct walk k = {.w = ret, .root_fd = out_fd, .shown = shown, .max = max, .folders = {.max = NAMES_MAX}};
    struct pl_err local = {0};
    int r;

    if (!err)
        err = &local;
    *ret = (struct pl_out_walk){.names = {.max = NAMES_MAX}};
    r = walk_all(&k, err);
    pl_buf_finish(&k.folders);
    if (r < 0) {
        pl_out_walk_finish(ret);
        return r;
    }
    if (ret->n > 1)
        qsort_r(ret->items, ret->n, sizeof(*ret->items), by_path, ret->names.data);
    return 0;
}

void pl_out_walk_finish(struct pl_out_walk *w)
{
    pl_buf_finish(&w->names);
    free(w->items);
    *w = (struct pl_out_walk){0};
}
