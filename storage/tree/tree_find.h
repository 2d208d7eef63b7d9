/* tree_find: finds one key of a tree in the raw bytes of one node per level, without decoding the nodes. A
 * lookup costs about a tenth of a lookup with a cursor (tree_walk.h). This module is for callers that look
 * up single keys very often. It relies on the source to verify the bytes against the ids, and does not
 * compare nodes with their parents. Any thread. */
#pragma once

#include "storage/base/byte_view.h"
#include "storage/tree/tree.h"

/* A source of nodes, similar to pl_node_source: `show` calls `look` with the bytes of a node, without copying
 * them. tree_find stores its index of the node's keys in the field `aside` of the byte view. */
struct pl_node_shower {
    void *self;
    int (*show)(void *self, const struct pl_hash *id, pl_byte_view_fn look, void *arg, struct pl_err *err);
};

/* Copies the value of `key`, an encoded entry, into `ret`, replacing its content. Returns 1, or 0 if the
 * key does not exist. PL_EFORMAT, PL_ECORRUPT: not a tree node; errors of the source. */
PL_MUST_CHECK
int pl_tree_find(const struct pl_node_shower *nodes, const struct pl_hash *root, const void *key, size_t key_len,
                 struct pl_buf *ret, struct pl_err *err);
/* Finds the entry of `key` and decodes it; results and errors are those of pl_tree_find. The bytes of a ROW
 * are stored in `ret_value`. */
PL_MUST_CHECK
int pl_tree_find_entry(const struct pl_node_shower *nodes, const struct pl_hash *root, const void *key, size_t key_len,
                       struct pl_buf *ret_value, struct pl_entry *ret, struct pl_err *err);
