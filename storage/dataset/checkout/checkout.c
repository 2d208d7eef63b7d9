/* The caller's thread reads the entries, makes the folders and groups files into batches; a pool of
 * writers writes the batches. Files that are streamed have threads of their own. `levels` is a stack of the
 * open folders, from the destination down to the folder of the current entry. */
#include "storage/dataset/checkout/checkout.h"

#include "storage/base/clock.h"
#include "storage/dataset/checkout/checkout_write.h"
#include "storage/system/io.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/stat.h>

#define BATCH_ITEMS 128u
#define BATCH_DIRS  16u
#define QUEUE_MAX   12u /* batches, or parts of large files, that wait in the pool */

struct checkout_item {
    struct pl_dir_ref *dir;
    uint32_t path; /* offset in the batch's texts */
    struct pl_entry entry;
};

struct checkout_batch {
    struct pl_checkout_job *job;
    uint32_t n, dirs;
    struct pl_buf texts;
    struct checkout_item items[BATCH_ITEMS];
};

/* An open folder that contains the current entry, directly or through subfolders, and the length of the
 * folder's path. */
struct checkout_level {
    struct pl_dir_ref *dir;
    size_t path_len;
};

struct checkout {
    struct pl_checkout_job job;
    /* stack of open folders; levels[0] is the destination */
    struct checkout_level levels[PL_CHECKOUT_DEPTH_MAX + 1];
    size_t depth;
    struct checkout_batch *batch; /* the batch being filled; NULL = none */
    char path[PL_PATH_MAX_BYTES + 1];
    size_t path_len; /* length of the previous entry's path; 0 = none */
};

/* ---- sources of entries ---- */

static int ops_next(void *self, const char **ret_path, size_t *ret_len, struct pl_entry *ret, struct pl_err *err)
{
    struct pl_tree_op op;
    int r = pl_tree_ops_reader_next(self, &op, err);

    if (r <= 0)
        return r;
    if (op.op != PL_TREE_PUT)
        return pl_err_set(err, PL_EINVAL, "the list of files contains an operation that is not a PUT: %.*s", (int)op.path_len,
                          op.path);
    *ret_path = op.path;
    *ret_len = op.path_len;
    *ret = op.entry;
    return 1;
}

struct pl_entry_source pl_entry_source_ops(struct pl_tree_ops_reader *reader)
{
    return (struct pl_entry_source){.self = reader, .next = ops_next};
}

static int tree_next(void *self, const char **ret_path, size_t *ret_len, struct pl_entry *ret, struct pl_err *err)
{
    struct pl_entry_source_tree *t = self;
    struct pl_tree_item item;
    int r = pl_tree_cursor_next(t->cursor, &item, err);

    if (r <= 0)
        return r;
    if (item.path_len <= t->strip)
        return pl_err_set(err, PL_EINVAL, "%s is not below the requested folder", item.path);
    *ret_path = item.path + t->strip;
    *ret_len = item.path_len - t->strip;
    *ret = item.entry;
    return 1;
}

struct pl_entry_source pl_entry_source_tree(struct pl_entry_source_tree *t)
{
    return (struct pl_entry_source){.self = t, .next = tree_next};
}

/* ---- batches ---- */

static void batch_free(struct checkout_batch *b)
{
    if (b == NULL)
        return;
    for (uint32_t i = 0; i < b->n; i++)
        pl_dir_ref_unref(b->items[i].dir);
    pl_buf_finish(&b->texts);
    free(b);
}

static void batch_run(void *arg)
{
    struct checkout_batch *b = arg;
    _cleanup_(pl_buf_finish) struct pl_buf scratch = {0};
    struct pl_err err = {0};

    for (uint32_t i = 0; i < b->n && !atomic_load_explicit(&b->job->failed, memory_order_relaxed); i++) {
        const struct checkout_item *item = &b->items[i];

        if (pl_checkout_write(b->job, item->dir->fd, (const char *)b->texts.data + item->path, &item->entry, &scratch, &err) < 0)
            pl_checkout_fail(b->job, &err);
    }
    batch_free(b);
}

