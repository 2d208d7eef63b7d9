/* link_target: where a symbolic link that a command left in its output folder leads, decided by its text
 * alone (a pure function). The target is then looked up in the trees of the inputs, never through the file
 * system, so that nothing outside can be reached.
 *
 *   within     relative, and stays within the output folder   → kept as it is
 *              absolute, into the output folder               → kept, made relative
 *   input      into an input of the datum                     → stored as the input's entries, by reference
 *   elsewhere  anything else                                  → the datum fails, naming the link */
#pragma once

#include "storage/base/err.h"

enum pl_link_where { PL_LINK_WITHIN, PL_LINK_INPUT, PL_LINK_ELSEWHERE };

struct pl_link_target {
    enum pl_link_where where;
    char input[64]; /* for INPUT: name of the input */
    /* for INPUT: path below it, "" = the whole input; for WITHIN: text of the link to keep */
    char path[4096];
};

/* Finds the target of a link. `path`: the link's path below the output folder. `text`: the result of
 * readlink. `pfs`: the folder of the inputs as the command saw it ("/pfs"); its subfolder "out" is the
 * output folder. "." and ".." are resolved by text only. If a folder in the text is itself a link, it is
 * treated as a real folder. */
void pl_link_target_find(const char *path, const char *text, const char *pfs, struct pl_link_target *ret);
