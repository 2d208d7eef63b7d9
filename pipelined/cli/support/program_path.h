/* program_path: finds the programs that are installed in the folder of this program. */
#pragma once

#include "storage/base/err.h"
#include <limits.h>

/* Writes the path of the program `name` in this program's own folder. PL_ENOTFOUND: the folder has no such
 * program; the message has its path. */
PL_MUST_CHECK
int pl_cli_program_path(const char *name, char out[PATH_MAX], struct pl_err *err);
