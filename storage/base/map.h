/* map: byte string → pointer, open addressing, keys copied. Not thread-safe. `struct pl_map m = {0}` is empty. */
#pragma once

#include "storage/base/err.h"

struct pl_map {
    struct pl_map_slot *slots;
    size_t cap; /* power of two */
    size_t len;
    size_t dead;
};

struct pl_map_slot {
    uint8_t *key; /* NULL = free */
    size_t key_len;
    uint64_t hash;
    void *value;
    bool dead;
};

/* Calls free_value (may be NULL) on each value. */
void pl_map_finish(struct pl_map *m, void (*free_value)(void *));
/* Puts or replaces; `ret_old` (may be NULL) gets the value replaced or NULL. PL_ENOMEM. */
PL_MUST_CHECK
int pl_map_put(struct pl_map *m, const void *key, size_t key_len, void *value, void **ret_old, struct pl_err *err);
/* NULL when absent. */
void *pl_map_get(const struct pl_map *m, const void *key, size_t key_len);
/* The value removed or NULL. */
void *pl_map_remove(struct pl_map *m, const void *key, size_t key_len);
/* Visits all: `size_t i = 0; while ((s = pl_map_next(&m, &i))) …` (no put meanwhile; what is
 * visited may be removed). */
const struct pl_map_slot *pl_map_next(const struct pl_map *m, size_t *i);
