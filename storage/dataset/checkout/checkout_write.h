/* checkout_write: one entry → one file or link: the writer's side of checkout. Internal to storage/dataset. */
#pragma once

#include "storage/dataset/checkout/checkout.h"
#include "storage/dataset/file/shared_dir.h"
#include "storage/system/thread_pool.h"

#define PL_CHECKOUT_SPLIT_BYTES (8u << 20) /* from here on all writers share one file */
#define PL_CHECKOUT_PART_CHUNKS 64u

/* What all writers share. */
struct pl_checkout_job {
    const struct pl_chunk_reader *reader;
    struct pl_file_cache *cache;
    struct pl_checkout_progress *progress;
    bool replace;
    bool own;      /* as in pl_checkout_options */
    bool fix_mode; /* the process's umask takes bits off 0555 */
    struct pl_pool *pool;
    _Atomic uint64_t files, bytes, linked;
    _Atomic bool failed;
    pthread_mutex_t lock;
    struct pl_err err; /* the first */
};

/* Keeps the first error; the rest of the work is skipped. */
void pl_checkout_fail(struct pl_checkout_job *job, const struct pl_err *err);
/* Writes, or links, `entry` (no DIR) as the last segment of `path` in the folder `dirfd`. `scratch` holds a chunk. Any thread. */
PL_MUST_CHECK
int pl_checkout_write(struct pl_checkout_job *job, int dirfd, const char *path, const struct pl_entry *entry,
                      struct pl_buf *scratch, struct pl_err *err);
/* The same for a file of PL_CHECKOUT_SPLIT_BYTES or more, by all of the pool's threads; its later errors go to the job. Called by the
 * thread that submits. */
PL_MUST_CHECK
int pl_checkout_write_large(struct pl_checkout_job *job, struct pl_dir_ref *dir, const char *path, const struct pl_entry *entry,
                            struct pl_err *err);
