/* tree_find: one key of a tree, read out of the bytes of a node a level without taking the nodes apart: a tenth of what a cursor costs
 * (tree_walk.h), for those who ask for single keys all day. It relies on the source, whose bytes are those that the ids say: what the nodes
 * say is not held against each other. Any thread. */
#pragma once

#include "storage/base/byte_view.h"
#include "storage/tree/tree.h"

/* Nodes by their ids, as pl_node_source has them, shown where they lie. What tree_find keeps beside a node is an index of its keys. */
struct pl_node_shower {
    void *self;
    int (*show)(void *self, const struct pl_hash *id, pl_byte_view_fn look, void *arg, struct pl_err *err);
};

/* The value of `key` as it lies in the leaf (an encoded entry) into `ret`, replacing what it held. 1, or 0 when there is none. PL_EFORMAT,
 * PL_ECORRUPT (no node of a tree); the errors of who shows them. */
PL_MUST_CHECK
int pl_tree_find(const struct pl_node_shower *nodes, const struct pl_hash *root, const void *key, size_t key_len,
                 struct pl_buf *ret, struct pl_err *err);
/* The same as an entry; the row of a ROW lies in `ret_value`. */
PL_MUST_CHECK
int pl_tree_find_entry(const struct pl_node_shower *nodes, const struct pl_hash *root, const void *key, size_t key_len,
                       struct pl_buf *ret_value, struct pl_entry *ret, struct pl_err *err);
