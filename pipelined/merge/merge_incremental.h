/* merge_incremental: makes the trees of the next commit from the trees of its base commit and the new outputs
 * of the datums that changed. Their old outputs are removed and their new outputs added; all other nodes are
 * shared with the base. The result is byte for byte the same as that of merge and datum table over all
 * datums.
 *
 *   create ──datum…──▶ finish
 *
 * Each changed datum must be given once, in any order. The owner tree says which datum owns a path: writing a
 * file that another datum owns, or a folder where another datum has a file, is a collision. Empty directories
 * appear and disappear with the files below them; the owner tree records every datum that wrote one
 * (datum_table.h).
 *
 * Cost: changed datums, their old and new outputs and the directories above them, each × log of the base.
 * Memory: 48 bytes, path and encoded entry per such output. Single-threaded. A failed incremental merge
 * leaves nothing behind; merge then gives a better explanation of the error. */
#pragma once

#include "pipelined/plan/datum_table.h"
#include "pipelined/plan/plan.h"
#include "storage/tree/tree_walk.h"

#define PL_MERGE_INCREMENTAL_DEFAULT_BYTES ((size_t)4 << 30)

/* Roots of a commit's output tree, owner tree and datum table. */
struct pl_merge_incremental_roots {
    struct pl_hash output, owner, table;
};

struct pl_carry;

/* Creates an incremental merge. `plan` is partial, over the base with these roots. `plan` and `source` must
 * outlive it; `source` must have the base's nodes and the nodes that finish wrote to its sink. `max_bytes` 0
 * = PL_MERGE_INCREMENTAL_DEFAULT_BYTES. PL_ENOMEM, and errors of the source. */
PL_MUST_CHECK
int pl_merge_incremental_create(const struct pl_plan *plan, const struct pl_merge_incremental_roots *base,
                                const struct pl_node_source *source, size_t max_bytes, struct pl_carry **ret, struct pl_err *err);
struct pl_carry *pl_merge_incremental_destroy(struct pl_carry *c);
static inline void pl_merge_incremental_destroyp(struct pl_carry **c)
{
    *c = pl_merge_incremental_destroy(*c);
}

/* Sets the new row of datum `datum` of the plan; NULL = the datum no longer exists. PL_EPATH, PL_ELIMIT;
 * PL_ECORRUPT: the base does not match the plan. */
PL_MUST_CHECK
int pl_merge_incremental_datum(struct pl_carry *c, size_t datum, const struct pl_datum_row *row, struct pl_err *err);

/* Writes the new trees; call it once. `ret_stats` describes the output tree. PL_ECOLLISION, PL_ECORRUPT, and
 * errors of source and sink. */
PL_MUST_CHECK
int pl_merge_incremental_finish(struct pl_carry *c, const struct pl_node_sink *sink, struct pl_merge_incremental_roots *ret,
                                struct pl_tree_stats *ret_stats, struct pl_err *err);

/* After finish: checks that every glob of output.expect matches something in the output. PL_ESTAGE. `held`:
 * the base was checked with the same globs, so only removed outputs matter; otherwise the base's output may
 * have to be walked. A job without datums is not checked. */
PL_MUST_CHECK
int pl_merge_incremental_expect(struct pl_carry *c, bool held, struct pl_err *err);
