/* Decompresses and parses a row of table `result`. */
#include "pipelined/db/gc/result_codec.h"

#include <zstd.h>

int pl_result_codec_column(const struct pl_rows *rows, int column, json_t **ret, struct pl_err *err)
{
    const void *packed = sqlite3_column_blob(rows->stmt, column);
    size_t n = (size_t)sqlite3_column_bytes(rows->stmt, column);
    unsigned long long size = ZSTD_getFrameContentSize(packed, n);
    _cleanup_free_ char *text = NULL;

    if (size == ZSTD_CONTENTSIZE_ERROR || size == ZSTD_CONTENTSIZE_UNKNOWN || size > PL_RESULT_CODEC_MAX_BYTES)
        return pl_err_set(err, PL_ECORRUPT, "a stored result cannot be decompressed");
    text = malloc((size_t)size + 1);
    if (!text)
        return pl_err_nomem(err);
    if (ZSTD_decompress(text, (size_t)size, packed, n) != size)
        return pl_err_set(err, PL_ECORRUPT, "a stored result cannot be decompressed");
    *ret = json_loadb(text, (size_t)size, 0, NULL);
    return *ret ? 0 : pl_err_set(err, PL_ECORRUPT, "a stored result is not JSON");
}
