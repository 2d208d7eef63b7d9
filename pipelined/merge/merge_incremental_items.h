/* merge_incremental_items (private to merge_incremental): lists for an incremental merge. They hold the
 * outputs of changed datums by path, the directories that these outputs may turn into empty directories of
 * the output tree or back, and tree operations. */
#pragma once

#include "pipelined/plan/datum_table.h"
#include "storage/base/arena.h"
#include "storage/tree_edit/tree_edit.h"

/* Memory for the lists: one limit for the arena and the arrays together. */
struct carry_memory {
    /* bytes of the arrays, and the limit */
    struct pl_arena *arena;
    size_t arrays, max;
};

/* An enumeration key, which identifies a datum. */
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
    const uint8_t *entry; /* encoded entry; its first byte is its kind */
    struct carry_key key;
    uint16_t path_len, entry_len;
};

/* A list of outputs; zero-initialised it is empty. */
struct carry_items {
    struct carry_item *items;
    size_t n, cap;
};

static inline bool pl_merge_incremental_item_is_dir(const struct carry_item *item)
{
    return item->entry[0] == PL_KIND_DIR;
}
/* Adds an output. Copies path and entry; the key must be in the arena. PL_ELIMIT, PL_ENOMEM. */
PL_MUST_CHECK
int pl_merge_incremental_items_add(struct carry_items *to, struct carry_memory *m, const struct carry_key *key,
                                   const struct pl_buf *path, const struct pl_buf *entry, struct pl_err *err);
/* Sorts by path, then by key. The functions below need a sorted list. */
void pl_merge_incremental_items_sort(struct carry_items *items);
/* True if the list has a file with that path. */
bool pl_merge_incremental_items_has_file(const struct carry_items *items, const char *path, size_t len);
/* True if the list has an item with that path and datum. */
bool pl_merge_incremental_items_has(const struct carry_items *items, const char *path, size_t len, const struct carry_key *key);
/* Returns the empty directory with that path and the lowest key, or NULL. */
const struct carry_item *pl_merge_incremental_items_dir(const struct carry_items *items, const char *path, size_t len);
/* True if the list has a file whose path starts with `prefix`. */
bool pl_merge_incremental_items_file_below(const struct carry_items *items, const char *prefix, size_t len);

/* A directory that was an empty directory of the output, or may become one. */
struct carry_dir {
    const char *path; /* borrowed from an item */
    uint16_t path_len;
    bool alive; /* the directory is in the new output, as an empty directory */
};

struct carry_dirs {
    struct carry_dir *items; /* sorted by path */
    size_t n, cap;
};

/* Fills `d` with the paths of both lists and all directories above those paths, each once, sorted.
 * PL_ELIMIT, PL_ENOMEM. */
PL_MUST_CHECK
int pl_merge_incremental_dirs_of(struct carry_dirs *d, struct carry_memory *m, const struct carry_items *old,
                                 const struct carry_items *now, struct pl_err *err);
/* Finds a directory by its path; NULL = not found. */
const struct carry_dir *pl_merge_incremental_dirs_find(const struct carry_dirs *d, const char *path, size_t len);
/* True if the list has a directory with `alive` set whose path starts with `prefix`. */
bool pl_merge_incremental_dirs_alive_below(const struct carry_dirs *d, const char *prefix, size_t len);

/* Operations on one tree, in any order. */
struct carry_ops {
    struct pl_tree_op *ops;
    size_t n, cap;
};

/* Adds an operation. Copies the key, and the bytes of a row. `entry` is used only for PL_TREE_PUT. PL_ELIMIT,
 * PL_ENOMEM. */
PL_MUST_CHECK
int pl_merge_incremental_ops_add(struct carry_ops *to, struct carry_memory *m, uint8_t op, const void *key, size_t len,
                                 const struct pl_entry *entry, struct pl_err *err);
/* Sorts the operations. Of several operations with one key only one is kept, a PUT if there is one. */
void pl_merge_incremental_ops_settle(struct carry_ops *ops);
