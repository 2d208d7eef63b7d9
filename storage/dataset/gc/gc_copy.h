/* gc_copy: moves the live records of packs that are small or mostly dead into new packs; the old packs can
 * then be condemned (gc.h). Records are copied in their stored form, each verified first. Memory: two
 * packs and one record. Single-threaded. */
#pragma once

#include "storage/dataset/gc/gc_mark.h"

/* packs whose live records are less than this percentage of their bytes are copied */
#define PL_GC_LIVE_PERCENT 60
/* packs smaller than this are "small": they are copied if there are at least PL_GC_SMALL_PACKS of them */
#define PL_GC_SMALL_BYTES ((uint64_t)4 << 20)
/* small packs are copied only if there are at least this many, so that the same few packs are not copied
 * again in every collection */
#define PL_GC_SMALL_PACKS 16u

struct pl_gc_copy;

/* Creates a copier. `mark` decides which records are live. `store` and `mark` must outlive it. */
PL_MUST_CHECK
int pl_gc_copy_create(struct pl_store *store, const struct pl_gc_mark *mark, struct pl_gc_copy **ret, struct pl_err *err);
struct pl_gc_copy *pl_gc_copy_destroy(struct pl_gc_copy *c);
static inline void pl_gc_copy_destroyp(struct pl_gc_copy **c)
{
    *c = pl_gc_copy_destroy(*c);
}
/* Copies the live records that the mark counts for this pack. PL_ECORRUPT: the pack is damaged and should
 * be kept; the copier may continue with other packs. */
PL_MUST_CHECK
int pl_gc_copy_pack(struct pl_gc_copy *c, const struct pl_hash *pack, struct pl_err *err);
/* Puts the remaining records into the store and flushes it: on success all copies are durable. If it fails,
 * the packs that were copied must not be condemned. */
PL_MUST_CHECK
int pl_gc_copy_finish(struct pl_gc_copy *c, struct pl_err *err);

struct pl_gc_copy_stats {
    uint64_t packs, bytes; /* number and total size of the new packs written */
};
void pl_gc_copy_stats(const struct pl_gc_copy *c, struct pl_gc_copy_stats *ret);

/* Chooses the packs worth copying: sets bit i of `ret_bitmap` ((n + 7) / 8 bytes) for packs[i]. Never chooses
 * packs that are pinned, that have `judged` unset, or that have no live records. */
void pl_gc_copy_choose(const struct pl_gc_pack *packs, size_t n, uint8_t *ret_bitmap);
