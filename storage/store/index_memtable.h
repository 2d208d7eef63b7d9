/* index_table: entries of the index that are in no segment yet, found by their keys. Not thread-safe. Bound: PL_INDEX_MEMORY_ENTRIES. */
#pragma once

#include "storage/store/index_segment.h"

/* `{0}` is empty. */
struct pl_index_memtable {
    struct pl_index_entry *entries; /* in the order they came */
    uint32_t count;
    uint32_t *slots; /* key → entry: linear probing, at most half full; equal keys have a slot each */
    uint32_t slot_count;
};

/* Room for so many more. PL_ELIMIT, PL_ENOMEM. */
PL_MUST_CHECK
int pl_index_memtable_reserve(struct pl_index_memtable *t, uint32_t more, struct pl_err *err);
/* There is room. */
void pl_index_memtable_add(struct pl_index_memtable *t, const struct pl_index_entry *e);
/* The entries with a key, one after another, NULL behind the last one; `at` is the place between two calls. */
const struct pl_index_entry *pl_index_memtable_first(const struct pl_index_memtable *t, const uint8_t key[16], uint32_t *at);
const struct pl_index_entry *pl_index_memtable_next(const struct pl_index_memtable *t, const uint8_t key[16], uint32_t *at);
/* All entries in their order; the caller frees `*ret`. PL_ENOMEM. */
PL_MUST_CHECK
int pl_index_memtable_copy(const struct pl_index_memtable *t, struct pl_index_entry **ret, struct pl_err *err);
/* The first `n` go. */
void pl_index_memtable_drop_first(struct pl_index_memtable *t, uint32_t n);
void pl_index_memtable_finish(struct pl_index_memtable *t);
