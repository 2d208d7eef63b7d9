/* program_run: runs another program and returns the first line of its output and its exit status. */
#pragma once

#include "storage/base/err.h"

#include <stdint.h>

/* Runs argv[0] (a path) with empty standard input and waits for its end; kills it after `ms` milliseconds.
 * `line` receives the first line of its standard output and standard error together; "" if there is none.
 * Returns its exit status, 0 to 255, or PL_EUNAVAILABLE with a message if it did not start, was ended by a
 * signal or took too long. Blocks; any thread. */
PL_MUST_CHECK
int pl_program_run(const char *const *argv, int64_t ms, char *line, size_t size, struct pl_err *err);
