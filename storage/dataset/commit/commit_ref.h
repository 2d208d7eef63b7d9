/* history: how people name a commit: `[project/]repo@ref[^n][:/path]`. Only the grammar; the database looks the names up.
 *
 *   digits                 repo "digits" of the default project, no ref (its master branch where one is needed)
 *   digits@master          the head of a branch
 *   vision/digits@9f3c     by the first digits of a commit's id, at least 4; a branch of that name wins
 *   digits@master^2        two commits before; ^ is ^1, ^^ is ^2
 *   digits@master:/a/b     a file or folder in it; ":/" or ":" is the root
 *
 * Pure. */
#pragma once

#include "storage/base/hash.h"
#include "storage/base/path.h"

#define PL_COMMIT_REF_BACK_MAX      1000000u
#define PL_COMMIT_REF_PREFIX_DIGITS 4

enum pl_commit_ref_kind {
    PL_COMMIT_REF_NONE,   /* no @ref given */
    PL_COMMIT_REF_BRANCH, /* a branch, and nothing else */
    PL_COMMIT_REF_ID,     /* 32 lower-case hex digits */
    PL_COMMIT_REF_PREFIX  /* a branch, else the start of an id: 4 to 31 lower-case hex digits */
};

struct pl_commit_ref {
    char project[PL_NAME_MAX_BYTES + 1]; /* "" = not given */
    char repo[PL_NAME_MAX_BYTES + 1];
    enum pl_commit_ref_kind kind;
    char name[PL_NAME_MAX_BYTES + 1]; /* of the branch, or the digits */
    unsigned back;                    /* ^n, 0 = the commit itself */
    bool has_path;
    char path[PL_PATH_MAX_BYTES + 1]; /* canonical, without leading slash; "" = root */
};

/* PL_EINVAL, PL_ENAME or PL_EPATH; the message quotes what was given and says what is accepted. */
PL_MUST_CHECK
int pl_commit_ref_parse(const char *text, struct pl_commit_ref *ret, struct pl_err *err);
/* The part after the @ alone: "master", "9f3c^2"; project, repo and path stay empty. */
PL_MUST_CHECK
int pl_commit_ref_parse_commit(const char *text, struct pl_commit_ref *ret, struct pl_err *err);
/* The kind that a ref's spelling has, before any look-up: PL_COMMIT_REF_ID, PL_COMMIT_REF_PREFIX or PL_COMMIT_REF_BRANCH. PL_ENAME. */
PL_MUST_CHECK
int pl_commit_ref_classify(const char *name, enum pl_commit_ref_kind *ret, struct pl_err *err);
