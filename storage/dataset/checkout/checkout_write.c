/* Small files are written by one thread. A large file is divided into parts, consecutive chunks, which a pool's
 * threads write, each chunk as it comes; the thread that drops the last reference finishes the file, or
 * removes it after an error. */
#include "storage/dataset/checkout/checkout_write.h"

#include "storage/pack/pack_format.h"
#include "storage/system/io.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/stat.h>

void pl_checkout_fail(struct pl_checkout_job *job, const struct pl_err *err)
{
    pthread_mutex_lock(&job->lock);
    if (!atomic_load(&job->failed))
        job->err = *err;
    atomic_store(&job->failed, true);
    pthread_mutex_unlock(&job->lock);
}

static const char *last_segment(const char *path)
{
    const char *slash = strrchr(path, '/');

    return slash != NULL ? slash + 1 : path;
}

/* Counts bytes of a file that is not complete yet. */
static void count_part(const struct pl_checkout_job *job, uint64_t bytes)
{
    if (job->progress != NULL)
        atomic_fetch_add_explicit(&job->progress->bytes, bytes, memory_order_relaxed);
}

/* Counts a complete file, of which `before` bytes were counted as they were written. */
static void count(struct pl_checkout_job *job, const struct pl_entry *entry, uint64_t before)
{
    atomic_fetch_add_explicit(&job->files, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&job->bytes, entry->size, memory_order_relaxed);
    if (job->progress != NULL) {
        atomic_fetch_add_explicit(&job->progress->files, 1, memory_order_relaxed);
        atomic_fetch_add_explicit(&job->progress->bytes, entry->size - before, memory_order_relaxed);
    }
}

/* Called if a file with the entry's name exists: removes it if the option `replace` is set. Returns 0 if the
 * caller should create the file again. */
static int make_way(const struct pl_checkout_job *job, int dirfd, const char *name, struct pl_err *err)
{
    if (!job->replace)
        return pl_err_set(err, PL_EEXISTS, "it exists already");
    if (unlinkat(dirfd, name, 0) == 0 || errno == ENOENT)
        return 0;
    if (errno == EISDIR)
        return pl_err_set(err, PL_ECOLLISION, "cannot write the file: a folder has this name");
    return pl_err_errno(err, errno, "cannot remove the existing file");
}

static int open_new(const struct pl_checkout_job *job, int dirfd, const char *name, mode_t mode, struct pl_err *err)
{
    for (;;) {
        int fd = openat(dirfd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, mode), r;

        if (fd >= 0)
            return fd;
        if (errno != EEXIST)
            return pl_err_errno(err, errno, "cannot create");
        if ((r = make_way(job, dirfd, name, err)) < 0)
            return r;
    }
}

static mode_t entry_mode(const struct pl_checkout_job *job, const struct pl_entry *entry)
{
    mode_t mode = entry->kind == PL_KIND_EXEC ? 0555 : 0444;

    return job->own ? mode | 0200 : mode;
}

/* Sets mode and mtime of a completely written file and adds it to the cache. */
static int finish_file(struct pl_checkout_job *job, int fd, int dirfd, const char *name, const struct pl_entry *entry,
                       struct pl_err *err)
{
    static const struct timespec times[2] = {{.tv_sec = PL_CHECKOUT_MTIME_S}, {.tv_sec = PL_CHECKOUT_MTIME_S}};

    if (job->own)
        return 0;
    if (job->fix_mode && fchmod(fd, entry_mode(job, entry)) < 0)
        return pl_err_errno(err, errno, "cannot set the mode");
    if (futimens(fd, times) < 0)
        return pl_err_errno(err, errno, "cannot set the time");
    if (job->cache != NULL)
        pl_file_cache_adopt(job->cache, entry, dirfd, name);
    return 0;
}

/* A file that one thread writes, and how much of it is counted. */
struct small_file {
    const struct pl_checkout_job *job;
    int fd;
    uint64_t counted;
};

static int write_piece(void *self, const void *bytes, size_t n, struct pl_err *err)
{
    struct small_file *f = self;
    int r = pl_io_write(f->fd, bytes, n, "file", err);

    if (r == 0) {
        count_part(f->job, n);
        f->counted += n;
    }
    return r;
}

static int write_new(struct pl_checkout_job *job, int dirfd, const char *name, const struct pl_entry *entry,
                     struct pl_buf *scratch, uint64_t *ret_counted, struct pl_err *err)
{
    int fd = open_new(job, dirfd, name, entry_mode(job, entry), err), r;
    struct small_file file = {.job = job, .fd = fd};

    if (fd < 0)
        return fd;
    r = pl_file_read(entry, 0, entry->size, job->reader, scratch, write_piece, &file, err);
    *ret_counted = file.counted;
    if (r == 0)
        r = finish_file(job, fd, dirfd, name, entry, err);
    if (close(fd) < 0 && r == 0)
        r = pl_err_errno(err, errno, "cannot close");
    if (r < 0)
        (void)unlinkat(dirfd, name, 0);
    return r;
}

