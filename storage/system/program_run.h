/* program_run: runs another program and returns what it printed and its exit status. */
#pragma once

#include "storage/base/buf.h"
#include "storage/base/err.h"

#include <limits.h>
#include <stdint.h>
#include <sys/types.h>

/* Runs argv[0] (a path) with empty standard input and waits for its end; kills it after `ms` milliseconds.
 * `line` receives the first line of its standard output and standard error together; "" if there is none.
 * Returns its exit status, 0 to 255, or PL_EUNAVAILABLE with a message if it did not start, was ended by a
 * signal or took too long. Blocks; any thread. */
PL_MUST_CHECK
int pl_program_run(const char *const *argv, int64_t ms, char *line, size_t size, struct pl_err *err);
/* The same for a program that answers in many lines: `out` receives its standard output, `said` the beginning of
 * its standard error. argv[0] is looked up in PATH if it has no slash. Also PL_ENOMEM, PL_ETOOBIG. */
PL_MUST_CHECK
int pl_program_read(const char *const *argv, int64_t ms, struct pl_buf *out, char *said, size_t size, struct pl_err *err);
/* Makes the path of a file in the folder of the program that runs, whether there is such a file or not. */
PL_MUST_CHECK
int pl_program_folder_file(const char *name, char ret[PATH_MAX], struct pl_err *err);
/* Makes the path of a program in the folder of the one that runs. PL_ENOTFOUND: the folder has no such program. */
PL_MUST_CHECK
int pl_program_beside(const char *name, char ret[PATH_MAX], struct pl_err *err);
/* Returns the start time of a process in clock ticks since boot (proc(5), stat, field 22); 0 if it does not
 * exist. With the pid it names a process for as long as the machine runs. */
int64_t pl_program_start(pid_t pid);
