/* overlay: layers of operations upon a tree, and the next operation checked against what one sees through them: as if each operation
 * were an edit (tree_edit.h) of its own, without making the trees between.
 *
 *   request ──▶ top layer: what is being added; thrown away when a later part of it is refused
 *               layers below: what has been taken
 *               base: a tree
 *
 * Nothing is shared between threads. An operation costs O(depth · log n), less where the one before was near. */
#pragma once

#include "storage/tree/tree_walk.h"
#include "storage/tree_edit/op_set.h"

#define PL_OP_OVERLAY_LAYERS 3u

struct pl_op_overlay {
    struct pl_op_set *layers[PL_OP_OVERLAY_LAYERS]; /* the top one first; borrowed */
    unsigned n;
    struct pl_tree_cursor *base; /* over all of the tree; borrowed */
};

/* Adds the operation to the top layer. An empty directory above it gives way, and one that is put where something lies changes
 * nothing. PL_ECOLLISION naming both paths: a file (or link) would have something below it; PL_EPATH, PL_EINVAL, PL_ELIMIT; errors of
 * the base's source. Nothing has changed then but by PL_ENOMEM and PL_ELIMIT. */
PL_MUST_CHECK
int pl_op_overlay_add(struct pl_op_overlay *o, const struct pl_tree_op *op, struct pl_err *err);
/* The entry at a path as seen through the layers: 1, or 0 when there is none. */
PL_MUST_CHECK
int pl_op_overlay_get(struct pl_op_overlay *o, const char *path, size_t path_len, struct pl_entry *ret, struct pl_err *err);
/* Several operations that hold together, as of one ops stream: deletions first. */
PL_MUST_CHECK
int pl_op_overlay_add_all(struct pl_op_overlay *o, const struct pl_tree_op *ops, size_t n, struct pl_err *err);
