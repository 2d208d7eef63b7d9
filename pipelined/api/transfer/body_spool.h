/* body_spool: keeps a request body until it is complete: a small one in memory, a larger one in an unnamed
 * file. Writing the file never uses the reserve of the disk (disk_watch.h), however many bodies are
 * received at the same time. One thread at a time per spool. */
#pragma once

#include "storage/base/buf.h"

#define PL_BODY_SPOOL_MEMORY_BYTES ((size_t)1 << 20)
/* bytes that each spool may keep in memory, however many spools there are */
#define PL_BODY_SPOOL_MEMORY_FREE ((size_t)64 << 10)
/* limit of the memory that all spools together use above PL_BODY_SPOOL_MEMORY_FREE each; a spool that would
 * exceed it moves its bytes to a file */
#define PL_BODY_SPOOL_MEMORY_ALL ((size_t)128 << 20)
/* bytes written to a file between two checks of the disk space */
#define PL_BODY_SPOOL_LOOK_BYTES ((uint64_t)4 << 20)

struct pl_disk_watch;

struct pl_body_spool {
    const char *dir; /* folder in which the unnamed file is made; borrowed */
    struct pl_disk_watch *disks;
    struct pl_buf memory;
    /* largest number of bytes of this body in memory: PL_BODY_SPOOL_MEMORY_BYTES, or a limit that the owner
     * sets before the first write */
    size_t memory_max;
    size_t counted; /* this spool's share of PL_BODY_SPOOL_MEMORY_ALL */
    int fd;         /* descriptor of the unnamed file; -1 while the body is in memory */
    uint64_t size;
    uint64_t at; /* offset of the next pl_body_spool_read */
    void *mapped;
};

/* Initializes an empty spool. `dir` and `disks` must outlive it. Release it with pl_body_spool_finish. */
void pl_body_spool_init(struct pl_body_spool *s, const char *dir, struct pl_disk_watch *disks);
void pl_body_spool_finish(struct pl_body_spool *s);
/* Appends bytes. PL_ENOSPC, PL_EIO, PL_ENOMEM. */
PL_MUST_CHECK
int pl_body_spool_write(struct pl_body_spool *s, const void *data, size_t n, struct pl_err *err);
/* Gives the whole body as memory (a mapping, if it is in a file), valid until pl_body_spool_finish. */
PL_MUST_CHECK
int pl_body_spool_map(struct pl_body_spool *s, const void **ret, struct pl_err *err);
/* Reads the next bytes; returns their number, 0 at the end. A pl_file_read_fn whose self is the spool. */
PL_MUST_CHECK
ssize_t pl_body_spool_read(void *spool, void *out, size_t n, struct pl_err *err);