static int batch_submit(struct checkout *co, struct pl_err *err)
{
    int r;

    if (co->batch == NULL)
        return 0;
    r = pl_pool_submit_wait(co->job.pool, batch_run, co->batch, err);
    if (r < 0)
        batch_free(co->batch);
    co->batch = NULL;
    return r;
}

/* Adds an entry to the current batch and submits the batch if it is full. */
static int batch_add(struct checkout *co, struct pl_dir_ref *dir, const struct pl_entry *entry, struct pl_err *err)
{
    struct checkout_batch *b = co->batch;
    struct checkout_item *item;
    int r;

    if (b == NULL) {
        b = co->batch = malloc(sizeof(*b));
        if (b == NULL)
            return pl_err_nomem(err);
        b->job = &co->job;
        b->n = b->dirs = 0;
        b->texts = (struct pl_buf){0};
    }
    item = &b->items[b->n];
    item->path = (uint32_t)b->texts.len;
    item->entry = *entry;
    if ((r = pl_buf_add(&b->texts, co->path, co->path_len + 1, err)) < 0)
        return r;
    if (b->n == 0 || b->items[b->n - 1].dir != dir)
        b->dirs++;
    item->dir = pl_dir_ref_ref(dir);
    b->n++;
    return b->n == BATCH_ITEMS || b->dirs == BATCH_DIRS ? batch_submit(co, err) : 0;
}

/* ---- folders ---- */

static void levels_pop(struct checkout *co, size_t depth)
{
    while (co->depth > depth)
        pl_dir_ref_unref(co->levels[--co->depth].dir);
}

/* Makes and opens the folder named by the segment of co->path that ends at `end`, in the current folder. */
static int level_push(struct checkout *co, size_t end, struct pl_err *err)
{
    struct checkout_level *top = &co->levels[co->depth - 1];
    size_t from = top->path_len > 0 ? top->path_len + 1 : 0;
    char name[PL_SEGMENT_MAX_BYTES + 1];
    int fd;

    if (co->depth == PL_ARRAY_SIZE(co->levels))
        return pl_err_set(err, PL_ELIMIT, "%s: folders are nested more than %u deep", co->path, PL_CHECKOUT_DEPTH_MAX);
    memcpy(name, co->path + from, end - from);
    name[end - from] = '\0';
    if (mkdirat(top->dir->fd, name, 0755) < 0 && errno != EEXIST)
        return pl_err_errno(err, errno, "%.*s: cannot make the folder", (int)end, co->path);
    fd = openat(top->dir->fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0 && (errno == ENOTDIR || errno == ELOOP))
        return pl_err_set(err, PL_ECOLLISION, "%.*s: cannot make the folder: a file or link has this name", (int)end, co->path);
    if (fd < 0)
        return pl_err_errno(err, errno, "%.*s: cannot open the folder", (int)end, co->path);
    co->levels[co->depth] = (struct checkout_level){.dir = pl_dir_ref_create(fd), .path_len = end};
    if (co->levels[co->depth].dir == NULL)
        return pl_err_nomem(err);
    co->depth++;
    return 0;
}

/* Moves to the folder named by the first `len` bytes of co->path. The first `common` bytes are the same as
 * in the previous path. */
static int levels_go(struct checkout *co, size_t common, size_t len, struct pl_err *err)
{
    size_t depth = co->depth;
    int r;

    while (depth > 1 && !(co->levels[depth - 1].path_len <= common && co->levels[depth - 1].path_len <= len &&
                          (co->path[co->levels[depth - 1].path_len] == '/' || co->levels[depth - 1].path_len == len)))
        depth--;
    levels_pop(co, depth);
    while (co->levels[co->depth - 1].path_len < len) {
        size_t from = co->levels[co->depth - 1].path_len, end;

        for (end = from + 1; end < len && co->path[end] != '/'; end++)
            ;
        if ((r = level_push(co, end, err)) < 0)
            return r;
    }
    return 0;
}

