/* storage/tree: The path-keyed tree of a commit: build, walk, find, diff.
 *
 * In:      Sorted entries; a node source.
 * Out:     Nodes, through a node sink; entries and differences.
 * Uses:    storage/base
 * Threads: Single-threaded per object; no I/O of its own.
 *
 * Headers for other rooms:
 *   content_id     content identity of a file or folder for datum keys
 *   level_writer   splits the entries of one level into nodes
 *   node_stack     path of nodes from the root to a position
 *   path_conflict  rejects a file whose path is also a folder
 *   tree_build     builds a tree from sorted entries
 *   tree_diff      differences of two trees
 *   tree_find      fast lookup of one key in raw node bytes
 *   tree_node      byte format of one node and its decoded form
 *   tree_walk      cursor: ordered reading, seek, prefix walk, sums */

/* A tree is one flat, sorted map from path to entry. It is split into content-addressed nodes so that the
 * same set of entries has the same root, whatever the order in which they were added (a prolly tree;
 * docs/format.md "Tree nodes"). Bytes of nodes are read through pl_node_source and written through
 * pl_node_sink. Edits and merges are in storage/tree_edit. This file defines entries and their encoding,
 * sources and sinks of nodes, and the tree's constants.
 *
 * A root is a `struct pl_hash`; the empty tree has no nodes and its root is the zero hash. Keys are byte
 * strings in memcmp order, which for paths is the order of S3 listings and of `LC_ALL=C sort`. The
 * directory d is the range of keys that start with "d/". Threads share nothing but sources and sinks: if
 * these are thread-safe, any number of threads may work on the same roots. */
#pragma once

#include "storage/base/buf.h"
#include "storage/base/hash.h"
#include "storage/base/path.h"

/* content up to this size is stored in the entry itself */
#define PL_INLINE_MAX_BYTES 64u
#define PL_ONE_CHUNK_BYTES  (64u << 10) /* a file up to this size is always one chunk */
/* largest chunk, and so the largest file of one chunk */
#define PL_CHUNK_LIMIT_BYTES (256u << 10)
#define PL_FILE_LIMIT_BYTES  (1ull << 48) /* every file has fewer bytes than this */
#define PL_LINK_MAX_BYTES    4095u        /* target of a link: PATH_MAX without its NUL */
#define PL_ROW_MAX_BYTES     4096u        /* value of a row */
/* key of a row; paths are limited by PL_PATH_MAX_BYTES */
#define PL_ROW_KEY_MAX_BYTES 4096u
#define PL_ENTRY_MAX_BYTES   (12u + PL_ROW_MAX_BYTES) /* largest size of an encoded entry */
/* leaves are level 0; with about 300 entries per node, 16 levels are more than any tree needs */
#define PL_TREE_MAX_LEVELS    16u
#define PL_NODE_LIMIT_BYTES   (256u << 10)
#define PL_NODE_LIMIT_ENTRIES 4096u

/* Kinds of entries. A ROW is one value in a table that is stored as a tree, for example a job's datum table.
 * A tree contains either rows only or no rows. */
enum { PL_KIND_FILE = 1, PL_KIND_EXEC = 2, PL_KIND_LINK = 3, PL_KIND_DIR = 4, PL_KIND_ROW = 5 };

/* Where the bytes of an entry are stored: nowhere (it has none), in the entry itself, in one chunk, or in the
 * chunks of a list. */
enum { PL_CONTENT_NONE = 0, PL_CONTENT_INLINE = 1, PL_CONTENT_CHUNK = 2, PL_CONTENT_LIST = 3 };

/* One entry. The valid combinations are listed below. All others are rejected, so that the same content
 * always has the same entry.
 *
 *   kind        content  size (bytes)
 *   FILE, EXEC  INLINE   0..64                 data
 *               CHUNK    65..256 KiB           id = SHA-256 of the bytes
 *               LIST     64 KiB + 1..2^48 - 1  id = id of the root chunk list
 *   LINK        INLINE   1..64                 data = target text
 *               CHUNK    65..4095              id
 *   DIR         NONE     0                     an empty directory; a directory that is not empty has no entry
 *   ROW         INLINE   0..4096               row = borrowed bytes; inline_len is 0 */
