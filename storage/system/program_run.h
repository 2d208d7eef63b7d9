/* program: what another program says in one line, and how it ends. */
#pragma once

#include "storage/base/err.h"

#include <stdint.h>

/* Runs argv[0] (a path) with nothing on standard input and waits for its end, at most `ms` milliseconds: then it is killed. `line` gets the
 * first line of what it says on standard output and standard error, "" for none. 0 to 255: its exit status; PL_EUNAVAILABLE when it did not
 * start, did not end by itself or took too long, which err says. Blocks; any thread. */
PL_MUST_CHECK
int pl_program_run(const char *const *argv, int64_t ms, char *line, size_t size, struct pl_err *err);
