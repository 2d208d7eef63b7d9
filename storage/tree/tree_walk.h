/* tree_walk: reads a tree: all entries in order, the entries from a position on or within a directory, the
 * entry of a single path, or sums.
 *
 * Every function that reads may return PL_ECORRUPT or PL_EFORMAT (a node does not agree with its parent),
 * and the errors of the source. */
#pragma once

#include "storage/tree/tree.h"

struct pl_tree_cursor;

/* Creates a cursor over the keys that start with `prefix` (NULL with length 0: all keys): "d/" is the
 * directory d. Reads nothing yet; the cursor is before the first key. */
PL_MUST_CHECK
int pl_tree_cursor_create(const struct pl_node_source *source, const struct pl_hash *root, const char *prefix, size_t prefix_len,
                          struct pl_tree_cursor **ret, struct pl_err *err);
struct pl_tree_cursor *pl_tree_cursor_destroy(struct pl_tree_cursor *c);
static inline void pl_tree_cursor_destroyp(struct pl_tree_cursor **c)
{
    *c = pl_tree_cursor_destroy(*c);
}

/* Makes the next call of next return the first key ≥ `path` within the cursor's prefix. Moves forwards or
 * backwards. */
PL_MUST_CHECK
int pl_tree_cursor_seek(struct pl_tree_cursor *c, const char *path, size_t path_len, struct pl_err *err);
/* Makes the next call of next return the first key behind all keys that start with `prefix` ("d/": the
 * first key after the directory d). A listing of one level thus costs O(log n) per directory. */
PL_MUST_CHECK
int pl_tree_cursor_seek_past(struct pl_tree_cursor *c, const char *prefix, size_t prefix_len, struct pl_err *err);

struct pl_tree_item {
    const char *path; /* NUL-terminated; owned by the cursor, valid until its next call */
    size_t path_len;
    struct pl_entry entry; /* the bytes of a row are owned by the cursor, valid until its next call */
};

/* Returns 1 and the next item, or 0 at the end. */
PL_MUST_CHECK
int pl_tree_cursor_next(struct pl_tree_cursor *c, struct pl_tree_item *ret, struct pl_err *err);
/* Returns 1 and the item with exactly this path, or 0 if there is none. next continues behind it. */
PL_MUST_CHECK
int pl_tree_cursor_get(struct pl_tree_cursor *c, const char *path, size_t path_len, struct pl_tree_item *ret, struct pl_err *err);

/* Reads the entry of one path. PL_ENOTFOUND names the path. PL_EINVAL: the tree has rows (use a cursor,
 * which owns the bytes). */
PL_MUST_CHECK
int pl_tree_get(const struct pl_node_source *source, const struct pl_hash *root, const char *path, size_t path_len,
                struct pl_entry *ret, struct pl_err *err);

/* Computes the sums of all keys that start with `prefix` (length 0: all keys). O(log n) reads. */
PL_MUST_CHECK
int pl_tree_stats_get(const struct pl_node_source *source, const struct pl_hash *root, const char *prefix, size_t prefix_len,
                      struct pl_tree_stats *ret, struct pl_err *err);

/* Reads the whole tree and checks that it is the canonical tree of its entries: nodes end where the rule
 * says, no file is also a directory, and the sums are right. `params` NULL: the format's. PL_ECORRUPT. For
 * fsck and for trees from clients. */
PL_MUST_CHECK
int pl_tree_check(const struct pl_node_source *source, const struct pl_hash *root, const struct pl_tree_params *params,
                  struct pl_err *err);
/* Calls `visit` with the id of every node of the tree, parents first. Leaves are not read. A negative
 * result ends the walk and is returned; PL_TREE_SKIP makes the walk skip the nodes below this one, because
 * the caller has visited them before. */
#define PL_TREE_SKIP 1
typedef int (*pl_tree_node_fn)(void *self, const struct pl_hash *id, unsigned level, struct pl_err *err);
PL_MUST_CHECK
int pl_tree_visit_nodes(const struct pl_node_source *source, const struct pl_hash *root, pl_tree_node_fn visit, void *self,
                        struct pl_err *err);
