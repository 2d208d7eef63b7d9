/* plan_diff (private to plan): the matches of one input that differ between the tree it was planned over before and the one now. */
#pragma once

#include "pipelined/plan/plan_leaf.h"

/* Fills `ret` (matches malloc'ed, in their order): every match that is new (NEW | CHANGED), has another content or kind (OLD | NEW |
 * CHANGED) or is no more (OLD, with the content it had). Costs what the difference costs, and for every directory that matches and has
 * a difference in it what that directory does. A `reference` changes only by coming and going; `params` never change. */
PL_MUST_CHECK
int pl_plan_leaf_diff(const struct pl_input *input, const struct pl_plan_input *from, const struct pl_hash *base,
                      struct plan_memory *memory, struct pl_plan_leaf *ret, struct pl_err *err);
/* Adds to what pl_plan_leaf_diff gave all matches that are as they were (OLD | NEW): the whole tree is walked. */
PL_MUST_CHECK
int pl_plan_leaf_complete(const struct pl_input *input, const struct pl_plan_input *from, struct plan_memory *memory,
                          struct pl_plan_leaf *leaf, struct pl_err *err);
/* Adds to `leaf` what stands in `all` and not in it, as OLD | NEW; both are in order. PL_ELIMIT, PL_ENOMEM. */
PL_MUST_CHECK
int pl_plan_leaf_join(struct plan_memory *memory, const struct pl_plan_leaf *all, struct pl_plan_leaf *leaf, struct pl_err *err);
/* Adds the one match at a path of the tree to w->to, as OLD | NEW. PL_ECORRUPT, PL_ENOTFOUND: there is none. */
PL_MUST_CHECK
int pl_plan_leaf_at(struct plan_leaf_walk *w, const char *path, size_t len, bool dir, struct pl_err *err);
