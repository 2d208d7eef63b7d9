/* tree_build: builds a new tree from entries in ascending order. Keeps one open node per level in memory.
 * Single-threaded. */
#pragma once

#include "storage/tree/tree.h"

struct pl_tree_builder;

PL_MUST_CHECK
int pl_tree_builder_create(const struct pl_node_sink *sink, struct pl_tree_builder **ret, struct pl_err *err);

/* Adds an entry. Paths must strictly ascend in byte order; otherwise PL_EINVAL, with both paths. The first
 * entry decides whether the tree is one of paths or of rows; an entry of the other kind is PL_EINVAL.
 * Paths are checked (PL_EPATH). The key of a row is 1..PL_ROW_KEY_MAX_BYTES of any bytes. PL_ECOLLISION,
 * naming both paths: `path` is below a path that was added, even if that is an empty directory. After an
 * error other than PL_EPATH, PL_EINVAL and PL_ECOLLISION, only destroy may be called. */
PL_MUST_CHECK
int pl_tree_builder_add(struct pl_tree_builder *b, const char *path, size_t path_len, const struct pl_entry *entry,
                        struct pl_err *err);

/* Writes the remaining nodes. Returns the root (a zero hash if no entry was added) and, unless that pointer
 * is NULL, the tree's sums. Call it once. */
PL_MUST_CHECK
int pl_tree_builder_finish(struct pl_tree_builder *b, struct pl_hash *ret_root, struct pl_tree_stats *ret_stats,
                           struct pl_err *err);

struct pl_tree_builder *pl_tree_builder_destroy(struct pl_tree_builder *b);
static inline void pl_tree_builder_destroyp(struct pl_tree_builder **b)
{
    *b = pl_tree_builder_destroy(*b);
}
