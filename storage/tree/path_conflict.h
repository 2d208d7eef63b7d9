/* names: what paths in one tree mean for each other: a file has nothing below it. Internal to storage/tree. */
#pragma once

#include "storage/tree/tree_node.h"

/* A key fit for the kind of tree: pl_path_check, or 1..PL_ROW_KEY_MAX_BYTES bytes of a row. PL_EPATH, PL_EINVAL. */
PL_MUST_CHECK
int pl_path_conflict_check_key(uint8_t tree, const char *key, size_t key_len, struct pl_err *err);
/* PL_ECOLLISION with both paths: `file` and `below`, which lies below it. */
int pl_path_conflict_collision(struct pl_err *err, const char *file, size_t file_len, const char *below, size_t below_len);
/* PL_EINVAL with both paths. */
int pl_path_conflict_disorder(struct pl_err *err, const char *first, size_t first_len, const char *second, size_t second_len);

/* trail: walks along ascending paths and knows which of them the current one starts with, hence which are files that it would lie
 * below: between "a" and "a/b" may stand "a-x", "a.b" and any number more. Paths only, no rows. */
struct pl_path_conflict_step {
    uint32_t len; /* the step is this much of the current path */
    uint32_t tag; /* the caller's */
};
struct pl_path_conflict_trail {
    struct pl_buf path;
    uint32_t n;
    struct pl_path_conflict_step step[PL_PATH_MAX_BYTES];
};

void pl_path_conflict_trail_finish(struct pl_path_conflict_trail *t);
/* Goes on to `path`, greater than the one before: forgets the steps that it does not start with. */
PL_MUST_CHECK
int pl_path_conflict_trail_go(struct pl_path_conflict_trail *t, const char *path, size_t path_len, struct pl_err *err);
/* Makes the current path a step. */
void pl_path_conflict_trail_mark(struct pl_path_conflict_trail *t, uint32_t tag);
/* The next step above the current path as directory is above file: `*i` starts at 0; NULL at the end. */
const struct pl_path_conflict_step *pl_path_conflict_trail_above(const struct pl_path_conflict_trail *t, uint32_t *i);
