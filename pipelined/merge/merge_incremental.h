/* carry: the trees of a base's commit, and what became of the datums that a change touched → the trees of the next commit. What these
 * datums wrote before goes, what they write now comes; all else is shared with the base, node by node. The result is that of merge and
 * table over all datums, byte for byte.
 *
 *   create ──datum…──▶ finish
 *
 * Each touched datum once, in any order. Which paths are whose is held against the owner tree: a file that another datum has, or a
 * folder where it has a file, is a collision. Empty directories come and go with what is below them: every datum that wrote one is
 * remembered in the owner tree (table.h).
 *
 * Cost: touched datums, their outputs before and now, the directories above those, × log of the base. Memory: 48 bytes, path and
 * encoded entry per output of these. Single-threaded. A carry that fails leaves nothing behind; merge says better what is wrong. */
#pragma once

#include "pipelined/plan/datum_table.h"
#include "pipelined/plan/plan.h"
#include "storage/tree/tree_walk.h"

#define PL_MERGE_INCREMENTAL_DEFAULT_BYTES ((size_t)4 << 30)

struct pl_merge_incremental_roots {
    struct pl_hash output, owner, table;
};

struct pl_carry;

/* `plan`: partial, over the base with these roots; outlives the carry, as `source` does, which has the base's nodes and those that the
 * sink of finish got last. `max_bytes` 0 = PL_MERGE_INCREMENTAL_DEFAULT_BYTES. */
PL_MUST_CHECK
int pl_merge_incremental_create(const struct pl_plan *plan, const struct pl_merge_incremental_roots *base,
                                const struct pl_node_source *source, size_t max_bytes, struct pl_carry **ret, struct pl_err *err);
struct pl_carry *pl_merge_incremental_destroy(struct pl_carry *c);
static inline void pl_merge_incremental_destroyp(struct pl_carry **c)
{
    *c = pl_merge_incremental_destroy(*c);
}

/* Datum `datum` of the plan has this row now; NULL: it is gone. PL_EPATH, PL_ELIMIT; PL_ECORRUPT when the base is not what the plan
 * says. */
PL_MUST_CHECK
int pl_merge_incremental_datum(struct pl_carry *c, size_t datum, const struct pl_datum_row *row, struct pl_err *err);

/* Once. `ret_stats` of the output. PL_ECOLLISION; errors of source and sink. */
PL_MUST_CHECK
int pl_merge_incremental_finish(struct pl_carry *c, const struct pl_node_sink *sink, struct pl_merge_incremental_roots *ret,
                                struct pl_tree_stats *ret_stats, struct pl_err *err);

/* After finish: does every glob of output.expect match something in the output? PL_ESTAGE. With `held` the base was held to the same globs, so that
 * only what went is looked at; otherwise the base's output may be walked. A job without datums is not checked. */
PL_MUST_CHECK
int pl_merge_incremental_expect(struct pl_carry *c, bool held, struct pl_err *err);