/* Returns 1 if the file was linked from the cache, 0 if it must be written. */
static int try_link(struct pl_checkout_job *job, int dirfd, const char *name, const struct pl_entry *entry, struct pl_err *err)
{
    int r;

    if (job->cache == NULL)
        return 0;
    r = pl_file_cache_link(job->cache, entry, dirfd, name, err);
    if (r == PL_EEXISTS && (r = make_way(job, dirfd, name, err)) == 0)
        r = pl_file_cache_link(job->cache, entry, dirfd, name, err);
    if (r == 1)
        atomic_fetch_add_explicit(&job->linked, 1, memory_order_relaxed);
    return r;
}

static int link_text(void *self, const void *bytes, size_t n, struct pl_err *err)
{
    return pl_buf_add(self, bytes, n, err);
}

static int write_link(struct pl_checkout_job *job, int dirfd, const char *name, const struct pl_entry *entry,
                      struct pl_buf *scratch, struct pl_err *err)
{
    _cleanup_(pl_buf_finish) struct pl_buf target = {0};
    int r = pl_file_read(entry, 0, entry->size, job->reader, scratch, link_text, &target, err);

    if (r < 0)
        return r;
    if (target.len == 0 || memchr(target.data, '\0', target.len) != NULL)
        return pl_err_set(err, PL_EINVAL, "the link's target is not a path");
    if (pl_buf_str(&target) == NULL)
        return pl_err_nomem(err);
    while (symlinkat((const char *)target.data, dirfd, name) < 0) {
        if (errno != EEXIST)
            return pl_err_errno(err, errno, "cannot make the link");
        if ((r = make_way(job, dirfd, name, err)) < 0)
            return r;
    }
    return 0;
}

int pl_checkout_write(struct pl_checkout_job *job, int dirfd, const char *path, const struct pl_entry *entry,
                      struct pl_buf *scratch, struct pl_err *err)
{
    const char *name = last_segment(path);
    uint64_t counted = 0;
    int r;

    if (entry->kind == PL_KIND_LINK) {
        r = write_link(job, dirfd, name, entry, scratch, err);
    } else {
        r = try_link(job, dirfd, name, entry, err);
        if (r == 0)
            r = write_new(job, dirfd, name, entry, scratch, &counted, err);
    }
    if (r < 0)
        return pl_err_wrap(err, r, "%s", path);
    count(job, entry, counted);
    return 0;
}

/* ---- large files ---- */

/* A file that several threads write; the last thread to end its part finishes the file. */
struct large_file {
    struct pl_checkout_job *job;
    struct pl_dir_ref *dir;
    char *path;
    int fd;
    struct pl_entry entry;
    atomic_uint refs;
    _Atomic bool failed;
    _Atomic uint64_t counted; /* bytes that the progress has */
};

/* Consecutive chunks of a large file. */
struct large_part {
    struct large_file *file;
    uint64_t offset;
    size_t n;
    uint32_t ends[PL_CHECKOUT_PART_CHUNKS]; /* where each chunk ends, counted from `offset` */
    struct pl_hash ids[PL_CHECKOUT_PART_CHUNKS];
};

static void large_fail(struct large_file *f, struct pl_err *err)
{
    if (f->path != NULL)
        (void)pl_err_wrap(err, err->code, "%s", f->path);
    atomic_store(&f->failed, true);
    pl_checkout_fail(f->job, err);
}

/* Drops a reference. The last one finishes the file, or removes it after a failure. */
static void large_unref(struct large_file *f)
{
    const char *name;
    struct pl_err err = {0};

    if (atomic_fetch_sub(&f->refs, 1) != 1)
        return;
    name = f->path != NULL ? last_segment(f->path) : NULL;
    if (f->fd >= 0 && !atomic_load(&f->failed) && finish_file(f->job, f->fd, f->dir->fd, name, &f->entry, &err) < 0)
        large_fail(f, &err);
    if (f->fd >= 0 && close(f->fd) < 0 && !atomic_load(&f->failed)) {
        (void)pl_err_errno(&err, errno, "close");
        large_fail(f, &err);
    }
    if (f->fd >= 0 && atomic_load(&f->failed))
        (void)unlinkat(f->dir->fd, name, 0);
    else if (f->fd >= 0)
        count(f->job, &f->entry, atomic_load(&f->counted));
    pl_dir_ref_unref(f->dir);
    free(f->path);
    free(f);
}

/* PL_ECANCELED if the rest of the checkout is not wanted any more. */
static int check_wanted(const struct pl_checkout_job *job, struct pl_err *err)
{
    if (atomic_load_explicit(&job->failed, memory_order_relaxed))
        return pl_err_set(err, PL_ECANCELED, "another file could not be written");
    return job->canceled != NULL && job->canceled() ? pl_err_set(err, PL_ECANCELED, "interrupted") : 0;
}

