#include "pipelined/agent/inputs.h"

#include "pipelined/agent/sandbox.h"
#include "pipelined/agent/tree_source.h"
#include "storage/base/io.h"
#include "storage/dataset/checkout.h"
#include <fcntl.h>
#include <ftw.h>
#include <stdio.h>
#include <sys/stat.h>

#define PATH_BYTES 8192

/* What lies in WORK/pfs/<name> now. */
struct slot {
    char name[PL_NAME_MAX_BYTES + 1];
    bool filled;
    bool writable; /* a mount of its own: emptied and filled in place */
    struct pl_hash root;
    bool file;
    char *path;
    char *files; /* the globs, one after another; NULL = all */
    size_t files_len;
    uint64_t bytes;
    struct pl_tree_cursor *cursor; /* over `cursor_root`, for matches that are files */
    struct pl_hash cursor_root;
};

struct pl_inputs {
    struct pl_inputs_config config;
    struct pl_file_cache *cache;
    struct pl_node_cache nodes;
    struct pl_buf scratch;
    bool copying; /* into a writable input: no links to the cache */
    struct slot slots[PL_WIRE_INPUTS_MAX];
    size_t n_slots;
};

int pl_inputs_create(const struct pl_inputs_config *config, struct pl_inputs **ret, struct pl_err *err)
{
    struct pl_inputs *in = calloc(1, sizeof(*in));
    int r;

    if (!in)
        return pl_err_nomem(err);
    in->config = *config;
    r = pl_node_cache_init(&in->nodes, &config->reader, PL_INPUTS_NODES, err);
    if (r == 0 && config->cache && config->read_only)
        r = pl_file_cache_open(config->cache, PL_INPUTS_CACHE_BYTES, &in->cache, err);
    if (r < 0) {
        pl_inputs_destroy(in);
        return r;
    }
    *ret = in;
    return 0;
}

static void slot_forget(struct slot *s)
{
    s->filled = false;
    free(s->path);
    free(s->files);
    s->path = s->files = NULL;
    s->files_len = 0;
}

struct pl_inputs *pl_inputs_destroy(struct pl_inputs *in)
{
    if (!in)
        return NULL;
    for (size_t i = 0; i < in->n_slots; i++) {
        slot_forget(&in->slots[i]);
        pl_tree_cursor_destroy(in->slots[i].cursor);
    }
    pl_node_cache_finish(&in->nodes);
    pl_buf_finish(&in->scratch);
    pl_file_cache_close(in->cache);
    free(in);
    return NULL;
}

static struct slot *slot_of(struct pl_inputs *in, const char *name)
{
    struct slot *s;

    for (size_t i = 0; i < in->n_slots; i++)
        if (pl_streq(in->slots[i].name, name))
            return &in->slots[i];
    if (in->n_slots == PL_WIRE_INPUTS_MAX)
        return NULL;
    s = &in->slots[in->n_slots++];
    snprintf(s->name, sizeof(s->name), "%s", name);
    return s;
}

/* The globs of an input as one run of bytes. */
static int files_key(const struct pl_wire_input *wi, struct pl_buf *ret, struct pl_err *err)
{
    int r = 0;

    for (size_t i = 0; r == 0 && i < wi->n_files; i++)
        r = pl_buf_add(ret, wi->files[i], strlen(wi->files[i]) + 1, err);
    return r;
}

static bool slot_has(const struct slot *s, const struct pl_wire_input *wi, const struct pl_buf *files)
{
    return s->filled && s->file == wi->file && pl_hash_eq(&s->root, &wi->root) && pl_streq(s->path, wi->path) &&
           s->files_len == files->len && (files->len == 0 || memcmp(s->files, files->data, files->len) == 0);
}

/* The entry that the match `wi`, a file, is. The cursor stays for the next one, which is near. */
static int find_file(struct pl_inputs *in, struct slot *s, const struct pl_wire_input *wi, struct pl_entry *ret,
                     struct pl_err *err)
{
    const struct pl_node_source source = pl_node_cache_source(&in->nodes);
    struct pl_tree_item item;
    int r = 0;

