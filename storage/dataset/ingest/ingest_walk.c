/* Keeps a stack of folders. Each folder is read and sorted when it is entered. Each step of the walk
 * processes the next name of the folder on top of the stack. */
#include "storage/dataset/ingest/ingest_walk.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <sys/stat.h>

#define WALK_BLOB_MAX ((size_t)512 << 20) /* maximum total bytes of the names in one folder */

enum name_type { NAME_FILE, NAME_LINK, NAME_DIR, NAME_FOLLOW_FILE, NAME_FOLLOW_DIR };

/* One name in a folder. The texts are offsets into the frame's buffer: the name (with a slash appended if it
 * is a folder); and for a link its target, or the path to read instead of the link. */
struct walk_name {
    uint32_t name;
    uint32_t extra;
    uint8_t type;
};

/* A folder between the source and the current position. */
struct walk_frame {
    struct pl_dir_ref *dir;
    struct pl_buf texts;
    struct walk_name *names;
    size_t n, cap, next;
    size_t path_len; /* length of the folder's path in the repo */
    bool had_any;    /* the folder is not empty, even if everything in it was filtered out */
};

struct pl_walk {
    const struct pl_ingest_source *sources;
    size_t n_sources, next_source;
    const struct pl_ingest_options *options;
    const struct pl_ingest_source *source; /* the source being walked */
    struct walk_frame frames[PL_INGEST_DEPTH_MAX];
    size_t depth;
    /* path in the repo; has space for an overlong path, which is rejected before it is used */
    char path[PL_PATH_MAX_BYTES + 1 + NAME_MAX + 1];
    size_t path_len;
};

/* ---- messages ---- */

static bool printable(const char *text)
{
    for (const uint8_t *p = (const uint8_t *)text; *p != '\0'; p++) {
        if (*p < 0x20 || *p == 0x7F)
            return false;
    }
    return pl_utf8_ok(text, strlen(text));
}

static char *quote(const char *text, char out[PL_WALK_QUOTE_BYTES])
{
    size_t at = 0;
    bool plain = printable(text);

    for (const uint8_t *p = (const uint8_t *)text; *p != '\0' && at + 5 < PL_WALK_QUOTE_BYTES; p++) {
        if (plain || (*p >= 0x20 && *p < 0x7F))
            out[at++] = (char)*p;
        else
            at += (size_t)snprintf(out + at, PL_WALK_QUOTE_BYTES - at, "\\x%02X", *p);
    }
    out[at] = '\0';
    return out;
}

static char *local_path(const struct pl_ingest_source *source, const char *path, char out[PL_WALK_QUOTE_BYTES])
{
    char whole[PATH_MAX * 2];
    const char *rest = path + strlen(source->dest);
    const char *top = source->shown ? source->shown : source->local;
    size_t n = strlen(top);
    bool slash = n > 0 && top[n - 1] == '/';

    while (*rest == '/')
        rest++;
    (void)snprintf(whole, sizeof(whole), "%s%s%s", top, *rest == '\0' || slash ? "" : "/", rest);
    return quote(whole, out);
}

char *pl_walk_local(const struct pl_walk_batch *b, const struct pl_walk_item *item, char out[PL_WALK_QUOTE_BYTES])
{
    return local_path(item->source, pl_walk_path(b, item), out);
}

const char *pl_walk_mode_name(mode_t mode)
{
    switch (mode & S_IFMT) {
    case S_IFSOCK:
        return "a socket";
    case S_IFIFO:
        return "a FIFO";
    case S_IFCHR:
    case S_IFBLK:
        return "a device";
    case S_IFDIR:
        return "a folder";
    default:
        return "not a regular file";
    }
}

/* ---- batches ---- */

void pl_walk_batch_clear(struct pl_walk_batch *b)
{
    for (uint32_t i = 0; i < b->n; i++)
        b->items[i].dir = pl_dir_ref_unref(b->items[i].dir);
    b->n = b->dirs = 0;
    b->done = false;
    pl_buf_clear(&b->texts);
}

void pl_walk_batch_finish(struct pl_walk_batch *b)
{
    pl_walk_batch_clear(b);
    pl_buf_finish(&b->texts);
}

static int batch_text(struct pl_walk_batch *b, const char *s, size_t len, uint32_t *ret, struct pl_err *err)
{
    size_t at = b->texts.len;
    int r;

    if ((r = pl_buf_add(&b->texts, s, len, err)) < 0 || (r = pl_buf_add_u8(&b->texts, 0, err)) < 0)
        return r;
    *ret = (uint32_t)at;
    return 0;
}

/* Adds the item at w->path to the batch. */
static int batch_add(struct pl_walk *w, struct pl_walk_batch *b, uint8_t type, struct pl_dir_ref *dir, const char *name,
                     struct pl_err *err)
{
    struct pl_walk_item *item = &b->items[b->n];
    int r;

