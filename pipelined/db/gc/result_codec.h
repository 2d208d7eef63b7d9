/* result_codec: the content of a row of table `result`: JSON [[index, result, datum key]…], compressed with
 * zstd. `index` is that of the datum in the job's list. */
#pragma once

#include "pipelined/db/writer/sql.h"

#define PL_RESULT_CODEC_MAX_BYTES ((size_t)256 << 20) /* most bytes of the JSON */

/* Decodes column number `column` of the current row; `*ret` is a new reference. PL_ECORRUPT, PL_ENOMEM. */
PL_MUST_CHECK
int pl_result_codec_column(const struct pl_rows *rows, int column, json_t **ret, struct pl_err *err);