    if (wi->json)
        return pl_err_set(err, PL_ENOTFOUND, "/%s is no file of a repo: copy it", wi->path);
    if (!s->cursor || !pl_hash_eq(&s->cursor_root, &wi->root)) {
        s->cursor = pl_tree_cursor_destroy(s->cursor);
        s->cursor_root = wi->root;
        r = pl_tree_cursor_create(&source, &wi->root, NULL, 0, &s->cursor, err);
    }
    if (r == 0)
        r = pl_tree_cursor_get(s->cursor, wi->path, strlen(wi->path), &item, err);
    if (r < 0) {
        s->cursor = pl_tree_cursor_destroy(s->cursor); /* where it stands after a failure is not said */
        return r;
    }
    if (r == 0)
        return pl_err_set(err, PL_ENOTFOUND, "/%s is not in its commit", wi->path);
    *ret = item.entry;
    return 0;
}

void pl_inputs_prepare(struct pl_inputs *in, const struct pl_wire_task *task)
{
    _cleanup_free_ struct pl_hash *ids = NULL;
    size_t n = 0, max = 0;

    if (!in->config.uplink || task->n_rows < 2)
        return;
    for (size_t i = 0; i < task->n_rows; i++)
        max += task->rows[i].n_inputs;
    ids = malloc((max + 1) * sizeof(*ids));
    for (size_t i = 0; ids && i < max; i++) {
        struct slot *s = slot_of(in, task->inputs[i].name);
        struct pl_entry e;
        if (s && task->inputs[i].file && find_file(in, s, &task->inputs[i], &e, NULL) == 0 &&
            (e.content == PL_CONTENT_CHUNK || e.content == PL_CONTENT_LIST))
            ids[n++] = e.id;
    }
    if (ids)
        pl_uplink_locate(in->config.uplink, ids, n);
}

/* --- few files, written here --- */

/* "a/b" with its end cut off: PL_EINVAL. */
static int join(char out[PATH_BYTES], const char *folder, const char *name, struct pl_err *err)
{
    if (snprintf(out, PATH_BYTES, "%s%s%s", folder, *name ? "/" : "", name) >= PATH_BYTES)
        return pl_err_set(err, PL_EINVAL, "path of more than %d bytes below %.200s", PATH_BYTES, folder);
    return 0;
}

/* Makes the folders above `path` below `base`, which is there; `last` remembers the ones made for the path before. */
static int make_parents(const char *base, const char *path, char *last, struct pl_err *err)
{
    const char *slash = strrchr(path, '/');
    size_t len = slash ? (size_t)(slash - path) : 0;
    char folder[PATH_BYTES];
    int r;

    if (len == 0 || (strncmp(last, path, len) == 0 && last[len] == 0))
        return 0;
    for (slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
        memcpy(last, path, (size_t)(slash - path));
        last[slash - path] = 0;
        r = join(folder, base, last, err);
        if (r < 0)
            return r;
        if (mkdir(folder, 0755) < 0 && errno != EEXIST)
            return pl_err_errno(err, errno, "%s", folder);
    }
    return 0;
}

static int write_piece(void *self, const void *bytes, size_t n, struct pl_err *err)
{
    return pl_io_write(*(const int *)self, bytes, n, "input", err);
}

static int write_bytes(struct pl_inputs *in, const struct pl_entry *e, const char *path, struct pl_err *err)
{
    static const struct timespec times[2] = {{.tv_sec = PL_CHECKOUT_MTIME_S}, {.tv_sec = PL_CHECKOUT_MTIME_S}};
    const mode_t mode = e->kind == PL_KIND_EXEC ? 0555 : 0444;
    _cleanup_close_ int fd = -1;
    int r;

    fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
    if (fd < 0)
        return pl_err_errno(err, errno, "%s", path);
    if (e->content == PL_CONTENT_INLINE)
        r = pl_io_write(fd, e->data, e->inline_len, path, err);
    else
        r = pl_file_read(e, 0, e->size, &in->config.reader, &in->scratch, write_piece, &fd, err);
    if (r == 0 && futimens(fd, times) < 0)
        r = pl_err_errno(err, errno, "%s", path);
    return r;
}

