/* storage/chunk: Cuts files into chunks by content, compresses records, encodes the list of a file's chunks.
 *
 * In:      Bytes of a file.
 * Out:     Chunk boundaries, compressed records, chunk lists.
 * Uses:    storage/base
 * Threads: Any thread; pure but for buffers.
 *
 * Headers for other rooms:
 *   chunk_list  byte format of the list of a file's chunks
 *   chunk_scan  finds boundary candidates of a segment for parallel chunking
 *   codec       zstd compression of records */

/* storage/chunk: where files are cut (this header), how the pieces are compressed (codec.h), and the list of a file's pieces
 * (chunk_list.h). Uses storage/base and zstd.
 *
 * Cutting ("gear64-1", docs/format.md "Chunk"; the scalar definition there is the format):
 *
 *   G[0..255]    the first 256 numbers of SplitMix64 seeded with PL_CHUNK_SEED
 *   h(p)         Σ G[byte(p - i)] << i   for i = 0..63, modulo 2^64: the 64 bytes that end at p
 *   candidate    h(p) < 2^64 / 32,768, that is: its top 15 bits are zero
 *   cut after p  at the first candidate that makes the chunk ≥ 32 KiB long, else where it reaches 256 KiB, else at the end
 *   exception    a file of at most 64 KiB is one chunk
 *
 * No chunk is shorter than the 64 bytes of the window, so a cut depends on nothing before its chunk. */
#pragma once

#include "storage/base/base.h"

#define PL_CHUNK_MIN_BYTES    ((size_t)32 << 10)
#define PL_CHUNK_MAX_BYTES    ((size_t)256 << 10)
#define PL_CHUNK_WHOLE_BYTES  ((size_t)64 << 10) /* a file up to this is never cut */
#define PL_CHUNK_WINDOW_BYTES 64u
#define PL_CHUNK_SEED         UINT64_C(0x706970656c696e65) /* "pipeline" */
#define PL_CHUNK_LIMIT        (UINT64_C(1) << 49)          /* 2^64 / 32,768 */

/* The table G. */
const uint64_t *pl_chunk_table(void);

/* Length of the chunk that starts at `data`, of which `n` ≥ 1 bytes are here: all up to the end of the file, or at least
 * PL_CHUNK_MAX_BYTES. `first`: data is the start of the file (then the 64 KiB rule holds: all of a shorter file must be here, or
 * more than PL_CHUNK_WHOLE_BYTES). Any thread. */
size_t pl_chunk_next(const void *data, size_t n, bool first);

/* chunker: the same cuts for bytes that come in pieces; it keeps no bytes, the caller does (at most PL_CHUNK_MAX_BYTES).
 *
 *     pl_chunker_init(&c);
 *     for each piece: while (n > 0) { used = pl_chunker_feed(&c, p, n, &cut); if (cut) emit(cut); p += used; n -= used; }
 *     while ((cut = pl_chunker_end(&c)) > 0) emit(cut);
 */
struct pl_chunker {
    uint64_t hash;  /* h of the last byte scanned */
    uint64_t fed;   /* bytes of the file so far */
    size_t length;  /* of them behind the last cut */
    size_t held[2]; /* cuts that wait until the file is known to be longer than PL_CHUNK_WHOLE_BYTES */
    unsigned held_count;
};

void pl_chunker_init(struct pl_chunker *c);
/* Looks at bytes from `data` and returns how many (0..n). `*ret_cut`: the length of the next chunk of the file, now known, or 0.
 * Either the count or the cut is not 0. A chunk's end may lie before the bytes looked at, never after. */
size_t pl_chunker_feed(struct pl_chunker *c, const void *data, size_t n, size_t *ret_cut);
/* The file ends: lengths of the chunks that are left, one a call; then 0. */
size_t pl_chunker_end(struct pl_chunker *c);
