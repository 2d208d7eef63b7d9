/* ops: operations on a tree as a stream of bytes: request bodies (application/x-pl-ops) and the spool of an open commit.
 *
 *   0  "PLOP"      4 bytes
 *   4  u8          version, 1
 *   5  operations  paths strictly ascending in byte order
 *        u8 1   put            varint path length, path, entry (tree.h)
 *        u8 2   delete         varint path length, path
 *        u8 3   delete prefix  varint path length, path ("" = everything)
 *        u8 4   replace        varint path length, path, entry: delete prefix, then put
 *        u8 5   put            as 1, then varint length and attributes (attributes.h)
 *        u8 6   replace        as 4, then the same
 *      u8 0   end, varint number of operations; nothing follows
 *
 * Varints are LEB128 in their shortest form. A stream without its end was cut off and is refused. */
#pragma once

#include "storage/tree_edit/tree_edit.h"

#define PL_TREE_OPS_MEDIA_TYPE "application/x-pl-ops"
#define PL_TREE_OPS_MAX        (1u << 20) /* operations in one stream */

/* Writes into a buffer of the caller, whose `max` bounds the stream. `struct pl_tree_ops_writer w = {0}` before init. Single-threaded.
 */
struct pl_tree_ops_writer {
    struct pl_buf *out;
    uint64_t count;
    struct pl_buf last; /* the path before */
};

PL_MUST_CHECK
int pl_tree_ops_writer_init(struct pl_tree_ops_writer *w, struct pl_buf *out, struct pl_err *err);
/* PL_EPATH, PL_EINVAL (order; entry), PL_ELIMIT past PL_TREE_OPS_MAX, PL_ETOOBIG. After a failure the stream is lost. */
PL_MUST_CHECK
int pl_tree_ops_writer_put(struct pl_tree_ops_writer *w, const char *path, size_t path_len, const struct pl_entry *entry,
                           struct pl_err *err);
/* An operation of any kind; of a PUT or REPLACE with its attributes. The same errors; PL_EFORMAT (attributes). */
PL_MUST_CHECK
int pl_tree_ops_writer_add(struct pl_tree_ops_writer *w, const struct pl_tree_op *op, struct pl_err *err);
/* PL_TREE_REPLACE: the same errors. */
PL_MUST_CHECK
int pl_tree_ops_writer_replace(struct pl_tree_ops_writer *w, const char *path, size_t path_len, const struct pl_entry *entry,
                               struct pl_err *err);
PL_MUST_CHECK
int pl_tree_ops_writer_delete(struct pl_tree_ops_writer *w, const char *path, size_t path_len, struct pl_err *err);
PL_MUST_CHECK
int pl_tree_ops_writer_delete_prefix(struct pl_tree_ops_writer *w, const char *path, size_t path_len, struct pl_err *err);
/* Writes the end. */
PL_MUST_CHECK
int pl_tree_ops_writer_end(struct pl_tree_ops_writer *w, struct pl_err *err);
/* Frees the writer's own memory; `out` stays the caller's. */
void pl_tree_ops_writer_finish(struct pl_tree_ops_writer *w);

/* Reads a stream that lies in memory; paths are borrowed from it. No clean-up needed. */
struct pl_tree_ops_reader {
    struct pl_cursor c;
    uint64_t count;
    const char *last; /* the path before */
    size_t last_len;
    bool ended;
};

/* PL_EFORMAT when it is no ops stream. */
PL_MUST_CHECK
int pl_tree_ops_reader_init(struct pl_tree_ops_reader *r, const void *data, size_t len, struct pl_err *err);
/* 1 and an operation; 0 at a proper end. PL_EFORMAT, PL_EPATH, PL_EINVAL (order), PL_ELIMIT. */
PL_MUST_CHECK
int pl_tree_ops_reader_next(struct pl_tree_ops_reader *r, struct pl_tree_op *ret, struct pl_err *err);

/* The whole stream as an array for pl_tree_edit: `*ret` is malloc'ed and borrows paths from `data`. */
PL_MUST_CHECK
int pl_tree_ops_read(const void *data, size_t len, struct pl_tree_op **ret, size_t *ret_n, struct pl_err *err);
