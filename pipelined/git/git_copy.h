/* git_copy: a bare copy of one branch of a repository, which is fetched when the branch moves. There is no working tree:
 * files are read from git's objects. Submodules and LFS objects are never fetched. One thread. */
#pragma once

#include "pipelined/git/git_remote.h"

#define PL_GIT_FILE_BYTES_MAX (256ull << 20) /* of one file */
#define PL_GIT_DEPTH_MAX      256u           /* folders in folders */
#define PL_GIT_ENTRIES_MAX    300000u        /* files and folders that one reading looks at */
#define PL_GIT_MESSAGE_BYTES  4096u
#define PL_GIT_BRANCHES_MAX   500u /* listed of one repository */
#define PL_GIT_BRANCH_BYTES   200u /* longer names are left out */

/* A commit. */
struct pl_git_commit {
    char id[GIT_OID_HEXSZ + 1];
    char *author;  /* "Name <address>", UTF-8; malloc'ed */
    char *message; /* at most PL_GIT_MESSAGE_BYTES, UTF-8; malloc'ed */
    int64_t at_s;  /* seconds since 1970 */
    bool forced;   /* the branch's tip before is not among its ancestors */
};
void pl_git_commit_finish(struct pl_git_commit *c);

/* Opens the copy in the folder `dir`; makes it if the folder does not exist. Removes what an earlier process that was
 * killed has left: locks and unfinished packs. PL_EIO, PL_ECORRUPT. Free it with git_repository_free. */
PL_MUST_CHECK
int pl_git_copy_open(const char *dir, git_repository **ret, struct pl_err *err);
/* A branch to look at. */
struct pl_git_branch {
    const char *url, *name; /* name "" = the repository's default branch */
    const char *have;       /* the tip that was seen before, "" = none */
    bool preview; /* not the branch that the copy is of: it is fetched beside that one, in place of the last such branch */
    struct pl_git_secret secret;
};

/* Asks the repository for the tip of the branch, and fetches the branch if the copy lacks that commit. PL_ENOTFOUND: it has no
 * such branch; the message names branches that it has. PL_ECORRUPT: the copy is damaged. Errors of git_remote. */
PL_MUST_CHECK
int pl_git_copy_look(git_repository *copy, const struct pl_git_branch *branch, struct pl_git_network *network,
                     struct pl_git_commit *ret, struct pl_err *err);

/* Asks the repository for its branches, and calls `branch` for each one, at most PL_GIT_BRANCHES_MAX. `*ret_more`: it has more;
 * `ret_head`: receives the name of the default branch, "" = none. Of `where` only url and secret count. Errors as above. */
PL_MUST_CHECK
int pl_git_copy_branches(git_repository *copy, const struct pl_git_branch *where, struct pl_git_network *network,
                         int (*branch)(const char *name, const char *id, struct pl_err *err), bool *ret_more,
                         char ret_head[PL_GIT_BRANCH_BYTES + 1], struct pl_err *err);

enum pl_git_kind { PL_GIT_FILE, PL_GIT_EXEC, PL_GIT_LINK };

/* One file of a commit. */
struct pl_git_file {
    const char *path; /* from the folder that was asked for */
    enum pl_git_kind kind;
    const void *bytes; /* of a link: its target */
    size_t len;
    bool lfs; /* it is a pointer to content that git LFS keeps elsewhere */
};

/* Which files of a commit to read. */
struct pl_git_selection {
    const char *commit; /* full id */
    const char *folder; /* "" = the whole tree; paths and globs begin here */
    /* one glob over paths (glob.h), for files that are one by one of interest; NULL = `files` decides */
    const char *glob;
    const char *const *files; /* globs over the folder's files (pl_glob_set); n_files 0 = all */
    size_t n_files;
    bool ignore;      /* apply the rules of .pipelinedignore files */
    uint64_t n_max;   /* number of files */
    uint64_t len_max; /* bytes of one file, and of all together */
};

/* Calls `file` for each selected file, in ascending order of paths. PL_ENOTFOUND: no such folder in the commit.
 * PL_EPATH: a name is not UTF-8. PL_ECORRUPT: the copy is damaged. PL_ELIMIT, PL_ETOOBIG: beyond the bounds; the message names the file. PL_EGLOB. */
PL_MUST_CHECK
int pl_git_copy_read(git_repository *copy, const struct pl_git_selection *want,
                     int (*file)(void *self, const struct pl_git_file *file, struct pl_err *err), void *self, struct pl_err *err);
