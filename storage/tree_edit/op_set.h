/* op_table: operations one after another, kept as the sorted set that does the same to whatever tree lies beneath: what an open commit
 * holds. Putting a path twice is one item, deleting a directory swallows what was put below it; so the set is an ops stream at any time.
 *
 *   item       says about its path              about what lies below it
 *   PUT        is this entry                    nothing
 *   DELETE     is not                           nothing
 *   DELETE_…   is not                           goes, but for items below
 *   REPLACE    is this entry                    goes, but for items below
 *
 * No names are checked against each other here (overlay.h does): a file may have items below it. Bounds: PL_TREE_OPS_MAX items, bytes of paths
 * and entries as the caller says. `{0}` is empty. Not thread-safe. Blocks of sorted pointers: O(log n) a look-up, a short move to insert. */
#pragma once

#include "storage/tree_edit/tree_ops.h"

struct pl_op_block;

struct pl_op_set {
    struct pl_op_block **blocks;
    size_t n_blocks, cap_blocks;
    size_t n;                  /* items */
    size_t clearing;           /* of them DELETE_PREFIX and REPLACE */
    size_t bytes;              /* of paths and entries */
    struct pl_op_block *spare; /* of reserve */
    size_t n_spare;
};

/* Frees all; it is empty afterwards. */
void pl_op_set_finish(struct pl_op_set *t);

/* The operation comes after all that are there. PL_ENOMEM, PL_ELIMIT past PL_TREE_OPS_MAX items; nothing has changed then, but that a
 * DELETE_PREFIX may have taken away what it deletes. Path and entry are good (pl_path_check, pl_entry_check). */
PL_MUST_CHECK
int pl_op_set_add(struct pl_op_set *t, const struct pl_tree_op *op, struct pl_err *err);
/* All of `from`, in order, after what is there. */
PL_MUST_CHECK
int pl_op_set_merge(struct pl_op_set *t, const struct pl_op_set *from, struct pl_err *err);

/* Room for a take of `from`. PL_ENOMEM. */
PL_MUST_CHECK
int pl_op_set_reserve(struct pl_op_set *t, const struct pl_op_set *from, struct pl_err *err);
/* As merge, right after reserve: cannot fail. `from` is empty afterwards. */
void pl_op_set_take(struct pl_op_set *t, struct pl_op_set *from);

enum pl_op_set_item { PL_OP_UNKNOWN, PL_OP_GONE, PL_OP_THERE };
/* What the operations say of a path; PL_OP_UNKNOWN: it is what it is beneath. `ret` (may be NULL) is set for PL_OP_THERE. */
enum pl_op_set_item pl_op_set_get(const struct pl_op_set *t, const char *path, size_t path_len, struct pl_entry *ret);
/* The same with the operation itself, whose path and attributes are the table's, until it changes. */
enum pl_op_set_item pl_op_set_look(const struct pl_op_set *t, const char *path, size_t path_len, struct pl_tree_op *ret);
/* The length of the outermost directory that was deleted with `path` in or at it (0: everything), or -1. */
ssize_t pl_op_set_cleared(const struct pl_op_set *t, const char *path, size_t path_len);

/* Items in order from the first with a path ≥ `path` on. Any change of the table ends it. */
struct pl_op_set_cursor {
    const struct pl_op_set *t;
    size_t block, at;
};
struct pl_op_set_cursor pl_op_set_seek(const struct pl_op_set *t, const char *path, size_t path_len);
/* 1 and the item (its path is the table's), or 0 at the end. */
int pl_op_set_cursor_next(struct pl_op_set_cursor *c, struct pl_tree_op *ret);

/* As an ops stream. */
PL_MUST_CHECK
int pl_op_set_write(const struct pl_op_set *t, struct pl_buf *out, struct pl_err *err);
/* As an array for pl_tree_edit, malloc'ed; paths are the table's. */
PL_MUST_CHECK
int pl_op_set_list(const struct pl_op_set *t, struct pl_tree_op **ret, size_t *ret_n, struct pl_err *err);