static int write_link(struct pl_inputs *in, const struct pl_entry *e, const char *path, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf target = {.max = PL_LINK_MAX_BYTES + 1};
    int r;

    if (e->content == PL_CONTENT_INLINE)
        r = pl_buf_add(&target, e->data, e->inline_len, err);
    else
        r = in->config.reader.get(in->config.reader.self, &e->id, 0, &target, err);
    if (r < 0)
        return r;
    if (!pl_buf_str(&target) || symlink(pl_buf_str(&target), path) < 0)
        return pl_err_errno(err, errno, "%s", path);
    return 0;
}

static int write_entry(struct pl_inputs *in, const struct pl_entry *e, const char *path, struct pl_err *err)
{
    int r;

    if (e->kind == PL_KIND_LINK)
        return write_link(in, e, path, err);
    if (e->kind == PL_KIND_DIR)
        return mkdir(path, 0755) < 0 ? pl_err_errno(err, errno, "%s", path) : 0;
    if (!in->cache || in->copying || e->content == PL_CONTENT_INLINE)
        return write_bytes(in, e, path, err);
    r = pl_file_cache_link(in->cache, e, AT_FDCWD, path, err);
    if (r != 0)
        return r < 0 ? r : 0;
    r = write_bytes(in, e, path, err);
    if (r == 0)
        pl_file_cache_adopt(in->cache, e, AT_FDCWD, path);
    return r;
}

static int write_few(struct pl_inputs *in, struct pl_tree_source *source, const char *dest, struct pl_err *err)
{
    char path[PATH_BYTES], last[PL_PATH_MAX_BYTES + 1] = "";
    struct pl_entry e;
    const char *p;
    size_t len;
    int r;

    while ((r = pl_tree_source_next(source, &p, &len, &e, err)) > 0) {
        r = make_parents(dest, p, last, err);
        if (r == 0)
            r = join(path, dest, p, err);
        if (r == 0)
            r = write_entry(in, &e, path, err);
        if (r < 0)
            break;
    }
    return r;
}

/* --- one input --- */

static int build_params(struct slot *s, const struct pl_wire_input *wi, const char *dest, struct pl_err *err)
{
    char path[PATH_BYTES];
    int r = join(path, dest, wi->path, err);

    s->bytes = strlen(wi->json);
    return r == 0 ? pl_io_write_file(path, wi->json, strlen(wi->json), 0444, err) : r;
}

static int build_file(struct pl_inputs *in, struct slot *s, const struct pl_wire_input *wi, const char *dest, struct pl_err *err)
{
    char path[PATH_BYTES], last[PL_PATH_MAX_BYTES + 1] = "";
    struct pl_entry e;
    int r;

    if (wi->json)
        return build_params(s, wi, dest, err);
    r = find_file(in, s, wi, &e, err);
    if (r == 0)
        r = make_parents(dest, wi->path, last, err);
    if (r == 0)
        r = join(path, dest, wi->path, err);
    if (r == 0)
        r = write_entry(in, &e, path, err);
    if (r == 0)
        s->bytes = e.size;
    return r;
}

/* The folder that matched, which is there even when all of it is left out. */
static int make_match(const char *dest, const struct pl_wire_input *wi, struct pl_err *err)
{
    char inside[PL_PATH_MAX_BYTES + 3], last[PL_PATH_MAX_BYTES + 3] = "";

    snprintf(inside, sizeof(inside), "%s/x", wi->path);
    return *wi->path ? make_parents(dest, inside, last, err) : 0;
}

