/* result_codec: the content of a row of table `result`: JSON [[number of the row, result, datum key]…], compressed
 * with zstd. */
#pragma once

#include "pipelined/db/writer/sql.h"

#define PL_RESULT_CODEC_MAX_BYTES ((size_t)256 << 20) /* size of the JSON */

/* Decodes the column into a new reference. PL_ECORRUPT, PL_ENOMEM. */
PL_MUST_CHECK
int pl_result_codec_column(const struct pl_rows *rows, int column, json_t **ret, struct pl_err *err);
