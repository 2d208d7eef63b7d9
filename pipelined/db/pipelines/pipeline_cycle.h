/* pipeline_circle: does a new version of a pipeline close a circle of stages through other pipelines? Within one file the spec
 * reader has seen to it. */
#pragma once

#include "pipelined/db/writer/sql.h"
#include "pipelined/spec/spec.h"

/* PL_EINVAL names the stages: `the stages form a circle: a reads b, b reads a`. Reads only the stages that lie upstream. */
PL_MUST_CHECK
int pl_pipeline_cycle_check(struct pl_conn *c, const struct pl_spec *spec, struct pl_err *err);