/* Writes a chunk at its place in the file. */
static int write_chunk(void *arg, size_t i, const uint8_t *bytes, size_t n, struct pl_err *err)
{
    const struct large_part *p = arg;
    const uint32_t from = i > 0 ? p->ends[i - 1] : 0;
    int r;

    r = check_wanted(p->file->job, err);
    if (r < 0)
        return r;
    if (n != p->ends[i] - from)
        return pl_err_set(err, PL_ECORRUPT, "a chunk has %zu bytes, but its list says %u", n, p->ends[i] - from);
    r = pl_io_pwrite(p->file->fd, bytes, n, p->offset + from, "file", err);
    if (r < 0)
        return r;
    count_part(p->file->job, n);
    atomic_fetch_add_explicit(&p->file->counted, n, memory_order_relaxed);
    return 0;
}

static void part_run(void *arg)
{
    struct large_part *p = arg;
    struct pl_err err = {0};

    if (check_wanted(p->file->job, &err) < 0 ||
        pl_chunk_reader_each(p->file->job->reader, p->ids, p->n, write_chunk, p, &err) < 0)
        large_fail(p->file, &err);
    large_unref(p->file);
    free(p);
}

/* Returns how many bytes the parts of a file have, or a little more. */
static uint64_t part_bytes(const struct large_file *f)
{
    const unsigned streams = f->job->reader->streams;

    return streams > 0 ? PL_MAX(f->entry.size / (2 * streams), (uint64_t)PL_CHECKOUT_PART_BYTES) : PL_CHECKOUT_PART_BYTES;
}

/* Submits the next part to the pool. Returns 1, or 0 at the end of the list. */
static int large_part(struct large_file *f, struct pl_list_cursor *list, struct pl_err *err)
{
    const uint64_t most = part_bytes(f);
    struct large_part *p = calloc(1, sizeof(*p));
    uint32_t end = 0;
    int r = 1;

    if (p == NULL)
        return pl_err_nomem(err);
    p->file = f;
    while (p->n < PL_CHECKOUT_PART_CHUNKS && end < most) {
        uint64_t at;
        size_t len;

        r = pl_list_cursor_next(list, &p->ids[p->n], &at, &len, err);
        if (r <= 0)
            break;
        if (p->n == 0)
            p->offset = at;
        end += (uint32_t)len;
        p->ends[p->n++] = end;
    }
    if (r < 0 || p->n == 0) {
        free(p);
        return r;
    }
    atomic_fetch_add(&f->refs, 1);
    r = pl_pool_submit_wait(f->job->streams, part_run, p, err);
    if (r < 0) {
        large_unref(f);
        free(p);
        return r;
    }
    return 1;
}

static int large_parts(struct large_file *f, struct pl_err *err)
{
    const struct pl_chunk_reader *reader = f->job->reader;
    const struct pl_list_source source =
        reader->stream != NULL ? pl_reader_list_source(reader) : pl_reader_list_source_ahead(reader);
    _cleanup_(pl_list_cursor_closep) struct pl_list_cursor *list = NULL;
    int r = pl_list_cursor_open(&source, &f->entry.id, &list, err);

    if (r == 0 && pl_list_cursor_bytes(list) != f->entry.size)
        r = pl_err_set(err, PL_ECORRUPT, "the chunk list has %llu bytes, but its entry says %llu",
                       (unsigned long long)pl_list_cursor_bytes(list), (unsigned long long)f->entry.size);
    while (r == 0) {
        r = large_part(f, list, err);
        if (r <= 0)
            break;
        r = atomic_load(&f->job->failed) ? 1 : 0;
    }
    if (r == 1) /* another thread failed, so the file is incomplete */
        atomic_store(&f->failed, true);
    return PL_MIN(r, 0);
}

int pl_checkout_write_large(struct pl_checkout_job *job, struct pl_dir_ref *dir, const char *path, const struct pl_entry *entry,
                            struct pl_err *err)
{
    struct large_file *f;
    int r = try_link(job, dir->fd, last_segment(path), entry, err);

    if (r == 1)
        count(job, entry, 0);
    if (r != 0)
        return r < 0 ? pl_err_wrap(err, r, "%s", path) : 0;
    f = calloc(1, sizeof(*f));
    if (f == NULL)
        return pl_err_nomem(err);
    *f = (struct large_file){.job = job, .dir = pl_dir_ref_ref(dir), .path = strdup(path), .fd = -1, .entry = *entry, .refs = 1};
    r = f->path == NULL ? pl_err_nomem(err) : open_new(job, dir->fd, last_segment(path), entry_mode(job, entry), err);
    if (r >= 0) {
        f->fd = r;
        r = large_parts(f, err);
    }
    if (r < 0)
        atomic_store(&f->failed, true);
    large_unref(f);
    return r < 0 ? pl_err_wrap(err, r, "%s", path) : 0;
}
