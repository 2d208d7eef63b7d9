/* output_walk: lists the files, links and empty folders below an output folder, sorted in the order of a
 * tree. Refuses entries that no dataset can hold; the message names the path. If the command left folders or
 * files unreadable, makes them readable; the agent may do so because it owns them. The command may change
 * the folder during the walk; even then nothing outside the folder is read or changed. */
#pragma once

#include "storage/base/buf.h"
#include <sys/types.h>

struct pl_out_item {
    uint32_t path; /* offset in `names` of the item's NUL-terminated path */
    uint32_t text; /* for a link: offset in `names` of its target text */
    uint64_t size; /* for a file: its size in bytes */
    mode_t mode;   /* S_ISREG, S_ISLNK, or S_ISDIR for an empty folder */
};

struct pl_out_walk {
    struct pl_buf names;
    struct pl_out_item *items;
    size_t n, cap;
    size_t n_files, n_links;
    uint64_t bytes; /* total size of all files */
};

/* Lists the open folder `out_fd`, which stays open; messages call it `shown`. PL_EINVAL, PL_EPATH, PL_ELIMIT
 * (more than `max` items), PL_EIO. */
PL_MUST_CHECK
int pl_out_walk(int out_fd, const char *shown, size_t max, struct pl_out_walk *ret, struct pl_err *err);
void pl_out_walk_finish(struct pl_out_walk *w);
static inline const char *pl_out_path(const struct pl_out_walk *w, const struct pl_out_item *item)
{
    return (const char *)w->names.data + item->path;
}
