/* branch_view: a branch as clients that put single files see it: its head with the gathering commits on top,
 * the newest uppermost. A put that was acknowledged is visible whether its gathering commit is finished or
 * not. A view copies no operations.
 *
 *   get:   newest gathering commit that has the path ▷ … ▷ oldest ▷ the head's tree
 *   walk:  the least next path of all of them, and then get's answer for it
 *
 * Only one thread may use a view. Puts that are made during its life may or may not be visible. Use it on a
 * pool thread. */
#pragma once

#include "pipelined/db/open_commits/head_cache.h"
#include "pipelined/db/open_commits/open_commits.h"
#include "storage/tree/tree_walk.h"

struct pl_branch_view {
    struct pl_open_commit **opens; /* gathering commits, oldest first */
    size_t n_opens;
    struct pl_commit_row head; /* all zero if the branch has no head */
    struct pl_store *store;
    struct pl_node_source source; /* reads nodes of the head's trees */
};

/* Makes a view of a branch. `opens` NULL: without gathering commits. A branch that does not exist has no head.
 * PL_ENOTFOUND: the repo. */
PL_MUST_CHECK
int pl_branch_view_init(struct pl_head_cache *heads, struct pl_open_commits *opens, struct pl_store *store, const char *repo,
                        const char *branch, struct pl_branch_view *ret, struct pl_err *err);
/* Makes a view of one commit alone. */
void pl_branch_view_of_commit(const struct pl_commit_row *commit, struct pl_store *store, struct pl_branch_view *ret);
void pl_branch_view_finish(struct pl_branch_view *v);
/* Returns a reader for the content of files: of the files in gathering commit `open`, or, if `open` is NULL,
 * of the files in the head. */
struct pl_chunk_reader pl_branch_view_reader(const struct pl_branch_view *v, struct pl_open_commit *open);

/* A file of the view. `attributes` are as the client set them; length 0: the file has none. */
struct pl_branch_file {
    struct pl_entry entry;
    struct pl_buf attributes;
    /* the gathering commit that has the file, borrowed from the view; NULL: the head has the file */
    struct pl_open_commit *open;
};
static inline void pl_branch_file_finish(struct pl_branch_file *f)
{
    pl_buf_finish(&f->attributes);
}
/* Looks up a file. Returns 1 and the file, or 0 when the view has no such file. */
PL_MUST_CHECK
int pl_branch_view_get(const struct pl_branch_view *v, const char *path, size_t path_len, struct pl_branch_file *ret,
                       struct pl_err *err);
/* Returns 1 if a file lies in the directory of that name, else 0. */
PL_MUST_CHECK
int pl_branch_view_has_dir(const struct pl_branch_view *v, const char *path, size_t path_len, struct pl_err *err);

/* ---- walking ---- */

struct pl_branch_walk;
struct pl_branch_item {
    const char *path; /* NUL-terminated; like all fields valid until the walk's next call */
    size_t path_len;
    struct pl_branch_file file;
};

PL_MUST_CHECK
int pl_branch_walk_create(const struct pl_branch_view *v, struct pl_branch_walk **ret, struct pl_err *err);
struct pl_branch_walk *pl_branch_walk_destroy(struct pl_branch_walk *w);
static inline void pl_branch_walk_destroyp(struct pl_branch_walk **w)
{
    *w = pl_branch_walk_destroy(*w);
}
/* Moves the walk forward to the first path ≥ `path`, never back. Costs O(log n) if it skips anything. */
PL_MUST_CHECK
int pl_branch_walk_seek(struct pl_branch_walk *w, const char *path, size_t path_len, struct pl_err *err);
/* Moves to the next path. 1: `item` is the file; 0: the end. PL_BRANCH_WALK_GONE: the path was deleted, so
 * there is no item; it is reported so that the caller can count the steps of the walk. */
#define PL_BRANCH_WALK_GONE 2
PL_MUST_CHECK
int pl_branch_walk_next(struct pl_branch_walk *w, struct pl_branch_item **ret, struct pl_err *err);
