/* early_scan: lists the files of an output folder with stat only, while the command writes to the folder. It
 * opens only folders, and never through a link, because the command may put a link in a folder's place at any
 * time. */
#pragma once

#include "storage/base/buf.h"
#include <sys/stat.h>

/* Attributes of a file, at least one of which changes with every change of the file. */
struct pl_early_scan_stamp {
    dev_t dev;
    ino_t ino;
    off_t size;
    mode_t mode;
    struct timespec mtime, ctime;
};

struct pl_early_scan_file {
    uint32_t path; /* offset in `names` of the NUL-terminated path */
    struct pl_early_scan_stamp stamp;
};

struct pl_early_scan_files {
    struct pl_buf names;
    struct pl_early_scan_file *files; /* sorted by path */
    size_t n, cap;
};

/* The first function makes the stamp of a file from its attributes; the second compares two stamps. */
struct pl_early_scan_stamp pl_early_scan_stamp_of(const struct stat *st);
bool pl_early_scan_stamp_eq(const struct pl_early_scan_stamp *a, const struct pl_early_scan_stamp *b);

/* Lists the regular files that are too large to be stored inside a tree's entry and whose names a dataset
 * allows, except metrics.jsonl. Files that disappear meanwhile are left out. PL_ELIMIT: more than `max` files
 * or folders. PL_ENOMEM. */
PL_MUST_CHECK
int pl_early_scan_folder(int out_fd, size_t max, struct pl_early_scan_files *ret, struct pl_err *err);
void pl_early_scan_files_finish(struct pl_early_scan_files *f);
