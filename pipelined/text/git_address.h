/* git_address: the address of a git repository, taken apart. Pure.
 *
 *   https://HOST[:PORT]/PATH          also http://
 *   ssh://[USER@]HOST[:PORT]/PATH     also git://, without a user
 *   [USER@]HOST:PATH                  ssh, with a path from the user's home folder
 *   /PATH, file:///PATH               a folder of this machine
 *
 * An IPv6 address stands in brackets. */
#pragma once

#include "storage/base/err.h"

#define PL_GIT_ADDRESS_BYTES_MAX 2000u

struct pl_git_address {
    char scheme[8];   /* "https", "http", "ssh", "git" or "file" */
    char user[256];   /* "" = none */
    char host[256];   /* without brackets; "" for "file" */
    unsigned port;    /* 0 = that of the scheme */
    const char *path; /* in the text that was parsed; begins with "/" unless `relative` */
    bool relative;    /* HOST:PATH */
};

/* Takes `text` apart, which must outlive `ret`. PL_EINVAL: the message says which form is expected. */
PL_MUST_CHECK
int pl_git_address_parse(const char *text, struct pl_git_address *ret, struct pl_err *err);

#define PL_GIT_BRANCH_BYTES_MAX 200u
/* Checks the name of a branch; "" is accepted. PL_EINVAL. */
PL_MUST_CHECK
int pl_git_branch_check(const char *name, struct pl_err *err);
