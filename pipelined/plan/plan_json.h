/* plan_json: what a worker is told of a datum's inputs (docs/protocol.md), by the daemon and by `pipelinectl try`. Pure. */
#pragma once

#include "pipelined/plan/plan.h"

#include <jansson.h>

/* One input of a datum: match `m` (of the plan's leaf) in the tree `root` of `commit` ("" = not known). NULL without memory. */
json_t *pl_plan_input_json(const struct pl_plan *p, size_t leaf, const struct pl_plan_match *m, const struct pl_hash *root,
                           const char *commit);
/* Names of the inputs that the command may change. NULL without memory. */
json_t *pl_stage_writable_json(const struct pl_stage *stage);
