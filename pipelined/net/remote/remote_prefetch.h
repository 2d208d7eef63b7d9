/* remote_ahead: bytes of packs that will be read soon, fetched by several threads before they are asked for.
 *
 *   plan ──▶ planned (in the order of reading) ──room──▶ loading ──▶ ready ──every record read, or stale──▶ gone
 *                └────────── asked for before its turn: by who asks ──▲
 *
 * What lies close together in a pack is one range, and one fetch. The bytes under way and ready are at most PL_REMOTE_PREFETCH_BYTES, and one
 * range for each who asks; threads are there while there is something to fetch. Any thread. */
#pragma once

#include "storage/store/pack_read_window.h"

#include <stdatomic.h>

#define PL_REMOTE_PREFETCH_BYTES   ((uint64_t)64 << 20)
#define PL_REMOTE_PREFETCH_THREADS 32u          /* as many fetches, where each is a round trip to a bucket */
#define PL_REMOTE_PREFETCH_RANGES  8192u        /* planned and not read; what comes then is read without a plan */
#define PL_REMOTE_PREFETCH_GAP     (256u << 10) /* between two records of one range */
#define PL_REMOTE_PREFETCH_RANGE   (8u << 20)   /* bytes of one, at most */
#define PL_REMOTE_PREFETCH_STALE_MS                                                                                              \
    5000 /* untouched for so long while reading went on behind it, or stopped: a range makes room */

struct pl_remote_ahead;

/* Bytes start..end of a pack. */
struct pl_remote_range {
    struct pl_hash pack;
    uint64_t start, end;
};

/* Records as ranges, ascending by pack and start: `where` ascends by pack and offset, `out` has room for `n`. How many. */
size_t pl_remote_coalesce(const struct pl_location *where, size_t n, struct pl_remote_range *out);
/* Ascending by pack and offset, for qsort. */
int pl_remote_location_cmp(const void *a, const void *b);

/* `fetch` is called by any number of threads at a time. NULL without memory. */
struct pl_remote_ahead *pl_remote_prefetch_create(pl_pack_read_window_fetch fetch, void *self);
/* Tests: in the place of PL_REMOTE_PREFETCH_STALE_MS. */
void pl_remote_prefetch_set_stale(struct pl_remote_ahead *a, int64_t stale_ms);
/* Waits for the fetches under way. */
struct pl_remote_ahead *pl_remote_prefetch_destroy(struct pl_remote_ahead *a);
/* These records are read soon, in this order, each once; by at most `threads` of them fetched ahead. Planned twice counts once. Without memory, or
 * past the bound, nothing is planned: it costs time, nothing else. */
void pl_remote_prefetch_plan(struct pl_remote_ahead *a, const struct pl_location *where, size_t n, unsigned threads);
/* The record's verified bytes, replacing what `ret` held: 0; or 1: not planned, or it did not work. */
PL_MUST_CHECK
int pl_remote_prefetch_read(struct pl_remote_ahead *a, const struct pl_hash *id, const struct pl_location *where,
                            struct pl_buf *ret);
