/* index: finds the location of a record by its id: the first 16 bytes of the id → pack, offset, sizes. The
 * index is a cache of the packs' footers: if parts of it are lost or damaged, it is built again from the
 * footers. New entries are kept in a table in memory. At PL_INDEX_SEGMENT_ENTRIES they are written as a
 * sorted segment file, which is memory-mapped. Eight segments of one level are merged into one of the next
 * level. An entry has 32 bytes.
 *
 * Files in the index's folder (docs/format.md "Index segment"): `packs` lists the packs covered and the
 * segments that cover them; `<16 hex digits>.seg` are the segments. One process at a time per folder. Any
 * thread; lookups never wait for a write to disk. */
#pragma once

#include "storage/pack/pack_format.h"

#define PL_INDEX_SEGMENT_ENTRIES 65536u
#define PL_INDEX_FANOUT          8u
/* maximum number of entries in memory; adding more fails. Reached only if segments cannot be written */
#define PL_INDEX_MEMORY_ENTRIES (1u << 22)

struct pl_index;

/* The location of a record, and the state of its pack. */
struct pl_location {
    struct pl_hash pack; /* id of the pack */
    uint32_t pack_no;    /* number of the pack in this index, for use in caches */
    uint32_t offset;     /* offset of the record's head in the pack */
    uint32_t stored;
    uint32_t raw;
    uint8_t codec;
    uint8_t kind;
    /* the pack is hidden: a transaction that newly refers to the record must revive the pack
     * (dataset/gc/gc.h) */
    bool hidden;
    bool unread; /* the pack has PL_DOUBT_UNREAD */
};

/* Which lookups find the records of a pack. */
enum pl_pack_seen {
    PL_PACK_SHOWN,
    PL_PACK_HIDDEN, /* reads find them if no better pack has the record; pl_index_find_many does not */
    PL_PACK_DROPPED /* no lookup finds them */
};

/* Reasons why a pack's records may differ from what its footer says; 0 = the pack was verified. If several
 * packs contain a record, a lookup prefers the pack with the least doubt. Among packs with equal doubt it
 * prefers those that are not hidden, and among these the newest. */
enum pl_pack_doubt {
    /* the pack's footer was read, but its records were not verified; only the client that uploaded the pack
     * relies on it */
    PL_DOUBT_UNREAD = 1,
    PL_DOUBT_DAMAGED = 2 /* one of its records was found damaged */
};

/* Opens an index. `dir` is created if it does not exist; NULL: the index is in memory only. An index that
 * fails verification is replaced by an empty one, which knows no packs. */
PL_MUST_CHECK
int pl_index_open(const char *dir, struct pl_index **ret, struct pl_err *err);
struct pl_index *pl_index_close(struct pl_index *ix);

/* Makes all entries of a pack visible at once, as PL_PACK_SHOWN. `doubt`: 0 or flags of enum
 * pl_pack_doubt. `entries` may be in any order. Does nothing if the pack is known. PL_ENOMEM; PL_ELIMIT:
 * PL_INDEX_MEMORY_ENTRIES reached. A full disk causes no error before that. */
PL_MUST_CHECK
int pl_index_add_pack(struct pl_index *ix, const struct pl_hash *pack, const struct pl_pack_entry *entries, size_t n,
                      unsigned doubt, struct pl_err *err);
/* Drops a pack: lookups no longer find its entries. An unknown pack is ignored. */
void pl_index_drop_pack(struct pl_index *ix, const struct pl_hash *pack);
bool pl_index_has_pack(struct pl_index *ix, const struct pl_hash *pack);
/* Sets which lookups find the pack's records. Not kept after close. An unknown pack is ignored. */
void pl_index_set_seen(struct pl_index *ix, const struct pl_hash *pack, enum pl_pack_seen seen);
/* Sets or clears one doubt of a pack; the other doubts and `seen` do not change. Not kept after close. An
 * unknown pack is ignored. */
void pl_index_set_doubt(struct pl_index *ix, const struct pl_hash *pack, enum pl_pack_doubt doubt, bool on);
/* Returns the doubts of a pack, flags of enum pl_pack_doubt; 0 for none or an unknown pack. */
unsigned pl_index_doubt(struct pl_index *ix, const struct pl_hash *pack);
/* Returns the ids of all known packs that were not dropped by pl_index_drop_pack, including those set to
 * PL_PACK_DROPPED. The caller frees `*ret`. */
PL_MUST_CHECK
int pl_index_packs(struct pl_index *ix, struct pl_hash **ret, size_t *ret_n, struct pl_err *err);

/* Finds a record. If several packs have it, enum pl_pack_doubt describes which one is chosen. Returns false
 * if no pack has it. `ret` may be NULL. */
bool pl_index_find(struct pl_index *ix, const struct pl_hash *id, struct pl_location *ret);
/* Sets bit i of `ret_bitmap` (least significant bit first, (n + 7) / 8 bytes, all written) if ids[i] is in
 * a pack that is shown and not unread. `packs` (may be NULL) receives for each id the number of such a
 * pack, or UINT32_MAX. */
void pl_index_find_many(struct pl_index *ix, const struct pl_hash *ids, size_t n, uint8_t *ret_bitmap, uint32_t *packs);
/* Returns the id of the pack with this number. Numbers are valid until the index is closed. Returns false if
 * the pack was dropped. */
bool pl_index_pack_id(struct pl_index *ix, uint32_t no, struct pl_hash *ret);
/* Returns how many pack numbers have been assigned so far. A pack that is added later gets this number or a
 * higher one. */
uint32_t pl_index_pack_count(struct pl_index *ix);

/* Writes the entries in memory as a segment now, and merges segments. */
PL_MUST_CHECK
int pl_index_sync(struct pl_index *ix, struct pl_err *err);

struct pl_index_stats {
    /* number of entries, in memory and in segments; entries of dropped packs count until a merge removes
     * them */
    uint64_t entries;
    uint64_t memory; /* entries in memory only */
    uint32_t segments;
    uint32_t packs;
};
void pl_index_stats(struct pl_index *ix, struct pl_index_stats *ret);

/* ---- views ---- A view contains all entries of one moment, numbered from 0, for marks in a bitmap. It
 * contains the packs with numbers below pl_index_view_packs; entries added later are not in it. Any
 * thread. Close it before the index. */
struct pl_index_view;
PL_MUST_CHECK
int pl_index_view_open(struct pl_index *ix, struct pl_index_view **ret, struct pl_err *err);
struct pl_index_view *pl_index_view_close(struct pl_index_view *v);
uint64_t pl_index_view_entries(const struct pl_index_view *v);
uint32_t pl_index_view_packs(const struct pl_index_view *v);
/* Returns the number of the entry that pl_index_find would choose now, among the entries of the view.
 * False if the view has no entry for `id`. */
bool pl_index_view_find(const struct pl_index_view *v, const struct pl_hash *id, uint64_t *ret_number);
/* Properties of the entry `number`, which must be below pl_index_view_entries: kind of its record, number
 * of its pack, bytes of its record in the pack. */
uint8_t pl_index_view_kind_of(const struct pl_index_view *v, uint64_t number);
uint32_t pl_index_view_pack_of(const struct pl_index_view *v, uint64_t number);
uint32_t pl_index_view_bytes_of(const struct pl_index_view *v, uint64_t number);
/* Calls `fn` for every entry, in order of number. */
void pl_index_view_each(const struct pl_index_view *v, void (*fn)(void *self, uint64_t number), void *self);
