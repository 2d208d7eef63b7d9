/* storage/dataset/commit: Commit objects, how people name commits, and sinks that put tree nodes into packs.
 *
 * In:      Roots, parents, a text such as repo@ref^2:/path.
 * Out:     Commit bytes and ids; a parsed reference.
 * Uses:    storage/{base, pack, tree}
 * Threads: Any thread; pure but for the sinks.
 *
 * Headers for other rooms:
 *   commit_ref        parses project/repo@ref^n:/path
 *   pack_node_sink    writes tree nodes into packs
 *   recent_node_sink  node sink that can read back its last nodes */

/* commit: one state of one repo, immutable: what it holds (roots of trees) and where it comes from. Stored as a record of kind
 * PL_REC_COMMIT; its object id is the SHA-256 of the bytes, its name within the repo the id of its run. Byte by byte:
 * docs/format.md, "Commit object". */
#pragma once

#include "storage/base/arena.h"
#include "storage/base/buf.h"
#include "storage/base/hash.h"
#include "storage/base/path.h"

#define PL_COMMIT_VERSION          1
#define PL_COMMIT_PARENTS_MAX      16
#define PL_COMMIT_PROVENANCE_MAX   4096
#define PL_COMMIT_MESSAGE_MAX      (64u << 10)
#define PL_COMMIT_AUTHOR_MAX       255
#define PL_COMMIT_OBJECT_MAX_BYTES (1u << 20)

/* The commit of another repo that this one was made from; commit ids are run ids (32 hex digits). */
struct pl_commit_source {
    const char *project;
    const char *repo;
    const char *branch;
    char commit[PL_ID_HEX + 1];
};

/* Absent roots and hashes are zero; absent texts "". `{0}` with the required texts set is a valid commit of an empty repo.
 * Texts are borrowed when encoding, the arena's when decoding. */
struct pl_commit {
    const char *project;       /* required */
    const char *repo;          /* required */
    char id[PL_ID_HEX + 1];    /* required: the run that made it, 32 hex digits */
    const char *branch;        /* it was made on; may have moved or gone since */
    struct pl_hash tree;       /* paths → entries */
    struct pl_hash attributes; /* paths → ETag, content type, x-amz-meta-* */
    struct pl_hash table;      /* datum table of an output commit */
    struct pl_hash owner;      /* which datum wrote a path */
    struct pl_hash metrics;    /* reserved, zero */
    struct pl_hash logs;       /* reserved, zero */
    uint64_t generation;       /* 1 + the largest of the parents', 1 without parents */
    int64_t wall_us;           /* for people only; no order is decided by it */
    uint64_t files;
    uint64_t bytes;
    const char *author;
    const char *message;
    const char *stage;             /* the stage that wrote it, "" for a push */
    struct pl_hash code;           /* code identity of the stage, zero for a push */
    const struct pl_hash *parents; /* object ids, the branch's former head first */
    size_t n_parents;
    const struct pl_commit_source *provenance; /* sorted by project, repo, branch; strictly */
    size_t n_provenance;
};

/* The canonical bytes, appended to `ret`. PL_EINVAL (a field is missing, too long, or provenance is not in order), PL_ENAME. */
PL_MUST_CHECK
int pl_commit_encode(const struct pl_commit *c, struct pl_buf *ret, struct pl_err *err);
/* Strict: accepts exactly what pl_commit_encode writes. Texts and arrays come from `arena`. PL_EFORMAT with what is wrong. */
PL_MUST_CHECK
int pl_commit_decode(const void *bytes, size_t n, struct pl_arena *arena, struct pl_commit *ret, struct pl_err *err);
