/* output_folder: holds WORK/pfs/out open, the folder that commands write their output to. In a sandbox the
 * folder is a mount point and cannot be replaced. Without a sandbox a command may replace it by another
 * folder (rm -rf and mkdir, or mv); that folder is then used. The descriptor keeps its number when the folder
 * changes, so threads that hold the number read the new folder from then on. */
#pragma once

#include "storage/base/err.h"

#include <sys/stat.h>

struct pl_out_folder {
    char path[4200];
    int fd;      /* -1 = not open */
    mode_t mode; /* permissions that the output folder gets again before each datum */
};

/* Opens WORK/pfs/out. PL_EIO. */
PL_MUST_CHECK
int pl_out_folder_open(struct pl_out_folder *f, const char *work, struct pl_err *err);
void pl_out_folder_close(struct pl_out_folder *f);
/* Checks which folder is at the path now and, if it is another one, makes the descriptor refer to it.
 * PL_EINVAL: there is no folder at the path; the message says what the command did. PL_EIO. */
PL_MUST_CHECK
int pl_out_folder_follow(struct pl_out_folder *f, struct pl_err *err);
/* Like pl_out_folder_follow, then resets the folder's permissions. If there is no folder at the path,
 * replaces what is there by an empty folder and still returns the code and message of pl_out_folder_follow.
 * PL_EUNAVAILABLE: the folder could not be created; the worker cannot continue. */
PL_MUST_CHECK
int pl_out_folder_restore(struct pl_out_folder *f, struct pl_err *err);
