/* Chooses the way to read a file by its size, and reads it between two calls of fstat to detect changes. */
#include "storage/dataset/ingest/ingest_read.h"

#include "storage/chunk/chunk.h"
#include "storage/system/file_users.h"
#include "storage/system/io.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <sys/vfs.h>

void pl_reader_finish(struct pl_reader *rd)
{
    free(rd->small);
    free(rd->stream);
    pl_large_file_buffer_finish(&rd->segment);
    rd->small = rd->stream = NULL;
}

/* ---- progress ---- */

static int counted_chunk(void *self, const void *bytes, size_t n, struct pl_hash *ret_id, struct pl_err *err)
{
    struct pl_reader *rd = self;
    int r = rd->sink.chunk(rd->sink.self, bytes, n, ret_id, err);

    if (r == 0) {
        atomic_fetch_add_explicit(&rd->counted, n, memory_order_relaxed);
        atomic_fetch_add_explicit(&rd->progress->bytes, n, memory_order_relaxed);
    }
    return r;
}

static int plain_list(void *self, const void *bytes, size_t n, struct pl_hash *ret_id, struct pl_err *err)
{
    const struct pl_reader *rd = self;

    return rd->sink.list(rd->sink.self, bytes, n, ret_id, err);
}

/* Returns the sink that chunks of files go to. With progress it counts them; lists are no bytes of a file. */
static struct pl_file_write_sink reader_sink(struct pl_reader *rd)
{
    return rd->progress ? (struct pl_file_write_sink){.self = rd, .chunk = counted_chunk, .list = plain_list} : rd->sink;
}

/* Makes the progress of the current item `size` bytes: what the chunks did not count, such as the bytes of a small or unchanged
 * file, is added, and what an attempt in vain has counted is taken back. */
static void count_item(struct pl_reader *rd, uint64_t size)
{
    if (rd->progress)
        atomic_fetch_add_explicit(&rd->progress->bytes, size - atomic_load(&rd->counted), memory_order_relaxed);
    atomic_store(&rd->counted, 0);
}

static int need(uint8_t **buffer, size_t n, struct pl_err *err)
{
    if (*buffer == NULL)
        *buffer = malloc(n);
    return *buffer != NULL ? 0 : pl_err_nomem(err);
}

static int item_dirfd(const struct pl_walk_item *item)
{
    return item->dir != NULL ? item->dir->fd : AT_FDCWD;
}

static uint8_t file_kind(mode_t mode)
{
    return (mode & S_IXUSR) != 0 ? PL_KIND_EXEC : PL_KIND_FILE;
}

static int file_changed(struct pl_err *err)
{
    return pl_err_set(err, PL_ECHANGED, "the file changed while it was read");
}

/* Reads a small file, usually with a single read. Requests one byte more than the file's size, to notice if
 * the file has grown. */
static int read_small(struct pl_reader *rd, int fd, const struct stat *st, struct pl_entry *ret, struct pl_err *err)
{
    size_t size = (size_t)st->st_size;
    const struct pl_file_write_sink sink = reader_sink(rd);
    ssize_t got;
    int r = need(&rd->small, PL_CHUNK_WHOLE_BYTES + 1, err);

    if (r < 0)
        return r;
    got = read(fd, rd->small, size + 1);
    if (got >= 0 && (size_t)got < size) {
        ssize_t more = pl_io_read(fd, rd->small + got, size + 1 - (size_t)got, "file", err);

        if (more < 0)
            return (int)more;
        got += more;
    }
    if (got < 0)
        return pl_err_errno(err, errno, "cannot read");
    if ((size_t)got != size)
        return file_changed(err);
    return pl_file_write_entry_small(&sink, file_kind(st->st_mode), rd->small, size, ret, err);
}

static ssize_t read_fd(void *self, void *out, size_t n, struct pl_err *err)
{
    ssize_t got;

    do
        got = read(*(const int *)self, out, n);
    while (got < 0 && errno == EINTR);
    return got < 0 ? pl_err_errno(err, errno, "cannot read") : got;
}

