/* storage/tree: The path-keyed tree of a commit: build, walk, find, diff.
 *
 * In:      Sorted entries; a node source.
 * Out:     Nodes through a node sink; entries and differences.
 * Uses:    storage/base
 * Threads: Single-threaded per object; no I/O of its own.
 *
 * Headers for other rooms:
 *   content_id     content identity of a file or folder for datum keys
 *   level_writer   cuts the entries of one level into nodes
 *   node_stack     path of nodes from the root to a position
 *   path_conflict  refuses a file whose path is also a folder
 *   tree_build     builds a tree from sorted entries
 *   tree_diff      differences of two trees
 *   tree_find      fast lookup of one key in raw node bytes
 *   tree_node      byte format of one node and its decoded form
 *   tree_walk      cursor: ordered reading, seek, prefix walk, sums */

/* storage/tree: the path-keyed prolly tree of a commit: one flat, sorted map from path to entry, cut into content-addressed nodes
 * so that the same set has the same root whatever the order in which it came to be (docs/format.md, "Tree nodes").
 * Uses storage/base only: node bytes come and go through pl_node_source and pl_node_sink.
 *
 *   node          bytes of one node          tree_build    sorted entries → root        tree_diff   what differs between two
 * roots node_stack    a place in a tree          tree_walk     seek, range, get, stats      tree_merge  three roots → one
 *   level_writer  where a node ends          tree_edit     root + operations → root     content_id  identity of files and folders
 *                                            tree_apply    the same without name rules  ops         operations as a stream of
 * bytes; attributes: what is said of a file beside its bytes
 *
 * This file: what an entry is and its codec, where nodes come from and go to, the constants of the tree.
 *
 * A root is a `struct pl_hash`; the empty tree has no node and its root is the zero hash. Keys are byte strings in memcmp order,
 * which for paths is S3's list order and that of `LC_ALL=C sort`; directory d is the range of keys that start with "d/". Nothing
 * here is shared between threads but sources and sinks: any number of threads may work on the same roots when these allow it. */
#pragma once

#include "storage/base/buf.h"
#include "storage/base/hash.h"
#include "storage/base/path.h"

#define PL_INLINE_MAX_BYTES   64u                      /* content up to here lies in the entry itself */
#define PL_ONE_CHUNK_BYTES    (64u << 10)              /* a file up to here is always one chunk */
#define PL_CHUNK_LIMIT_BYTES  (256u << 10)             /* the largest chunk, so the largest file that is one chunk */
#define PL_FILE_LIMIT_BYTES   (1ull << 48)             /* a file is smaller than this */
#define PL_LINK_MAX_BYTES     4095u                    /* the target of a link (PATH_MAX without its NUL) */
#define PL_ROW_MAX_BYTES      4096u                    /* the value of a row */
#define PL_ROW_KEY_MAX_BYTES  4096u                    /* the key of a row; paths end at PL_PATH_MAX_BYTES */
#define PL_ENTRY_MAX_BYTES    (12u + PL_ROW_MAX_BYTES) /* of an encoded entry */
#define PL_TREE_MAX_LEVELS    16u                      /* leaves are level 0; 300^16 entries never come */
#define PL_NODE_LIMIT_BYTES   (256u << 10)
#define PL_NODE_LIMIT_ENTRIES 4096u

/* What an entry is. ROW is the value of a table that is kept as a tree (the datum table of a job); a tree has either rows or the
 * others. */
enum { PL_KIND_FILE = 1, PL_KIND_EXEC = 2, PL_KIND_LINK = 3, PL_KIND_DIR = 4, PL_KIND_ROW = 5 };

/* Where its bytes are. */
enum { PL_CONTENT_NONE = 0, PL_CONTENT_INLINE = 1, PL_CONTENT_CHUNK = 2, PL_CONTENT_LIST = 3 };

/* One entry. What goes together (anything else is refused, so that the same content always has the same entry):
 *
 *   kind        content  size (bytes)
 *   FILE, EXEC  INLINE   0..64                 data
 *               CHUNK    65..256 KiB           id = SHA-256 of the bytes
 *               LIST     64 KiB + 1..2^48 - 1  id = id of the root chunk list
 *   LINK        INLINE   1..64                 data = target text
 *               CHUNK    65..4095              id
 *   DIR         NONE     0                     an empty directory; one with anything below it has no entry
 *   ROW         INLINE   0..4096               row, borrowed: see who gives it; inline_len is 0 */
