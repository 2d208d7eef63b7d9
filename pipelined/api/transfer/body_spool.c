/* Keeps the first bytes in memory; a write that exceeds the memory bounds moves all of them to an unnamed
 * file. */
#include "pipelined/api/transfer/body_spool.h"

#include "pipelined/api/transfer/disk_watch.h"
#include "storage/system/io.h"

#include <fcntl.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/mman.h>

/* total memory of all spools, without the first PL_BODY_SPOOL_MEMORY_FREE bytes of each spool */
static _Atomic size_t in_memory;

void pl_body_spool_init(struct pl_body_spool *s, const char *dir, struct pl_disk_watch *disks)
{
    *s = (struct pl_body_spool){.dir = dir, .disks = disks, .memory_max = PL_BODY_SPOOL_MEMORY_BYTES, .fd = -1};
}

static void free_memory(struct pl_body_spool *s)
{
    atomic_fetch_sub(&in_memory, s->counted);
    s->counted = 0;
    pl_buf_finish(&s->memory);
}

void pl_body_spool_finish(struct pl_body_spool *s)
{
    if (s->mapped)
        munmap(s->mapped, (size_t)s->size);
    pl_closep(&s->fd);
    free_memory(s);
}

/* Reserves memory for `n` more bytes; false if a bound is reached. */
static bool fits_memory(struct pl_body_spool *s, size_t n)
{
    size_t len = s->memory.len + n, counted = len > PL_BODY_SPOOL_MEMORY_FREE ? len - PL_BODY_SPOOL_MEMORY_FREE : 0;
    size_t more = counted - s->counted;

    if (len > s->memory_max)
        return false;
    if (atomic_fetch_add(&in_memory, more) + more > PL_BODY_SPOOL_MEMORY_ALL) {
        atomic_fetch_sub(&in_memory, more);
        return false;
    }
    s->counted = counted;
    return true;
}

static int make_file(struct pl_body_spool *s, struct pl_err *err)
{
    char path[PATH_MAX];

    if (snprintf(path, sizeof path, "%s/body.XXXXXX", s->dir) >= (int)sizeof path)
        return pl_err_set(err, PL_EINVAL, "the folder name %.64s… is too long", s->dir);
    s->fd = mkostemp(path, O_CLOEXEC);
    if (s->fd < 0)
        return pl_err_errno(err, errno, "make %s", path);
    unlink(path);
    return 0;
}

int pl_body_spool_write(struct pl_body_spool *s, const void *data, size_t n, struct pl_err *err)
{
    int r = 0;

    if (s->fd < 0 && fits_memory(s, n)) {
        r = pl_buf_add(&s->memory, data, n, err);
        s->size += r == 0 ? n : 0;
        return r;
    }
    if (s->fd < 0) {
        r = make_file(s, err);
        r = r < 0 ? r : pl_io_write(s->fd, s->memory.data, s->memory.len, "a request's body", err);
        free_memory(s);
    }
    if (r == 0 && s->size / PL_BODY_SPOOL_LOOK_BYTES != (s->size + n) / PL_BODY_SPOOL_LOOK_BYTES)
        r = pl_disk_watch_admit_spooled(s->disks, 0, err);
    r = r < 0 ? r : pl_io_write(s->fd, data, n, "a request's body", err);
    s->size += r == 0 ? n : 0;
    return r;
}

int pl_body_spool_map(struct pl_body_spool *s, const void **ret, struct pl_err *err)
{
    if (s->fd >= 0 && !s->mapped) {
        void *p = mmap(NULL, (size_t)s->size, PROT_READ, MAP_PRIVATE, s->fd, 0);

        if (p == MAP_FAILED)
            return pl_err_errno(err, errno, "map a request's body");
        s->mapped = p;
    }
    *ret = s->mapped ? s->mapped : s->memory.data ? s->memory.data : (const void *)"";
    return 0;
}

ssize_t pl_body_spool_read(void *spool, void *out, size_t n, struct pl_err *err)
{
    struct pl_body_spool *s = spool;
    int r;

    n = (size_t)PL_MIN((uint64_t)n, s->size - s->at);
    if (n == 0)
        return 0;
    if (s->fd < 0) {
        memcpy(out, s->memory.data + s->at, n);
    } else {
        r = pl_io_pread(s->fd, out, n, s->at, "a request's body", err);
        if (r < 0)
            return r;
    }
    s->at += n;
    return (ssize_t)n;
}
