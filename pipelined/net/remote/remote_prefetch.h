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
#define PL_REMOTE_PREFETCH_THREADS 32u /* most concurrent fetches; each is a round trip to the bucket */
/* most ranges that are planned and not yet read; records beyond this bound are not prefetched */
#define PL_REMOTE_PREFETCH_RANGES 8192u
#define PL_REMOTE_PREFETCH_GAP    (256u << 10) /* largest gap in bytes between two records of one range */
#define PL_REMOTE_PREFETCH_RANGE  (8u << 20)   /* largest size of a range in bytes */
#define PL_REMOTE_PREFETCH_STALE_MS                                                                                              \
    5000 /* ms without use after which a ready range is dropped, if readers have gone on to later ranges or have stopped */

struct pl_remote_ahead;

/* The bytes of a pack from `start` up to, but not including, `end`. */
struct pl_remote_range {
    struct pl_hash pack;
    uint64_t start, end;
};

/* Joins records that lie close together into ranges of at most `most` bytes. `where` is sorted by pack and offset;
 * `out` has space for `n` ranges. Returns the number of ranges. */
size_t pl_remote_coalesce(const struct pl_location *where, size_t n, uint64_t most, struct pl_remote_range *out);
/* Compares two locations by pack and offset, for qsort. */
int pl_remote_location_cmp(const void *a, const void *b);

/* Creates a prefetcher. `fetch` reads a range of a pack; several threads call it at the same time. NULL if
 * memory runs out. */
struct pl_remote_ahead *pl_remote_prefetch_create(pl_pack_read_window_fetch fetch, void *self);
/* For tests: replaces PL_REMOTE_PREFETCH_STALE_MS. */
void pl_remote_prefetch_set_stale(struct pl_remote_ahead *a, int64_t stale_ms);
/* Waits for the fetches in progress and frees the prefetcher. */
struct pl_remote_ahead *pl_remote_prefetch_destroy(struct pl_remote_ahead *a);
/* Plans to fetch records that will be read soon, once each and in this order, with at most `threads` threads.
 * A record that was planned before is not planned again. If memory runs out or the bound is reached, records
 * are not planned, and reading them only takes longer. */
void pl_remote_prefetch_plan(struct pl_remote_ahead *a, const struct pl_location *where, size_t n, unsigned threads);
/* Reads the verified bytes of a record into `ret`, replacing its content. Returns 0, or 1 if the record was
 * not planned or its fetch failed. */
PL_MUST_CHECK
int pl_remote_prefetch_read(struct pl_remote_ahead *a, const struct pl_hash *id, const struct pl_location *where,
                            struct pl_buf *ret);
