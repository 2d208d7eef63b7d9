/* listing: what a page of a file list shows of a tree, in the tree's order, with a directory where its first file is.
 *
 *   one level (default)   files and directories right below `base`, a directory once with its sums
 *   recursive             all files below `base`
 *   glob                  what the pattern matches, files and directories
 *   glob, recursive       all files that match or lie in a directory that matches
 *
 * A page ends with a place: the last path it dealt with, a directory with '/' behind it. The next one goes on there, in any tree. */
#pragma once

#include "pipelined/text/glob.h"
#include "storage/tree/tree_walk.h"

#define PL_TREE_LISTING_VISITS_MAX 200000u    /* entries looked at for one page: then it ends, however few were found */
#define PL_LISTING_STEPS_MAX       100000000u /* of matching them with the glob (pl_glob_cost): the same */

struct pl_tree_listing_item {
    const char *path;           /* NUL-terminated, without slash at the end */
    struct pl_entry entry;      /* of a directory with something in it: kind DIR, and */
    struct pl_tree_stats stats; /* its sums */
};

struct pl_tree_listing {
    const struct pl_node_source *source;
    struct pl_hash root;
    const char *base;           /* canonical path; "" = all */
    const struct pl_glob *glob; /* over whole paths; NULL = none */
    bool recursive;
    const char *after; /* a place; NULL = from the start */
    size_t limit;
    int (*item)(void *self, const struct pl_tree_listing_item *item, struct pl_err *err);
    void *self;
};

/* Calls `item` for at most `limit` of them. 1: there may be more, from `ret_place` on; 0: that was all. PL_ENOTFOUND: there is no
 * `base`; PL_EINVAL: `after` is no place; the errors of source and callback. */
PL_MUST_CHECK
int pl_tree_listing_read(const struct pl_tree_listing *l, char ret_place[PL_PATH_MAX_BYTES + 2], struct pl_err *err);