static int read_medium(struct pl_reader *rd, int fd, const struct stat *st, struct pl_entry *ret, struct pl_err *err)
{
    const struct pl_file_write_sink sink = reader_sink(rd);
    int r = need(&rd->stream, PL_FILE_WRITE_BUFFER_BYTES, err);

    return r < 0 ? r : pl_file_write_entry(&sink, rd->stream, file_kind(st->st_mode), read_fd, &fd, ret, err);
}

static int read_large(struct pl_reader *rd, int fd, const struct stat *st, struct pl_entry *ret, struct pl_err *err)
{
    const struct pl_file_write_sink sink = reader_sink(rd);
    _cleanup_(pl_large_file_job_destroyp) struct pl_large_file_job *job = NULL;
    int r;

    (void)posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
    if ((r = pl_large_file_buffer_init(&rd->segment, err)) < 0 ||
        (r = pl_large_file_job_create(fd, (uint64_t)st->st_size, &sink, rd->stop, &job, err)) < 0)
        return r;
    rd->share(rd->self, job, &rd->segment);
    return pl_large_file_job_finish(job, file_kind(st->st_mode), ret, err);
}

static int read_by_size(struct pl_reader *rd, int fd, const struct stat *st, struct pl_entry *ret, struct pl_err *err)
{
    uint64_t size = (uint64_t)st->st_size;

    if (S_ISDIR(st->st_mode))
        return file_changed(err); /* the file was replaced by a folder */
    if (!S_ISREG(st->st_mode))
        return pl_err_set(err, PL_EINVAL, "it is %s; only files, folders and links can be stored",
                          pl_walk_mode_name(st->st_mode));
    if (size >= PL_FILE_LIMIT_BYTES)
        return pl_err_set(err, PL_ELIMIT, "the file has %llu bytes; fewer than 2^48 are accepted", (unsigned long long)size);
    if (size <= PL_CHUNK_WHOLE_BYTES)
        return read_small(rd, fd, st, ret, err);
    return size < PL_INGEST_SPLIT_BYTES ? read_medium(rd, fd, st, ret, err) : read_large(rd, fd, st, ret, err);
}

/* Opens a file without updating its access time if possible (only the owner may do that), because the
 * update would cause a disk write per file. */
static int open_quietly(int dirfd, const char *name, int flags)
{
    int fd = openat(dirfd, name, flags | O_NOATIME);

    return fd < 0 && errno == EPERM ? openat(dirfd, name, flags) : fd;
}

/* True if a change of the file after this call will change its mtime or ctime. A memory-mapped page that
 * is already dirty can be changed again without new times until it is written to disk. So no process may
 * have the file open for writing; or, if that cannot be determined, dirty pages are written to disk first.
 * Filesystems in memory never update the times. */
static bool change_will_show(int fd)
{
    struct statfs fs;
    int r;

    if (fstatfs(fd, &fs) < 0 || fs.f_type == TMPFS_MAGIC || fs.f_type == RAMFS_MAGIC || fs.f_type == HUGETLBFS_MAGIC)
        return false;
    r = pl_holders_writing(fd);
    return r == 0 ||
           (r == PL_EUNAVAILABLE &&
            sync_file_range(fd, 0, 0, SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE | SYNC_FILE_RANGE_WAIT_AFTER) == 0);
}

/* Reads a file once. PL_ECHANGED: its stat differs after the read, or its size differs from the bytes
 * read. */
