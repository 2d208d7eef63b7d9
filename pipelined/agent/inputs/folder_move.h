/* folder_move: moves everything in one folder to another by renaming its top-level entries. Used for folders
 * that are mount points, because a mount point cannot be renamed. */
#pragma once

#include "storage/base/err.h"

/* Moves everything in the folder `from_fd` (called `shown` in messages) to `to`, an existing empty folder on
 * the same file system. Returns 1 if there was anything to move, 0 if the folder was empty. PL_EIO and other
 * codes of errno: a part may have been moved. */
PL_MUST_CHECK
int pl_folder_move(int from_fd, const char *shown, const char *to, struct pl_err *err);
