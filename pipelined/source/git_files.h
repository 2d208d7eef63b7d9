/* git_files: files of a commit, as pl-git sends them, one after another. */
#pragma once

#include "pipelined/source/git_child.h"
#include "storage/tree/tree.h"

#define PL_GIT_READ_MS 120000 /* to read the files of a folder */

struct pl_store;

/* A request, and the file that is read. The first part is set by the caller, and borrowed; finish it. */
struct pl_git_files {
    struct pl_git_child *git;
    const char *copy, *commit;
    const char *folder;       /* "" = the repository's top */
    const char *glob;         /* NULL = all files of the folder, or those that match `globs` */
    const char *const *globs; /* n_globs 0 = all */
    size_t n_globs;
    bool ignore;             /* leave out what .pipelinedignore files name */
    uint64_t n_max, sum_max; /* files, and bytes of all together */
    int64_t ms;              /* time limit for all files */

    json_t *line;
    const char *path, *kind; /* "file", "exec" or "link" */
    uint64_t len, left;      /* bytes of the file, and those not yet read */
    uint64_t n, sum;         /* files so far, and their bytes */
    bool lfs;                /* a pointer of git LFS */
};

PL_MUST_CHECK
int pl_git_files_ask(struct pl_git_files *f, struct pl_err *err);
/* Receives the head of the next file, after the bytes of the one before were read. Returns 1, or 0 after the last. */
PL_MUST_CHECK
int pl_git_files_next(struct pl_git_files *f, struct pl_err *err);
/* Appends the bytes of the file. */
PL_MUST_CHECK
int pl_git_files_read(struct pl_git_files *f, struct pl_buf *ret, struct pl_err *err);
/* Ends the request; after an error, or before the last file, it also ends the process. */
void pl_git_files_finish(struct pl_git_files *f, int r);

/* Asks for files and stores them as a tree of the project. `whole`: what links may not lead out of, for messages.
 * `warnings` receives texts. Returns the root and the sums; what was stored is durable, and no root yet: the caller has a hold
 * on the store. PL_EINVAL: a link that leads elsewhere; errors of pl-git, and of storing. */
PL_MUST_CHECK
int pl_git_files_store(struct pl_git_files *f, struct pl_store *store, const char *project, const char *whole, json_t *warnings,
                       struct pl_hash *ret_root, struct pl_tree_stats *ret_stats, struct pl_err *err);
