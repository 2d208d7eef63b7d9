/* error_line: the line of a command's output that says why the command failed. Pure. */
#pragma once

#include "storage/base/err.h"

struct pl_error_line {
    const char *text; /* in the output that was searched; no NUL at its end */
    size_t len;       /* without white space at either end; 0: the output has no line with a text */
    size_t number;    /* 1 = first line of the output */
};

/* Finds the line in `output`, the last part of what a command printed. The order of preference:
 *   1. the exception below the last Python traceback
 *   2. the last line with a word such as "error", "panic" or "cannot"; lines of a stack trace, which are
 *      indented, and what make says of a failed recipe only if no other line has such a word
 *   3. the last line that is not empty
 * A carriage return ends a line as a newline does: what a progress bar overwrote is a line of its own. */
struct pl_error_line pl_error_line(const char *output);
