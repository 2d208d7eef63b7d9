/* node: one node of a tree: its bytes, and its decoded form for searching. Internal to storage/tree, and what the fuzzer feeds.
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

/* Where key and value of an entry lie; a NUL follows each key. */
struct pl_node_item {
    uint32_t key_at;   /* in keys */
    uint32_t value_at; /* in raw */
    uint16_t key_len;
    uint16_t value_len;
};

/* Decoded node: three blocks of memory, used again by the next decode. `struct pl_node n = {0}` is empty. */
struct pl_node {
    uint8_t tree; /* PL_TREE_… */
    uint8_t level;
    uint32_t n;
    uint32_t items_cap;
    struct pl_node_item *items;
    struct pl_buf raw;
    struct pl_buf keys;
    struct pl_tree_stats stats; /* sum of all entries */
};

/* What an inner entry says of its child. */
struct pl_node_child {
    struct pl_hash id;
    struct pl_tree_stats stats;
};

void pl_node_finish(struct pl_node *node);
/* Strict: PL_EFORMAT for anything that pl_node_encode would not write, PL_EPATH for a path that is not allowed. The bytes are copied.
 * After a failure the node is empty. */
PL_MUST_CHECK
int pl_node_decode(struct pl_node *node, const void *bytes, size_t n, struct pl_err *err);
/* As decode, of the bytes that the source has for `id`; the message names the id. */
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
/* The entry of a leaf (rows: in the node's bytes), the child of an inner node. The decoded node is known to be good. */
struct pl_entry pl_node_entry(const struct pl_node *node, uint32_t i);
struct pl_node_child pl_node_child(const struct pl_node *node, uint32_t i);
/* Whether `node` is what item `i` of the inner node `parent` says of it: kind of tree, level, last key and sums; and all its keys are greater
 * than the one before it (`floor`, NULL where nothing is). Every walk from a node to its child asks this: a node then has one place in a
 * tree, and a way down is as long as the tree has levels, whoever made the nodes. */
bool pl_node_fits(const struct pl_node *node, const struct pl_node *parent, uint32_t i, const void *floor_key, size_t floor_len);
/* A child's value, as it stands in an inner node. */
PL_MUST_CHECK
int pl_node_child_encode(const struct pl_node_child *child, struct pl_buf *out, struct pl_err *err);

/* A place to search for: the first key ≥ key, or the first past all that start with key. */
struct pl_node_bound {
    const void *key;
    size_t key_len;
    bool past;
};
/* The first entry at or behind the bound; node->n when there is none. */
uint32_t pl_node_find(const struct pl_node *node, const struct pl_node_bound *bound);
/* The same, quicker when it is at `guess` or next to it. Any guess is good. */
uint32_t pl_node_find_near(const struct pl_node *node, const struct pl_node_bound *bound, uint32_t guess);
/* Whether `key` is at or behind the bound. */
bool pl_node_bound_reached(const struct pl_node_bound *bound, const void *key, size_t key_len);

/* Length of what two keys have in common at their start. */
size_t pl_key_common(const void *a, size_t a_len, const void *b, size_t b_len);
