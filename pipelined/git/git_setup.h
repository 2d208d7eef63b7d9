/* git_setup: libgit2 without the settings of any user, and its errors. */
#pragma once

#include "storage/base/err.h"
#include <git2.h>

/* Starts libgit2; end it with git_libgit2_shutdown. No settings of the machine or of a user apply, and the owner of a
 * repository does not matter: it is only read, and nothing in it is executed. PL_EIO. */
PL_MUST_CHECK
int pl_git_setup(struct pl_err *err);
/* Sets and returns PL_EIO with libgit2's last error on this thread: "WHAT: why". */
int pl_git_fail(struct pl_err *err, const char *what);
/* Like pl_git_fail, but PL_ECORRUPT: the copy of a repository lacks something, and can be fetched anew. */
int pl_git_damaged(struct pl_err *err, const char *what);
