/* remote_prefetch: fetches ranges of packs that will be read soon, on several threads, before they are read.
 *
 *   plan ──▶ planned (in order of reading) ──space──▶ loading ──▶ ready ──all records read, or stale──▶ gone
 *                └────── read before its turn: the reader loads it ──▲
 *
 * Records that lie close together in a pack form one range, which is one fetch. Loading and ready ranges hold at
 * most PL_REMOTE_PREFETCH_BYTES, plus one range for each waiting reader. Threads exist while there is something to
 * fetch. Any thread. */
#pragma once

#include "storage/store/pack_read_window.h"

#include <stdatomic.h>

#define PL_REMOTE_PREFETCH_BYTES   ((uint64_t)64 << 20)
#define PL_REMOTE_PREFETCH_THREADS 32u /* concurrent fetches, each a round trip to a bucket */
/* planned and not yet read; records beyond it are read without a plan */
#define PL_REMOTE_PREFETCH_RANGES 8192u
#define PL_REMOTE_PREFETCH_GAP    (256u << 10) /* gap between two records of one range */
#define PL_REMOTE_PREFETCH_RANGE  (8u << 20)   /* most bytes of one range */
#define PL_REMOTE_PREFETCH_STALE_MS                                                                                              \
    5000 /* a ready range untouched for this time is dropped, if reading went on behind it or has stopped */

struct pl_remote_ahead;

/* Bytes start..end of a pack. */
struct pl_remote_range {
    struct pl_hash pack;
    uint64_t start, end;
};

/* Joins records into ranges: `where` is sorted by pack and offset, `out` has space for `n`. Returns the number of
 * ranges. */
size_t pl_remote_coalesce(const struct pl_location *where, size_t n, struct pl_remote_range *out);
/* Compares by pack and offset, for qsort. */
int pl_remote_location_cmp(const void *a, const void *b);

/* Creates a prefetcher. Several threads call `fetch` at the same time. NULL without memory. */
struct pl_remote_ahead *pl_remote_prefetch_create(pl_pack_read_window_fetch fetch, void *self);
/* For tests: replaces PL_REMOTE_PREFETCH_STALE_MS. */
void pl_remote_prefetch_set_stale(struct pl_remote_ahead *a, int64_t stale_ms);
/* Waits for the fetches in progress and frees. */
struct pl_remote_ahead *pl_remote_prefetch_destroy(struct pl_remote_ahead *a);
/* Plans records that will be read soon, in this order, each once, to be fetched by at most `threads` threads. A
 * record planned twice counts once. Without memory, or beyond the bound, records are not planned; that only costs
 * time. */
void pl_remote_prefetch_plan(struct pl_remote_ahead *a, const struct pl_location *where, size_t n, unsigned threads);
/* Reads the record's verified bytes, replacing the content of `ret`: 0; 1 = not planned, or the fetch failed. */
PL_MUST_CHECK
int pl_remote_prefetch_read(struct pl_remote_ahead *a, const struct pl_hash *id, const struct pl_location *where,
                            struct pl_buf *ret);
