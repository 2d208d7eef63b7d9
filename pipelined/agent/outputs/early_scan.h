/* early_walk: what lies in an output folder while the command writes to it, by stat alone. Nothing there is opened but folders, none
 * through a link: the command may put a link in a folder's place at any time. */
#pragma once

#include "storage/base/buf.h"
#include <sys/stat.h>

/* What changes with every change of a file. */
struct pl_early_scan_stamp {
    dev_t dev;
    ino_t ino;
    off_t size;
    mode_t mode;
    struct timespec mtime, ctime;
};

struct pl_early_scan_file {
    uint32_t path; /* offset in names, NUL-terminated */
    struct pl_early_scan_stamp stamp;
};

struct pl_early_scan_files {
    struct pl_buf names;
    struct pl_early_scan_file *files; /* sorted by path */
    size_t n, cap;
};

struct pl_early_scan_stamp pl_early_scan_stamp_of(const struct stat *st);
bool pl_early_scan_stamp_eq(const struct pl_early_scan_stamp *a, const struct pl_early_scan_stamp *b);

/* Regular files that do not fit into a tree's entry, with names that a dataset can hold, metrics.jsonl excepted. What vanishes meanwhile is left out.
 * PL_ELIMIT: more than `max` files or folders. PL_ENOMEM. */
PL_MUST_CHECK
int pl_early_scan_folder(int out_fd, size_t max, struct pl_early_scan_files *ret, struct pl_err *err);
void pl_early_scan_files_finish(struct pl_early_scan_files *f);
