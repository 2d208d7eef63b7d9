/* tree_diff: the differences between two trees, in order of key. Subtrees with equal ids are skipped
 * without being read, wherever they are in the trees. Cost: O(changes · log n). */
#pragma once

#include "storage/tree/tree.h"

/* One difference. `old_entry` NULL = added, `new_entry` NULL = removed. The path (NUL-terminated) and the
 * bytes of rows are valid until the next call of the iterator. */
struct pl_tree_change {
    const char *path;
    size_t path_len;
    const struct pl_entry *old_entry;
    const struct pl_entry *new_entry;
};

/* An iterator, for callers that stop early or read two diffs at the same time. */
struct pl_tree_differ;
/* Creates an iterator over the keys that start with `prefix` (NULL with length 0: all keys). `source` must
 * have the nodes of both trees. */
PL_MUST_CHECK
int pl_tree_differ_create(const struct pl_node_source *source, const struct pl_hash *old_root, const struct pl_hash *new_root,
                          const char *prefix, size_t prefix_len, struct pl_tree_differ **ret, struct pl_err *err);
/* Skips the keys before `from` without reading their nodes. Call it before the first pl_tree_differ_next. */
PL_MUST_CHECK
int pl_tree_differ_seek(struct pl_tree_differ *d, const char *from, size_t from_len, struct pl_err *err);
/* Returns 1 and the next change, or 0 at the end. PL_EINVAL: one tree has rows and the other paths. */
PL_MUST_CHECK
int pl_tree_differ_next(struct pl_tree_differ *d, struct pl_tree_change *ret, struct pl_err *err);
struct pl_tree_differ *pl_tree_differ_destroy(struct pl_tree_differ *d);
static inline void pl_tree_differ_destroyp(struct pl_tree_differ **d)
{
    *d = pl_tree_differ_destroy(*d);
}

/* Calls `fn` for each change. A result of `fn` other than 0 ends the loop and is returned. */
typedef int (*pl_tree_change_fn)(void *self, const struct pl_tree_change *change, struct pl_err *err);
PL_MUST_CHECK
int pl_tree_diff(const struct pl_node_source *source, const struct pl_hash *old_root, const struct pl_hash *new_root,
                 const char *prefix, size_t prefix_len, pl_tree_change_fn fn, void *self, struct pl_err *err);
