/* op_set: a sequence of operations, kept as a sorted set with the same effect on any tree. The pending
 * operations of an open commit are such sets. Putting a path twice gives one item, and deleting a
 * directory removes the items below it. The set can be written as an ops stream at any time.
 *
 *   item           meaning for its path      meaning for paths below it
 *   PUT            has this entry            none
 *   DELETE         does not exist            none
 *   DELETE_PREFIX  does not exist            do not exist, except for items below it
 *   REPLACE        has this entry            do not exist, except for items below it
 *
 * Paths are not checked against each other here (op_overlay does that): a file may have items below it.
 * Bounds: PL_TREE_OPS_MAX items; the caller bounds the bytes of paths and entries. `{0}` is empty. Not
 * thread-safe. The items are sorted pointers in blocks: O(log n) per lookup, and inserting moves only
 * pointers within a block. */
#pragma once

#include "storage/tree_edit/tree_ops.h"

struct pl_op_block;

struct pl_op_set {
    struct pl_op_block **blocks;
    size_t n_blocks, cap_blocks;
    size_t n;                  /* number of items */
    size_t clearing;           /* number of DELETE_PREFIX and REPLACE items */
    size_t bytes;              /* memory of all items: paths, entries, attributes */
    struct pl_op_block *spare; /* blocks reserved by pl_op_set_reserve */
    size_t n_spare;
};

/* Frees all items; the set is empty afterwards. */
void pl_op_set_finish(struct pl_op_set *t);

/* Adds an operation that comes after all operations added before. Path and entry must be valid
 * (pl_path_check, pl_entry_check). PL_ENOMEM; PL_ELIMIT: more than PL_TREE_OPS_MAX items. On failure
 * nothing changes, except that a DELETE_PREFIX or REPLACE may already have removed the items below it. */
PL_MUST_CHECK
int pl_op_set_add(struct pl_op_set *t, const struct pl_tree_op *op, struct pl_err *err);
/* Adds all operations of `from`, in order, after those in `t`. */
PL_MUST_CHECK
int pl_op_set_merge(struct pl_op_set *t, const struct pl_op_set *from, struct pl_err *err);

/* Reserves memory for pl_op_set_take of `from`. PL_ENOMEM. */
PL_MUST_CHECK
int pl_op_set_reserve(struct pl_op_set *t, const struct pl_op_set *from, struct pl_err *err);
/* Merges `from` into `t` as pl_op_set_merge does, and empties `from`. Cannot fail if called directly after
 * reserve. */
void pl_op_set_take(struct pl_op_set *t, struct pl_op_set *from);

enum pl_op_set_item { PL_OP_UNKNOWN, PL_OP_GONE, PL_OP_THERE };
/* Returns what the operations say about a path. PL_OP_UNKNOWN: no operation affects the path, so the tree
 * below the set decides. `ret` (may be NULL) receives the entry if the result is PL_OP_THERE. */
enum pl_op_set_item pl_op_set_get(const struct pl_op_set *t, const char *path, size_t path_len, struct pl_entry *ret);
/* Returns what the operations say about a path, as pl_op_set_get does, but returns the whole operation.
 * Its path and attributes are owned by the set and valid until it changes. */
enum pl_op_set_item pl_op_set_look(const struct pl_op_set *t, const char *path, size_t path_len, struct pl_tree_op *ret);
/* Finds the outermost DELETE_PREFIX or REPLACE item whose path is `path` or a directory above it. Returns the
 * length of the item's path (0: the whole tree was deleted), or -1 if there is none. */
ssize_t pl_op_set_cleared(const struct pl_op_set *t, const char *path, size_t path_len);

/* Iterates over the items in order, from the first with a path ≥ `path` on. Any change of the set
 * invalidates the cursor. */
struct pl_op_set_cursor {
    const struct pl_op_set *t;
    size_t block, at;
};
struct pl_op_set_cursor pl_op_set_seek(const struct pl_op_set *t, const char *path, size_t path_len);
/* Returns 1 and the next item (its path is owned by the set), or 0 at the end. */
int pl_op_set_cursor_next(struct pl_op_set_cursor *c, struct pl_tree_op *ret);

/* Writes the set as an ops stream. */
PL_MUST_CHECK
int pl_op_set_write(const struct pl_op_set *t, struct pl_buf *out, struct pl_err *err);
/* Returns the set as an array for pl_tree_edit. The caller frees the array; the set owns the paths in it. */
PL_MUST_CHECK
int pl_op_set_list(const struct pl_op_set *t, struct pl_tree_op **ret, size_t *ret_n, struct pl_err *err);
