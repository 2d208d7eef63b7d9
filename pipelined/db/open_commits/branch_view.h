/* branch_view: a branch as who writes to it by single puts sees it: its head with what gathers laid upon it, the newest on top. What was
 * answered is seen, whether its commit is finished yet or not; nothing is copied or made for that.
 *
 *   get:   newest gathering commit that says something of the path ▷ … ▷ oldest ▷ the head's tree
 *   walk:  the least next path of all of them, and then get's answer for it
 *
 * A view is for one thread; what is put while it is there may be seen or not. On the pool. */
#pragma once

#include "pipelined/db/open_commits/head_cache.h"
#include "pipelined/db/open_commits/open_commits.h"
#include "storage/tree/tree_walk.h"

struct pl_branch_view {
    struct pl_open_commit **opens; /* the oldest first */
    size_t n_opens;
    struct pl_commit_row head; /* all zero without one */
    struct pl_store *store;
    struct pl_node_source source; /* of the head's trees */
};

/* `opens` NULL: without what gathers. A branch that is not there is one without a head. PL_ENOTFOUND: the repo. */
PL_MUST_CHECK
int pl_branch_view_init(struct pl_head_cache_entrys *heads, struct pl_open_commits *opens, struct pl_store *store,
                        const char *repo, const char *branch, struct pl_branch_view *ret, struct pl_err *err);
/* One commit alone. */
void pl_branch_view_of_commit(const struct pl_commit_row *commit, struct pl_store *store, struct pl_branch_view *ret);
void pl_branch_view_finish(struct pl_branch_view *v);
/* A reader of the bytes of `open`'s files, or of the head's when it is NULL. */
struct pl_chunk_reader pl_branch_view_reader(const struct pl_branch_view *v, struct pl_open_commit *open);

/* A file. `attributes` are as they were put; none: len 0. */
struct pl_branch_file {
    struct pl_entry entry;
    struct pl_buf attributes;
    struct pl_open_commit *open; /* it is in that one; borrowed from the view; NULL: in the head */
};
static inline void pl_branch_file_finish(struct pl_branch_file *f)
{
    pl_buf_finish(&f->attributes);
}
/* 1 and the file, or 0. */
PL_MUST_CHECK
int pl_branch_view_get(const struct pl_branch_view *v, const char *path, size_t path_len, struct pl_branch_file *ret,
                       struct pl_err *err);
/* Whether anything lies in the directory of that name: 1 or 0. */
PL_MUST_CHECK
int pl_branch_view_has_dir(const struct pl_branch_view *v, const char *path, size_t path_len, struct pl_err *err);

/* ---- walking ---- */

struct pl_branch_walk;
struct pl_branch_item {
    const char *path; /* NUL-terminated; the walk's, until its next call, as all else */
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
/* Next goes on with the first path ≥ this one; backwards nothing happens. Costs O(log n) where it leaves something out. */
PL_MUST_CHECK
int pl_branch_walk_seek(struct pl_branch_walk *w, const char *path, size_t path_len, struct pl_err *err);
/* 1: an item; 0: the end; 2: the next path is gone, nothing is given (so that the caller can count his steps). */
#define PL_BRANCH_WALK_GONE 2
PL_MUST_CHECK
int pl_branch_walk_next(struct pl_branch_walk *w, struct pl_branch_item **ret, struct pl_err *err);
