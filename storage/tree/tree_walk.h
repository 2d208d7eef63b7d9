/* tree_walk: reading a tree: in order, from a place, within a directory, one path, sums.
 *
 * What every read can give: PL_ECORRUPT / PL_EFORMAT (a node is not what its parent says), and the errors of the source. */
#pragma once

#include "storage/tree/tree.h"

struct pl_tree_cursor;

/* `prefix` (may be NULL with 0) bounds the walk to the keys that start with these bytes: "d/" is the directory d. Nothing is read
 * yet; the cursor stands before the first key. */
PL_MUST_CHECK
int pl_tree_cursor_create(const struct pl_node_source *source, const struct pl_hash *root, const char *prefix, size_t prefix_len,
                          struct pl_tree_cursor **ret, struct pl_err *err);
struct pl_tree_cursor *pl_tree_cursor_destroy(struct pl_tree_cursor *c);
static inline void pl_tree_cursor_destroyp(struct pl_tree_cursor **c)
{
    *c = pl_tree_cursor_destroy(*c);
}

/* The next call of next gives the first key ≥ `path` that lies within the prefix. Forwards and backwards. */
PL_MUST_CHECK
int pl_tree_cursor_seek(struct pl_tree_cursor *c, const char *path, size_t path_len, struct pl_err *err);
/* The next call of next gives the first key past all those that start with `prefix` ("d/": what follows directory d), so that a
 * listing of one level costs O(log n) a directory. */
PL_MUST_CHECK
int pl_tree_cursor_seek_past(struct pl_tree_cursor *c, const char *prefix, size_t prefix_len, struct pl_err *err);

struct pl_tree_item {
    const char *path; /* NUL-terminated; the cursor's, until its next call */
    size_t path_len;
    struct pl_entry entry; /* a row's bytes: the cursor's, until its next call */
};

/* 1 and the item, or 0 at the end. */
PL_MUST_CHECK
int pl_tree_cursor_next(struct pl_tree_cursor *c, struct pl_tree_item *ret, struct pl_err *err);
/* The item at exactly `path` (next goes on behind it): 1, or 0 when there is none. */
PL_MUST_CHECK
int pl_tree_cursor_get(struct pl_tree_cursor *c, const char *path, size_t path_len, struct pl_tree_item *ret, struct pl_err *err);

/* One path of a tree of paths. PL_ENOTFOUND names the path. PL_EINVAL on a tree of rows (use a cursor: it owns the bytes). */
PL_MUST_CHECK
int pl_tree_get(const struct pl_node_source *source, const struct pl_hash *root, const char *path, size_t path_len,
                struct pl_entry *ret, struct pl_err *err);

/* The sums of all keys that start with `prefix` (0 bytes: all). O(log n) reads. */
PL_MUST_CHECK
int pl_tree_stats_get(const struct pl_node_source *source, const struct pl_hash *root, const char *prefix, size_t prefix_len,
                      struct pl_tree_stats *ret, struct pl_err *err);

/* Reads the whole tree and proves that it is the one and only tree of its entries: cut where the rule says, no file where a
 * directory is, sums right. `params` NULL: the format's. PL_ECORRUPT. For fsck and for trees that others wrote. */
PL_MUST_CHECK
int pl_tree_check(const struct pl_node_source *source, const struct pl_hash *root, const struct pl_tree_params *params,
                  struct pl_err *err);
/* Calls `visit` for the id of every node of the tree, parents first, leaves without reading them: what a tree keeps alive. A
 * negative result ends it and is returned; PL_TREE_SKIP leaves out what lies below the node (seen before). */
#define PL_TREE_SKIP 1
typedef int (*pl_tree_node_fn)(void *self, const struct pl_hash *id, unsigned level, struct pl_err *err);
PL_MUST_CHECK
int pl_tree_visit_nodes(const struct pl_node_source *source, const struct pl_hash *root, pl_tree_node_fn visit, void *self,
                        struct pl_err *err);
