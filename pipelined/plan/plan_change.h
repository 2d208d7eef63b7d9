/* plan_change (private to plan): the datums of a partial plan: which combinations of matches a change touches.
 *
 *   difference of each input ──▶ matches OLD, NEW, CHANGED ──▶ combinations over the tree of inputs
 *
 * A datum is planned when it is a combination of NEW matches of which one is CHANGED; it is gone when it is one of OLD matches of
 * which one is not NEW. So a changed match costs itself times the ranges of what it is crossed with, whose trees are walked only
 * then; an input that alone changed is never walked. */
#pragma once

#include "pipelined/plan/plan_leaf.h"

/* Fills leaves, n_datums, n_gone, n_total and picks of `p`. PL_ELIMIT. */
PL_MUST_CHECK
int pl_plan_change(struct pl_plan *p, const struct pl_plan_request *q, struct plan_memory *memory, struct pl_err *err);
