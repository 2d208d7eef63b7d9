/* carry_items (private to carry): outputs of touched datums by path, the directories that these may settle or unsettle, and operations
 * as they come together. */
#pragma once

#include "pipelined/plan/datum_table.h"
#include "storage/base/arena.h"
#include "storage/tree_edit/tree_edit.h"

/* One bound over the arena and the arrays. */
struct carry_memory {
    struct pl_arena *arena;
    size_t arrays, max;
};

/* An enumeration key. */
struct carry_key {
    const uint8_t *bytes;
    size_t len;
};

/* Copies the key's bytes into the arena. PL_ELIMIT, PL_ENOMEM. */
PL_MUST_CHECK
int pl_merge_incremental_key_keep(struct carry_memory *m, struct carry_key *key, struct pl_err *err);

/* One output of one datum. */
struct carry_item {
    const char *path;
    const uint8_t *entry; /* encoded; its first byte is its kind */
    struct carry_key key;
    uint16_t path_len, entry_len;
};

/* `struct carry_items i = {0}` is empty. */
struct carry_items {
    struct carry_item *items;
    size_t n, cap;
};

static inline bool pl_merge_incremental_item_is_dir(const struct carry_item *item)
{
    return item->entry[0] == PL_KIND_DIR;
}
/* Copies path and entry; the key is the arena's. PL_ELIMIT, PL_ENOMEM. */
PL_MUST_CHECK
int pl_merge_incremental_items_add(struct carry_items *to, struct carry_memory *m, const struct carry_key *key,
                                   const struct pl_buf *path, const struct pl_buf *entry, struct pl_err *err);
/* By path, then key. What follows wants it sorted. */
void pl_merge_incremental_items_sort(struct carry_items *items);
bool pl_merge_incremental_items_has_file(const struct carry_items *items, const char *path, size_t len);
/* The item of that path and datum. */
bool pl_merge_incremental_items_has(const struct carry_items *items, const char *path, size_t len, const struct carry_key *key);
/* The empty directory by the lowest key, or NULL. */
const struct carry_item *pl_merge_incremental_items_dir(const struct carry_items *items, const char *path, size_t len);
/* A file whose path starts with `prefix`? */
bool pl_merge_incremental_items_file_below(const struct carry_items *items, const char *prefix, size_t len);

/* A directory that was or could be empty. */
struct carry_dir {
    const char *path; /* borrowed of an item */
    uint16_t path_len;
    bool alive; /* in the output, as an empty one */
};

struct carry_dirs {
    struct carry_dir *items; /* by path */
    size_t n, cap;
};

/* The paths of both lists and all above them, each once, sorted. */
PL_MUST_CHECK
int pl_merge_incremental_dirs_of(struct carry_dirs *d, struct carry_memory *m, const struct carry_items *old,
                                 const struct carry_items *now, struct pl_err *err);
const struct carry_dir *pl_merge_incremental_dirs_find(const struct carry_dirs *d, const char *path, size_t len);
/* One that is alive and starts with `prefix`? */
bool pl_merge_incremental_dirs_alive_below(const struct carry_dirs *d, const char *prefix, size_t len);

/* Operations of one tree, in any order. */
struct carry_ops {
    struct pl_tree_op *ops;
    size_t n, cap;
};

/* Copies the key, and a row's bytes. `entry` counts with PL_TREE_PUT. PL_ELIMIT, PL_ENOMEM. */
PL_MUST_CHECK
int pl_merge_incremental_ops_add(struct carry_ops *to, struct carry_memory *m, uint8_t op, const void *key, size_t len,
                                 const struct pl_entry *entry, struct pl_err *err);
/* Sorts them; of several for one key a PUT stays. */
void pl_merge_incremental_ops_settle(struct carry_ops *ops);
