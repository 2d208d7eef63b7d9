/* storage/dataset/ingest: Local files to packs and a sorted stream of tree operations.
 *
 * In:      Folders, files, a pack sink, a stat cache.
 * Out:     Operations, statistics.
 * Uses:    storage/{base, chunk, pack, system, tree, tree_edit}, storage/dataset/file
 * Threads: The caller walks; reader threads of its own read and hash.
 *
 * Headers for other rooms:
 *   ingest_names   the paths of an ingest without reading files
 *   stat_cache     skips files whose stat did not change since the last ingest
 *
 * Inside:
 *   ingest_output  finished files to tree operations and statistics, in order
 *   ingest_read    reads and chunks one found file
 *   ingest_walk    walks the source folders in path order
 *   large_file     chunks one large file with several threads */

/* ingest: local files → chunks in packs and a sorted stream of operations that puts them into a tree.
 *
 *   walker (the caller's thread) ──batches of names, in order──▶ readers (threads) ──chunks──▶ pack session
 *        ▲                                                            │
 *        └────────────── finished batches, in order ◀─────────────────┘ ──▶ operations
 *
 * Readers hash and compress on their own core; a file of PL_INGEST_SPLIT_BYTES or more is shared by all readers that have nothing
 * else (segment.h). The result does not depend on the number of threads. Memory: the batches in flight, one buffer of
 * PL_INGEST_SEGMENT_BYTES a reader, the session's packs, the operations.
 *
 * Nothing is committed here: on any error what was packed stays unreferenced. */
#pragma once

#include "storage/base/clock.h"
#include "storage/dataset/ingest/stat_cache.h"
#include "storage/tree_edit/tree_ops.h"
#include <stdatomic.h>

struct pl_pack_builder; /* pack/pack_session.h */
struct pl_pack_sink;

#define PL_INGEST_THREADS_MAX   64u
#define PL_INGEST_SPLIT_BYTES   (8u << 20) /* from here on several readers share one file */
#define PL_INGEST_SEGMENT_BYTES (4u << 20)
#define PL_INGEST_HAS_MAX       65536u /* ids in one question to the store */
#define PL_INGEST_OPS_MAX_BYTES (1ull << 30)
#define PL_INGEST_DEPTH_MAX     256u /* folders within folders */

/* One file or folder and where it goes. */
struct pl_ingest_source {
    const char *local; /* as open(2) takes it; a link here is followed */
    const char *dest;  /* canonical path in the repo; "" = the root (folders only) */
};

/* Read by another thread while it goes on. */
struct pl_ingest_progress {
    _Atomic uint64_t files;
    _Atomic uint64_t bytes;
};

/* What was new to the store the session knows when it is finished. */
struct pl_ingest_stats {
    uint64_t files;  /* files and links; empty folders not */
    uint64_t bytes;  /* their sizes */
    uint64_t cached; /* files not read because the stat cache knew them */
    double seconds;
};

enum { PL_LINK_KEEP = 0, PL_LINK_FOLLOW = 1 };

/* What a run may do; `{0}` is a plain push with one reader a core. */
struct pl_ingest_options {
    unsigned threads; /* readers, 0 = one a core */
    bool mirror;      /* what lies at a destination and was not given goes: starts with DELETE_PREFIX of it */
    /* Unchanged files are taken from here and recorded here; NULL = all are read. Ids from it are asked for in `sink` in groups
     * of PL_INGEST_HAS_MAX; when one is missing everything is read. Needs `sink`. */
    struct pl_stat_cache *stat_cache;
    const struct pl_pack_sink *sink; /* the session's */
    struct pl_ingest_progress *progress;
    int64_t (*now_ns)(void); /* wall clock, ns; NULL = the machine's */
    /* Whether a file or folder is taken (folders: with all below). Called by the caller's thread. NULL = all. */
    bool (*filter)(void *self, const char *path, bool is_dir);
    /* What to do with a link: PL_LINK_KEEP stores it when it is relative and stays inside the source, else it is refused;
     * PL_LINK_FOLLOW reads the file or folder at the host path put into `ret_host` (NUL-terminated by the caller of the callback)
     * in its place; negative: refused with that error. NULL = KEEP for all. Called by the caller's thread. */
    int (*link)(void *self, const char *path, const char *target, struct pl_buf *ret_host, struct pl_err *err);
    void *self; /* of filter and link */
};

/* Reads all sources and gives the operations (ops.h; paths of the repo) into `ret_ops`, which must be empty; when its `max` is 0
 * it becomes PL_INGEST_OPS_MAX_BYTES. Empty folders become entries of kind DIR. `ret_stats` may be NULL. The session is neither
 * finished nor flushed.
 * PL_ENOTFOUND, PL_EIO: with the local path. PL_EPATH: a name that no repo can hold, quoted. PL_ECHANGED: a file that changed
 * while it was read, twice. PL_EINVAL: a socket, FIFO or device; a link that leaves the source. PL_ECOLLISION: two sources give
 * one path. PL_ELIMIT: more than PL_TREE_OPS_MAX paths. Errors of the session. */
PL_MUST_CHECK
int pl_ingest_tree(struct pl_pack_builder *session, const struct pl_ingest_source *sources, size_t n,
                   const struct pl_ingest_options *options, struct pl_buf *ret_ops, struct pl_ingest_stats *ret_stats,
                   struct pl_err *err);
