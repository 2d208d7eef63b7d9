/* storage/dataset/ingest: Reads local files into packs and a sorted stream of tree operations.
 *
 * In:      Folders, files, a pack sink, a stat cache.
 * Out:     Operations, statistics.
 * Uses:    storage/{base, chunk, pack, system, tree, tree_edit}, storage/dataset/file
 * Threads: The caller's thread walks; the room's own reader threads read and hash.
 *
 * Headers for other rooms:
 *   ingest_names   the paths of an ingest, without reading files
 *   stat_cache     skips files whose stat did not change since the last ingest
 *
 * Inside:
 *   ingest_output  writes finished files as tree operations, in order, and counts them
 *   ingest_read    reads and chunks one file
 *   ingest_walk    walks the source folders in path order
 *   large_file     chunks one large file with several threads */

/* ingest packs the chunks of local files and produces a sorted stream of operations that puts the files
 * into a tree.
 *
 *   walker (the caller's thread) ──batches of names, in order──▶ reader threads ──chunks──▶ pack builder
 *        ▲                                                        │
 *        └──────────── finished batches, in order ◀───────────────┘ ──▶ operations
 *
 * Each reader hashes and compresses on its own core. A file of PL_INGEST_SPLIT_BYTES or more is read by
 * all readers that have no other work (large_file.h). The result does not depend on the number of threads.
 * Memory: the batches in the ring, one buffer of PL_INGEST_SEGMENT_BYTES per reader, the packs of the pack
 * builder, and the operations.
 *
 * ingest commits nothing. After an error, the records that were packed remain unreferenced. */
#pragma once

#include "storage/base/clock.h"
#include "storage/dataset/ingest/stat_cache.h"
#include "storage/tree_edit/tree_ops.h"
#include <stdatomic.h>

struct pl_pack_builder; /* declared in storage/pack/pack_builder.h */
struct pl_pack_sink;

#define PL_INGEST_THREADS_MAX   64u
#define PL_INGEST_SPLIT_BYTES   (8u << 20) /* files of at least this size are read by several readers */
#define PL_INGEST_SEGMENT_BYTES (4u << 20)
#define PL_INGEST_HAS_MAX       65536u /* maximum number of ids per lookup in the store */
#define PL_INGEST_OPS_MAX_BYTES (1ull << 30)
#define PL_INGEST_DEPTH_MAX     256u /* maximum depth of nested folders */

/* A file or folder and its destination. */
struct pl_ingest_source {
    const char *local; /* path as for open(2); a link is followed */
    const char *dest;  /* canonical path in the repo; "" = the root (folders only) */
    const char *shown; /* path of `local` in messages; NULL = `local` */
};

/* Counters that another thread may read while ingest runs. `bytes` grows with each chunk, also within one large file; a file
 * that is read again because it changed counts anew. At the end it is the size of all files. */
struct pl_ingest_progress {
    _Atomic uint64_t files;
    _Atomic uint64_t bytes;
};

/* What an ingest would read, by the sizes of the files at that moment. */
struct pl_ingest_size {
    uint64_t files; /* files and links */
    uint64_t bytes;
    uint64_t new_bytes; /* without the files that the stat cache knows */
};

/* Results of an ingest. The numbers of new records and bytes are not included: the pack builder reports
 * them after pl_pack_builder_finish. */
struct pl_ingest_stats {
    uint64_t files;  /* files and links, without empty folders */
    uint64_t bytes;  /* total size of the files */
    uint64_t cached; /* files not read because the stat cache knew them */
    double seconds;
};

enum { PL_LINK_KEEP = 0, PL_LINK_FOLLOW = 1 };

/* Options; `{0}` stores everything as it is, without a stat cache and with one reader per core. */
struct pl_ingest_options {
    unsigned threads; /* number of readers; 0 = one per core */
    /* remove everything at a destination that is not in the source: begins with a DELETE_PREFIX of it */
    bool mirror;
    /* Cache of unchanged files, used and updated; NULL = all files are read. Ids from it are looked up in
     * `sink`, in groups of PL_INGEST_HAS_MAX. If the store lacks one of them, all files are read. Requires
     * `sink`. */
    struct pl_stat_cache *stat_cache;
    const struct pl_pack_sink *sink; /* the sink of the pack builder */
    struct pl_ingest_progress *progress;
    int64_t (*now_ns)(void); /* wall clock, in ns since 1970; NULL = the machine's */
    /* Returns true if a file or folder should be stored (a folder: with everything below it). On the
     * caller's thread. NULL = store all. */
    bool (*filter)(void *self, const char *path, bool is_dir);
    /* Decides what to do with a link. PL_LINK_KEEP stores it if it is relative and stays inside the
     * source, and otherwise rejects it. PL_LINK_FOLLOW stores the file or folder at the path in `ret_host`
     * instead; the callback sets that path, with its NUL. A negative code rejects the link with that
     * error. On the caller's thread. NULL = PL_LINK_KEEP for all. */
    int (*link)(void *self, const char *path, const char *target, struct pl_buf *ret_host, struct pl_err *err);
    void *self; /* argument of filter and link */
};

/* Reads all sources and writes the operations (tree_ops.h, with paths of the repo) to `ret_ops`, which
 * must be empty; if its `max` is 0 it becomes PL_INGEST_OPS_MAX_BYTES. Empty folders become entries of
 * kind DIR. `ret_stats` may be NULL. The pack builder is neither finished nor flushed. Blocks.
 *
 * PL_ENOTFOUND, PL_EIO: with the local path. PL_EPATH: a name that a repo cannot contain, quoted.
 * PL_ECHANGED: a file changed while it was read, twice. PL_EINVAL: a socket, FIFO or device, or a link
 * that leaves the source. PL_ECOLLISION: two sources have the same path. PL_ELIMIT: more than
 * PL_TREE_OPS_MAX paths. Errors of the pack builder. */
PL_MUST_CHECK
int pl_ingest_tree(struct pl_pack_builder *session, const struct pl_ingest_source *sources, size_t n,
                   const struct pl_ingest_options *options, struct pl_buf *ret_ops, struct pl_ingest_stats *ret_stats,
                   struct pl_err *err);
/* Adds up the sizes of the files that pl_ingest_tree would read, without opening them. `options` as there; its `progress` counts
 * what has been found. A file that goes away meanwhile counts nothing. Blocks. Errors of the walk, as in pl_ingest_tree. */
PL_MUST_CHECK
int pl_ingest_measure(const struct pl_ingest_source *sources, size_t n, const struct pl_ingest_options *options,
                      struct pl_ingest_size *ret, struct pl_err *err);