/* ---- one entry ---- */

/* Checks the path of an entry and copies it to co->path. `ret_common` receives the number of leading bytes
 * that it shares with the previous entry's path. */
static int take_path(struct checkout *co, const char *path, size_t len, size_t *ret_common, struct pl_err *err)
{
    size_t common = 0, most = PL_MIN(len, co->path_len);
    int r = pl_path_check(path, len, err);

    if (r < 0)
        return r;
    while (common < most && co->path[common] == path[common])
        common++;
    if (co->path_len > 0 && pl_key_cmp(co->path, co->path_len, path, len) >= 0)
        return pl_err_set(err, PL_EINVAL, "%.*s comes after %s: the entries are not in order", (int)len, path, co->path);
    memcpy(co->path, path, len);
    co->path[len] = '\0';
    co->path_len = len;
    *ret_common = common;
    return 0;
}

/* True if the entry's chunks are written by several threads, or streamed. */
static bool is_large(const struct checkout *co, const struct pl_entry *entry)
{
    return entry->content == PL_CONTENT_LIST && (co->job.reader->streams > 0 || entry->size >= PL_CHECKOUT_SPLIT_BYTES);
}

/* Starts the threads of streams, with the first file that needs them. Files that are not streamed use the writers. */
static int start_streams(struct checkout *co, struct pl_err *err)
{
    const unsigned streams = PL_MIN(co->job.reader->streams, PL_CHECKOUT_THREADS_MAX);

    if (co->job.streams != NULL)
        return 0;
    if (streams > 0)
        return pl_pool_create("checkout", streams, QUEUE_MAX, &co->job.streams, err);
    co->job.streams = co->job.pool;
    return 0;
}

/* Checks one entry, makes its folders and hands a file or link to the writers. */
static int checkout_entry(struct checkout *co, const char *path, size_t len, const struct pl_entry *entry, struct pl_err *err)
{
    size_t common = 0, dir_len = len;
    struct pl_dir_ref *dir;
    int r = take_path(co, path, len, &common, err);

    if (r < 0)
        return r;
    if (entry->kind == PL_KIND_ROW || (r = pl_entry_check(entry, err)) < 0)
        return pl_err_set(err, PL_EINVAL, "%s: the entry is not a file, link or folder", co->path);
    if (entry->kind != PL_KIND_DIR) {
        while (dir_len > 0 && co->path[dir_len - 1] != '/')
            dir_len--;
        dir_len -= dir_len > 0;
    }
    if ((r = levels_go(co, common, dir_len, err)) < 0 || entry->kind == PL_KIND_DIR)
        return r;
    dir = co->levels[co->depth - 1].dir;
    if (!is_large(co, entry))
        return batch_add(co, dir, entry, err);
    r = start_streams(co, err);
    return r < 0 ? r : pl_checkout_write_large(&co->job, dir, co->path, entry, err);
}

static int checkout_entries(struct checkout *co, const struct pl_entry_source *entries, struct pl_err *err)
{
    struct pl_entry entry;
    const char *path;
    size_t len;
    int r;

    while (!atomic_load(&co->job.failed) && (r = entries->next(entries->self, &path, &len, &entry, err)) != 0) {
        if (r < 0 || (r = checkout_entry(co, path, len, &entry, err)) < 0)
            return r;
    }
    return batch_submit(co, err);
}

/* ---- whole checkout ---- */

/* Returns the process's umask without changing it, because all threads share it. Returns 0777 if the
 * kernel does not report it. */
