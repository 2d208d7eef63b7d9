/* tree_merge: three-way merge of trees of paths: what `theirs` changed since `base`, applied on `ours`. O(changes of both · log
 * n). */
#pragma once

#include "storage/tree/tree.h"

/* Both sides changed one path and do not agree, or one made a file of what is a directory for the other (then `path` and `other`
 * differ: a file and what lies below it). Entries are NULL where the path is absent; all is borrowed for the call. */
struct pl_tree_conflict {
    const char *path;
    size_t path_len;
    const char *other; /* the path on the other side: equal to `path` but for file against directory */
    size_t other_len;
    const struct pl_entry *base;
    const struct pl_entry *ours;
    const struct pl_entry *theirs;
};

/* A result other than 0 ends the merge and is returned. */
typedef int (*pl_tree_conflict_fn)(void *self, const struct pl_tree_conflict *conflict, struct pl_err *err);

/* Merges, or calls `fn` (may be NULL) for every conflict and returns PL_ECONFLICT with the first path and their number; then no
 * root is given (nodes may have been put into the sink; nothing refers to them). Both sides doing the same is no conflict. An
 * empty directory gives way to whatever the other side put below it. The result does not depend on which side is called ours. */
PL_MUST_CHECK
int pl_tree_merge(const struct pl_node_source *source, const struct pl_node_sink *sink, const struct pl_hash *base,
                  const struct pl_hash *ours, const struct pl_hash *theirs, struct pl_hash *ret_root, pl_tree_conflict_fn fn,
                  void *self, struct pl_err *err);
