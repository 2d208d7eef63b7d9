/* tree_listing: one page of a file list of a tree, in the tree's order; a directory is listed at the position
 * of its first file.
 *
 *   one level (default)   files and directories directly below `base`; a directory once, with its totals
 *   recursive             all files below `base`
 *   glob                  files and directories that match the pattern
 *   glob, recursive       files that match, or that are in a directory that matches
 *   find                  files and directories below `base` whose own name has the text; case does not count
 *
 * Each page returns a page cursor (`ret_place`): the last path that was handled, with a final '/' for a
 * directory. The next page continues after this path, even in another tree. */
#pragma once

#include "pipelined/text/glob.h"
#include "storage/tree/tree_walk.h"

/* largest number of entries examined for one page; the page then ends, even if few entries were listed */
#define PL_TREE_LISTING_VISITS_MAX 200000u
/* largest cost of matching paths with the glob (pl_glob_cost) for one page; the page then ends too */
#define PL_LISTING_STEPS_MAX 100000000u

struct pl_tree_listing_item {
    const char *path;           /* NUL-terminated, without a final slash */
    struct pl_entry entry;      /* kind DIR for a directory */
    struct pl_tree_stats stats; /* totals of a directory that is not empty */
};

struct pl_tree_listing {
    const struct pl_node_source *source;
    struct pl_hash root;
    const char *base;           /* canonical path; "" = the whole tree */
    const struct pl_glob *glob; /* matched against whole paths; NULL = none */
    bool recursive;
    /* text in lower case that the name of a file or directory must have; NULL = any; without `glob` and `recursive` */
    const char *find;
    int64_t until_ms;  /* end the page at this time (pl_clock_mono_ms); 0 = no such limit */
    const char *after; /* page cursor that the previous page returned; NULL = from the start */
    size_t limit;
    int (*item)(void *self, const struct pl_tree_listing_item *item, struct pl_err *err);
    void *self;
};

/* Calls `item` for at most `limit` entries and counts in `ret_visits`, which may be NULL, how many entries it looked at. Returns 1 if there may be more entries, after the page cursor
 * `ret_place`; 0 if the list is complete. PL_ENOTFOUND: `base` does not exist; PL_EINVAL: `after` is not a
 * page cursor; errors of `source` and `item`. */
PL_MUST_CHECK
int pl_tree_listing_read(const struct pl_tree_listing *l, char ret_place[PL_PATH_MAX_BYTES + 2], unsigned *ret_visits,
                         struct pl_err *err);
