/* example_folder: the examples that are part of this program, as folders to start from. */
#pragma once

#include "pipelined/cli/support/cli.h"

/* Writes the example `name` to a new folder, `folder` or one of the example's name (NULL), and prints the commands that
 * run it. Writes nothing over: PL_EEXISTS if there is something of that name. PL_EUSAGE: no such example; the error lists
 * them. PL_EIO, PL_ENOSPC: a file cannot be written; what was written stays. */
PL_MUST_CHECK
int pl_cli_example_write(const struct pl_cli *c, const char *name, const char *folder, struct pl_err *err);
