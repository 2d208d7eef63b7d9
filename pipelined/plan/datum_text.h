/* datum_text: finds the inputs of a datum from its text, "test=/test/b1.csv, model=/", as pl_plan_datum_text wrote it. Pure.
 *
 * The text alone may be ambiguous, because a path may have ", model=/" in it. The datum's id decides which reading is right:
 * readings are tried, those with the most inputs first, until one has the id. */
#pragma once

#include "pipelined/spec/spec.h"

#define PL_DATUM_TEXT_READINGS_MAX 1000u /* readings that are tried at most */

/* One input of the datum. */
struct pl_datum_text_part {
    const struct pl_input *input; /* of the stage */
    const char *path;             /* in the text, without leading slash and not NUL-terminated; of `params` the JSON */
    size_t path_len;
};

/* Fills `ret`, at most PL_SPEC_LEAVES_MAX parts in the order of the spec, and returns their number. PL_ENOTFOUND: no reading
 * that was tried has the id, for example because the text was cut off. */
PL_MUST_CHECK
int pl_datum_text_parse(const struct pl_stage *stage, const char *text, const struct pl_hash *id,
                        struct pl_datum_text_part ret[PL_SPEC_LEAVES_MAX], struct pl_err *err);
