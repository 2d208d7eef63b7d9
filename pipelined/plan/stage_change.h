/* stage_change: which fields differ between two versions of a stage. Pure.
 *
 * Both versions are effective specs, as pl_stage_effective_json writes them. */
#pragma once

#include <jansson.h>
#include <stdbool.h>

#define PL_STAGE_CHANGE_MAX 320 /* bytes of the text, with its NUL */

/* Lists the fields that differ, short values with old and new: "image app:1.4 → app:1.5, env". `code_differs`: the
 * trees of their code folders differ, which counts as a difference of "code". "" if nothing differs. Fields that
 * have no room in the text are left out. */
void pl_stage_change_text(const json_t *before, const json_t *after, bool code_differs, char ret[PL_STAGE_CHANGE_MAX]);
/* True if the values of `input` differ in a field that datum keys contain (datum_identity.h), or in one that may
 * change the set of datums. */
bool pl_stage_inputs_differ(const json_t *before, const json_t *after);
