/* tree_merge: three-way merge of trees of paths: applies to `ours` what `theirs` changed since `base`.
 * Cost: O(changes of both · log n). */
#pragma once

#include "storage/tree/tree.h"

/* A conflict. Either both sides changed the same path in different ways; or one side has a file where the
 * other has a directory: then `path` is the file and `other` a path below it. Entries are NULL where the
 * path does not exist. Valid during the call. */
struct pl_tree_conflict {
    const char *path;
    size_t path_len;
    /* the conflicting path on the other side: equal to `path`, unless one side has a file and the other a
     * directory */
    const char *other;
    size_t other_len;
    const struct pl_entry *base;
    const struct pl_entry *ours;
    const struct pl_entry *theirs;
};

/* Called for each conflict. A result other than 0 ends the merge and is returned. */
typedef int (*pl_tree_conflict_fn)(void *self, const struct pl_tree_conflict *conflict, struct pl_err *err);

/* Merges. If there are conflicts, calls `fn` (may be NULL) for each and returns PL_ECONFLICT with the
 * first path and the number of conflicts; then no root is returned, and nodes that were put into the sink
 * are unreferenced. It is not a conflict if both sides made the same change. An empty directory is removed
 * if the other side put paths below it. The result does not depend on which side is `ours`. */
PL_MUST_CHECK
int pl_tree_merge(const struct pl_node_source *source, const struct pl_node_sink *sink, const struct pl_hash *base,
                  const struct pl_hash *ours, const struct pl_hash *theirs, struct pl_hash *ret_root, pl_tree_conflict_fn fn,
                  void *self, struct pl_err *err);
