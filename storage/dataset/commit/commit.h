/* storage/dataset/commit: Commit objects, references to commits, and sinks that put tree nodes into packs.
 *
 * In:      Roots, parents, a text such as repo@ref^2:/path.
 * Out:     Commit bytes and ids; a parsed reference.
 * Uses:    storage/{base, pack, tree}
 * Threads: Any thread; only the sinks do I/O.
 *
 * Headers for other rooms:
 *   commit_ref        parses project/repo@ref^n:/path
 *   pack_node_sink    writes tree nodes into packs
 *   recent_node_sink  node sink that can read back its last nodes */

/* A commit is one immutable state of one repo: what it contains (roots of trees) and where it comes from.
 * It is stored as a record of kind PL_REC_COMMIT. Its object id is the SHA-256 of its bytes; its id within
 * the repo is that of the run that made it. Byte layout: docs/format.md, "Commit object". */
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

/* A commit of another repo from which this commit was made. Commit ids are run ids (32 hex digits). */
struct pl_commit_source {
    const char *project;
    const char *repo;
    const char *branch;
    char commit[PL_ID_HEX + 1];
};

/* The fields of a commit. A root or hash that does not exist is zero; a text that does not exist is "". `{0}`
 * with the required texts is a valid commit of an empty repo. Encoding borrows the texts; decoding allocates
 * them in the caller's arena. */
struct pl_commit {
    const char *project;    /* project of the repo; required */
    const char *repo;       /* name of the repo; required */
    char id[PL_ID_HEX + 1]; /* required: id of the run that made it, 32 hex digits */
    /* branch on which the commit was made; the branch may have moved or been deleted since */
    const char *branch;
    struct pl_hash tree;       /* root: paths → entries */
    struct pl_hash attributes; /* root: paths → ETag, content type, x-amz-meta-* */
    struct pl_hash table;      /* root of the datum table, for output commits */
    struct pl_hash owner;      /* root: path → the datum that wrote it */
    struct pl_hash metrics;    /* reserved for metrics; always zero */
    struct pl_hash logs;       /* reserved for logs; always zero */
    uint64_t generation;       /* 1 + the largest generation of the parents; 1 without parents */
    int64_t wall_us;           /* µs since 1970 UTC; shown to users, not used for ordering */
    uint64_t files;
    uint64_t bytes;
    const char *author;
    const char *message;
    const char *stage;   /* stage that wrote the commit; "" for a push */
    struct pl_hash code; /* identity of the stage's code; zero for a push */
    /* object ids of the parent commits; the previous head of the branch is the first */
    const struct pl_hash *parents;
    size_t n_parents;
    const struct pl_commit_source *provenance; /* strictly ascending by project, repo, branch */
    size_t n_provenance;
};

/* Appends the canonical bytes to `ret`. PL_EINVAL: a field is missing or too long, or provenance is not in
 * order; PL_ENAME. */
PL_MUST_CHECK
int pl_commit_encode(const struct pl_commit *c, struct pl_buf *ret, struct pl_err *err);
/* Decodes a commit. Accepts exactly the output of pl_commit_encode. Texts and arrays are allocated in
 * `arena`. PL_EFORMAT says what is wrong. */
PL_MUST_CHECK
int pl_commit_decode(const void *bytes, size_t n, struct pl_arena *arena, struct pl_commit *ret, struct pl_err *err);
