/* plan_leaf (private to plan): the matches of one input, in spec order. */
#pragma once

#include "plan.h"

/* Memory of a plan: one bound over the arena and the arrays. */
struct plan_memory {
    struct pl_arena *arena;
    size_t arrays; /* bytes of the arrays so far */
    size_t max;
};

/* `n` more bytes of arrays or arena? PL_ELIMIT. */
PL_MUST_CHECK
int pl_plan_memory_check(const struct plan_memory *m, size_t n, struct pl_err *err);
/* From the arena. PL_ELIMIT, PL_ENOMEM. */
PL_MUST_CHECK
int pl_plan_memory_alloc(struct plan_memory *m, size_t n, void **ret, struct pl_err *err);

/* Fills `ret` (matches malloc'ed). */
PL_MUST_CHECK
int pl_plan_leaf_match(const struct pl_input *input, const struct pl_plan_input *from, struct plan_memory *memory,
                       struct pl_plan_leaf *ret, struct pl_err *err);
/* The combinations of a `params` input; texts are the input's. */
PL_MUST_CHECK
int pl_plan_leaf_params(const struct pl_input *input, struct plan_memory *memory, struct pl_plan_leaf *ret, struct pl_err *err);
