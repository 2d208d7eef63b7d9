/* index: where each record of a project is: first 16 bytes of its id → pack, offset, sizes. A cache of the packs' footers: what
 * is lost or damaged is read from them again. New entries live in a table in memory and become a sorted, mmapped segment at
 * PL_INDEX_SEGMENT_ENTRIES; eight segments of a level are merged into one of the next. 32 bytes an entry.
 *
 * Files in the index's folder (docs/format.md "Index segment"): `packs` (the packs covered and the segments that cover them) and
 * `<16 hex>.seg`. One process at a time per folder. All functions may be called from any thread; lookups never wait for a write
 * to disk. */
#pragma once

#include "pack_format.h"

#define PL_INDEX_SEGMENT_ENTRIES 65536u
#define PL_INDEX_FANOUT          8u
#define PL_INDEX_MEMORY_ENTRIES  (1u << 22) /* when segments cannot be written: then adding fails */

struct pl_index;

/* Where a record is. */
struct pl_location {
    struct pl_hash pack; /* the pack's id */
    uint32_t pack_no;    /* its number in this index, for caches */
    uint32_t offset;     /* of the record's head */
    uint32_t stored;
    uint32_t raw;
    uint8_t codec;
    uint8_t kind;
};

/* `dir` is made when it is not there; NULL: all in memory. An index that does not verify is begun anew (then no pack is known).
 */
PL_MUST_CHECK
int pl_index_open(const char *dir, struct pl_index **ret, struct pl_err *err);
struct pl_index *pl_index_close(struct pl_index *ix);

/* Makes the entries of a pack visible, all at once. A pack that is known already: nothing happens. Takes entries in any order.
 * PL_ENOMEM, PL_ELIMIT; a full disk is no error until PL_INDEX_MEMORY_ENTRIES. */
PL_MUST_CHECK
int pl_index_add_pack(struct pl_index *ix, const struct pl_hash *pack, const struct pl_pack_entry *entries, size_t n,
                      struct pl_err *err);
/* Forgets a pack: its entries are not found any more. An unknown pack is fine. */
void pl_index_drop_pack(struct pl_index *ix, const struct pl_hash *pack);
bool pl_index_has_pack(struct pl_index *ix, const struct pl_hash *pack);
/* Ids of all packs known; the caller frees `*ret`. */
PL_MUST_CHECK
int pl_index_packs(struct pl_index *ix, struct pl_hash **ret, size_t *ret_n, struct pl_err *err);

/* False when it is not there. `ret` may be NULL. The newest of several. */
bool pl_index_find(struct pl_index *ix, const struct pl_hash *id, struct pl_location *ret);
/* Bit i of `ret_bitmap` (LSB first, (n + 7) / 8 bytes, all written) = ids[i] is there. */
void pl_index_find_many(struct pl_index *ix, const struct pl_hash *ids, size_t n, uint8_t *ret_bitmap);

/* Writes what is in memory as a segment now. */
PL_MUST_CHECK
int pl_index_sync(struct pl_index *ix, struct pl_err *err);

struct pl_index_stats {
    uint64_t entries; /* in memory and segments; those of forgotten packs count until a merge */
    uint64_t memory;  /* of them in memory */
    uint32_t segments;
    uint32_t packs;
};
void pl_index_stats(struct pl_index *ix, struct pl_index_stats *ret);