static mode_t read_umask(void)
{
    FILE *f = fopen("/proc/self/status", "re");
    char line[256];
    unsigned mask = 0777;

    if (f == NULL)
        return (mode_t)mask;
    while (fgets(line, sizeof(line), f) != NULL) {
        if (sscanf(line, "Umask: %o", &mask) == 1)
            break;
    }
    (void)fclose(f);
    return (mode_t)mask;
}

/* Opens the destination folder. `*ret_made` is set if it did not exist. */
static int dest_open(struct checkout *co, const char *dest, bool *ret_made, struct pl_err *err)
{
    struct stat st;
    int fd, r;

    *ret_made = stat(dest, &st) < 0 && errno == ENOENT;
    if (*ret_made && (r = pl_io_mkdirs(dest, 0755, err)) < 0)
        return r;
    fd = open(dest, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0)
        return pl_err_errno(err, errno, "cannot open folder %s", dest);
    co->levels[0] = (struct checkout_level){.dir = pl_dir_ref_create(fd)};
    if (co->levels[0].dir == NULL)
        return pl_err_nomem(err);
    co->depth = 1;
    return 0;
}

/* Processes all entries and waits for the writers. */
static int checkout_run(struct checkout *co, const struct pl_entry_source *entries, unsigned threads, struct pl_err *err)
{
    int r = pl_pool_create("checkout", threads, QUEUE_MAX, &co->job.pool, err);

    if (r < 0)
        return r;
    r = checkout_entries(co, entries, err);
    if (r < 0)
        /* makes the writers skip the batches that still wait; job.err stays empty, because the error occurred
         * in this function and not in a writer */
        atomic_store(&co->job.failed, true);
    if (co->job.streams != co->job.pool)
        pl_pool_destroy(co->job.streams);
    co->job.pool = co->job.streams = pl_pool_destroy(co->job.pool);
    if (r == 0 && atomic_load(&co->job.failed)) {
        r = co->job.err.code;
        if (err != NULL)
            *err = co->job.err;
    }
    return r;
}

static unsigned writer_count(const struct pl_checkout_options *o)
{
    unsigned n = o->threads != 0 ? o->threads : PL_MAX(pl_cores(), 2u);

    return PL_MIN(n, PL_CHECKOUT_THREADS_MAX);
}

int pl_checkout(const struct pl_entry_source *entries, const struct pl_chunk_reader *reader, const char *dest,
                const struct pl_checkout_options *options, struct pl_checkout_stats *ret_stats, struct pl_err *err)
{
    static const struct pl_checkout_options plain = {0};
    const struct pl_checkout_options *o = options != NULL ? options : &plain;
    int64_t began = pl_clock_mono_us();
    _cleanup_free_ struct checkout *co = calloc(1, sizeof(*co));
    bool made = false;
    int r;

    if (co == NULL)
        return pl_err_nomem(err);
    co->job.reader = reader;
    co->job.cache = o->cache;
    co->job.progress = o->progress;
    co->job.canceled = o->canceled;
    co->job.replace = o->replace;
    co->job.own = o->own && o->cache == NULL;
    co->job.fix_mode = (read_umask() & 0555) != 0;
    pthread_mutex_init(&co->job.lock, NULL);
    r = dest_open(co, dest, &made, err);
    if (r == 0)
        r = checkout_run(co, entries, writer_count(o), err);
    batch_free(co->batch);
    levels_pop(co, 0);
    pthread_mutex_destroy(&co->job.lock);
    if (r < 0) {
        if (made && pl_io_remove_tree(dest, NULL) < 0)
            return pl_err_hint(err, r, "The files that were written remain in %s.", dest);
        return r;
    }
    if (ret_stats != NULL)
        *ret_stats = (struct pl_checkout_stats){.files = atomic_load(&co->job.files),
                                                .bytes = atomic_load(&co->job.bytes),
                                                .linked = atomic_load(&co->job.linked),
                                                .seconds = (double)(pl_clock_mono_us() - began) / 1e6};
    return 0;
}
