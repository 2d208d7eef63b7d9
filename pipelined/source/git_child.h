/* git_child: a pl-git process that answers requests about repositories (git/git_serve.h). It starts with the first request.
 * After an answer that is late or no answer at all it is killed, and the next request starts another. One thread. */
#pragma once

#include "storage/base/err.h"
#include <jansson.h>

#define PL_GIT_LINE_BYTES_MAX 65536u  /* of an answer's line */
#define PL_GIT_ASK_MS_MAX     3600000 /* for one request */

struct pl_git_child;

/* How to start the process; borrowed, must outlive the child. */
struct pl_git_child_config {
    const char *program;
    const char *folder;          /* where the copies of repositories lie */
    const char *rules;           /* JSON: what it may connect to (git_serve.h) */
    const char *const *readable; /* folders with local repositories */
    size_t n_readable;
};

/* PL_ENOMEM. */
PL_MUST_CHECK
int pl_git_child_create(const struct pl_git_child_config *config, struct pl_git_child **ret, struct pl_err *err);
/* Ends the process. NULL is allowed. Returns NULL. */
struct pl_git_child *pl_git_child_destroy(struct pl_git_child *c);
/* Ends the process, if one runs: nothing is to be asked for a while. */
void pl_git_child_rest(struct pl_git_child *c);
/* Ends the process at once: the rest of its answer is not wanted. */
void pl_git_child_drop(struct pl_git_child *c);
/* Makes the request that is under way, and all later ones, fail with PL_ECANCELED. Any thread. */
void pl_git_child_cancel(struct pl_git_child *c);

/* Sends a request, which must be answered completely within `ms` milliseconds, or as long after each report of progress, but in
 * no more than PL_GIT_ASK_MS_MAX. Takes `request`, and overwrites its credentials in memory. PL_EUNAVAILABLE: the program
 * cannot be started. */
PL_MUST_CHECK
int pl_git_child_ask(struct pl_git_child *c, json_t *request, int64_t ms, struct pl_err *err);
/* Receives the next line of the answer, a new reference. An error that the process reports is this function's.
 * PL_ETIMEOUT; PL_EIO: the process ended, or what it sent is no answer. */
PL_MUST_CHECK
int pl_git_child_line(struct pl_git_child *c, json_t **ret, struct pl_err *err);
/* Receives up to `n` of the bytes that follow a line. Returns their number, at least 1. Errors as above. */
PL_MUST_CHECK
ssize_t pl_git_child_bytes(struct pl_git_child *c, void *out, size_t n, struct pl_err *err);