struct pl_entry {
    uint8_t kind;
    uint8_t content;
    uint8_t inline_len; /* = size when the bytes are in `data`, else 0 */
    uint64_t size;
    union {
        struct pl_hash id;
        uint8_t data[PL_INLINE_MAX_BYTES];
        const uint8_t *row;
    };
};

/* Makers. `len` ≤ PL_INLINE_MAX_BYTES, else the entry is one that pl_entry_check refuses. */
struct pl_entry pl_entry_inline(uint8_t kind, const void *data, size_t len);
struct pl_entry pl_entry_chunk(uint8_t kind, uint64_t size_bytes, const struct pl_hash *id);
struct pl_entry pl_entry_list(uint8_t kind, uint64_t size_bytes, const struct pl_hash *id);
struct pl_entry pl_entry_dir(void);
/* `row` must live as long as the entry is used. */
struct pl_entry pl_entry_row(const void *row, size_t len);

/* PL_EINVAL when the fields do not go together (table above). */
PL_MUST_CHECK
int pl_entry_check(const struct pl_entry *e, struct pl_err *err);
/* Same kind, content, size and bytes. */
bool pl_entry_eq(const struct pl_entry *a, const struct pl_entry *b);

/* The entry's bytes, in nodes and on the wire:
 *   u8 kind, u8 content, varint size, then INLINE: `size` bytes | CHUNK, LIST: 32 bytes | NONE: nothing
 * PL_EINVAL (pl_entry_check), PL_ENOMEM, PL_ETOOBIG. */
PL_MUST_CHECK
int pl_entry_encode(const struct pl_entry *e, struct pl_buf *out, struct pl_err *err);
/* Strict: exactly what pl_entry_encode writes, else PL_EFORMAT. The row of a ROW stays in the cursor's bytes. */
PL_MUST_CHECK
int pl_entry_decode(struct pl_cursor *c, struct pl_entry *ret, struct pl_err *err);

/* Node id → its raw bytes, checked against the id by the source. PL_ENOTFOUND, PL_ECORRUPT, PL_EIO, … `ret` is empty on entry. */
struct pl_node_source {
    void *self;
    int (*get)(void *self, const struct pl_hash *id, struct pl_buf *ret, struct pl_err *err);
};

/* How nodes are cut. A node ends with the entry that is at least its `min_entries`th and whose XXH64(key, seed = level) is below
 * `threshold`, or with its `max_entries`th, or before the entry with which it would exceed `max_bytes`. Only tests use others
 * than the format's; they need 2 ≤ min_entries ≤ max_entries and room for two entries in max_bytes. */
struct pl_tree_params {
    uint32_t min_entries;
    uint32_t max_entries;
    uint32_t max_bytes;
    uint64_t threshold;
};
extern const struct pl_tree_params pl_tree_params_v1; /* 300, 4096, 256 KiB, 2^64 / 300 */

/* Where new nodes go: stores `n` bytes and tells their SHA-256. May get the same node twice. */
struct pl_node_sink {
    void *self;
    int (*put)(void *self, const void *bytes, size_t n, struct pl_hash *ret_id, struct pl_err *err);
    const struct pl_tree_params *params; /* NULL: pl_tree_params_v1 */
};

/* A sink that stores nothing and only computes ids: what root would it be? */
struct pl_node_sink pl_node_sink_hash_only(void);

/* What lies in a tree, a part of it, or below one inner entry. Empty directories count neither as files nor as bytes. */
struct pl_tree_stats {
    uint64_t files;
    uint64_t bytes;
};

/* Order of keys: memcmp, the shorter first when one starts with the other. */
int pl_key_cmp(const void *a, size_t a_len, const void *b, size_t b_len);
/* Where `key` stands against the range of keys that start with `prefix`: < 0 before it, 0 in it, > 0 past it. */
int pl_key_cmp_prefix(const void *key, size_t key_len, const void *prefix, size_t prefix_len);
