/* storage/chunk: Cuts files into chunks by content, compresses records, encodes the list of a file's chunks.
 *
 * In:      Bytes of a file.
 * Out:     Chunk boundaries, compressed records, chunk lists.
 * Uses:    storage/base
 * Threads: Any thread; no I/O.
 *
 * Headers for other rooms:
 *   chunk_list  byte format of the list of a file's chunks
 *   chunk_scan  finds boundary candidates of a segment for parallel chunking
 *   codec       zstd compression of records
 *
 * This header defines the boundaries of chunks ("gear64-1", docs/format.md "Chunk"; the scalar definition
 * there is the format):
 *
 *   G[0..255]    the first 256 numbers of SplitMix64 seeded with PL_CHUNK_SEED
 *   h(p)         Σ G[byte(p - i)] << i   for i = 0..63, modulo 2^64: the 64 bytes that end at p
 *   candidate    h(p) < 2^64 / 32,768, that is: its top 15 bits are zero
 *   cut after p  at the first candidate that makes the chunk ≥ 32 KiB long, else when it reaches 256 KiB,
 *                else at the end of the file
 *   exception    a file of at most 64 KiB is one chunk
 *
 * No chunk except the last is shorter than the 64 bytes of the window, so a cut depends only on the bytes of
 * its own chunk. */
#pragma once

#include "storage/base/base.h"

#define PL_CHUNK_MIN_BYTES    ((size_t)32 << 10)
#define PL_CHUNK_MAX_BYTES    ((size_t)256 << 10)
#define PL_CHUNK_WHOLE_BYTES  ((size_t)64 << 10) /* a file of at most this size is a single chunk */
#define PL_CHUNK_WINDOW_BYTES 64u
#define PL_CHUNK_SEED         UINT64_C(0x706970656c696e65) /* "pipeline" */
#define PL_CHUNK_LIMIT        (UINT64_C(1) << 49)          /* 2^64 / 32,768 */

/* Returns the table G. Static; any thread. */
const uint64_t *pl_chunk_table(void);

/* Returns the length of the chunk that starts at `data`. `n` ≥ 1 is the number of bytes at `data`: all bytes
 * up to the end of the file, or at least PL_CHUNK_MAX_BYTES. `first`: `data` is the start of the file, so the
 * exception for files of at most 64 KiB applies. Any thread. */
size_t pl_chunk_next(const void *data, size_t n, bool first);

/* chunker: finds the same boundaries in bytes that arrive in pieces. It keeps no bytes; the caller keeps them
 * until the chunk's end is known (at most PL_CHUNK_MAX_BYTES).
 *
 *     pl_chunker_init(&c);
 *     for each piece:
 *         while (n > 0) {
 *             used = pl_chunker_feed(&c, p, n, &cut); if (cut) emit(cut);
 *             p += used; n -= used;
 *         }
 *     while ((cut = pl_chunker_end(&c)) > 0) emit(cut); */
struct pl_chunker {
    uint64_t hash; /* h of the last byte scanned */
    uint64_t fed;  /* bytes of the file scanned so far */
    size_t length; /* bytes scanned since the last cut */
    /* lengths of chunks that are not reported until the file is known to be longer than
     * PL_CHUNK_WHOLE_BYTES */
    size_t held[2];
    unsigned held_count;
};

/* Starts a file. */
void pl_chunker_init(struct pl_chunker *c);
/* Scans bytes from `data` and returns how many (0 to n). `*ret_cut` receives the length of the next chunk of
 * the file if its end is now known, else 0. The result and `*ret_cut` are not both 0. The chunk may end
 * before the bytes scanned by this call, but not after them. */
size_t pl_chunker_feed(struct pl_chunker *c, const void *data, size_t n, size_t *ret_cut);
/* Ends the file: each call returns the length of one remaining chunk, then 0. */
size_t pl_chunker_end(struct pl_chunker *c);