struct pl_entry {
    uint8_t kind;
    uint8_t content;
    uint8_t inline_len; /* equal to `size` if the bytes are in `data`, otherwise 0 */
    uint64_t size;
    union {
        struct pl_hash id;
        uint8_t data[PL_INLINE_MAX_BYTES];
        const uint8_t *row;
    };
};

/* Make entries. pl_entry_inline needs `len` ≤ PL_INLINE_MAX_BYTES; otherwise pl_entry_check rejects the
 * entry. */
struct pl_entry pl_entry_inline(uint8_t kind, const void *data, size_t len);
struct pl_entry pl_entry_chunk(uint8_t kind, uint64_t size_bytes, const struct pl_hash *id);
struct pl_entry pl_entry_list(uint8_t kind, uint64_t size_bytes, const struct pl_hash *id);
struct pl_entry pl_entry_dir(void);
/* Makes a row. `row` is borrowed and must stay valid while the entry is used. */
struct pl_entry pl_entry_row(const void *row, size_t len);

/* Checks the combination of fields (table above). PL_EINVAL. */
PL_MUST_CHECK
int pl_entry_check(const struct pl_entry *e, struct pl_err *err);
/* True if kind, content, size and bytes are equal. */
bool pl_entry_eq(const struct pl_entry *a, const struct pl_entry *b);

/* Encodes an entry in the form used in tree nodes and in operation streams:
 *
 *   u8 kind, u8 content, varint size, then INLINE: `size` bytes | CHUNK, LIST: 32 bytes | NONE: no bytes
 *
 * PL_EINVAL: pl_entry_check rejects the entry. PL_ENOMEM, PL_ETOOBIG: the buffer cannot grow. */
PL_MUST_CHECK
int pl_entry_encode(const struct pl_entry *e, struct pl_buf *out, struct pl_err *err);
/* Decodes an entry. Accepts only bytes that pl_entry_encode produces; PL_EFORMAT for all others. The `row` of
 * a ROW points into the cursor's bytes. */
PL_MUST_CHECK
int pl_entry_decode(struct pl_cursor *c, struct pl_entry *ret, struct pl_err *err);

/* A source of nodes: `get` reads the raw bytes of the node `id` into `ret`, which is empty, and verifies
 * them against the id. PL_ENOTFOUND, PL_ECORRUPT, PL_EIO, … */
struct pl_node_source {
    void *self;
    int (*get)(void *self, const struct pl_hash *id, struct pl_buf *ret, struct pl_err *err);
};

/* The rule that splits entries into nodes. A node ends after an entry if it has at least `min_entries` and
 * XXH64(key, seed = level) is below `threshold`, or if it has `max_entries`; and before an entry that
 * would make it larger than `max_bytes`. Only tests use values other than pl_tree_params_v1. Required: 2 ≤
 * min_entries ≤ max_entries, and max_bytes has space for two entries. */
struct pl_tree_params {
    uint32_t min_entries;
    uint32_t max_entries;
    uint32_t max_bytes;
    uint64_t threshold;
};
extern const struct pl_tree_params pl_tree_params_v1; /* 300, 4096, 256 KiB, 2^64 / 300 */

/* A sink of nodes: `put` stores `n` bytes and returns their SHA-256. It may get the same node more than
 * once. */
struct pl_node_sink {
    void *self;
    int (*put)(void *self, const void *bytes, size_t n, struct pl_hash *ret_id, struct pl_err *err);
    const struct pl_tree_params *params; /* rule for splitting nodes; NULL = pl_tree_params_v1 */
};

/* Returns a sink that stores nothing and only computes ids, to find the root that a tree would have. */
struct pl_node_sink pl_node_sink_hash_only(void);

/* Number of files and total bytes of a tree, of a part of it, or of a subtree. Empty directories count
 * neither as files nor as bytes. */
struct pl_tree_stats {
    uint64_t files;
    uint64_t bytes;
};

/* Compares keys with memcmp; if one is a prefix of the other, the shorter is less. */
int pl_key_cmp(const void *a, size_t a_len, const void *b, size_t b_len);
/* Compares a key with the range of keys that start with `prefix`: < 0: the key is before the range, 0: inside
 * it, > 0: behind it. */
int pl_key_cmp_prefix(const void *key, size_t key_len, const void *prefix, size_t prefix_len);
