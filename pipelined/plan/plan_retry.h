/* plan_again (private to plan): datums that failed in the base and were left out. They run again although nothing of them changed: their
 * enumeration keys stand in the base's owner tree and say which matches they are of. */
#pragma once

#include "pipelined/plan/plan_leaf.h"

/* Adds the matches of failed datums that no list has yet; `complete`: leaves whose lists have all matches. PL_ELIMIT: a key is too long
 * to say. */
PL_MUST_CHECK
int pl_plan_retry_matches(struct pl_plan *p, const struct pl_plan_request *q, struct plan_memory *memory, const bool *complete,
                          struct pl_err *err);

/* Calls `emit` with the picks of every failed datum of which no match changed or is gone. */
typedef int (*pl_plan_retry_fn)(void *self, const uint32_t *picks, struct pl_err *err);
PL_MUST_CHECK
int pl_plan_retry(const struct pl_plan *p, const struct pl_plan_request *q, pl_plan_retry_fn emit, void *self,
                  struct pl_err *err);
