/* tree_apply: applies sorted changes of keys to a tree. It does not interpret the keys. Edits and merges both
 * produce such changes. Used only in this room.
 *
 * It works level by level, from the leaves up. Each node that a change touches is split again together
 * with the nodes after it, until a new node ends at the same key as an old one. Removing the old nodes and
 * adding the new ones are then the changes of the level above. */
#pragma once

#include "storage/tree_edit/change_list.h"

/* A source of changes: returns 1 and a change, which is valid until the next call, or 0 at the end.
 * Changes are in the order of pl_change_list_settle. */
typedef int (*pl_change_fn)(void *self, struct pl_change *ret, struct pl_err *err);

/* Applies the changes of `next` and returns the new root. `tree`: PL_TREE_PATHS or PL_TREE_ROWS; PL_EINVAL
 * if the root is of the other kind. */
PL_MUST_CHECK
int pl_tree_apply(const struct pl_node_source *source, const struct pl_node_sink *sink, const struct pl_hash *root, uint8_t tree,
                  pl_change_fn next, void *self, struct pl_hash *ret_root, struct pl_err *err);
