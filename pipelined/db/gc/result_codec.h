/* result_rows: what a row of table `result` holds: JSON [[number of the row, result, datum key]…], zstd. */
#pragma once

#include "pipelined/db/writer/sql.h"

#define PL_RESULT_CODEC_MAX_BYTES ((size_t)256 << 20) /* of the JSON */

/* The column's JSON as a new reference. PL_ECORRUPT, PL_ENOMEM. */
PL_MUST_CHECK
int pl_result_codec_column(const struct pl_rows *rows, int column, json_t **ret, struct pl_err *err);
