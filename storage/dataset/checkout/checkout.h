/* storage/dataset/checkout: Writes the files of a commit to a local folder, as copies or hard links.
 *
 * In:      Entries in order, a chunk reader, a target folder.
 * Out:     Files with mode 0444 or 0555.
 * Uses:    storage/{base, pack, system, tree, tree_edit}, storage/dataset/file
 * Threads: The caller's thread makes folders; the room's own threads write files.
 *
 * Inside:
 *   checkout_write  writes or links one entry
 *   file_cache      whole files by content id on local disk, for hard links */

/* checkout writes entries and their chunks as files of a folder.
 *
 *   caller's thread: entries in order, folders ──batches──▶ writer threads: fetch, write or link
 *
 * Files have mode 0444 or 0555 and mtime PL_CHECKOUT_MTIME_S; folders have 0755 less the umask; links are
 * written as stored. Every path is opened from the destination folder, one segment at a time, with openat
 * and without following links: nothing outside the destination is touched, whatever it contains. A large file
 * is written by several threads together, and so is each file of several chunks if the reader streams them.
 * Nothing is synced to disk.
 *
 * After an error no file is left partly written under its name. If checkout made the destination folder,
 * the folder is removed. Files left by an interrupted process are overwritten if the option `replace` is
 * set. */
#pragma once

#include "storage/dataset/checkout/file_cache.h"
#include "storage/dataset/file/file_read.h"
#include "storage/tree/tree_walk.h"
#include "storage/tree_edit/tree_ops.h"
#include <stdatomic.h>

/* 2001-09-09T01:46:40Z: never in the future, and not newer than any build product */
#define PL_CHECKOUT_MTIME_S     1000000000
#define PL_CHECKOUT_THREADS_MAX 64u
#define PL_CHECKOUT_DEPTH_MAX   512u

/* A source of entries: paths in strictly ascending byte order, relative to the destination. */
struct pl_entry_source {
    void *self;
    /* Returns 1 and the next entry with its path, which is valid until the next call; 0 at the end; or a
     * negative error code. */
    int (*next)(void *self, const char **ret_path, size_t *ret_len, struct pl_entry *ret, struct pl_err *err);
};

/* Returns a source of the PUTs of an operations stream; other operations are PL_EINVAL. `reader` is
 * initialised and must outlive the source. */
struct pl_entry_source pl_entry_source_ops(struct pl_tree_ops_reader *reader);

/* A source of the entries below a directory of a tree, or of one file. `strip` bytes are removed from the
 * start of each path. */
struct pl_entry_source_tree {
    struct pl_tree_cursor *cursor; /* cursor over the entries below the directory only */
    size_t strip;
};
struct pl_entry_source pl_entry_source_tree(struct pl_entry_source_tree *t);

/* Counters that another thread may read while a checkout runs. `bytes` grows with each chunk, also within one large file. */
struct pl_checkout_progress {
    _Atomic uint64_t files;
    _Atomic uint64_t bytes;
};

struct pl_checkout_stats {
    uint64_t files; /* number of files and links written */
    uint64_t bytes;
    uint64_t linked; /* files that are hard links to the cache */
    double seconds;
};

struct pl_checkout_options {
    unsigned threads; /* number of writers; 0 = one per core, at least 2 */
    /* files are hard-linked from this cache, and new files are added to it; NULL = no cache, each file is
     * written */
    struct pl_file_cache *cache;
    /* replace files and links that exist; otherwise PL_EEXISTS names the first */
    bool replace;
    /* write files that users may edit: mode 0644 or 0755 less the umask, current mtime; ignored if `cache` is
     * set */
    bool own;
    struct pl_checkout_progress *progress;
    /* true = the checkout is not wanted any more: it ends with PL_ECANCELED before the next chunk of a large file. Called
     * by all writers; NULL = always wanted */
    bool (*canceled)(void);
};

/* Writes all entries below `dest`, which is made with its parents if it does not exist. `options` and
 * `ret_stats` may be NULL. PL_EEXISTS, PL_ECOLLISION (a folder exists where a file must go, or a file
 * where a folder must go), PL_ENOSPC, PL_EIO, and errors of the source and the reader: messages contain
 * the path. Blocks. */
PL_MUST_CHECK
int pl_checkout(const struct pl_entry_source *entries, const struct pl_chunk_reader *reader, const char *dest,
                const struct pl_checkout_options *options, struct pl_checkout_stats *ret_stats, struct pl_err *err);
