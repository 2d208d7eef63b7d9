/* local_space: refuses to write files that do not fit on a disk of this machine, before the first one is written. */
#pragma once

#include "storage/base/err.h"

/* Checks that the disk of `folder` has `bytes` free for this user; a folder that does not exist yet is on the disk of the
 * nearest one above it. `freed`: what goes away meanwhile, such as files that are replaced; asked only if the disk has too
 * little, because it may have to look at many files; NULL = nothing. PL_ENOSPC names the folder, what is needed and what is
 * free. A filesystem that does not tell its size is not checked. */
PL_MUST_CHECK
int pl_local_space_check(const char *folder, uint64_t files, uint64_t bytes, uint64_t (*freed)(void *self), void *self,
                         struct pl_err *err);
