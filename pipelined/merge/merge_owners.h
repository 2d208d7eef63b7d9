/* merge_rows (private to merge): rows of the owner tree beside those of paths (table.h): which datums wrote which empty
 * directories, and which failed. */
#pragma once

#include "pipelined/plan/plan.h"
#include "storage/tree/tree_build.h"

struct merge_row {
    size_t at; /* of its key in bytes */
    size_t key_len;
};

/* `struct merge_rows m = {0}` is empty. */
struct merge_rows {
    struct merge_row *items;
    size_t n, cap;
    size_t given; /* to the owner tree so far */
    struct pl_buf bytes;
};

void pl_merge_owners_finish(struct merge_rows *m);
/* Datum `datum` wrote the empty directory. PL_ENOMEM, PL_ETOOBIG. */
PL_MUST_CHECK
int pl_merge_owners_add_dir(struct merge_rows *m, const struct pl_plan *plan, size_t datum, const char *path, size_t len,
                            struct pl_err *err);
/* It failed and was left out. PL_ENOMEM, PL_ETOOBIG. */
PL_MUST_CHECK
int pl_merge_owners_add_failed(struct merge_rows *m, const struct pl_plan *plan, size_t datum, struct pl_err *err);
/* Once, after all were added. */
void pl_merge_owners_sort(struct merge_rows *m);
/* The lowest enumeration key of those that wrote this one. */
const uint8_t *pl_merge_owners_owner(const struct merge_rows *m, const char *path, size_t len, size_t *ret_len);
/* Gives the builder of the owner tree the rows whose keys are before `path` (NULL: all that are left). */
PL_MUST_CHECK
int pl_merge_owners_build(struct merge_rows *m, struct pl_tree_builder *owner, const char *path, size_t len, struct pl_err *err);
