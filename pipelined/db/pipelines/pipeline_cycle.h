/* pipeline_cycle: checks whether a new version of a pipeline forms a cycle with stages of other pipelines.
 * Cycles within one file are refused when the spec is parsed. */
#pragma once

#include "pipelined/db/writer/sql.h"
#include "pipelined/spec/spec.h"

/* Checks the spec against the current pipelines; reads only the stages upstream of it. PL_EINVAL: there is a
 * cycle; the message names its stages: `the stages form a circle: a reads b, b reads a`. */
PL_MUST_CHECK
int pl_pipeline_cycle_check(struct pl_conn *c, const struct pl_spec *spec, struct pl_err *err);
