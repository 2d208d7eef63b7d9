/* plan_leaf (private to plan): the matches of one input, in spec order. */
#pragma once

#include "pipelined/plan/plan.h"
#include "storage/tree/tree_walk.h"

/* Memory of a plan: one limit holds for the arena and the arrays together. */
struct plan_memory {
    struct pl_arena *arena;
    size_t arrays; /* bytes of all arrays so far */
    size_t max;
};

/* Checks that `n` more bytes may be allocated. PL_ELIMIT. */
PL_MUST_CHECK
int pl_plan_memory_check(const struct plan_memory *m, size_t n, struct pl_err *err);
/* Allocates from the arena if the limit allows it. PL_ELIMIT, PL_ENOMEM. */
PL_MUST_CHECK
int pl_plan_memory_alloc(struct plan_memory *m, size_t n, void **ret, struct pl_err *err);

/* A walk over one input: its compiled patterns, and the list to which matches are added. */
struct plan_leaf_walk {
    const struct pl_plan_input *from;
    struct pl_glob *glob;
    struct pl_glob_set *files; /* globs of the input's `files`; NULL = all files count */
    struct plan_memory *memory;
    struct pl_plan_leaf *to; /* its matches are malloc'ed and belong to the plan */
    size_t cap;
    struct pl_span captures[PL_GLOB_CAPTURES_MAX]; /* captures of the match that is being added */
    /* path of the previous file, whose directories were tested */
    char before[PL_PATH_MAX_BYTES + 1];
    size_t before_len;
};

/* Open a walk, which compiles the input's patterns, and close it, which frees them. PL_EINVAL. */
PL_MUST_CHECK
int pl_plan_leaf_open(struct plan_leaf_walk *w, const struct pl_input *input, const struct pl_plan_input *from,
                      struct plan_memory *memory, struct pl_plan_leaf *to, struct pl_err *err);
void pl_plan_leaf_close(struct plan_leaf_walk *w);
/* Result of looking for a match at a path of a tree; `kind` 0 = there is no match. */
struct plan_found {
    uint8_t kind;
    struct pl_hash content;
};
/* Sets `*ret` to the match of a file if `files` selects it; to no match if not, or if the entry is NULL or a
 * directory. */
PL_MUST_CHECK
int pl_plan_leaf_file(const struct plan_leaf_walk *w, const char *path, size_t len, const struct pl_entry *entry,
                      struct plan_found *ret, struct pl_err *err);
/* Adds a match, with the captures in w->captures. */
PL_MUST_CHECK
int pl_plan_leaf_add(struct plan_leaf_walk *w, const char *path, size_t len, const struct plan_found *found, uint8_t is,
                     struct pl_err *err);
/* A pl_content_filter_fn: true if `files` selects the path; `self` is the walk. */
bool pl_plan_leaf_takes(void *self, const char *path, size_t len);
/* Adds all matches of the input's tree. */
PL_MUST_CHECK
int pl_plan_leaf_walk(struct plan_leaf_walk *w, struct pl_err *err);

/* Fills `ret` with all matches of the input; they are malloc'ed. */
PL_MUST_CHECK
int pl_plan_leaf_match(const struct pl_input *input, const struct pl_plan_input *from, struct plan_memory *memory,
                       struct pl_plan_leaf *ret, struct pl_err *err);
/* Fills `ret` with the combinations of a `params` input; they borrow the texts of the input. */
PL_MUST_CHECK
int pl_plan_leaf_params(const struct pl_input *input, struct plan_memory *memory, struct pl_plan_leaf *ret, struct pl_err *err);
/* True for a directory below the root, whose path is followed by '/' in the enumeration key. */
static inline bool pl_plan_is_folder(const struct pl_plan_match *m)
{
    return m->kind == PL_KIND_DIR && m->path_len > 0;
}
/* Compares two matches of one input by their position in spec order. */
int pl_plan_match_cmp(const struct pl_plan_match *a, const struct pl_plan_match *b);
