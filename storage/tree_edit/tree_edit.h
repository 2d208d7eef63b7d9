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

/* tree_edit: a tree and sorted operations → the next tree, in O(operations · log n); untouched nodes are neither read nor
 * written. */
#pragma once

#include "storage/tree/tree.h"
#include "storage/tree_edit/file_attributes.h"

enum { PL_TREE_PUT = 1, PL_TREE_DELETE = 2, PL_TREE_DELETE_PREFIX = 3, PL_TREE_REPLACE = 4 };

struct pl_tree_op {
    uint8_t op;
    const char *path; /* borrowed for the call; no NUL needed */
    size_t path_len;
    struct pl_entry entry;                /* PUT, REPLACE */
    struct pl_file_attributes attributes; /* of these: for the commit's second tree; an edit does not look at them */
};

/* Applies `n` operations, whose paths are strictly ascending (PL_EINVAL otherwise):
 *
 *   PUT            sets the entry of a path
 *   DELETE         removes the entry of exactly this path; absent is fine
 *   DELETE_PREFIX  removes the file or directory of this name with everything below it ("" = everything); absent is fine.
 *                  PUTs below it in the same call come after it in the order and stay.
 *   REPLACE        DELETE_PREFIX, then PUT of the same path: a file may take the place of a directory. Not in a tree of rows.
 *
 * The result is a set of files and directories: PL_ECOLLISION, naming both paths, when a file (or link) would have something
 * below it, be it from the tree or from the operations. An empty directory's entry gives way: it disappears when something is put
 * below it, and putting one where something remains below changes nothing. PL_EPATH, PL_EINVAL (an entry that is none), and the
 * errors of source and sink. `*ret_root` is untouched on failure.
 *
 * In a tree of rows (the first PUT or the root decide; both kinds in one: PL_EINVAL) keys are any bytes, there are no collisions,
 * and DELETE_PREFIX removes all keys that start with these bytes. */
PL_MUST_CHECK
int pl_tree_edit(const struct pl_node_source *source, const struct pl_node_sink *sink, const struct pl_hash *root,
                 const struct pl_tree_op *ops, size_t n, struct pl_hash *ret_root, struct pl_err *err);
