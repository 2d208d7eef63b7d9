/* pipelined/git: what git knows about folders, through libgit2. Runs in a process of its own (pl-git): whoever asks starts that program
 * and reads JSON, and has libgit2 neither in its memory nor in its start-up time.
 *
 *   pl-git code FOLDER → {"git": {"head", "dirty", "path"} | null, "ignored": ["build", "a/b.pyc"]}     exit 0
 *                        {"error": "…"}                                                                 exit 1
 *
 * This file: a code folder. Rules are those of .gitignore files (from the repository's root down; of the folder alone when it is in no
 * repository) and of the repository's info/exclude; nobody's own settings, so that a folder is the same tree for everybody. A file that
 * git tracks is taken whatever the rules say. Nothing of a repository is executed. */
#pragma once

#include "storage/base/err.h"
#include <jansson.h>

#define PL_GIT_IGNORED_MAX 200000u /* paths told; beyond: PL_ELIMIT */

struct pl_git_code {
    bool repository;
    char head[65];   /* of HEAD; "" before the first commit */
    bool dirty;      /* something in the folder differs from HEAD, new files included */
    char *path;      /* of the folder in the repository, "" = its root; malloc'ed */
    json_t *ignored; /* texts: files and folders that stay out, relative to the folder; what is in such a folder is not told */
};

/* PL_ENOTFOUND, PL_EIO (with libgit2's message), PL_ELIMIT. */
PL_MUST_CHECK
int pl_git_code_info(const char *folder, struct pl_git_code *ret, struct pl_err *err);
void pl_git_code_finish(struct pl_git_code *c);
