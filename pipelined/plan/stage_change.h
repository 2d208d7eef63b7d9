/* stage_change: which fields differ between two versions of a stage, and what that means for its datums. Pure.
 *
 * Both versions are effective specs, as pl_stage_effective_json writes them. */
#pragma once

#include "storage/base/err.h"

#include <jansson.h>
#include <stdbool.h>

#define PL_STAGE_CHANGE_MAX 320 /* bytes of the text, with its NUL */

/* How many of a stage's datums run anew after a change. */
enum pl_again {
    PL_AGAIN_NONE,
    PL_AGAIN_SOME, /* those whose key is new: at most all of them */
    PL_AGAIN_ALL,
};
/* Returns "none", "some" or "all". */
const char *pl_again_name(enum pl_again again);

/* Lists the fields that differ, short values with old and new: "image app:1.4 → app:1.5, env". `code_differs`: the
 * trees of their code folders differ, which counts as a difference of "code". "" if nothing differs. Fields that
 * have no room in the text are left out. */
void pl_stage_change_text(const json_t *before, const json_t *after, bool code_differs, char ret[PL_STAGE_CHANGE_MAX]);
/* Says which datums run anew when `after` follows `before`. `identity_differs`: their code identities do
 * (datum_identity.h). What the stages do that it reads is not considered. */
enum pl_again pl_stage_again(const json_t *before, const json_t *after, bool identity_differs);
/* True if the inputs of `after` may select other datums than those of `before`: more, fewer, or with other keys. */
bool pl_stage_selects_anew(const json_t *before, const json_t *after);
/* Says whether a stage that is now `after` would write another output than `before`, which made the output that there is, did
 * from the same inputs. */
enum pl_output_change {
    PL_OUTPUT_SAME,
    PL_OUTPUT_BY_INPUT, /* `input` selects datums otherwise */
    PL_OUTPUT_BY_FORM,  /* the prefix of the output differs: datums are reused and lie elsewhere */
    PL_OUTPUT_BY_CODE,  /* the code, or the `cache`, differs: every datum runs anew */
    PL_OUTPUT_BY_BOTH,  /* so it does, and `input` selects them otherwise */
};
/* True if the code, or the `cache`, differs. */
static inline bool pl_output_change_is_by_code(enum pl_output_change change)
{
    return change == PL_OUTPUT_BY_CODE || change == PL_OUTPUT_BY_BOTH;
}
enum pl_output_change pl_stage_output_change(const json_t *before, const json_t *after, bool identity_differs);
/* Appends the fields that differ to the array `ret`, those of `after` first: {"field", "before", "after", "again"}.
 * `field` is a JSON path (json_position.h), as deep as both versions have the same objects around it; `before` and
 * `after` are the values, absent where the version has none; `again` is what the field alone would do. `code_differs`
 * as above: the entry of "code" then has "content": true. PL_ENOMEM. */
PL_MUST_CHECK
int pl_stage_change_fields(const json_t *before, const json_t *after, bool code_differs, json_t *ret, struct pl_err *err);
