/* output_prefix: the output prefix of a stage, compiled as a template over its inputs. Inputs with the same
 * name (in different branches of a union) count as one. The prefix cannot use an input that some datum lacks.
 * Pure. */
#pragma once

#include "pipelined/spec/spec.h"
#include "pipelined/text/template.h"

/* Compiles the prefix. The template's inputs are those of stage->leaves, in the same order. PL_ESPEC: the
 * message names the variable and what is available. */
PL_MUST_CHECK
int pl_output_prefix_compile(const struct pl_stage *stage, struct pl_template **ret, struct pl_err *err);
