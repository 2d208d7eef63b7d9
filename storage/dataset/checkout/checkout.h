/* storage/dataset/checkout: A commit's files to a local folder, by copy or hard link.
 *
 * In:      Entries in order, a chunk reader, a target folder.
 * Out:     Files 0444 or 0555.
 * Uses:    storage/{base, pack, system, tree, tree_edit}, storage/dataset/file
 * Threads: The caller feeds; writer threads of its own write.
 *
 * Inside:
 *   checkout_write  writes or links one entry
 *   file_cache      whole files by content id on local disk, for hard links */

/* checkout: entries + chunks → files in a folder.
 *
 *   caller's thread: entries in order, folders ──batches──▶ writers (threads): fetch, write or link
 *
 * Files are 0444 or 0555 with mtime PL_CHECKOUT_MTIME_S, folders 0755 less the umask; links as stored. Every name is reached from the
 * destination folder by openat of one segment that must not be a link, so nothing outside it is touched whatever lies there. A
 * large file is written by all writers. No fsync.
 *
 * On an error no file is left half-written under its name; when checkout made the destination folder itself, the folder goes.
 * What an interrupted process left is overwritten with `replace`. */
#pragma once

#include "storage/dataset/checkout/file_cache.h"
#include "storage/dataset/file/file_read.h"
#include "storage/tree/tree_walk.h"
#include "storage/tree_edit/tree_ops.h"
#include <stdatomic.h>

#define PL_CHECKOUT_MTIME_S     1000000000 /* 2001-09-09T01:46:40Z: never in the future, and no build tool's "newer than" */
#define PL_CHECKOUT_THREADS_MAX 64u
#define PL_CHECKOUT_DEPTH_MAX   512u

/* Where entries come from: paths in strictly ascending byte order, relative to the destination. */
struct pl_entry_source {
    void *self;
    /* 1 and a path (borrowed until the next call) with its entry; 0 at the end; negative. */
    int (*next)(void *self, const char **ret_path, size_t *ret_len, struct pl_entry *ret, struct pl_err *err);
};

/* The PUTs of an operations stream; anything else in it: PL_EINVAL. `reader` is initialised and outlives the source. */
struct pl_entry_source pl_entry_source_ops(struct pl_tree_ops_reader *reader);

/* What lies below a directory of a tree (or one file), with `strip` bytes taken off the front of each path. */
struct pl_entry_source_tree {
    struct pl_tree_cursor *cursor; /* bounded to the directory */
    size_t strip;
};
struct pl_entry_source pl_entry_source_tree(struct pl_entry_source_tree *t);

struct pl_checkout_progress {
    _Atomic uint64_t files;
    _Atomic uint64_t bytes;
};

struct pl_checkout_stats {
    uint64_t files; /* files and links */
    uint64_t bytes;
    uint64_t linked; /* of the files: hard links to the cache */
    double seconds;
};

struct pl_checkout_options {
    unsigned threads;            /* writers, 0 = one a core, at least 2 */
    struct pl_file_cache *cache; /* hard links out of and into it; NULL = plain files, each with its own bytes */
    bool replace;                /* files and links in the way are replaced; else PL_EEXISTS naming the first */
    bool own;                    /* for people: 0644 or 0755 less the umask, mtime as it comes. Not with a cache */
    struct pl_checkout_progress *progress;
};

/* Writes all entries below `dest`, which is made (with its parents) when absent. `options` and `ret_stats` may be NULL.
 * PL_EEXISTS, PL_ECOLLISION (a folder where a file must go, or the other way round), PL_ENOSPC, PL_EIO: with the path. Errors of
 * the source and the reader with the path. */
PL_MUST_CHECK
int pl_checkout(const struct pl_entry_source *entries, const struct pl_chunk_reader *reader, const char *dest,
                const struct pl_checkout_options *options, struct pl_checkout_stats *ret_stats, struct pl_err *err);
