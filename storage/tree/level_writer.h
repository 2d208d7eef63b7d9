/* level_writer: splits the entries of one level into nodes by the rule that makes the tree independent of
 * its history (struct pl_tree_params). A tower of level writers writes a whole tree. Used by this room and
 * storage/tree_edit.
 *
 *   empty ──add──▶ open ──add──▶ … ──boundary──▶ empty
 *
 * The end of a node depends only on its entries, except for the bound on bytes, which also depends on the
 * next entry. An empty writer is therefore at a boundary; an open one may be at a boundary
 * (pl_level_writer_fits decides). Single-threaded. */
#pragma once

#include "storage/tree/tree_node.h"

/* An entry of any level: the input of add, and the form in which a written node is passed to the level
 * above. */
struct pl_level_item {
    const void *key;
    size_t key_len;
    const void *value; /* encoded value: an entry in a leaf, a child description in an inner node */
    size_t value_len;
    struct pl_tree_stats stats;
};

/* Called for each node after it was written. `item` is the entry that describes the node in the level above;
 * it is valid during the call. */
typedef int (*pl_level_emit_fn)(void *self, const struct pl_level_item *item, struct pl_err *err);

struct pl_level_writer {
    struct pl_node_sink sink;
    uint8_t tree;
    uint8_t level;
    pl_level_emit_fn emit;
    void *self;

    uint32_t n; /* entries in the open node; 0 = no node is open */
    struct pl_tree_stats stats;
    struct pl_buf raw; /* bytes of the open node */
    struct pl_buf last_key;
    struct pl_buf child; /* scratch: the entry that describes a written node in the level above */
    uint64_t written;    /* number of nodes written */
    /* The last node written: its id, its number of entries, and its first child (used only if the node has
     * exactly one child). */
    struct pl_hash last_id;
    uint32_t last_n;
    struct pl_node_child last_only;
};

/* Initialises a writer of `level`; `emit` is called with `self`. `sink` is copied. */
void pl_level_writer_init(struct pl_level_writer *w, const struct pl_node_sink *sink, uint8_t tree, uint8_t level,
                          pl_level_emit_fn emit, void *self);
void pl_level_writer_finish(struct pl_level_writer *w);
/* Adds an entry. The caller guarantees that keys ascend. PL_ELIMIT: the sum of file counts or sizes exceeds
 * 64 bits. Also returns errors of the sink and of `emit`. */
PL_MUST_CHECK
int pl_level_writer_add(struct pl_level_writer *w, const struct pl_level_item *item, struct pl_err *err);
/* True if an entry with this key and value length fits into the open node, or if no node is open. */
bool pl_level_writer_fits(const struct pl_level_writer *w, const void *key, size_t key_len, size_t value_len);
/* Writes the open node, if there is one. */
PL_MUST_CHECK
int pl_level_writer_flush(struct pl_level_writer *w, struct pl_err *err);

/* A tower: writers of all levels from `first` up. Each passes its written nodes to the next. Must not move
 * while in use. */
struct pl_level_tower {
    struct pl_level_writer w[PL_TREE_MAX_LEVELS];
    unsigned first;
};

void pl_level_tower_init(struct pl_level_tower *t, const struct pl_node_sink *sink, uint8_t tree, unsigned first);
void pl_level_tower_finish(struct pl_level_tower *t);
/* Adds an entry to level `first`. PL_ELIMIT: the tree would need more than PL_TREE_MAX_LEVELS. */
PL_MUST_CHECK
int pl_level_tower_add(struct pl_level_tower *t, const struct pl_level_item *item, struct pl_err *err);
/* Writes the open nodes of all levels and returns the root: the only node of the lowest level that has
 * just one node. A zero hash if no entry was added. */
PL_MUST_CHECK
int pl_level_tower_root(struct pl_level_tower *t, struct pl_hash *ret, struct pl_err *err);