    *item = (struct pl_walk_item){.source = w->source, .path_len = (uint32_t)w->path_len, .type = type, .follow = dir == NULL};
    if ((r = batch_text(b, w->path, w->path_len, &item->path, err)) < 0 ||
        (r = batch_text(b, name, strlen(name), &item->name, err)) < 0)
        return r;
    if (dir != NULL) {
        if (b->n == 0 || b->items[b->n - 1].dir != dir)
            b->dirs++;
        item->dir = pl_dir_ref_ref(dir);
    }
    b->n++;
    return 0;
}

/* ---- folders ---- */

static void frame_finish(struct walk_frame *f)
{
    f->dir = pl_dir_ref_unref(f->dir);
    pl_buf_finish(&f->texts);
    free(f->names);
    *f = (struct walk_frame){0};
}

static int path_fail(const struct pl_walk *w, int r, struct pl_err *err)
{
    char text[PL_WALK_QUOTE_BYTES];

    return pl_err_wrap(err, r, "%s", local_path(w->source, w->path, text));
}

/* Appends `name` to the folder's path, the first `folder_len` bytes of w->path. */
static void path_set(struct pl_walk *w, size_t folder_len, const char *name)
{
    size_t len = strlen(name);

    w->path_len = folder_len;
    if (folder_len > 0)
        w->path[w->path_len++] = '/';
    len = PL_MIN(len, sizeof(w->path) - 1 - w->path_len);
    memcpy(w->path + w->path_len, name, len);
    w->path_len += len;
    w->path[w->path_len] = '\0';
}

static const char *path_below_source(const struct pl_walk *w)
{
    const char *below = w->path + strlen(w->source->dest);

    return *below == '/' ? below + 1 : below;
}

static int link_keep(const struct pl_walk *w, const char *target, struct pl_err *err)
{
    char text[PL_WALK_QUOTE_BYTES], to[PL_WALK_QUOTE_BYTES];

    if (pl_path_link_stays(path_below_source(w), target))
        return 0;
    return pl_err_set(err, PL_EINVAL, "%s is a link to %s; only relative links that stay inside the stored folder are accepted",
                      local_path(w->source, w->path, text), quote(target, to));
}

static int link_follow(const struct pl_walk *w, const struct pl_buf *host, enum name_type *ret, struct pl_err *err)
{
    struct stat st;

    if (stat((const char *)host->data, &st) < 0)
        return path_fail(w, pl_err_errno(err, errno, "cannot follow the link"), err);
    if (!S_ISREG(st.st_mode) && !S_ISDIR(st.st_mode))
        return path_fail(
            w, pl_err_set(err, PL_EINVAL, "a link to %s; only files and folders can be stored", pl_walk_mode_name(st.st_mode)),
            err);
    *ret = S_ISDIR(st.st_mode) ? NAME_FOLLOW_DIR : NAME_FOLLOW_FILE;
    return 0;
}

/* Decides what to do with the link `name`: returns the type to record, and in `extra` the link's target or
 * the path to read instead of the link. */
static int walk_link(struct pl_walk *w, int dirfd, const char *name, struct pl_buf *extra, enum name_type *ret,
                     struct pl_err *err)
{
    const struct pl_ingest_options *o = w->options;
    char target[PL_LINK_MAX_BYTES + 2];
    ssize_t len = readlinkat(dirfd, name, target, sizeof(target) - 1);
    int r = PL_LINK_KEEP;

    if (len < 0)
        return path_fail(w, pl_err_errno(err, errno, "cannot read the link"), err);
    if (len == 0 || (size_t)len > PL_LINK_MAX_BYTES)
        return path_fail(
            w, pl_err_set(err, PL_EINVAL, "a link with a target of %zd bytes; 1 to %u are accepted", len, PL_LINK_MAX_BYTES),
            err);
    target[len] = '\0';
    if (o->link != NULL && (r = o->link(o->self, w->path, target, extra, err)) < 0)
        return path_fail(w, r, err);
    if (r == PL_LINK_FOLLOW)
        return link_follow(w, extra, ret, err);
    *ret = NAME_LINK;
    pl_buf_clear(extra);
    if ((r = link_keep(w, target, err)) < 0)
        return r;
    return pl_buf_add(extra, target, (size_t)len + 1, err);
}

/* Determines the type of a directory entry. Returns 1, or 0 if the filter excludes it. */
static int name_type(struct pl_walk *w, int dirfd, const struct dirent64 *d, struct pl_buf *extra, enum name_type *ret,
                     struct pl_err *err)
{
    mode_t mode = DTTOIF(d->d_type);
    struct stat st;

