/* plan_diff (private to plan): the matches of one input that differ between the tree of the base and the new
 * tree. */
#pragma once

#include "pipelined/plan/plan_leaf.h"

/* Fills `ret` (matches are malloc'ed, in order) with every match that is new (NEW | CHANGED), has another
 * content or kind (OLD | NEW | CHANGED) or is gone (OLD, with its old content). The time is proportional to
 * the size of the difference between the trees and of the matching directories in which the trees differ. A
 * match of a `reference` only changes by appearing or disappearing; `params` never change. */
PL_MUST_CHECK
int pl_plan_leaf_diff(const struct pl_input *input, const struct pl_plan_input *from, const struct pl_hash *base,
                      struct plan_memory *memory, struct pl_plan_leaf *ret, struct pl_err *err);
/* Adds all unchanged matches (OLD | NEW) to the result of pl_plan_leaf_diff. Walks the whole tree. */
PL_MUST_CHECK
int pl_plan_leaf_complete(const struct pl_input *input, const struct pl_plan_input *from, struct plan_memory *memory,
                          struct pl_plan_leaf *leaf, struct pl_err *err);
/* Adds to `leaf`, as OLD | NEW, the matches of `all` that `leaf` lacks. `all` and `leaf` are sorted.
 * PL_ELIMIT, PL_ENOMEM. */
PL_MUST_CHECK
int pl_plan_leaf_join(struct plan_memory *memory, const struct pl_plan_leaf *all, struct pl_plan_leaf *leaf, struct pl_err *err);
/* Adds the match at a path of the tree to w->to, as OLD | NEW. PL_ENOTFOUND or PL_ECORRUPT if there is no
 * match. */
PL_MUST_CHECK
int pl_plan_leaf_at(struct plan_leaf_walk *w, const char *path, size_t len, bool dir, struct pl_err *err);