static int build_folder(struct pl_inputs *in, struct slot *s, const struct pl_wire_input *wi, const char *dest,
                        struct pl_err *err)
{
    const struct pl_node_source nodes = pl_node_cache_source(&in->nodes);
    const struct pl_checkout_options options = {.cache = in->copying ? NULL : in->cache, .replace = true};
    struct pl_tree_source source = {0};
    struct pl_tree_stats stats;
    struct pl_checkout_stats done = {0};
    char prefix[PL_PATH_MAX_BYTES + 2];
    int r;

    snprintf(prefix, sizeof(prefix), "%s%s", wi->path, *wi->path ? "/" : "");
    r = pl_tree_stats_get(&nodes, &wi->root, prefix, strlen(prefix), &stats, err);
    if (r == 0)
        r = pl_tree_source_open(&in->nodes, in->config.uplink, wi, &source, err);
    if (r == 0)
        r = make_match(dest, wi, err);
    if (r == 0 && stats.files <= PL_INPUTS_FEW && stats.bytes <= PL_INPUTS_FEW_BYTES) {
        s->bytes = stats.bytes;
        r = write_few(in, &source, dest, err);
    } else if (r == 0) {
        const struct pl_entry_source entries = pl_tree_source_entries(&source);
        r = pl_checkout(&entries, &in->config.reader, dest, &options, &done, err);
        s->bytes = done.bytes;
    }
    pl_tree_source_finish(&source);
    return r;
}

static int remove_old(const struct pl_inputs *in, const char *folder, const char *name, struct pl_err *err)
{
    char parent[PATH_BYTES], path[PATH_BYTES];
    int r = join(parent, in->config.work, folder, err);

    if (r == 0)
        r = join(path, parent, name, err);
    return r == 0 ? pl_io_remove_tree(path, err) : r;
}

/* The input that this datum does not have. */
static int take_away(const struct pl_inputs *in, const struct slot *s, struct pl_err *err)
{
    char parent[PATH_BYTES], path[PATH_BYTES];
    int r;

    if (!s->writable)
        return remove_old(in, "pfs", s->name, err);
    r = join(parent, in->config.work, "pfs", err);
    r = r == 0 ? join(path, parent, s->name, err) : r;
    return r == 0 ? pl_sandbox_clear(path, err) : r;
}

/* `next` becomes `pfs`; what was there is removed. */
static int swap_in(const char *next, const char *pfs, struct pl_err *err)
{
    if (renameat2(AT_FDCWD, next, AT_FDCWD, pfs, RENAME_EXCHANGE) == 0)
        return pl_io_remove_tree(next, err);
    if (errno != ENOENT && errno != EINVAL)
        return pl_err_errno(err, errno, "%s", pfs);
    if (errno == EINVAL && pl_io_remove_tree(pfs, err) < 0) /* a file system that cannot exchange */
        return PL_EIO;
    return rename(next, pfs) < 0 ? pl_err_errno(err, errno, "%s", pfs) : 0;
}

/* The last datum's file and this one's lie in one folder, no command runs, and none could write there: the file alone is replaced. */
static bool is_next_file(const struct pl_inputs *in, const struct slot *s, const struct pl_wire_input *wi)
{
    const char *a = s->filled ? strrchr(s->path, '/') : NULL, *b = strrchr(wi->path, '/');
    size_t len = b ? (size_t)(b - wi->path) : 0;

    if (!in->config.read_only || !s->filled || !s->file || !wi->file || (a ? (size_t)(a - s->path) : 0) != len)
        return false;
    return memcmp(s->path, wi->path, len) == 0;
}

static int replace_file(struct pl_inputs *in, struct slot *s, const struct pl_wire_input *wi, const char *pfs, struct pl_err *err)
{
    char old[PATH_BYTES];
    int r = join(old, pfs, s->path, err);

    if (r == 0 && unlink(old) < 0)
        r = pl_err_errno(err, errno, "%s", old);
    slot_forget(s);
    return r == 0 ? build_file(in, s, wi, pfs, err) : r;
}