static int read_once(struct pl_reader *rd, const struct pl_walk_batch *b, struct pl_walk_item *item, struct pl_err *err)
{
    int flags = O_RDONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | (item->follow ? 0 : O_NOFOLLOW);
    _cleanup_close_ int fd = open_quietly(item_dirfd(item), pl_walk_name(b, item), flags);
    struct stat before, after;
    struct pl_stat_key key, now;
    bool shows;
    int r;

    if (fd < 0)
        return pl_err_errno(err, errno, "cannot open");
    /* Check this before the read: a process that changes the file during the read may have closed it by the
     * end of the read. */
    shows = rd->remembers && change_will_show(fd);
    if (fstat(fd, &before) < 0)
        return pl_err_errno(err, errno, "cannot stat");
    r = read_by_size(rd, fd, &before, &item->entry, err);
    if (r < 0)
        return r;
    if (fstat(fd, &after) < 0)
        return pl_err_errno(err, errno, "cannot stat");
    key = pl_stat_key_of(&before);
    now = pl_stat_key_of(&after);
    if (!pl_stat_key_eq(&key, &now) || item->entry.size != key.size)
        return file_changed(err);
    item->key = key;
    item->fresh = shows;
    return 0;
}

/* Reads the stat of an item that is a regular file. */
static bool stat_regular(const struct pl_walk_batch *b, const struct pl_walk_item *item, struct stat *ret)
{
    return fstatat(item_dirfd(item), pl_walk_name(b, item), ret, item->follow ? 0 : AT_SYMLINK_NOFOLLOW) == 0 &&
           S_ISREG(ret->st_mode);
}

bool pl_reader_known_size(const struct pl_stat_cache *cache, const struct pl_walk_batch *b, const struct pl_walk_item *item,
                          uint64_t *ret_size)
{
    struct pl_entry entry;
    struct pl_stat_key key;
    struct stat st;

    *ret_size = 0;
    if (!stat_regular(b, item, &st))
        return false;
    *ret_size = (uint64_t)st.st_size;
    key = pl_stat_key_of(&st);
    return cache != NULL && pl_stat_cache_get(cache, &key, &entry);
}

/* Looks up the file's stat in the stat cache. Returns true if it is known, and sets the item's entry. */
static bool read_cached(struct pl_reader *rd, const struct pl_walk_batch *b, struct pl_walk_item *item)
{
    struct stat st;
    struct pl_stat_key key;

    if (rd->stat_cache == NULL || !stat_regular(b, item, &st))
        return false;
    key = pl_stat_key_of(&st);
    if (!pl_stat_cache_get(rd->stat_cache, &key, &item->entry))
        return false;
    item->entry.kind = file_kind(st.st_mode);
    item->cached = true;
    return true;
}

static int read_file(struct pl_reader *rd, const struct pl_walk_batch *b, struct pl_walk_item *item, struct pl_err *err)
{
    int r;

    if (read_cached(rd, b, item))
        return 0;
    r = read_once(rd, b, item, err);
    if (r == PL_ECHANGED) {
        count_item(rd, 0);
        r = read_once(rd, b, item, err);
    }
    return r;
}

static int read_item(struct pl_reader *rd, const struct pl_walk_batch *b, struct pl_walk_item *item, struct pl_err *err)
{
    const char *target;

    switch ((enum pl_walk_type)item->type) {
    case PL_WALK_LINK:
        target = pl_walk_name(b, item);
        return pl_file_write_entry_small(&rd->sink, PL_KIND_LINK, target, strlen(target), &item->entry, err);
    case PL_WALK_EMPTY_DIR:
        item->entry = pl_entry_dir();
        return 0;
    case PL_WALK_FILE:
        break;
    }
    return read_file(rd, b, item, err);
}

int pl_reader_item(struct pl_reader *rd, const struct pl_walk_batch *b, struct pl_walk_item *item, struct pl_err *err)
{
    char text[PL_WALK_QUOTE_BYTES];
    int r = read_item(rd, b, item, err);

    if (r < 0)
        return pl_err_wrap(err, r, "%s", pl_walk_local(b, item, text));
    count_item(rd, item->entry.kind == PL_KIND_DIR ? 0 : item->entry.size);
    return 0;
}
