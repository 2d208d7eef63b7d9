/* plan_leaf (private to plan): the matches of one input, in spec order. */
#pragma once

#include "pipelined/plan/plan.h"
#include "storage/tree/tree_walk.h"

/* Memory of a plan: one bound over the arena and the arrays. */
struct plan_memory {
    struct pl_arena *arena;
    size_t arrays; /* bytes of the arrays so far */
    size_t max;
};

/* `n` more bytes of arrays or arena? PL_ELIMIT. */
PL_MUST_CHECK
int pl_plan_memory_check(const struct plan_memory *m, size_t n, struct pl_err *err);
/* From the arena. PL_ELIMIT, PL_ENOMEM. */
PL_MUST_CHECK
int pl_plan_memory_alloc(struct plan_memory *m, size_t n, void **ret, struct pl_err *err);

/* One input that is matched: its patterns compiled, and where the matches go. */
struct plan_leaf_walk {
    const struct pl_plan_input *from;
    struct pl_glob *glob;
    struct pl_glob_set *files; /* NULL: all */
    struct plan_memory *memory;
    struct pl_plan_leaf *to; /* matches malloc'ed: the plan's */
    size_t cap;
    struct pl_span captures[PL_GLOB_CAPTURES_MAX]; /* of the match being added */
    char before[PL_PATH_MAX_BYTES + 1];            /* the path before: its directories were tested */
    size_t before_len;
};

PL_MUST_CHECK
int pl_plan_leaf_open(struct plan_leaf_walk *w, const struct pl_input *input, const struct pl_plan_input *from,
                      struct plan_memory *memory, struct pl_plan_leaf *to, struct pl_err *err);
void pl_plan_leaf_close(struct plan_leaf_walk *w);
/* What is there at a path, as a match; `kind` 0: nothing. */
struct plan_found {
    uint8_t kind;
    struct pl_hash content;
};
/* The file (entry NULL or of another kind: none), when `files` takes it. */
PL_MUST_CHECK
int pl_plan_leaf_file(const struct plan_leaf_walk *w, const char *path, size_t len, const struct pl_entry *entry,
                      struct plan_found *ret, struct pl_err *err);
/* Adds a match with w->captures. */
PL_MUST_CHECK
int pl_plan_leaf_add(struct plan_leaf_walk *w, const char *path, size_t len, const struct plan_found *found, uint8_t is,
                     struct pl_err *err);
/* pl_content_filter_fn; self is the walk. */
bool pl_plan_leaf_takes(void *self, const char *path, size_t len);
/* All matches of the input's tree. */
PL_MUST_CHECK
int pl_plan_leaf_walk(struct plan_leaf_walk *w, struct pl_err *err);

/* Fills `ret` (matches malloc'ed). */
PL_MUST_CHECK
int pl_plan_leaf_match(const struct pl_input *input, const struct pl_plan_input *from, struct plan_memory *memory,
                       struct pl_plan_leaf *ret, struct pl_err *err);
/* The combinations of a `params` input; texts are the input's. */
PL_MUST_CHECK
int pl_plan_leaf_params(const struct pl_input *input, struct plan_memory *memory, struct pl_plan_leaf *ret, struct pl_err *err);
/* A directory below the root, whose path has a '/' after it in the enumeration key. */
static inline bool pl_plan_is_folder(const struct pl_plan_match *m)
{
    return m->kind == PL_KIND_DIR && m->path_len > 0;
}
/* The order of matches of one input. */
int pl_plan_match_cmp(const struct pl_plan_match *a, const struct pl_plan_match *b);
