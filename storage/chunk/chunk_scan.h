/* chunk_scan: finds the chunk boundaries that chunk.h defines, in two passes, so that several threads can
 * process one file. A candidate depends only on 64 bytes, so segments can be scanned in parallel. The choice
 * among the candidates depends on the previous cut, but is fast.
 *
 *     scan(segment k)  any thread, any order   →  one bit per byte
 *     cut(segment k)   in order                →  chunk lengths */
#pragma once

#include "storage/chunk/chunk.h"

#define PL_CHUNK_SCAN_WORDS(n) (((n) + 63) / 64)

/* Sets bit i of `ret_bits` (PL_CHUNK_SCAN_WORDS(n) words, least significant bit first) if a chunk may
 * end after data[i] (a candidate cut point), and clears the others. The 63 bytes before `data` must be readable and belong to the
 * file; at the start of a file their values do not matter. */
void pl_chunk_scan(const uint8_t *data, size_t n, uint64_t *ret_bits);

/* Returns the length of a chunk if it ends in the segment, else 0. The segment has `n` scanned bytes. The
 * chunk starts at position `from` of the segment (`carry` = 0), or `carry` bytes before the segment (`from` =
 * 0): it then has `carry` bytes, fewer than PL_CHUNK_MAX_BYTES, in earlier segments. For files longer than
 * PL_CHUNK_WHOLE_BYTES. Any thread. */
size_t pl_chunk_scan_cut(const uint64_t *bits, size_t n, size_t carry, size_t from);
