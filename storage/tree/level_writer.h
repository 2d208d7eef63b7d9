/* level_writer: cuts the entries of one level into nodes, by the one rule that makes trees history-independent (tree.h,
 * pl_tree_params); and a tower of them, which makes a whole tree. Internal to storage/tree.
 *
 *   empty ──add──▶ open ──add──▶ … ──boundary──▶ empty
 *
 * Where a node ends is decided by its entries alone, but for the bound on bytes, which needs the entry that comes next: a writer that
 * is empty stands at a boundary for certain, one that is open may stand at one (pl_level_writer_fits tells). Single-threaded. */
#pragma once

#include "storage/tree/tree_node.h"

/* One entry of any level: what add takes and a written node becomes on the level above. */
struct pl_level_item {
    const void *key;
    size_t key_len;
    const void *value; /* encoded: an entry, or a child */
    size_t value_len;
    struct pl_tree_stats stats;
};

/* A node was written: its entry in the level above, borrowed for the call. */
typedef int (*pl_level_emit_fn)(void *self, const struct pl_level_item *item, struct pl_err *err);

struct pl_level_writer {
    struct pl_node_sink sink;
    uint8_t tree;
    uint8_t level;
    pl_level_emit_fn emit;
    void *self;

    uint32_t n; /* entries of the open node */
    struct pl_tree_stats stats;
    struct pl_buf raw; /* its bytes */
    struct pl_buf last_key;
    struct pl_buf child; /* scratch */
    uint64_t written;    /* nodes */
    /* Of the node written last: its id, number of entries, and when that is one, the only child. */
    struct pl_hash last_id;
    uint32_t last_n;
    struct pl_node_child last_only;
};

void pl_level_writer_init(struct pl_level_writer *w, const struct pl_node_sink *sink, uint8_t tree, uint8_t level,
                          pl_level_emit_fn emit, void *self);
void pl_level_writer_finish(struct pl_level_writer *w);
/* Keys ascend (the caller sees to it). */
PL_MUST_CHECK
int pl_level_writer_add(struct pl_level_writer *w, const struct pl_level_item *item, struct pl_err *err);
/* Whether the open node has room for an entry with this key and length of value. True when no node is open. */
bool pl_level_writer_fits(const struct pl_level_writer *w, const void *key, size_t key_len, size_t value_len);
/* Ends the open node; nothing when none is open. */
PL_MUST_CHECK
int pl_level_writer_flush(struct pl_level_writer *w, struct pl_err *err);

/* tower: writers of all levels from `first` up, each fed by the one below. Does not move while in use. */
struct pl_level_tower {
    struct pl_level_writer w[PL_TREE_MAX_LEVELS];
    unsigned first;
};

void pl_level_tower_init(struct pl_level_tower *t, const struct pl_node_sink *sink, uint8_t tree, unsigned first);
void pl_level_tower_finish(struct pl_level_tower *t);
/* Adds to level `first`. PL_ELIMIT when the levels run out. */
PL_MUST_CHECK
int pl_level_tower_add(struct pl_level_tower *t, const struct pl_level_item *item, struct pl_err *err);
/* Ends all levels: the root is the only node of the lowest level that has but one. Zero hash when nothing was added. */
PL_MUST_CHECK
int pl_level_tower_root(struct pl_level_tower *t, struct pl_hash *ret, struct pl_err *err);