static int rebuild(struct pl_inputs *in, struct slot *s, const struct pl_wire_input *wi, const char *pfs, struct pl_err *err)
{
    char parent[PATH_BYTES], next[PATH_BYTES];
    int r = join(parent, in->config.work, "next", err);

    slot_forget(s);
    if (r == 0)
        r = join(next, parent, s->name, err);
    if (r == 0 && mkdir(next, 0755) < 0)
        r = pl_err_errno(err, errno, "%s", next);
    if (r < 0)
        return r;
    r = wi->file ? build_file(in, s, wi, next, err) : build_folder(in, s, wi, next, err);
    if (r == 0)
        r = swap_in(next, pfs, err);
    if (r < 0)
        (void)!pl_io_remove_tree(next, NULL);
    return r;
}

static int make_writable(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)ftw;
    return type == FTW_F ? chmod(path, (st->st_mode & 07777) | 0200) : 0;
}

/* The folder stays: it is a mount. */
static int refill(struct pl_inputs *in, struct slot *s, const struct pl_wire_input *wi, const char *pfs, struct pl_err *err)
{
    int r = pl_io_mkdirs(pfs, 0755, err);

    slot_forget(s);
    if (r == 0)
        r = pl_sandbox_clear(pfs, err);
    if (r < 0)
        return r;
    in->copying = s->writable = true;
    r = wi->file ? build_file(in, s, wi, pfs, err) : build_folder(in, s, wi, pfs, err);
    in->copying = false;
    if (r == 0 && nftw(pfs, make_writable, 16, FTW_PHYS) != 0)
        r = pl_err_errno(err, errno, "%s", pfs);
    return r;
}

static int fill(struct pl_inputs *in, struct slot *s, const struct pl_wire_input *wi, const struct pl_buf *files,
                struct pl_err *err)
{
    char parent[PATH_BYTES], pfs[PATH_BYTES];
    int r = join(parent, in->config.work, "pfs", err);

    if (r == 0)
        r = join(pfs, parent, s->name, err);
    if (r == 0)
        r = wi->writable              ? refill(in, s, wi, pfs, err)
            : is_next_file(in, s, wi) ? replace_file(in, s, wi, pfs, err)
                                      : rebuild(in, s, wi, pfs, err);
    if (r < 0 && !wi->writable) {
        (void)!remove_old(in, "pfs", s->name, NULL); /* not the last datum's files for the next one */
    }
    if (r < 0)
        return r;
    s->root = wi->root;
    s->file = wi->file;
    s->path = strdup(wi->path);
    s->files = malloc(files->len + 1);
    if (!s->path || !s->files)
        return pl_err_nomem(err);
    if (files->len)
        memcpy(s->files, files->data, files->len);
    s->files_len = files->len;
    s->filled = true;
    return 0;
}

static bool row_has(const struct pl_wire_row *row, const char *name)
{
    for (size_t i = 0; i < row->n_inputs; i++)
        if (pl_streq(row->inputs[i].name, name))
            return true;
    return false;
}

int pl_inputs_fetch(struct pl_inputs *in, const struct pl_wire_row *row, uint64_t *ret_bytes, struct pl_err *err)
{
    uint64_t bytes = 0;
    int r = 0;

    for (size_t i = 0; r == 0 && i < in->n_slots; i++) {
        if (!in->slots[i].filled || row_has(row, in->slots[i].name))
            continue;
        slot_forget(&in->slots[i]);
        r = take_away(in, &in->slots[i], err);
    }
    for (size_t i = 0; r == 0 && i < row->n_inputs; i++) {
        const struct pl_wire_input *wi = &row->inputs[i];
        struct slot *s = slot_of(in, wi->name);
        _cleanup_(pl_buf_finish) struct pl_buf files = {0};

        if (!s)
            return pl_err_set(err, PL_ELIMIT, "a worker serves at most %u inputs", PL_WIRE_INPUTS_MAX);
        r = files_key(wi, &files, err);
        if (r == 0 && (wi->writable || !(in->config.read_only && slot_has(s, wi, &files))))
            r = fill(in, s, wi, &files, err);
        if (r < 0)
            return pl_err_wrap(err, r, "input %s", wi->name);
        bytes += s->bytes;
    }
    *ret_bytes = bytes;
    return r;
}

