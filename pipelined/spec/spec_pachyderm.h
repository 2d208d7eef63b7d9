/* pachyderm: Pachyderm's pipeline spec (CreatePipelineRequest as JSON) as a spec of ours: one pipeline of one stage, with Pachyderm's
 * defaults where they differ (a datum has 3 tries, runs queue). Keys may be in snake_case or camelCase, null is absent, `$schema` is
 * passed over; a field without a counterpart is refused by name. Pure.
 *
 * What is wrong is said at the place and with the path of Pachyderm's field, also when the native reader finds it. */
#pragma once

#include "pipelined/spec/spec_reader.h"

/* Is it of that form? (`pipeline` is an object, or there is a `transform`.) */
bool pl_pachyderm_is(const json_t *root);
/* The native spec, a new reference; problems go to the reader. NULL without memory, or when it is no use to read on. */
json_t *pl_pachyderm_map(struct spec_reader *r, json_t *root);
/* The path of Pachyderm's field for one of the native spec ("stages[0].run" → "transform.cmd"), its names spelled as in `root`, the text.
 * PL_ENOMEM. */
PL_MUST_CHECK
int pl_pachyderm_path(struct pl_buf *path, const json_t *root);
