/* tree_node: the bytes of one node of a tree, and its decoded form for searching. Used by this room,
 * storage/tree_edit and the fuzzer.
 *
 *   0   "PLTN"      4 bytes
 *   4   u8          version, 1
 *   5   u8          1 paths, 2 rows
 *   6   u8          level: 0 a leaf, else an inner node, all of whose children are of level - 1
 *   7   u32 LE      n, number of entries, 1..4,096
 *   11  n entries   keys strictly ascending
 *         varint    bytes shared with the key before: exactly as many as they have in common; 0 in the first
 *         varint    bytes that follow
 *         bytes     the rest of the key
 *         leaf      entry (tree.h)
 *         inner     child: 32 bytes id, varint files, varint bytes; the key is the child's last key
 *   at most 256 KiB in all
 *
 * The id of a node is the SHA-256 of these bytes. */
#pragma once

#include "storage/tree/tree.h"

#define PL_NODE_MAGIC        "PLTN"
#define PL_NODE_VERSION      1u
#define PL_NODE_HEADER_BYTES 11u

enum { PL_TREE_PATHS = 1, PL_TREE_ROWS = 2 };

/* Positions of an entry's key and value; each key is followed by a NUL. */
struct pl_node_item {
    uint32_t key_at;   /* offset of the key in `keys` */
    uint32_t value_at; /* offset of the value in `raw` */
    uint16_t key_len;
    uint16_t value_len;
};

/* A decoded node: three blocks of memory, which the next decode reuses. `struct pl_node n = {0}` is empty. */
struct pl_node {
    uint8_t tree; /* kind of tree: PL_TREE_PATHS or PL_TREE_ROWS */
    uint8_t level;
    uint32_t n;
    uint32_t items_cap;
    struct pl_node_item *items;
    struct pl_buf raw;
    struct pl_buf keys;
    struct pl_tree_stats stats; /* sums of all entries */
};

/* The description of a child in an inner node: its id and sums. */
struct pl_node_child {
    struct pl_hash id;
    struct pl_tree_stats stats;
};

void pl_node_finish(struct pl_node *node);
/* Decodes a node. PL_EFORMAT: the bytes are not exactly what a level_writer writes; PL_EPATH: an invalid
 * path. The bytes are copied. After a failure the node is empty. */
PL_MUST_CHECK
int pl_node_decode(struct pl_node *node, const void *bytes, size_t n, struct pl_err *err);
/* Reads the node `id` from the source and decodes it; error messages name the id. */
PL_MUST_CHECK
int pl_node_load(struct pl_node *node, const struct pl_node_source *source, const struct pl_hash *id, struct pl_err *err);

static inline const char *pl_node_key(const struct pl_node *node, uint32_t i)
{
    return (const char *)node->keys.data + node->items[i].key_at;
}
static inline size_t pl_node_key_len(const struct pl_node *node, uint32_t i)
{
    return node->items[i].key_len;
}
static inline const uint8_t *pl_node_value(const struct pl_node *node, uint32_t i)
{
    return node->raw.data + node->items[i].value_at;
}
static inline size_t pl_node_value_len(const struct pl_node *node, uint32_t i)
{
    return node->items[i].value_len;
}
/* Return entry `i` of a leaf (the bytes of a row stay in the node) and child `i` of an inner node. They
 * cannot fail, because decoding the node has checked all its values. */
struct pl_entry pl_node_entry(const struct pl_node *node, uint32_t i);
struct pl_node_child pl_node_child(const struct pl_node *node, uint32_t i);
/* True if `node` agrees with item `i` of the inner node `parent`: kind of tree, level, last key and sums;
 * and all its keys are greater than the key before the item (`floor_key`, NULL if there is none). Every
 * step from a node to its child checks this. So each node can occur in only one place of a tree, and a
 * descent ends after as many steps as the root's level says, even in a tree from an untrusted client. */
bool pl_node_fits(const struct pl_node *node, const struct pl_node *parent, uint32_t i, const void *floor_key, size_t floor_len);
/* Encodes a child as the value of an entry of an inner node. */
PL_MUST_CHECK
int pl_node_child_encode(const struct pl_node_child *child, struct pl_buf *out, struct pl_err *err);

/* A search target: the first key ≥ `key`; or, if `past`, the first key behind all keys that start with
 * `key`. */
struct pl_node_bound {
    const void *key;
    size_t key_len;
    bool past;
};
/* Returns the number of the first entry whose key is at or after the bound; node->n if there is none. */
uint32_t pl_node_find(const struct pl_node *node, const struct pl_node_bound *bound);
/* Returns the same entry number as pl_node_find, but is faster if that number is `guess` or `guess` + 1.
 * Any value of `guess` is allowed. */
uint32_t pl_node_find_near(const struct pl_node *node, const struct pl_node_bound *bound, uint32_t guess);
/* True if `key` reaches the bound: it is at or behind the search target. */
bool pl_node_bound_reached(const struct pl_node_bound *bound, const void *key, size_t key_len);

/* Returns the length of the common prefix of two keys. */
size_t pl_key_common(const void *a, size_t a_len, const void *b, size_t b_len);
