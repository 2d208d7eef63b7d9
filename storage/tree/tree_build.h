/* tree_build: entries in ascending order → a new tree. Memory: one node a level. Single-threaded. */
#pragma once

#include "storage/tree/tree.h"

struct pl_tree_builder;

PL_MUST_CHECK
int pl_tree_builder_create(const struct pl_node_sink *sink, struct pl_tree_builder **ret, struct pl_err *err);

/* Adds an entry; paths strictly ascending in byte order (PL_EINVAL otherwise, with both). The first entry decides whether this is
 * a tree of paths or of rows; both in one: PL_EINVAL. Paths are checked (PL_EPATH); a row's key is 1..PL_ROW_KEY_MAX_BYTES of any
 * bytes. PL_ECOLLISION when `path` lies below a path that was added as anything (an empty directory as well), naming both. After
 * a failure other than PL_EPATH, PL_EINVAL and PL_ECOLLISION only destroy is allowed. */
PL_MUST_CHECK
int pl_tree_builder_add(struct pl_tree_builder *b, const char *path, size_t path_len, const struct pl_entry *entry,
                        struct pl_err *err);

/* Writes what is left and gives the root (zero hash when nothing was added) and, unless NULL, the sums. Once. */
PL_MUST_CHECK
int pl_tree_builder_finish(struct pl_tree_builder *b, struct pl_hash *ret_root, struct pl_tree_stats *ret_stats,
                           struct pl_err *err);

struct pl_tree_builder *pl_tree_builder_destroy(struct pl_tree_builder *b);
static inline void pl_tree_builder_destroyp(struct pl_tree_builder **b)
{
    *b = pl_tree_builder_destroy(*b);
}
