/* spool: a body that may be large, kept until it is whole: small ones in memory, the rest in a nameless file, which leaves the disk its room
 * (disk_watch.h), however many come at a time. One thread at a time. */
#pragma once

#include "storage/base/buf.h"

#define PL_BODY_SPOOL_MEMORY_BYTES ((size_t)1 << 20)
#define PL_BODY_SPOOL_MEMORY_FREE  ((size_t)64 << 10)  /* each has so much, */
#define PL_BODY_SPOOL_MEMORY_ALL   ((size_t)128 << 20) /* and of that all have so much together: what is beyond lies in files */
#define PL_BODY_SPOOL_LOOK_BYTES   ((uint64_t)4 << 20) /* after so many the disk is looked at again */

struct pl_disk_watch;

struct pl_body_spool {
    const char *dir; /* where files are made */
    struct pl_disk_watch *disks;
    struct pl_buf memory;
    size_t memory_max; /* PL_BODY_SPOOL_MEMORY_BYTES, or what its owner gives it before the first byte */
    size_t counted;    /* of PL_BODY_SPOOL_MEMORY_ALL */
    int fd;            /* -1 while all of it is in memory */
    uint64_t size;
    uint64_t at; /* read so far */
    void *mapped;
};

/* Both must outlive it. */
void pl_body_spool_init(struct pl_body_spool *s, const char *dir, struct pl_disk_watch *disks);
void pl_body_spool_finish(struct pl_body_spool *s);
/* PL_ENOSPC, PL_EIO. */
PL_MUST_CHECK
int pl_body_spool_write(struct pl_body_spool *s, const void *data, size_t n, struct pl_err *err);
/* All of it as memory (of the page cache when it is a file), until finish. */
PL_MUST_CHECK
int pl_body_spool_map(struct pl_body_spool *s, const void **ret, struct pl_err *err);
/* The next bytes, 0 at the end: a pl_file_read_fn whose self is the spool. */
PL_MUST_CHECK
ssize_t pl_body_spool_read(void *spool, void *out, size_t n, struct pl_err *err);