    if (d->d_type == DT_UNKNOWN) {
        if (fstatat(dirfd, d->d_name, &st, AT_SYMLINK_NOFOLLOW) < 0)
            return path_fail(w, pl_err_errno(err, errno, "cannot stat"), err);
        mode = st.st_mode;
    }
    if (w->options->filter != NULL && !w->options->filter(w->options->self, w->path, S_ISDIR(mode)))
        return 0;
    switch (mode & S_IFMT) {
    case S_IFREG:
        *ret = NAME_FILE;
        return 1;
    case S_IFDIR:
        *ret = NAME_DIR;
        return 1;
    case S_IFLNK: {
        int r = walk_link(w, dirfd, d->d_name, extra, ret, err);

        return r < 0 ? r : 1;
    }
    default:
        return path_fail(
            w, pl_err_set(err, PL_EINVAL, "it is %s; only files, folders and links can be stored", pl_walk_mode_name(mode)), err);
    }
}

/* Adds a name to a folder's list. */
static int frame_add(struct walk_frame *f, const char *name, const struct pl_buf *extra, enum name_type type, struct pl_err *err)
{
    struct walk_name *n;
    bool dir = type == NAME_DIR || type == NAME_FOLLOW_DIR;
    int r;

    if (f->n == PL_TREE_OPS_MAX)
        return pl_err_set(err, PL_ELIMIT, "a folder holds more than %u names", PL_TREE_OPS_MAX);
    if (f->n == f->cap) {
        size_t cap = f->cap > 0 ? f->cap * 2 : 64;
        struct walk_name *more = reallocarray(f->names, cap, sizeof(*more));

        if (more == NULL)
            return pl_err_nomem(err);
        f->names = more;
        f->cap = cap;
    }
    n = &f->names[f->n];
    *n = (struct walk_name){.name = (uint32_t)f->texts.len, .type = (uint8_t)type};
    if ((r = pl_buf_add(&f->texts, name, strlen(name), err)) < 0 || (dir && (r = pl_buf_add_u8(&f->texts, '/', err)) < 0) ||
        (r = pl_buf_add_u8(&f->texts, 0, err)) < 0)
        return r;
    n->extra = (uint32_t)f->texts.len;
    if (extra->len > 0 && (r = pl_buf_add(&f->texts, extra->data, extra->len, err)) < 0)
        return r;
    f->n++;
    return 0;
}

static int frame_add_dirent(struct pl_walk *w, struct walk_frame *f, const struct dirent64 *d, struct pl_buf *extra,
                            struct pl_err *err)
{
    enum name_type type = NAME_FILE;
    int r;

    if (pl_streq(d->d_name, ".") || pl_streq(d->d_name, ".."))
        return 0;
    f->had_any = true;
    path_set(w, f->path_len, d->d_name);
    pl_buf_clear(extra);
    r = name_type(w, f->dir->fd, d, extra, &type, err);
    if (r <= 0)
        return r;
    r = pl_path_check(w->path, w->path_len, err);
    if (r < 0)
        return path_fail(w, r, err);
    return frame_add(f, d->d_name, extra, type, err);
}

static int name_cmp(const void *a, const void *b, void *texts)
{
    const struct walk_name *x = a, *y = b;

    return strcmp((const char *)texts + x->name, (const char *)texts + y->name);
}

/* Reads and sorts the folder `fd`, and closes `fd`. The folder's path in the repo is w->path. */
static int frame_push(struct pl_walk *w, int fd, struct pl_err *err)
{
    _Alignas(struct dirent64) char block[32 << 10];
    _cleanup_(pl_buf_finish) struct pl_buf extra = {0};
    struct walk_frame *f = &w->frames[w->depth];
    size_t path_len = w->path_len;
    ssize_t got;
    int r = 0;

    *f = (struct walk_frame){.dir = pl_dir_ref_create(fd), .texts = {.max = WALK_BLOB_MAX}, .path_len = path_len};
    if (f->dir == NULL)
        return pl_err_nomem(err);
    w->depth++;
    while ((got = getdents64(fd, block, sizeof(block))) > 0) {
        for (ssize_t at = 0; at < got && r == 0;) {
            const struct dirent64 *d = (const struct dirent64 *)(const void *)(block + at);

            r = frame_add_dirent(w, f, d, &extra, err);
            at += d->d_reclen;
        }
        if (r < 0)
            return r;
    }
    w->path_len = path_len;
    w->path[path_len] = '\0';
    if (got < 0)
        return path_fail(w, pl_err_errno(err, errno, "cannot read the folder"), err);
    if (f->n > 1)
        qsort_r(f->names, f->n, sizeof(*f->names), name_cmp, f->texts.data);
    return 0;
}

