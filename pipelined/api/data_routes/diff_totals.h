/* diff_totals: counts what differs between two trees: files and bytes, and the same of each folder. */
#pragma once

#include "storage/base/effort.h"
#include "storage/tree/tree.h"
#include <jansson.h>

#define PL_DIFF_COUNTED_MAX 1000000u /* most changes that are counted */
#define PL_DIFF_FOLDERS_MAX 200u     /* most folders that are told apart; those after them are summed up */

struct pl_diff_counts {
    uint64_t added, changed, removed;   /* files and empty folders */
    uint64_t bytes_before, bytes_after; /* of the files that differ */
};

struct pl_diff_folder {
    char name[PL_SEGMENT_MAX_BYTES + 1]; /* directly below the path; "" = the files directly below it */
    struct pl_diff_counts counts;
};

struct pl_diff_totals {
    struct pl_diff_counts all;
    bool more; /* the count ended before its end: there are more changes */
    /* The folder "" comes first, the others in the order of the tree. */
    struct pl_diff_folder folders[PL_DIFF_FOLDERS_MAX];
    size_t n_folders;
    bool more_folders; /* changes are in further folders, too, and are only in `all` */
};

/* Counts the changes from one tree to the other, of the file `path` or of the files below it ("" = of all). The count ends
 * with `more` after PL_DIFF_COUNTED_MAX changes or at `until_ms` (pl_clock_mono_ms). `source` must have the nodes of both.
 * Errors of the effort, which counts the changes, and of the source. */
PL_MUST_CHECK
int pl_diff_totals_count(const struct pl_node_source *source, const struct pl_hash *before, const struct pl_hash *after,
                         const char *path, int64_t until_ms, struct pl_effort *effort, struct pl_diff_totals *ret,
                         struct pl_err *err);
/* Makes {"added", "changed", "removed", "bytes_before", "bytes_after"}; NULL without memory. */
json_t *pl_diff_counts_json(const struct pl_diff_counts *counts);
