/* gc_mark: what is reachable, to the record: one bit for each entry of the index, and nothing else that grows (12.5 MB for 100 million
 * records, and 33 bytes a pack). For garbage collection (gc.h) and for whoever wants to know what a repo's history takes.
 *
 *   create ──▶ (the roots are read) ──▶ begin ──▶ record, tree, entry, pack … ──▶ finish
 *   which packs        all that they          what is there now has          counts of
 *   are judged         reach is there         numbers                        each pack
 *
 * One thread. A node or list that cannot be read ends the mark with that error: what lies below it is unknown, so nothing may go. */
#pragma once

#include "storage/dataset/gc/gc.h"
#include "storage/store/store.h"
#include "storage/tree/tree.h"

struct pl_gc_mark;

struct pl_gc_mark_config {
    struct pl_store *store;
    bool (*stop)(void *self); /* asked before each node; true: PL_ECANCELED. May be NULL */
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

/* The record alone; zeros are nothing. True when it had not been marked. One that is not there is counted (pl_gc_mark_stats). */
bool pl_gc_mark_record(struct pl_gc_mark *m, const struct pl_hash *id);
/* What an entry's content stands in. */
PL_MUST_CHECK
int pl_gc_mark_entry(struct pl_gc_mark *m, const struct pl_entry *entry, struct pl_err *err);
/* All of a tree of paths or rows; zeros are the empty one. `row` (NULL: rows name nothing) says what a row of a tree of rows names, by
 * calling these functions. PL_ENOTFOUND, PL_ECORRUPT, PL_EFORMAT, PL_ECANCELED, the store's errors. */
typedef int (*pl_gc_row_fn)(void *self, struct pl_gc_mark *m, const void *row, size_t len, struct pl_err *err);
PL_MUST_CHECK
int pl_gc_mark_tree(struct pl_gc_mark *m, const struct pl_hash *root, pl_gc_row_fn row, void *self, struct pl_err *err);
/* The nodes of a tree of paths, not what its entries name. Last of all: whatever else is marked afterwards is taken for done where these
 * nodes are met. One that is not there is no error. */
PL_MUST_CHECK
int pl_gc_mark_nodes(struct pl_gc_mark *m, const struct pl_hash *root, struct pl_err *err);
/* A whole pack is needed, whatever lies in it. */
void pl_gc_mark_pack(struct pl_gc_mark *m, const struct pl_hash *pack);

struct pl_gc_mark_stats {
    uint64_t nodes, records, bytes; /* marked */
    uint64_t missing;               /* records that are named and not there */
    struct pl_hash first_missing;
};
void pl_gc_mark_stats(const struct pl_gc_mark *m, struct pl_gc_mark_stats *ret);

/* One pack, as the mark found it. */
struct pl_gc_pack {
    struct pl_hash id;
    bool
        judged; /* it was there before anybody began who still has to write what stands on it; others are none of this mark's business */
    bool pinned;
    bool
        unread; /* when the mark began: it may not go before it is read, for another with the same records, which is counted, may lie */
    uint32_t records, live_records;
    uint64_t bytes, live_bytes; /* of records */
};
static inline bool pl_gc_pack_needed(const struct pl_gc_pack *p)
{
    return p->pinned || p->live_records > 0;
}
/* Those of the view that were not forgotten; the caller frees `*ret`. */
PL_MUST_CHECK
int pl_gc_mark_finish(struct pl_gc_mark *m, struct pl_gc_pack **ret, size_t *ret_n, struct pl_err *err);
/* Calls `fn` for every commit object that is there and not marked when its turn comes; it may mark. A negative result ends it. */
PL_MUST_CHECK
int pl_gc_mark_dead_commits(struct pl_gc_mark *m,
                            int (*fn)(void *self, struct pl_gc_mark *m, const struct pl_hash *id, struct pl_err *err), void *self,
                            struct pl_err *err);
/* Whether the record is marked, and counted for this pack rather than for another that has it too. */
bool pl_gc_mark_counts(const struct pl_gc_mark *m, const struct pl_hash *id, const struct pl_hash *pack);
