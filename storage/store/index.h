/* index: where each record of a project is: first 16 bytes of its id → pack, offset, sizes. A cache of the packs' footers: what
 * is lost or damaged is read from them again. New entries live in a table in memory and become a sorted, mmapped segment at
 * PL_INDEX_SEGMENT_ENTRIES; eight segments of a level are merged into one of the next. 32 bytes an entry.
 *
 * Files in the index's folder (docs/format.md "Index segment"): `packs` (the packs covered and the segments that cover them) and
 * `<16 hex>.seg`. One process at a time per folder. All functions may be called from any thread; lookups never wait for a write
 * to disk. */
#pragma once

#include "storage/pack/pack_format.h"

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
    bool hidden; /* its pack is: whoever lets something new stand on it revives the pack (dataset/gc.h) */
    bool unread; /* its pack is: PL_DOUBT_UNREAD */
};

/* Who finds the records of a pack. */
enum pl_pack_seen {
    PL_PACK_SHOWN,
    PL_PACK_HIDDEN, /* those who read, when it is in no better pack; not those who ask what need not be brought */
    PL_PACK_DROPPED /* nobody */
};

/* Why what a pack holds may be other than it says; 0: it was verified. Of several packs with a record the one is taken of which the least is
 * doubted, of two such the one that is shown, of two such the newest. */
enum pl_pack_doubt {
    PL_DOUBT_UNREAD = 1, /* only its footer was read (api/read_back.h): nobody but who brought it relies on it */
    PL_DOUBT_DAMAGED = 2 /* a record in it was found damaged */
};

/* `dir` is made when it is not there; NULL: all in memory. An index that does not verify is begun anew (then no pack is known).
 */
PL_MUST_CHECK
int pl_index_open(const char *dir, struct pl_index **ret, struct pl_err *err);
struct pl_index *pl_index_close(struct pl_index *ix);

/* Makes the entries of a pack visible, all at once, shown and doubted as `doubt` (0, or of enum pl_pack_doubt) says. A pack that is known
 * already: nothing happens. Takes entries in any order. PL_ENOMEM, PL_ELIMIT; a full disk is no error until PL_INDEX_MEMORY_ENTRIES. */
PL_MUST_CHECK
int pl_index_add_pack(struct pl_index *ix, const struct pl_hash *pack, const struct pl_pack_entry *entries, size_t n,
                      unsigned doubt, struct pl_err *err);
/* Forgets a pack: its entries are not found any more. An unknown pack is fine. */
void pl_index_drop_pack(struct pl_index *ix, const struct pl_hash *pack);
bool pl_index_has_pack(struct pl_index *ix, const struct pl_hash *pack);
/* PL_PACK_SHOWN when it is added; not kept over a close. An unknown pack is fine. */
void pl_index_set_seen(struct pl_index *ix, const struct pl_hash *pack, enum pl_pack_seen seen);
/* One doubt comes or goes, whoever finds the pack; 0 when it is added unless that says otherwise; not kept over a close. An unknown pack is
 * fine. */
void pl_index_set_doubt(struct pl_index *ix, const struct pl_hash *pack, enum pl_pack_doubt doubt, bool on);
/* 0, or of enum pl_pack_doubt; of an unknown pack 0. */
unsigned pl_index_doubt(struct pl_index *ix, const struct pl_hash *pack);
/* Ids of all packs known, dropped ones too; the caller frees `*ret`. */
PL_MUST_CHECK
int pl_index_packs(struct pl_index *ix, struct pl_hash **ret, size_t *ret_n, struct pl_err *err);

/* False when it is not there. `ret` may be NULL. Which of several: enum pl_pack_doubt. */
bool pl_index_find(struct pl_index *ix, const struct pl_hash *id, struct pl_location *ret);
/* Bit i of `ret_bitmap` (LSB first, (n + 7) / 8 bytes, all written) = ids[i] is in a pack that is shown and not unread. `packs` (may
 * be NULL) gets the number of such a pack for each, UINT32_MAX where there is none. */
void pl_index_find_many(struct pl_index *ix, const struct pl_hash *ids, size_t n, uint8_t *ret_bitmap, uint32_t *packs);
/* The pack of a number, in this index's life; false for one that was forgotten. */
bool pl_index_pack_id(struct pl_index *ix, uint32_t no, struct pl_hash *ret);
/* Numbers given so far: packs that come later have this or a higher one. */
uint32_t pl_index_pack_count(struct pl_index *ix);

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

/* ---- all entries of one moment, numbered: for marks ----
 * Packs with numbers below pl_index_view_packs at that moment; entries that come later are not in it. Any thread; it outlives no index. */
struct pl_index_view;
PL_MUST_CHECK
int pl_index_view_open(struct pl_index *ix, struct pl_index_view **ret, struct pl_err *err);
struct pl_index_view *pl_index_view_close(struct pl_index_view *v);
uint64_t pl_index_view_entries(const struct pl_index_view *v);
uint32_t pl_index_view_packs(const struct pl_index_view *v);
/* The number of the entry that pl_index_find would take now, of those in the view. False when none is there. */
bool pl_index_view_find(const struct pl_index_view *v, const struct pl_hash *id, uint64_t *ret_number);
/* Of an entry below pl_index_view_entries: its pack's number, its record's bytes in the pack and kind. */
uint8_t pl_index_view_kind_of(const struct pl_index_view *v, uint64_t number);
uint32_t pl_index_view_pack_of(const struct pl_index_view *v, uint64_t number);
uint32_t pl_index_view_bytes_of(const struct pl_index_view *v, uint64_t number);
/* Calls `fn` for every entry, in order of their numbers. */
void pl_index_view_each(const struct pl_index_view *v, void (*fn)(void *self, uint64_t number), void *self);
