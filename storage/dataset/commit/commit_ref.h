/* commit_ref: how users name a commit: `[project/]repo@ref[^n][:/path]`. This is only the grammar; the
 * database looks the names up.
 *
 *   digits                 repo "digits" of the default project; no ref (branch master if one is needed)
 *   digits@master          the head of a branch
 *   vision/digits@9f3c a commit by the first digits of its id, at least 4; if a branch has that name, the
 *   branch is meant
 *   digits@master^2        two commits before; ^ is ^1, ^^ is ^2
 *   digits@master:/a/b     a file or folder in it; ":/" or ":" is the root
 *
 * No I/O; any thread. */
#pragma once

#include "storage/base/hash.h"
#include "storage/base/path.h"

#define PL_COMMIT_REF_BACK_MAX      1000000u
#define PL_COMMIT_REF_PREFIX_DIGITS 4

enum pl_commit_ref_kind {
    PL_COMMIT_REF_NONE,   /* the reference has no "@ref" part */
    PL_COMMIT_REF_BRANCH, /* the name of a branch */
    PL_COMMIT_REF_ID,     /* 32 lower-case hex digits: a commit id */
    /* 4 to 31 lower-case hex digits: a branch, or if there is none the start of a commit id */
    PL_COMMIT_REF_PREFIX
};

struct pl_commit_ref {
    char project[PL_NAME_MAX_BYTES + 1]; /* "" = not given */
    char repo[PL_NAME_MAX_BYTES + 1];
    enum pl_commit_ref_kind kind;
    char name[PL_NAME_MAX_BYTES + 1]; /* name of the branch, or the digits */
    unsigned back;                    /* number of commits to go back (^n); 0 = the commit itself */
    bool has_path;
    char path[PL_PATH_MAX_BYTES + 1]; /* canonical, without a leading slash; "" = root */
};

/* Parses a reference. PL_EINVAL, PL_ENAME or PL_EPATH; the message quotes the text and says what is
 * accepted. */
PL_MUST_CHECK
int pl_commit_ref_parse(const char *text, struct pl_commit_ref *ret, struct pl_err *err);
/* Parses only the part after the @: "master", "9f3c^2". Project, repo and path remain empty. */
PL_MUST_CHECK
int pl_commit_ref_parse_commit(const char *text, struct pl_commit_ref *ret, struct pl_err *err);
/* Determines the kind of a ref from its spelling, without a lookup: PL_COMMIT_REF_ID, PL_COMMIT_REF_PREFIX
 * or PL_COMMIT_REF_BRANCH. PL_ENAME. */
PL_MUST_CHECK
int pl_commit_ref_classify(const char *name, enum pl_commit_ref_kind *ret, struct pl_err *err);
