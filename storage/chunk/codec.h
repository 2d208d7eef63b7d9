/* codec: zstd level 1 for what gains by it, else the bytes as they are. Identity is never over compressed bytes: another version
 * of zstd may compress differently, and nothing notices. Any thread (each has its own contexts, freed when it ends). */
#pragma once

#include "storage/base/buf.h"

enum pl_codec { PL_CODEC_RAW = 0, PL_CODEC_ZSTD = 1 };

/* Room that pl_codec_encode may need for `n` bytes. */
size_t pl_codec_bound(size_t n);
/* Compresses `n` bytes into `out` (of pl_codec_bound(n) bytes) when a probe promises and the result keeps a gain of at least 6 %.
 * Returns the codec and the size in `*ret_size`; with PL_CODEC_RAW nothing useful is in `out` and *ret_size is `n`. Cannot fail:
 * what cannot be compressed, for whatever reason, is raw. */
enum pl_codec pl_codec_encode(const void *data, size_t n, void *out, size_t *ret_size);
/* Inflates into `out`, which has room for exactly `raw_size` bytes. The caller has checked raw_size against its limit before it
 * made that room. PL_ECORRUPT when the bytes do not give exactly raw_size, PL_EFORMAT for an unknown codec. */
PL_MUST_CHECK
int pl_codec_decode(uint8_t codec, const void *stored, size_t stored_size, void *out, size_t raw_size, struct pl_err *err);
