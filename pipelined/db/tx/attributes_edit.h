/* attributes_edit: what operations on the tree of paths do to the second tree of a commit, whose rows are what S3 clients said of files
 * (storage/tree_edit/file_attributes.h): a put brings its row or takes the old one away, what is deleted loses it. On the pool. */
#pragma once

#include "storage/tree/tree_walk.h"
#include "storage/tree_edit/tree_edit.h"

struct pl_attributes_edit {
    const struct pl_node_source *source; /* of both trees as they were */
    struct pl_hash root, attributes;     /* as they were */
    const struct pl_tree_op *ops;        /* ascending */
    size_t n_ops;
};

/* The next root, with its nodes in `sink`. A put that says of the same bytes the same again, but for the time, changes nothing.
 * PL_ENOMEM, errors of source and sink. */
PL_MUST_CHECK
int pl_attributes_edit(const struct pl_attributes_edit *e, const struct pl_node_sink *sink, struct pl_hash *ret_root,
                       struct pl_err *err);
/* The row of a path in such a tree into `ret` (emptied first): 1, or 0 when there is none. */
PL_MUST_CHECK
int pl_attributes_row(struct pl_tree_cursor *rows, const char *path, size_t path_len, struct pl_buf *ret, struct pl_err *err);
