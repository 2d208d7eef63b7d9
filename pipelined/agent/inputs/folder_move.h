/* folder_move: puts folders in place by renames or links: exchanges two names, or moves the top-level entries of a folder that is a
 * mount point, because a mount point cannot be renamed. */
#pragma once

#include "storage/base/err.h"

/* Moves everything in the folder `from_fd` (called `shown` in messages) to `to`, an existing empty folder on
 * the same file system. Returns 1 if there was anything to move, 0 if the folder was empty. PL_EIO and other
 * codes of errno: a part may have been moved. */
PL_MUST_CHECK
int pl_folder_move(int from_fd, const char *shown, const char *to, struct pl_err *err);
/* Empties the folder `to`, which may be a mount point, and moves everything from the folder `from` into it. */
PL_MUST_CHECK
int pl_folder_refill(const char *from, const char *to, struct pl_err *err);
/* Puts `next` at the path `at`. Returns 1 if the previous content of `at` is now at `next`; 0 if `at` did not exist, or if the
 * file system cannot exchange two names: then the previous content was removed. PL_EIO. */
PL_MUST_CHECK
int pl_folder_put(const char *next, const char *at, struct pl_err *err);
/* Fills the empty folder `to` with a link to each entry of the folder `from`, which commands see at `seen`. PL_EIO and other
 * codes of errno: some may be missing. */
PL_MUST_CHECK
int pl_folder_link(const char *from, const char *seen, const char *to, struct pl_err *err);