static int enter(struct pl_walk *w, int dirfd, const char *name, int flags, struct pl_err *err)
{
    int fd;

    if (w->depth == PL_INGEST_DEPTH_MAX)
        return path_fail(w, pl_err_set(err, PL_ELIMIT, "folders are nested more than %u deep", PL_INGEST_DEPTH_MAX), err);
    fd = openat(dirfd, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | flags);
    if (fd < 0)
        return path_fail(w, pl_err_errno(err, errno, "cannot open the folder"), err);
    return frame_push(w, fd, err);
}

static int leave(struct pl_walk *w, struct pl_walk_batch *b, struct pl_err *err)
{
    struct walk_frame *f = &w->frames[w->depth - 1];
    int r = 0;

    w->path_len = f->path_len;
    w->path[w->path_len] = '\0';
    if (!f->had_any && f->path_len > 0)
        r = batch_add(w, b, PL_WALK_EMPTY_DIR, NULL, "", err);
    frame_finish(f);
    w->depth--;
    return r;
}

/* Processes the next name of a folder: adds it to the batch, or enters the folder of that name. */
static int walk_name(struct pl_walk *w, struct walk_frame *f, struct pl_walk_batch *b, struct pl_err *err)
{
    const struct walk_name *n = &f->names[f->next++];
    const char *extra = (const char *)f->texts.data + n->extra;
    char *name = (char *)f->texts.data + n->name;

    if (n->type == NAME_DIR || n->type == NAME_FOLLOW_DIR)
        name[strlen(name) - 1] = '\0'; /* the slash was only for the sort order */
    path_set(w, f->path_len, name);
    switch ((enum name_type)n->type) {
    case NAME_FILE:
        return batch_add(w, b, PL_WALK_FILE, f->dir, name, err);
    case NAME_LINK:
        return batch_add(w, b, PL_WALK_LINK, NULL, extra, err);
    case NAME_FOLLOW_FILE:
        return batch_add(w, b, PL_WALK_FILE, NULL, extra, err);
    case NAME_DIR:
        return enter(w, f->dir->fd, name, O_NOFOLLOW, err);
    case NAME_FOLLOW_DIR:
        return enter(w, AT_FDCWD, extra, 0, err);
    }
    return 0;
}

/* Begins the next source: enters its folder, or adds its file. */
static int next_source(struct pl_walk *w, struct pl_walk_batch *b, struct pl_err *err)
{
    const struct pl_ingest_source *s = &w->sources[w->next_source++];
    struct stat st;

    w->source = s;
    w->path_len = strlen(s->dest);
    if (w->path_len > 0) {
        int r = pl_path_check(s->dest, w->path_len, err);

        if (r < 0)
            return pl_err_wrap(err, r, "%.200s", s->dest);
    }
    memcpy(w->path, s->dest, w->path_len + 1);
    if (stat(s->local, &st) < 0)
        return path_fail(w, pl_err_errno(err, errno, "cannot stat"), err);
    if (S_ISDIR(st.st_mode))
        return enter(w, AT_FDCWD, s->local, 0, err);
    if (!S_ISREG(st.st_mode))
        return path_fail(
            w, pl_err_set(err, PL_EINVAL, "it is %s; only files and folders can be stored", pl_walk_mode_name(st.st_mode)), err);
    if (w->path_len == 0)
        return path_fail(w, pl_err_set(err, PL_EINVAL, "a file needs a name in the repo, not its root"), err);
    return batch_add(w, b, PL_WALK_FILE, NULL, s->local, err);
}

int pl_walk_create(const struct pl_ingest_source *sources, size_t n, const struct pl_ingest_options *options,
                   struct pl_walk **ret, struct pl_err *err)
{
    struct pl_walk *w = calloc(1, sizeof(*w));

    if (w == NULL)
        return pl_err_nomem(err);
    w->sources = sources;
    w->n_sources = n;
    w->options = options;
    *ret = w;
    return 0;
}

struct pl_walk *pl_walk_destroy(struct pl_walk *w)
{
    if (w == NULL)
        return NULL;
    while (w->depth > 0)
        frame_finish(&w->frames[--w->depth]);
    free(w);
    return NULL;
}

int pl_walk_next(struct pl_walk *w, struct pl_walk_batch *b, struct pl_err *err)
{
    while (b->n < PL_WALK_BATCH_ITEMS && b->dirs < PL_WALK_BATCH_DIRS) {
        struct walk_frame *f = w->depth > 0 ? &w->frames[w->depth - 1] : NULL;
        int r;

        if (f == NULL && w->next_source == w->n_sources)
            break;
        if (f == NULL)
            r = next_source(w, b, err);
        else
            r = f->next < f->n ? walk_name(w, f, b, err) : leave(w, b, err);
        if (r < 0)
            return r;
    }
    return b->n > 0 ? 1 : 0;
}
