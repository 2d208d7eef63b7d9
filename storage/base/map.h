/* map: hash map from byte strings to pointers, with open addressing. Keys are copied, values belong to the
 * caller. Not thread-safe. `struct pl_map m = {0}` is empty. */
#pragma once

#include "storage/base/err.h"

struct pl_map {
    struct pl_map_slot *slots;
    size_t cap;  /* number of slots: 0 or a power of two */
    size_t len;  /* entries */
    size_t dead; /* slots of removed entries */
};

struct pl_map_slot {
    uint8_t *key; /* copy of the key with a NUL at its end; NULL = free slot */
    size_t key_len;
    uint64_t hash;
    void *value;
    bool dead; /* the entry was removed; a search continues past the slot */
};

/* Frees the map, which is empty afterwards, and calls free_value (may be NULL) on each value. */
void pl_map_finish(struct pl_map *m, void (*free_value)(void *));
/* Adds the key or replaces its value. `ret_old` (may be NULL) receives the replaced value, or NULL if there
 * was none. PL_ENOMEM. */
PL_MUST_CHECK
int pl_map_put(struct pl_map *m, const void *key, size_t key_len, void *value, void **ret_old, struct pl_err *err);
/* Returns the value; NULL if the key is absent. */
void *pl_map_get(const struct pl_map *m, const void *key, size_t key_len);
/* Removes the key and returns its value; NULL if it is absent. */
void *pl_map_remove(struct pl_map *m, const void *key, size_t key_len);
/* Iterates over all entries in no particular order: `size_t i = 0; while ((s = pl_map_next(&m, &i))) …`. The
 * loop must not add entries; it may remove the current one. */
const struct pl_map_slot *pl_map_next(const struct pl_map *m, size_t *i);
