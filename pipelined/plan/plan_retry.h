/* plan_retry (private to plan): datums that failed in the base and were left out of its output. They run
 * again even if none of their inputs changed. The base's owner tree lists their enumeration keys, which name
 * their matches. */
#pragma once

#include "pipelined/plan/plan_leaf.h"

/* Adds the matches of failed datums that the inputs' lists do not have yet. `complete`: one flag per input,
 * true if its list has all matches. PL_ELIMIT: a failed datum's key is so long that only its hash is stored,
 * so its matches are unknown. */
PL_MUST_CHECK
int pl_plan_retry_matches(struct pl_plan *p, const struct pl_plan_request *q, struct plan_memory *memory, const bool *complete,
                          struct pl_err *err);

/* Calls `emit` for every failed datum that has only unchanged matches, with the indexes of these matches. */
typedef int (*pl_plan_retry_fn)(void *self, const uint32_t *picks, struct pl_err *err);
PL_MUST_CHECK
int pl_plan_retry(const struct pl_plan *p, const struct pl_plan_request *q, pl_plan_retry_fn emit, void *self,
                  struct pl_err *err);
