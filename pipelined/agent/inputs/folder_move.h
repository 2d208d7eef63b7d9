/* folder_move: moves all that lies in one folder to another, by renames of what lies at its top: for folders that are mount points and cannot be
 * renamed themselves. */
#pragma once

#include "storage/base/err.h"

/* Moves all of the folder `from_fd` ("shown" in messages) to the folder `to`, which is there and empty, on the same file system. 1: something
 * lay there. 0: nothing did. PL_EIO: some of it may have been moved. */
PL_MUST_CHECK
int pl_folder_move(int from_fd, const char *shown, const char *to, struct pl_err *err);
