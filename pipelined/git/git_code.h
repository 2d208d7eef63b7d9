/* git_code: what git knows about a code folder, through libgit2. It runs in a process of its own (pl-git): the
 * daemon and other programs start it and read JSON, so that libgit2 is neither in their memory nor in their
 * start-up time.
 *
 *   pl-git code FOLDER → {"git": {"head", "dirty", "path"} | null, "ignored": ["build", "a/b.pyc"]}     exit 0
 *                        {"error": "…"}                                                                 exit 1
 *
 * The ignore rules are those of .gitignore files (from the repository's root down; of the folder alone without a
 * repository) and of the repository's info/exclude. A user's own git settings do not apply, so that the folder
 * gives the same tree for every user. A file that git tracks is included whatever the rules say. Nothing of a
 * repository is executed. */
#pragma once

#include "storage/base/err.h"
#include <jansson.h>

#define PL_GIT_IGNORED_MAX 200000u /* maximum number of ignored paths; more give PL_ELIMIT */

struct pl_git_code {
    bool repository;
    char head[65]; /* commit of HEAD; "" before the first commit */
    bool dirty;    /* a file in the folder differs from HEAD, or is new */
    char *path;    /* path of the folder in the repository, "" = its root; malloc'ed */
    /* texts: ignored files and folders, relative to the folder; the content of an ignored folder is not listed */
    json_t *ignored;
};

/* Examines a folder. PL_ENOTFOUND, PL_EIO (with libgit2's message), PL_ELIMIT. */
PL_MUST_CHECK
int pl_git_code_info(const char *folder, struct pl_git_code *ret, struct pl_err *err);
void pl_git_code_finish(struct pl_git_code *c);
