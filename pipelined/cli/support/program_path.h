/* beside: the programs that lie beside this one. */
#pragma once

#include "storage/base/err.h"
#include <limits.h>

/* The path of the program `name` in this program's own folder. PL_ENOTFOUND naming the path. */
PL_MUST_CHECK
int pl_cli_program_path(const char *name, char out[PATH_MAX], struct pl_err *err);
