/* spec_pachyderm: converts Pachyderm's pipeline spec (CreatePipelineRequest as JSON) into a native spec: one
 * pipeline with one stage, with Pachyderm's defaults where they differ (3 tries per datum, on_new "queue").
 * Keys may be in snake_case or camelCase; null means absent; `$schema` is ignored; a field without a
 * counterpart is refused by name. Problems are reported at the position and with the path of Pachyderm's
 * field, also those that the native parser finds. Pure. */
#pragma once

#include "pipelined/spec/spec_reader.h"

/* True if the text has Pachyderm's form: `pipeline` is an object, or there is a `transform`. */
bool pl_pachyderm_is(const json_t *root);
/* Returns the native spec, a new reference. Problems are added to the reader. NULL if a problem was added
 * or memory ran out. */
json_t *pl_pachyderm_map(struct spec_reader *r, json_t *root);
/* Replaces a path of the native spec by that of Pachyderm's field ("stages[0].run" → "transform.cmd"). Names
 * are spelled as in `root`, the original JSON. PL_ENOMEM. */
PL_MUST_CHECK
int pl_pachyderm_path(struct pl_buf *path, const json_t *root);