/* --- entries by reference --- */

bool pl_inputs_writable(const struct pl_wire_row *row, const char *name)
{
    for (size_t i = 0; i < row->n_inputs; i++)
        if (pl_streq(row->inputs[i].name, name))
            return row->inputs[i].writable;
    return false;
}

static int visit_folder(struct pl_inputs *in, const struct pl_wire_input *wi, const char *path, pl_inputs_visit_fn visit,
                        void *self, struct pl_err *err)
{
    struct pl_tree_source source = {0};
    struct pl_entry e;
    const char *p;
    size_t len, n = strlen(path), found = 0;
    int r = pl_tree_source_open(&in->nodes, NULL, wi, &source, err);

    while (r >= 0 && (r = pl_tree_source_next(&source, &p, &len, &e, err)) > 0) {
        if (n > 0 && (strncmp(p, path, n) != 0 || (p[n] != 0 && p[n] != '/')))
            continue;
        found++;
        r = visit(self, n == 0 ? p : p[n] ? p + n + 1 : "", &e, err);
    }
    pl_tree_source_finish(&source);
    if (r == 0 && found == 0)
        return pl_err_set(err, PL_ENOTFOUND, "the input has no /%s", path);
    return r;
}

int pl_inputs_visit(struct pl_inputs *in, const struct pl_wire_row *row, const char *name, const char *path,
                    pl_inputs_visit_fn visit, void *self, struct pl_err *err)
{
    for (size_t i = 0; i < row->n_inputs; i++) {
        const struct pl_wire_input *wi = &row->inputs[i];
        struct slot *s = slot_of(in, name);
        struct pl_entry e;
        size_t n = strlen(path);
        int r;

        if (!s || !pl_streq(wi->name, name))
            continue;
        if (!wi->file)
            return visit_folder(in, wi, path, visit, self, err);
        r = find_file(in, s, wi, &e, err);
        if (r < 0)
            return r;
        if (pl_streq(wi->path, path))
            return visit(self, "", &e, err);
        if (n == 0 || (strncmp(wi->path, path, n) == 0 && wi->path[n] == '/'))
            return visit(self, wi->path + n + (n > 0), &e, err);
        return pl_err_set(err, PL_ENOTFOUND, "the input has no /%s", path);
    }
    return pl_err_set(err, PL_ENOTFOUND, "there is no input %s", name);
}

/* --- the stage's code --- */

static int checkout_writable(struct pl_inputs *in, const struct pl_hash *root, const char *dest, struct pl_err *err)
{
    const struct pl_wire_input all = {.name = "code", .path = "", .root = *root};
    const struct pl_checkout_options options = {.replace = true}; /* copies: the command may write to them */
    struct pl_tree_source source = {0};
    int r = pl_tree_source_open(&in->nodes, in->config.uplink, &all, &source, err);

    if (r == 0) {
        const struct pl_entry_source entries = pl_tree_source_entries(&source);
        r = pl_checkout(&entries, &in->config.reader, dest, &options, NULL, err);
    }
    pl_tree_source_finish(&source);
    if (r == 0 && nftw(dest, make_writable, 16, FTW_PHYS) != 0)
        r = pl_err_errno(err, errno, "%s", dest);
    return r;
}

int pl_inputs_code(struct pl_inputs *in, const struct pl_hash *root, const char *dest, struct pl_err *err)
{
    int r = checkout_writable(in, root, dest, err);

    return r < 0 ? pl_err_wrap(err, r, "code") : 0;
}

int pl_inputs_checkpoint(struct pl_inputs *in, const struct pl_hash *root, const char *dest, struct pl_err *err)
{
    int r = pl_sandbox_clear(dest, err);

    if (r == 0 && root)
        r = checkout_writable(in, root, dest, err);
    return r < 0 ? pl_err_wrap(err, r, "checkpoint") : 0;
}
