/* merge_owners (private to merge): the rows of the owner tree that do not name the owner of an output path
 * (datum_table.h): which datums wrote which empty directories, and which datums failed. */
#pragma once

#include "pipelined/plan/plan.h"
#include "storage/tree/tree_build.h"

/* The key of a row, in merge_rows.bytes. */
struct merge_row {
    size_t at; /* offset of the key in `bytes` */
    size_t key_len;
};

/* A list of rows; zero-initialised it is empty. */
struct merge_rows {
    struct merge_row *items;
    size_t n, cap;
    size_t given; /* number of rows that were added to the owner tree */
    struct pl_buf bytes;
};

void pl_merge_owners_finish(struct merge_rows *m);
/* Records that datum `datum` wrote the empty directory. PL_ENOMEM, PL_ETOOBIG. */
PL_MUST_CHECK
int pl_merge_owners_add_dir(struct merge_rows *m, const struct pl_plan *plan, size_t datum, const char *path, size_t len,
                            struct pl_err *err);
/* Records that the datum failed and was left out. PL_ENOMEM, PL_ETOOBIG. */
PL_MUST_CHECK
int pl_merge_owners_add_failed(struct merge_rows *m, const struct pl_plan *plan, size_t datum, struct pl_err *err);
/* Sorts the rows. Call it once, after all rows were added. */
void pl_merge_owners_sort(struct merge_rows *m);
/* Returns the lowest enumeration key of the datums that wrote this empty directory; there must be one. Points
 * into `m`. */
const uint8_t *pl_merge_owners_owner(const struct merge_rows *m, const char *path, size_t len, size_t *ret_len);
/* Adds to the builder of the owner tree the rows whose keys are before `path`; `path` NULL: all remaining
 * rows. */
PL_MUST_CHECK
int pl_merge_owners_build(struct merge_rows *m, struct pl_tree_builder *owner, const char *path, size_t len, struct pl_err *err);
