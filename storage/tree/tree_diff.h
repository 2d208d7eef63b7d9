/* tree_diff: what differs between two trees, in order of keys. Subtrees with equal ids are skipped unread, wherever they stand:
 * O(changes · log n). */
#pragma once

#include "storage/tree/tree.h"

/* One difference: `old_entry` NULL = added, `new_entry` NULL = removed. Path (NUL-terminated) and rows live until the next call.
 */
struct pl_tree_change {
    const char *path;
    size_t path_len;
    const struct pl_entry *old_entry;
    const struct pl_entry *new_entry;
};

/* As an iterator: for who must stop, or join two of them. */
struct pl_tree_differ;
/* `prefix` bounds the keys (NULL with 0: all). The source serves both trees. */
PL_MUST_CHECK
int pl_tree_differ_create(const struct pl_node_source *source, const struct pl_hash *old_root, const struct pl_hash *new_root,
                          const char *prefix, size_t prefix_len, struct pl_tree_differ **ret, struct pl_err *err);
/* 1 and a change, or 0 at the end. */
PL_MUST_CHECK
int pl_tree_differ_next(struct pl_tree_differ *d, struct pl_tree_change *ret, struct pl_err *err);
struct pl_tree_differ *pl_tree_differ_destroy(struct pl_tree_differ *d);
static inline void pl_tree_differ_destroyp(struct pl_tree_differ **d)
{
    *d = pl_tree_differ_destroy(*d);
}

/* As a loop: `fn` is called for each change; its result other than 0 ends the loop and is returned. */
typedef int (*pl_tree_change_fn)(void *self, const struct pl_tree_change *change, struct pl_err *err);
PL_MUST_CHECK
int pl_tree_diff(const struct pl_node_source *source, const struct pl_hash *old_root, const struct pl_hash *new_root,
                 const char *prefix, size_t prefix_len, pl_tree_change_fn fn, void *self, struct pl_err *err);
