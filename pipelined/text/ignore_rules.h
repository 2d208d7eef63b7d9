/* ignore_rules: the rules of .pipelinedignore files, in the language of .gitignore (gitignore(5)).
 *
 *   # comment        a/b   a path with a slash begins at the file's folder      !x   takes files back
 *   *.log            no slash: at any depth below the file's folder             x/   folders only
 *   *  ?  [a-z]      as in globs, never a '/'        **   any number of folders          \x   x itself
 *
 * The last rule that matches decides. A path below an ignored folder is ignored whatever the rules say: callers do
 * not descend. Pure; one thread at a time. */
#pragma once

#include "storage/base/err.h"

#define PL_IGNORE_FILE       ".pipelinedignore"
#define PL_IGNORE_FILE_BYTES 65536u /* of one file */
#define PL_IGNORE_RULES_MAX  1000u  /* of all files of a code folder */

struct pl_ignore_rules;

PL_MUST_CHECK
int pl_ignore_rules_create(struct pl_ignore_rules **ret, struct pl_err *err);
struct pl_ignore_rules *pl_ignore_rules_destroy(struct pl_ignore_rules *rules);
static inline void pl_ignore_rules_destroyp(struct pl_ignore_rules **rules)
{
    *rules = pl_ignore_rules_destroy(*rules);
}

/* Adds the rules of the file in `folder` ("" = the top). They come after those of the folders above, so call it from the
 * top down. PL_EGLOB: a rule is malformed; the message names the file and the line. PL_ELIMIT: too many or too long. */
PL_MUST_CHECK
int pl_ignore_rules_add(struct pl_ignore_rules *rules, const char *folder, const char *text, size_t len, struct pl_err *err);
/* True if the file or folder at `path`, relative to the top, is ignored. */
bool pl_ignore_rules_match(const struct pl_ignore_rules *rules, const char *path, bool is_dir);
