/* out_walk: the files, links and empty folders below an output folder, sorted as a tree is. Refuses what no dataset can hold, naming it.
 * Folders and files that the command left unreadable are opened up first: they are ours. The command may change the folder meanwhile: nothing
 * outside it is read or changed for that. */
#pragma once

#include "storage/base/buf.h"
#include <sys/types.h>

struct pl_out_item {
    uint32_t path; /* offset in names, NUL-terminated */
    uint32_t text; /* of a link: offset of its text */
    uint64_t size; /* of a file */
    mode_t mode;   /* S_ISREG, S_ISLNK or S_ISDIR (an empty folder) */
};

struct pl_out_walk {
    struct pl_buf names;
    struct pl_out_item *items;
    size_t n, cap;
    size_t n_files, n_links;
    uint64_t bytes; /* of all files */
};

/* Reads the open folder `out_fd`, which stays open; messages call it `shown`. PL_EINVAL, PL_EPATH, PL_ELIMIT (more than `max` items), PL_EIO. */
PL_MUST_CHECK
int pl_out_walk(int out_fd, const char *shown, size_t max, struct pl_out_walk *ret, struct pl_err *err);
void pl_out_walk_finish(struct pl_out_walk *w);
static inline const char *pl_out_path(const struct pl_out_walk *w, const struct pl_out_item *item)
{
    return (const char *)w->names.data + item->path;
}
