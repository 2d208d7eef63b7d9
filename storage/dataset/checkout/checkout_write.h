/* checkout_write: writes one entry as a file or link: the part of a checkout that writer threads run. Used
 * only in this room. */
#pragma once

#include "storage/dataset/checkout/checkout.h"
#include "storage/dataset/file/shared_dir.h"
#include "storage/system/thread_pool.h"

/* Files of at least this size, and if records are streamed (chunk_reader.h) all files of several chunks, are written by
 * several threads, each a part. A part has at least PL_CHECKOUT_PART_BYTES, and more if a stream can have more. */
#define PL_CHECKOUT_SPLIT_BYTES (8u << 20)
#define PL_CHECKOUT_PART_BYTES  (4u << 20)
#define PL_CHECKOUT_PART_CHUNKS 512u

/* The state shared by all writers of a checkout. */
struct pl_checkout_job {
    const struct pl_chunk_reader *reader;
    struct pl_file_cache *cache;
    struct pl_checkout_progress *progress;
    bool (*canceled)(void);
    bool replace;
    bool own;      /* write files for users: see `own` of pl_checkout_options */
    bool fix_mode; /* true if the umask removes bits of 0555: each file then needs an fchmod */
    struct pl_pool *pool;
    struct pl_pool *streams; /* the pool that writes the parts of large files */
    _Atomic uint64_t files, bytes, linked;
    _Atomic bool failed;
    pthread_mutex_t lock;
    struct pl_err err; /* the first error; guarded by `lock` */
};

/* Stores the first error and makes all writers skip the rest of the work. Any thread. */
void pl_checkout_fail(struct pl_checkout_job *job, const struct pl_err *err);
/* Writes or links `entry` (not a DIR) in the folder `dirfd`, named by the last segment of `path`.
 * `scratch` holds one chunk. Any thread. */
PL_MUST_CHECK
int pl_checkout_write(struct pl_checkout_job *job, int dirfd, const char *path, const struct pl_entry *entry,
                      struct pl_buf *scratch, struct pl_err *err);
/* Writes or links a file of PL_CHECKOUT_SPLIT_BYTES or more as pl_checkout_write does, but with all
 * threads of the pool. Errors that occur after it returns are stored in the job. Call it on the thread that
 * submits batches. */
PL_MUST_CHECK
int pl_checkout_write_large(struct pl_checkout_job *job, struct pl_dir_ref *dir, const char *path, const struct pl_entry *entry,
                            struct pl_err *err);
