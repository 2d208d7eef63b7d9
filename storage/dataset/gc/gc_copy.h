/* gc_copy: what is needed of packs that are little needed, or small, moves into new ones; then the old ones are condemned (gc.h).
 * Records are copied as they are stored, each verified first. Memory: two packs and one record. One thread. */
#pragma once

#include "storage/dataset/gc/gc_mark.h"

#define PL_GC_LIVE_PERCENT 60                  /* a pack of which less is needed is copied */
#define PL_GC_SMALL_BYTES  ((uint64_t)4 << 20) /* as is one smaller than this, when there are */
#define PL_GC_SMALL_PACKS  16u                 /* so many, so that not the same few are copied again and again */

struct pl_gc_copy;

/* `mark` says what is needed; both outlive it. */
PL_MUST_CHECK
int pl_gc_copy_create(struct pl_store *store, const struct pl_gc_mark *mark, struct pl_gc_copy **ret, struct pl_err *err);
struct pl_gc_copy *pl_gc_copy_destroy(struct pl_gc_copy *c);
static inline void pl_gc_copy_destroyp(struct pl_gc_copy **c)
{
    *c = pl_gc_copy_destroy(*c);
}
/* Copies what the mark counts for this pack. PL_ECORRUPT: it is damaged, and should stay as it is; the copy can go on with others. */
PL_MUST_CHECK
int pl_gc_copy_pack(struct pl_gc_copy *c, const struct pl_hash *pack, struct pl_err *err);
/* Puts what is left; all copies are durable then. Without it the packs that were copied must not be condemned. */
PL_MUST_CHECK
int pl_gc_copy_finish(struct pl_gc_copy *c, struct pl_err *err);

struct pl_gc_copy_stats {
    uint64_t packs, bytes; /* made */
};
void pl_gc_copy_stats(const struct pl_gc_copy *c, struct pl_gc_copy_stats *ret);

/* Which packs are worth copying: sets bit i of `ret_bitmap` ((n + 7) / 8 bytes) for packs[i]. Those that are pinned, not judged or not needed
 * are not. */
void pl_gc_copy_choose(const struct pl_gc_pack *packs, size_t n, uint8_t *ret_bitmap);
