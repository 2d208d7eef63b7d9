/* plan_json: a datum's inputs as JSON for a worker (docs/protocol.md); used by the daemon and by `pipelinectl
 * try`. Pure. */
#pragma once

#include "pipelined/plan/plan.h"

#include <jansson.h>

/* Makes the JSON of one input of a datum: match `m` of input `leaf`, in the tree `root` of `commit` ("" =
 * unknown). New reference; NULL without memory. */
json_t *pl_plan_input_json(const struct pl_plan *p, size_t leaf, const struct pl_plan_match *m, const struct pl_hash *root,
                           const char *commit);
/* Makes the list of names of the inputs that the command may change. New reference; NULL without memory. */
json_t *pl_stage_writable_json(const struct pl_stage *stage);
