/* datum_table: rows of the datum table and keys of the owner tree. Both are trees of rows (PL_KIND_ROW) that
 * are stored with an output commit.
 *
 *   datum table  enumeration key (plan.h) → row:
 *     0   u8       1 (version)
 *     1   u8       state: enum pl_datum_row_state
 *     2   32 B     datum key
 *     34  16 B     run that computed it
 *     50  u8       outputs: 0 none, 1 inline, 2 tree
 *     51  inline:  varint length, ops stream (tree_ops.h), at most PL_DATUM_ROW_INLINE_OPS_MAX bytes
 *         tree:    32 B root of a tree with the datum's outputs; paths as the datum wrote them, no prefix
 *   A FAILED row belongs to a datum that was left out (on_error): it has no outputs, and the datum runs again
 *   in the next job, even if nothing has changed.
 *
 *   owner tree   output path → enumeration key of the datum that wrote it; for an empty directory: the lowest
 *                key of the datums that wrote it
 *                path, '/', 0x00, enumeration key → nothing: the datum wrote this empty directory. If
 *                another datum writes a file below the directory, the directory is not empty and is not in the
 *                output tree, but this entry stays. When that file is removed, the empty directory is restored
 *                0x00, enumeration key → nothing: the datum's row is FAILED. Failed datums are found by this
 *                prefix without a walk of the whole table */
#pragma once

#include "pipelined/plan/plan.h"
#include "storage/tree/tree_walk.h"

#define PL_DATUM_ROW_INLINE_OPS_MAX 960u
#define PL_RUN_ID_BYTES             16u

#define PL_OWNER_KEY_MAX            (PL_PATH_MAX_BYTES + 2 + PL_ENUM_KEY_MAX)

#define PL_OWNER_KEY_MAX            (PL_PATH_MAX_BYTES + 2 + PL_ENUM_KEY_MAX)

enum pl_datum_row_state { PL_ROW_SUCCESS = 1, PL_ROW_FAILED = 2 };
enum pl_datum_row_outputs { PL_ROW_NO_OUTPUT = 0, PL_ROW_INLINE = 1, PL_ROW_TREE = 2 };

struct pl_datum_row {
#define PL_OWNER_KEY_MAX (PL_PATH_MAX_BYTES + 2 + PL_ENUM_KEY_MAX)

    enum pl_datum_row_state state;
    struct pl_hash key;
    uint8_t run[PL_RUN_ID_BYTES];
    enum pl_datum_row_outputs outputs;
    const uint8_t *ops; /* with outputs INLINE: the ops stream (tree_ops.h); borrowed */
    size_t ops_len;
    struct pl_hash root; /* with outputs TREE: root of the tree of outputs */
};

/* Appends the encoded row to `out`. PL_ETOOBIG: ops_len is above PL_DATUM_ROW_INLINE_OPS_MAX. */
PL_MUST_CHECK
int pl_datum_row_encode(const struct pl_datum_row *row, struct pl_buf *out, struct pl_err *err);
/* Decodes a row and refuses anything malformed; `ret->ops` points into `data`. PL_EFORMAT. */
PL_MUST_CHECK
int pl_datum_row_decode(const void *data, size_t len, struct pl_datum_row *ret, struct pl_err *err);

/* Makes the owner tree's key for an empty directory that a datum wrote. If the enumeration key is empty,
 * makes the common prefix of the keys of all datums that wrote the directory. Returns the length. */
size_t pl_owner_dir_key(const char *path, size_t path_len, const uint8_t *enum_key, size_t enum_key_len,
                        uint8_t out[PL_OWNER_KEY_MAX]);

/* Makes the owner tree's key for a datum that failed; no path starts with its first byte, 0x00. Returns the
 * length. */
size_t pl_owner_failed_key(const uint8_t *enum_key, size_t enum_key_len, uint8_t out[PL_OWNER_KEY_MAX]);
#define PL_OWNER_FAILED_PREFIX "" /* one byte, 0x00: the NUL of the empty string */

/* A row to be written to a table. */
struct pl_datum_table_row {
    const uint8_t *enum_key;
    size_t enum_key_len;
    struct pl_datum_row row;
};

/* Builds a table from rows in any order, and sorts `rows`. PL_EINVAL: two rows have the same enumeration
 * key. */
PL_MUST_CHECK
int pl_datum_table_build(const struct pl_node_sink *sink, struct pl_datum_table_row *rows, size_t n, struct pl_hash *ret_root,
                         struct pl_err *err);

/* Looks for a row in state SUCCESS that has this enumeration key and this datum key. Returns 1 and the row,
 * whose bytes belong to the cursor until its next call; or 0 if there is none. Fast if consecutive keys are
 * close to each other. `cursor` reads the tree of the table. */
PL_MUST_CHECK
int pl_datum_table_find(struct pl_tree_cursor *cursor, const uint8_t *enum_key, size_t enum_key_len,
                        const struct pl_hash *datum_key, struct pl_datum_row *ret, struct pl_err *err);
