/* prefix: the output prefix of a stage as a template over its inputs. Inputs of one name (in different branches of a union) are one to
 * it; one that a datum may lack cannot be named. Pure. */
#pragma once

#include "pipelined/spec/spec.h"
#include "pipelined/text/template.h"

/* The template's inputs are those of stage->leaves, in their order. PL_ESPEC names the variable, and what there is. */
PL_MUST_CHECK
int pl_output_prefix_compile(const struct pl_stage *stage, struct pl_template **ret, struct pl_err *err);
