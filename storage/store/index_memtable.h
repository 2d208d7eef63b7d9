/* index_memtable: index entries that have not been written to a segment yet; they can be looked up by key.
 * Not thread-safe. Bound: PL_INDEX_MEMORY_ENTRIES. */
#pragma once

#include "storage/store/index_segment.h"

/* `{0}` is an empty table. */
struct pl_index_memtable {
    struct pl_index_entry *entries; /* in the order in which they were added */
    uint32_t count;
    /* hash table, key → number of the entry: linear probing, at most half full; each of several equal keys
     * has its own slot */
    uint32_t *slots;
    uint32_t slot_count;
};

/* Makes space for `more` entries. PL_ELIMIT, PL_ENOMEM. */
PL_MUST_CHECK
int pl_index_memtable_reserve(struct pl_index_memtable *t, uint32_t more, struct pl_err *err);
/* Adds an entry, for which space was reserved. */
void pl_index_memtable_add(struct pl_index_memtable *t, const struct pl_index_entry *e);
/* Iterate over the entries with a key; NULL after the last one. `at` holds the position between the calls. */
const struct pl_index_entry *pl_index_memtable_first(const struct pl_index_memtable *t, const uint8_t key[16], uint32_t *at);
const struct pl_index_entry *pl_index_memtable_next(const struct pl_index_memtable *t, const uint8_t key[16], uint32_t *at);
/* Copies all entries in the order in which they were added; the caller frees `*ret`. PL_ENOMEM. */
PL_MUST_CHECK
int pl_index_memtable_copy(const struct pl_index_memtable *t, struct pl_index_entry **ret, struct pl_err *err);
/* Removes the first `n` entries. */
void pl_index_memtable_drop_first(struct pl_index_memtable *t, uint32_t n);
void pl_index_memtable_finish(struct pl_index_memtable *t);
