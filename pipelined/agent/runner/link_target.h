/* link_target: where a symbolic link that a command left in its output folder leads, judged by its text alone (pure). The entry it
 * becomes is looked up in the inputs' trees, never through the file system: nothing outside can be reached.
 *
 *   kept       relative, and stays within the output folder             → a link of the output
 *              absolute, into the output folder                         → the same, made relative
 *   input      into an input of the datum                               → its entries by reference, no bytes
 *   elsewhere  anything else                                            → the datum fails, naming the link */
#pragma once

#include "storage/base/err.h"

enum pl_link_where { PL_LINK_WITHIN, PL_LINK_INPUT, PL_LINK_ELSEWHERE };

struct pl_link_target {
    enum pl_link_where where;
    char input[64];  /* INPUT: its name */
    char path[4096]; /* INPUT: path below it, "" = the input itself; WITHIN: the text of the link to keep */
};

/* `path`: of the link below the output folder, `text`: what readlink gave, `pfs`: the folder of the inputs as the command saw it
 * ("/pfs"), of which "out" is the output. Dots are resolved by text; a link through another link counts as what it says. */
void pl_link_target_find(const char *path, const char *text, const char *pfs, struct pl_link_target *ret);
