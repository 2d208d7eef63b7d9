/* path_conflict: finds paths that cannot be in the same tree: a file has no paths below it. Used by this
 * room and storage/tree_edit. */
#pragma once

#include "storage/tree/tree_node.h"

/* Checks that a key is valid for the kind of tree: pl_path_check for paths, 1..PL_ROW_KEY_MAX_BYTES bytes
 * for rows. PL_EPATH, PL_EINVAL. */
PL_MUST_CHECK
int pl_path_conflict_check_key(uint8_t tree, const char *key, size_t key_len, struct pl_err *err);
/* Sets and returns PL_ECOLLISION. The message names both paths: `file`, and `below`, a path inside it. */
int pl_path_conflict_collision(struct pl_err *err, const char *file, size_t file_len, const char *below, size_t below_len);
/* Sets and returns PL_EINVAL. The message names both paths: `second` was given after `first` but is not
 * greater. */
int pl_path_conflict_disorder(struct pl_err *err, const char *first, size_t first_len, const char *second, size_t second_len);

/* A trail follows ascending paths and remembers which of them are prefixes of the current path. This detects
 * a file "a" when the path "a/b" is added, even if other paths such as "a-x" or "a.b" were added between the
 * two. For paths only, not for rows. */
struct pl_path_conflict_step {
    uint32_t len; /* length of the step: a prefix of the current path */
    uint32_t tag; /* value that the caller attached to the step */
};
struct pl_path_conflict_trail {
    struct pl_buf path;
    uint32_t n;
    struct pl_path_conflict_step step[PL_PATH_MAX_BYTES];
};

void pl_path_conflict_trail_finish(struct pl_path_conflict_trail *t);
/* Moves to `path`, which must be greater than the one before, and forgets the steps that are not prefixes
 * of it. PL_ENOMEM. */
PL_MUST_CHECK
int pl_path_conflict_trail_go(struct pl_path_conflict_trail *t, const char *path, size_t path_len, struct pl_err *err);
/* Remembers the current path as a step, with the caller's `tag`. */
void pl_path_conflict_trail_mark(struct pl_path_conflict_trail *t, uint32_t tag);
/* Returns the next step that is a parent directory of the current path; NULL after the last one. `*i`
 * starts at 0. */
const struct pl_path_conflict_step *pl_path_conflict_trail_above(const struct pl_path_conflict_trail *t, uint32_t *i);
