/* A few files are written by the calling thread; more are passed to checkout, which has threads of its
 * own. */
#include "pipelined/agent/inputs/input_folder.h"

#include "storage/system/io.h"
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>

int pl_input_path(char out[PL_INPUTS_PATH_MAX], const char *folder, const char *name, struct pl_err *err)
{
    if (snprintf(out, PL_INPUTS_PATH_MAX, "%s%s%s", folder, *name ? "/" : "", name) >= PL_INPUTS_PATH_MAX)
        return pl_err_set(err, PL_EINVAL, "a path of more than %d bytes below %.200s: use shorter names", PL_INPUTS_PATH_MAX,
                          folder);
    return 0;
}

int pl_input_parents_open(int dest_fd, const char *path, int *ret_fd, struct pl_err *err)
{
    _cleanup_close_ int at = fcntl(dest_fd, F_DUPFD_CLOEXEC, 3);
    char name[PL_SEGMENT_MAX_BYTES + 1];

    if (at < 0)
        return pl_err_errno(err, errno, "input");
    for (const char *slash = strchr(path, '/'), *from = path; slash; from = slash + 1, slash = strchr(from, '/')) {
        int fd;

        if ((size_t)(slash - from) >= sizeof(name))
            return pl_err_set(err, PL_EPATH, "%s: a name is longer than %d bytes", path, PL_SEGMENT_MAX_BYTES);
        snprintf(name, sizeof(name), "%.*s", (int)(slash - from), from);
        if (mkdirat(at, name, 0755) < 0 && errno != EEXIST)
            return pl_err_errno(err, errno, "cannot create the folder %.*s", (int)(slash - path), path);
        fd = openat(at, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
        if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
            return pl_err_set(err, PL_ECOLLISION, "%s: %.*s is a file or link, not a folder", path, (int)(slash - path), path);
        if (fd < 0)
            return pl_err_errno(err, errno, "%.*s", (int)(slash - path), path);
        close(at);
        at = fd;
    }
    *ret_fd = TAKE_FD(at);
    return 0;
}

int pl_input_parents(const char *dest, const char *path, struct pl_err *err)
{
    _cleanup_close_ int dest_fd = open(dest, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), fd = -1;

    return dest_fd < 0 ? pl_err_errno(err, errno, "%s", dest) : pl_input_parents_open(dest_fd, path, &fd, err);
}

static int write_piece(void *self, const void *bytes, size_t n, struct pl_err *err)
{
    return pl_io_write(*(const int *)self, bytes, n, "input", err);
}

static int write_bytes(struct pl_input_folder *f, const struct pl_entry *e, int at, const char *path, struct pl_err *err)
{
    static const struct timespec times[2] = {{.tv_sec = PL_CHECKOUT_MTIME_S}, {.tv_sec = PL_CHECKOUT_MTIME_S}};
    const mode_t mode = e->kind == PL_KIND_EXEC ? 0555 : 0444;
    _cleanup_close_ int fd = -1;
    int r;

    fd = openat(at, path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0)
        return pl_err_errno(err, errno, "%s", path);
    if (e->content == PL_CONTENT_INLINE)
        r = pl_io_write(fd, e->data, e->inline_len, path, err);
    else
        r = pl_file_read(e, 0, e->size, &f->reader, &f->scratch, write_piece, &fd, err);
    if (r == 0 && futimens(fd, times) < 0)
        r = pl_err_errno(err, errno, "%s", path);
    return r;
}

static int write_link(struct pl_input_folder *f, const struct pl_entry *e, int at, const char *path, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf target = {.max = PL_LINK_MAX_BYTES + 1};
    int r;

    if (e->content == PL_CONTENT_INLINE)
        r = pl_buf_add(&target, e->data, e->inline_len, err);
    else
        r = f->reader.get(f->reader.self, &e->id, 0, &target, err);
    if (r < 0)
        return r;
    if (!pl_buf_str(&target) || symlinkat(pl_buf_str(&target), at, path) < 0)
        return pl_err_errno(err, errno, "%s", path);
    return 0;
}

int pl_input_entry(struct pl_input_folder *f, const struct pl_entry *e, int at, const char *path, struct pl_err *err)
{
    int r;

    if (e->kind == PL_KIND_LINK)
        return write_link(f, e, at, path, err);
    if (e->kind == PL_KIND_DIR)
        return mkdirat(at, path, 0755) < 0 ? pl_err_errno(err, errno, "%s", path) : 0;
    if (!f->cache || e->content == PL_CONTENT_INLINE)
        return write_bytes(f, e, at, path, err);
    r = pl_file_cache_link(f->cache, e, at, path, err);
    if (r != 0)
        return r < 0 ? r : 0;
    r = write_bytes(f, e, at, path, err);
    if (r == 0)
        pl_file_cache_adopt(f->cache, e, at, path);
    return r;
}

/* Writes the entries one after another; keeps the current parent folder open. */
static int write_few(struct pl_input_folder *f, const struct pl_entry_source *entries, const char *dest, struct pl_err *err)
{
    _cleanup_close_ int dest_fd = open(dest, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), at = -1;
    char last[PL_PATH_MAX_BYTES + 1] = ""; /* path of the folder that `at` is open on */
    size_t last_len = 0, len;
    struct pl_entry e;
    const char *p;
    int r;

    if (dest_fd < 0)
        return pl_err_errno(err, errno, "%s", dest);
    while ((r = entries->next(entries->self, &p, &len, &e, err)) > 0) {
        const char *slash = strrchr(p, '/'), *name = slash ? slash + 1 : p;
        const size_t dir_len = (size_t)(name - p);

        r = 0;
        if (at < 0 || dir_len != last_len || memcmp(last, p, dir_len) != 0) {
            pl_closep(&at);
            at = -1;
            r = pl_input_parents_open(dest_fd, p, &at, err);
            last_len = dir_len;
            memcpy(last, p, dir_len);
        }
        r = r < 0 ? r : pl_input_entry(f, &e, at, name, err);
        if (r < 0)
            return pl_err_wrap(err, r, "%s", p);
    }
    return r;
}

/* ---- a whole match ---- */

int pl_input_files_key(const struct pl_agent_protocol_input *wi, struct pl_buf *ret, struct pl_err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < wi->n_files; i++)
        r = pl_buf_add(ret, wi->files[i], strlen(wi->files[i]) + 1, err);
    return r;
}

