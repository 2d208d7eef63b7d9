/* codec: zstd level 1 for data that becomes smaller, otherwise the bytes unchanged. Ids are always computed
 * over uncompressed bytes, so another version of zstd may produce other compressed bytes without any effect.
 * Any thread; each thread has its own zstd contexts, which are freed when the thread ends. */
#pragma once

#include "storage/base/buf.h"

enum pl_codec { PL_CODEC_RAW = 0, PL_CODEC_ZSTD = 1 };

/* Returns the size of the buffer that pl_codec_encode needs for `n` bytes. */
size_t pl_codec_bound(size_t n);
/* Compresses `n` bytes into `out` (pl_codec_bound(n) bytes) if a quick test finds them compressible and the
 * result is at least 6 % smaller. Returns the codec, and the size in `*ret_size`. With PL_CODEC_RAW the
 * content of `out` is undefined and *ret_size is `n`. Cannot fail: if compression fails for any reason, the
 * result is PL_CODEC_RAW. */
enum pl_codec pl_codec_encode(const void *data, size_t n, void *out, size_t *ret_size);
/* Decompresses into `out`, which has room for exactly `raw_size` bytes. The caller must check raw_size
 * against its limit before it allocates that room. PL_ECORRUPT if the result does not have exactly raw_size
 * bytes, PL_EFORMAT for an unknown codec, PL_ENOMEM. */
PL_MUST_CHECK
int pl_codec_decode(uint8_t codec, const void *stored, size_t stored_size, void *out, size_t raw_size, struct pl_err *err);
