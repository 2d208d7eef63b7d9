/* tree_ops: operations on a tree as a stream of bytes, used for request bodies (application/x-pl-ops) and
 * for the spooled operations of open commits.
 *
 *   0  "PLOP"      4 bytes
 *   4  u8          version, 1
 *   5  operations  paths strictly ascending in byte order
 *        u8 1   put            varint path length, path, entry (tree.h)
 *        u8 2   delete         varint path length, path
 *        u8 3   delete prefix  varint path length, path ("" = everything)
 *        u8 4   replace        varint path length, path, entry: delete prefix, then put
 *        u8 5   put            as 1, then varint length and attributes (file_attributes.h)
 *        u8 6   replace        as 4, then varint length and attributes
 *      u8 0   end, varint number of operations; nothing follows
 *
 * Varints are LEB128 in their shortest form. A stream without its end was cut off and is rejected. */
#pragma once

#include "storage/tree_edit/tree_edit.h"

#define PL_TREE_OPS_MEDIA_TYPE "application/x-pl-ops"
#define PL_TREE_OPS_MAX        (1u << 20) /* operations per stream */

/* Writes a stream into a buffer of the caller. The buffer's `max` bounds the stream. `struct
 * pl_tree_ops_writer w = {0}` before init. Single-threaded. */
struct pl_tree_ops_writer {
    struct pl_buf *out;
    uint64_t count;
    struct pl_buf last; /* path of the previous operation */
};

PL_MUST_CHECK
int pl_tree_ops_writer_init(struct pl_tree_ops_writer *w, struct pl_buf *out, struct pl_err *err);
/* Writes a PUT. PL_EPATH; PL_EINVAL: paths do not ascend, or the entry is invalid; PL_ELIMIT: more than
 * PL_TREE_OPS_MAX; PL_ETOOBIG. After a failure the stream is unusable. */
PL_MUST_CHECK
int pl_tree_ops_writer_put(struct pl_tree_ops_writer *w, const char *path, size_t path_len, const struct pl_entry *entry,
                           struct pl_err *err);
/* Writes an operation of any kind; for PUT and REPLACE with the attributes. Errors as for put; PL_EFORMAT:
 * invalid attributes. */
PL_MUST_CHECK
int pl_tree_ops_writer_add(struct pl_tree_ops_writer *w, const struct pl_tree_op *op, struct pl_err *err);
/* Writes a REPLACE. Errors as for put. */
PL_MUST_CHECK
int pl_tree_ops_writer_replace(struct pl_tree_ops_writer *w, const char *path, size_t path_len, const struct pl_entry *entry,
                               struct pl_err *err);
PL_MUST_CHECK
int pl_tree_ops_writer_delete(struct pl_tree_ops_writer *w, const char *path, size_t path_len, struct pl_err *err);
PL_MUST_CHECK
int pl_tree_ops_writer_delete_prefix(struct pl_tree_ops_writer *w, const char *path, size_t path_len, struct pl_err *err);
/* Writes the end of the stream. */
PL_MUST_CHECK
int pl_tree_ops_writer_end(struct pl_tree_ops_writer *w, struct pl_err *err);
/* Frees the writer's own memory; the caller still owns `out`. */
void pl_tree_ops_writer_finish(struct pl_tree_ops_writer *w);

/* A reader of a stream in memory; paths are borrowed from it. Needs no clean-up. */
struct pl_tree_ops_reader {
    struct pl_cursor c;
    uint64_t count;
    const char *last; /* path of the previous operation */
    size_t last_len;
    bool ended;
};

/* Checks the header. PL_EFORMAT: not an ops stream. */
PL_MUST_CHECK
int pl_tree_ops_reader_init(struct pl_tree_ops_reader *r, const void *data, size_t len, struct pl_err *err);
/* Returns 1 and the next operation, or 0 at the end of the stream. PL_EFORMAT, PL_EPATH, PL_EINVAL
 * (order), PL_ELIMIT. */
PL_MUST_CHECK
int pl_tree_ops_reader_next(struct pl_tree_ops_reader *r, struct pl_tree_op *ret, struct pl_err *err);

/* Reads a whole stream into an array for pl_tree_edit. The caller frees the array; its paths are borrowed
 * from `data`. */
PL_MUST_CHECK
int pl_tree_ops_read(const void *data, size_t len, struct pl_tree_op **ret, size_t *ret_n, struct pl_err *err);