/* Creates the matched folder, so that it exists even if the globs leave out all its files. */
static int make_match(const char *dest, const struct pl_agent_protocol_input *wi, struct pl_err *err)
{
    char inside[PL_PATH_MAX_BYTES + 3];

    snprintf(inside, sizeof(inside), "%s/x", wi->path);
    return *wi->path ? pl_input_parents(dest, inside, err) : 0;
}

int pl_input_sums_get(struct pl_input_folder *f, const struct pl_agent_protocol_input *wi, struct pl_input_sums *ret,
                      struct pl_err *err)
{
    const struct pl_node_source nodes = pl_node_cache_source(f->nodes);
    struct pl_tree_stats stats;
    char prefix[PL_PATH_MAX_BYTES + 2];
    int r;

    snprintf(prefix, sizeof(prefix), "%s%s", wi->path, *wi->path ? "/" : "");
    r = pl_tree_stats_get(&nodes, &wi->root, prefix, strlen(prefix), &stats, err);
    if (r == 0)
        *ret = (struct pl_input_sums){.files = stats.files, .bytes = stats.bytes};
    return r;
}

int pl_input_write(struct pl_input_folder *f, const struct pl_entry_source *entries, uint64_t n, const char *dest,
                   struct pl_err *err)
{
    const struct pl_checkout_options options = {.cache = f->cache, .replace = true};

    return n <= PL_INPUTS_FEW ? write_few(f, entries, dest, err) : pl_checkout(entries, &f->reader, dest, &options, NULL, err);
}

int pl_input_build(struct pl_input_folder *f, const struct pl_agent_protocol_input *wi, const char *dest,
                   struct pl_input_sums *ret, struct pl_err *err)
{
    struct pl_input_entries source = {0};
    int r = pl_input_sums_get(f, wi, ret, err);

    if (r == 0)
        r = pl_input_entries_open(f->nodes, f->user, f->cache, wi, &source, err);
    if (r == 0)
        r = make_match(dest, wi, err);
    if (r == 0) {
        const struct pl_entry_source entries = pl_input_entries_entries(&source);
        r = pl_input_write(f, &entries, ret->bytes <= PL_INPUTS_FEW_BYTES ? ret->files : UINT64_MAX, dest, err);
    }
    pl_input_entries_finish(&source);
    return r;
}

/* ---- files that the command may change ---- */

static int make_writable(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)ftw;
    return type == FTW_F ? chmod(path, (st->st_mode & 07777) | 0200) : 0;
}

static int make_writable_by_group(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    const mode_t more = type == FTW_F ? 0220 : type == FTW_D ? 0070 : 0;

    (void)ftw;
    return more ? chmod(path, (st->st_mode & 07777) | more) : 0;
}

int pl_input_make_writable(const char *folder, bool by_group, struct pl_err *err)
{
    if (nftw(folder, by_group ? make_writable_by_group : make_writable, 16, FTW_PHYS) != 0)
        return pl_err_errno(err, errno, "%s", folder);
    return 0;
}
