/* plan_change (private to plan): the datums of a partial plan, i.e. the combinations of matches that a change
 * affects.
 *
 *   difference of each input ──▶ matches OLD, NEW, CHANGED ──▶ combinations over the tree of inputs
 *
 * A datum is planned if it combines NEW matches, at least one of which is CHANGED. A datum is gone if it
 * combines OLD matches, at least one of which is not NEW. The time for a changed match is proportional to
 * its number of combinations with matches of the inputs that it is crossed with. The tree of an input is
 * walked only if the input is crossed with an input that changed. So if only one input changed, its tree is
 * not walked. */
#pragma once

#include "pipelined/plan/plan_leaf.h"

/* Fills leaves, n_datums, n_gone, n_total and picks of `p`. PL_ELIMIT; PL_ECORRUPT: more datums are gone than
 * the base had. */
PL_MUST_CHECK
int pl_plan_change(struct pl_plan *p, const struct pl_plan_request *q, struct plan_memory *memory, struct pl_err *err);
