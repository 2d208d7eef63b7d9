/* change_list: changes of the keys of one level, in memory: an array and one block of bytes. Internal to storage/tree. */
#pragma once

#include "storage/tree/level_writer.h"

#define PL_CHANGE_LIST_MAX_BYTES (1u << 30)

enum pl_change_type { PL_CHANGE_DROP, PL_CHANGE_DROP_PREFIX, PL_CHANGE_PUT };

/* DROP: the key, absent is fine; DROP_PREFIX: all keys that start with it. A PUT of a key that is dropped as well stays. */
struct pl_change {
    enum pl_change_type type;
    struct pl_level_item item; /* value and stats for PUT; the value of a DROP may say what is dropped (settle) */
};

struct pl_change_slot {
    enum pl_change_type type;
    uint32_t key_len;
    uint32_t value_len;
    size_t at; /* of the key in bytes; the value follows it */
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
/* Copies key and value. PL_ENOMEM, PL_ETOOBIG past PL_CHANGE_LIST_MAX_BYTES. */
PL_MUST_CHECK
int pl_change_list_add(struct pl_change_list *l, const struct pl_change *change, struct pl_err *err);
/* Sorts by key, then DROP before DROP_PREFIX before PUT, and cancels a DROP with the PUT that puts back what it drops. */
void pl_change_list_settle(struct pl_change_list *l);
/* The ith change, in the list's memory. */
struct pl_change pl_change_list_get(const struct pl_change_list *l, size_t i);
