/* tree_apply: a tree and sorted changes of keys → the next tree, without looking at what the keys mean: what edit and merge end in.
 * Internal to storage/tree.
 *
 * Level by level from the leaves: the nodes that a change touches are cut anew together with what follows, until a new node ends where
 * an old one does; which old nodes went and which new ones came are the changes of the level above. */
#pragma once

#include "storage/tree_edit/change_list.h"

/* 1 and a change, borrowed until the next call, or 0 at the end. In the order of pl_change_list_settle. */
typedef int (*pl_change_fn)(void *self, struct pl_change *ret, struct pl_err *err);

/* `tree`: PL_TREE_…, which the root, if there is one, has to be (PL_EINVAL). */
PL_MUST_CHECK
int pl_tree_apply(const struct pl_node_source *source, const struct pl_node_sink *sink, const struct pl_hash *root, uint8_t tree,
                  pl_change_fn next, void *self, struct pl_hash *ret_root, struct pl_err *err);
