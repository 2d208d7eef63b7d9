/* attributes_edit: applies tree operations to the attribute tree of a commit, whose rows hold what S3 clients set
 * on files (storage/tree_edit/file_attributes.h). A put sets its row or removes the old one; a delete removes the
 * row. On the pool. */
#pragma once

#include "storage/tree/tree_walk.h"
#include "storage/tree_edit/tree_edit.h"

struct pl_attributes_edit {
    const struct pl_node_source *source; /* reads both trees */
    struct pl_hash root, attributes;     /* the trees before the edit */
    const struct pl_tree_op *ops;        /* sorted by path */
    size_t n_ops;
};

/* Computes the next root of the attribute tree and writes its nodes to `sink`. A put that repeats the same bytes
 * with the same attributes, apart from the time, changes nothing. PL_ENOMEM, errors of source and sink. */
PL_MUST_CHECK
int pl_attributes_edit(const struct pl_attributes_edit *e, const struct pl_node_sink *sink, struct pl_hash *ret_root,
                       struct pl_err *err);
/* Reads the row of a path into `ret` (emptied first): returns 1, or 0 when there is none. */
PL_MUST_CHECK
int pl_attributes_row(struct pl_tree_cursor *rows, const char *path, size_t path_len, struct pl_buf *ret, struct pl_err *err);
