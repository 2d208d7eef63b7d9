/* chunk_scan: the cuts of chunk.h in two passes, for files that several threads share: where a cut may be depends on 64 bytes
 * only, so segments are scanned side by side; which of these cuts are made depends on the one before and costs next to nothing.
 *
 *     scan(segment k)  any thread, any order   →  one bit a byte
 *     cut(segment k)   in order                →  chunk lengths */
#pragma once

#include "storage/chunk/chunk.h"

#define PL_CHUNK_SCAN_WORDS(n) (((n) + 63) / 64)

/* Sets bit i of `ret_bits` (PL_CHUNK_SCAN_WORDS(n) words, LSB first) exactly when data[i] is the last byte of a candidate. The 63
 * bytes before `data` must be readable and those of the file; at the start of a file they may be anything. */
void pl_chunk_scan(const uint8_t *data, size_t n, uint64_t *ret_bits);

/* Length of the chunk that starts `carry` bytes (< PL_CHUNK_MAX_BYTES, nothing to cut in them) before byte `from` of a segment of
 * `n` scanned bytes (`carry` > 0 only with `from` = 0); 0 when its end is not in the segment. For files longer than
 * PL_CHUNK_WHOLE_BYTES. */
size_t pl_chunk_scan_cut(const uint64_t *bits, size_t n, size_t carry, size_t from);
