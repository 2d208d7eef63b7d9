/* gc_mark: marks every reachable record with one bit per entry of the index. That is all the memory it
 * uses: 12.5 MB for 100 million records, and 33 bytes per pack. For garbage collection (gc.h), and for
 * computing the size of a repo's history.
 *
 *   create ───────────▶ (read the roots) ─────▶ begin ─────────▶ record, tree, entry, pack … ──▶ finish
 *   decides which       all records that        numbers the                                      counts per
 *   packs are judged    they reach exist        entries                                          pack
 *
 * Single-threaded. A node or list that cannot be read ends the mark with its error: the records below it
 * are unknown, so no pack may be removed. */
#pragma once

#include "storage/dataset/gc/gc.h"
#include "storage/store/store.h"
#include "storage/tree/tree.h"

struct pl_gc_mark;

struct pl_gc_mark_config {
    struct pl_store *store;
    bool (*stop)(void *self); /* called before each node; true: PL_ECANCELED. May be NULL */
    void *self;
};

PL_MUST_CHECK
int pl_gc_mark_create(const struct pl_gc_mark_config *config, struct pl_gc_mark **ret, struct pl_err *err);
struct pl_gc_mark *pl_gc_mark_destroy(struct pl_gc_mark *m);
static inline void pl_gc_mark_destroyp(struct pl_gc_mark **m)
{
    *m = pl_gc_mark_destroy(*m);
}
struct pl_store *pl_gc_mark_store(const struct pl_gc_mark *m);
PL_MUST_CHECK
int pl_gc_mark_begin(struct pl_gc_mark *m, struct pl_err *err);

/* Marks only this record; an id of zeros is ignored. Returns true if it was not marked before. A missing
 * record is counted (pl_gc_mark_stats). */
bool pl_gc_mark_record(struct pl_gc_mark *m, const struct pl_hash *id);
/* Marks the chunk, or the list with its chunks, of an entry. */
PL_MUST_CHECK
int pl_gc_mark_entry(struct pl_gc_mark *m, const struct pl_entry *entry, struct pl_err *err);
/* Marks a whole tree of paths or rows; a root of zeros is the empty tree. `row` (NULL: rows refer to
 * nothing) is called for each row of a tree of rows, and marks what the row refers to with these
 * functions. PL_ENOTFOUND, PL_ECORRUPT, PL_EFORMAT, PL_ECANCELED, errors of the store. */
typedef int (*pl_gc_row_fn)(void *self, struct pl_gc_mark *m, const void *row, size_t len, struct pl_err *err);
PL_MUST_CHECK
int pl_gc_mark_tree(struct pl_gc_mark *m, const struct pl_hash *root, pl_gc_row_fn row, void *self, struct pl_err *err);
/* Marks only the nodes of a tree of paths, without the records that its entries refer to. Call it after all
 * other marks: a later pl_gc_mark_tree would not go below the nodes that this call has marked. A missing root
 * is not an error. */
PL_MUST_CHECK
int pl_gc_mark_nodes(struct pl_gc_mark *m, const struct pl_hash *root, struct pl_err *err);
/* Marks a whole pack as needed, with all its records. */
void pl_gc_mark_pack(struct pl_gc_mark *m, const struct pl_hash *pack);

struct pl_gc_mark_stats {
    /* number of nodes and records marked, and the stored size of the marked records */
    uint64_t nodes, records, bytes;
    /* number of records that a marked record refers to and that do not exist */
    uint64_t missing;
    struct pl_hash first_missing;
};
void pl_gc_mark_stats(const struct pl_gc_mark *m, struct pl_gc_mark_stats *ret);

/* The result for one pack. */
struct pl_gc_pack {
    struct pl_hash id;
    /* true if the pack existed before the oldest current hold (pl_store_hold) began. Only then can the mark
     * decide whether the pack is needed */
    bool judged;
    bool pinned;
    /* true if the pack's records had not been verified (PL_DOUBT_UNREAD) when the mark began. Such a pack
     * must not be removed before its records are verified: the mark may have counted the same records for
     * another pack, and the copies in that other pack may be damaged */
    bool unread;
    uint32_t records, live_records;
    uint64_t bytes, live_bytes; /* stored bytes of all records and of the live ones */
};
static inline bool pl_gc_pack_needed(const struct pl_gc_pack *p)
{
    return p->pinned || p->live_records > 0;
}
/* Returns the results for all packs of the view that were not dropped. The caller frees `*ret`. */
PL_MUST_CHECK
int pl_gc_mark_finish(struct pl_gc_mark *m, struct pl_gc_pack **ret, size_t *ret_n, struct pl_err *err);
/* Calls `fn` for each commit object in the store that is not marked; an object that `fn` marks before the
 * iteration reaches it is left out. `fn` may mark records. A negative result of `fn` ends the iteration and
 * is returned. */
PL_MUST_CHECK
int pl_gc_mark_dead_commits(struct pl_gc_mark *m,
                            int (*fn)(void *self, struct pl_gc_mark *m, const struct pl_hash *id, struct pl_err *err), void *self,
                            struct pl_err *err);
/* True if the record is marked and counted as live in this pack. If several packs have the record, only one
 * of them counts it. */
bool pl_gc_mark_counts(const struct pl_gc_mark *m, const struct pl_hash *id, const struct pl_hash *pack);
