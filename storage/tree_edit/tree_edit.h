/* storage/tree_edit: Changes of trees: operations, edit, merge, pending operations as layers.
 *
 * In:      A tree root and sorted operations.
 * Out:     The next root; a stream of operations.
 * Uses:    storage/{base, tree}
 * Threads: Single-threaded per object; no I/O of its own.
 *
 * Headers for other rooms:
 *   file_attributes  byte format of S3 attributes of a file (ETag, content type, metadata)
 *   op_overlay       reads a tree through layers of pending operations
 *   op_set           set of tree operations equivalent to a sequence of operations
 *   tree_ops         byte format of a stream of tree operations
 *
 * Inside:
 *   change_list      key changes of one tree level in memory
 *   tree_apply       applies sorted key changes to a tree, level by level
 *   tree_merge       three-way merge of trees */

/* tree_edit applies sorted operations to a tree, in O(operations · log n). Nodes that no operation touches
 * are neither read nor written. */
#pragma once

#include "storage/tree/tree.h"
#include "storage/tree_edit/file_attributes.h"

enum { PL_TREE_PUT = 1, PL_TREE_DELETE = 2, PL_TREE_DELETE_PREFIX = 3, PL_TREE_REPLACE = 4 };

struct pl_tree_op {
    uint8_t op;
    const char *path; /* borrowed for the call; needs no NUL */
    size_t path_len;
    struct pl_entry entry; /* for PUT and REPLACE */
    /* for PUT and REPLACE: stored in the commit's second tree; pl_tree_edit ignores them */
    struct pl_file_attributes attributes;
};

/* Applies `n` operations, whose paths must strictly ascend (otherwise PL_EINVAL):
 *
 *   PUT            sets the entry of a path
 *   DELETE         removes the entry of exactly this path, which need not exist
 *   DELETE_PREFIX  removes the file or directory of this name with everything below it ("" = everything),
 *                  which need not exist. PUTs below it in the same call come after it in the order and stay.
 *   REPLACE        DELETE_PREFIX, then PUT of the same path: a file may replace a directory. Not in a
 *                  tree of rows.
 *
 * The result must be a valid set of files and directories. PL_ECOLLISION, naming both paths: a file or
 * link would have paths below it, from the tree or from the operations. The entry of an empty directory is
 * removed when a path below it is put. Putting an empty directory where paths below it remain changes
 * nothing. Other errors: PL_EPATH, PL_EINVAL (an invalid entry), and those of source and sink. `*ret_root`
 * is untouched on failure.
 *
 * In a tree of rows keys are any bytes, there are no collisions, and DELETE_PREFIX removes all keys that
 * start with these bytes. The first PUT, or without one the root, decides the kind of tree; rows and paths
 * in one tree are PL_EINVAL. */
PL_MUST_CHECK
int pl_tree_edit(const struct pl_node_source *source, const struct pl_node_sink *sink, const struct pl_hash *root,
                 const struct pl_tree_op *ops, size_t n, struct pl_hash *ret_root, struct pl_err *err);
