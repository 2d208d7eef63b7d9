/* change_list: changes of keys of one level of a tree, in memory: an array, and one block of bytes for
 * keys and values. Used only in this room. */
#pragma once

#include "storage/tree/level_writer.h"

#define PL_CHANGE_LIST_MAX_BYTES (1u << 30)

enum pl_change_type { PL_CHANGE_DROP, PL_CHANGE_DROP_PREFIX, PL_CHANGE_PUT };

/* A change. DROP removes a key, which need not exist. DROP_PREFIX removes all keys that start with the
 * key. A PUT of a key stays even if the same key is also dropped. */
struct pl_change {
    enum pl_change_type type;
    /* PUT: key, value and stats. DROP: the key; the value is optional, and if set it is the value of the
     * dropped entry, so that pl_change_list_settle can compare it */
    struct pl_level_item item;
};

struct pl_change_slot {
    enum pl_change_type type;
    uint32_t key_len;
    uint32_t value_len;
    size_t at; /* offset of the key in `bytes`; the value follows it */
    struct pl_tree_stats stats;
};

/* `struct pl_change_list l = {0}` is empty. */
struct pl_change_list {
    struct pl_change_slot *slots;
    size_t n;
    size_t cap;
    struct pl_buf bytes;
};

void pl_change_list_finish(struct pl_change_list *l);
/* Appends a change; copies key and value. PL_ENOMEM; PL_ETOOBIG: more than PL_CHANGE_LIST_MAX_BYTES. */
PL_MUST_CHECK
int pl_change_list_add(struct pl_change_list *l, const struct pl_change *change, struct pl_err *err);
/* Sorts by key, then DROP before DROP_PREFIX before PUT. Removes pairs of a DROP and a PUT that puts the
 * same value back. */
void pl_change_list_settle(struct pl_change_list *l);
/* Returns change `i`; its key and value are in the list's memory. */
struct pl_change pl_change_list_get(const struct pl_change_list *l, size_t i);
