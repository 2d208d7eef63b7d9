/* op_overlay: a tree with layers of pending operations on top. Each new operation is checked against the
 * tree as seen through the layers, as if it were a separate edit (tree_edit.h), but without building trees
 * in between.
 *
 *   request ──▶ top layer: the operations being added; dropped if a later part of the request is rejected
 *               layers below: operations that were accepted
 *               base: a tree
 *
 * Single-threaded. An operation costs O(depth · log n), and less if its path is near that of the previous
 * operation. */
#pragma once

#include "storage/tree/tree_walk.h"
#include "storage/tree_edit/op_set.h"

#define PL_OP_OVERLAY_LAYERS 3u

struct pl_op_overlay {
    struct pl_op_set *layers[PL_OP_OVERLAY_LAYERS]; /* top layer first; borrowed */
    unsigned n;
    struct pl_tree_cursor *base; /* over the whole tree, without a prefix; borrowed */
};

/* Checks an operation and adds it to the top layer. An empty directory above a new path is removed.
 * Putting an empty directory where paths exist changes nothing. PL_ECOLLISION, naming both paths: a file
 * or link would have paths below it; PL_EPATH, PL_EINVAL, PL_ELIMIT; errors of the base's source. On
 * failure nothing changes, except with PL_ENOMEM and PL_ELIMIT. */
PL_MUST_CHECK
int pl_op_overlay_add(struct pl_op_overlay *o, const struct pl_tree_op *op, struct pl_err *err);
/* Reads the entry of a path as seen through the layers. Returns 1, or 0 if it does not exist. */
PL_MUST_CHECK
int pl_op_overlay_get(struct pl_op_overlay *o, const char *path, size_t path_len, struct pl_entry *ret, struct pl_err *err);
/* Adds the operations of one request, for example of one ops stream: first all deletions, then all puts. */
PL_MUST_CHECK
int pl_op_overlay_add_all(struct pl_op_overlay *o, const struct pl_tree_op *ops, size_t n, struct pl_err *err);
