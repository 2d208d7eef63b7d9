/* git_child: a pl-git process that answers requests about repositories (git/git_serve.h). It starts with the first request.
 * After an answer that is late or no answer at all it is killed, and the next request starts another. One thread. */
#pragma once

#include "storage/base/err.h"
#include <jansson.h>

#define PL_GIT_LINE_BYTES_MAX 65536u /* of an answer's line */

struct pl_git_child;

/* `folder`: where the copies of repositories lie; `readable`: n_readable folders with local repositories. All are
 * borrowed. PL_ENOMEM. */
PL_MUST_CHECK
int pl_git_child_create(const char *program, const char *folder, const char *const *readable, size_t n_readable,
                        struct pl_git_child **ret, struct pl_err *err);
/* Ends the process. NULL is allowed. Returns NULL. */
struct pl_git_child *pl_git_child_destroy(struct pl_git_child *c);
/* Ends the process, if one runs: nothing is to be asked for a while. */
void pl_git_child_rest(struct pl_git_child *c);
/* Ends the process at once: the rest of its answer is not wanted. */
void pl_git_child_drop(struct pl_git_child *c);
/* Makes the request that is under way, and all later ones, fail with PL_ECANCELED. Any thread. */
void pl_git_child_cancel(struct pl_git_child *c);

/* Sends a request, which must be answered completely within `ms` milliseconds. Takes `request`. PL_EUNAVAILABLE: the
 * program cannot be started. */
PL_MUST_CHECK
int pl_git_child_ask(struct pl_git_child *c, json_t *request, int64_t ms, struct pl_err *err);
/* Receives the next line of the answer, a new reference. An error that the process reports is this function's.
 * PL_ETIMEOUT; PL_EIO: the process ended, or what it sent is no answer. */
PL_MUST_CHECK
int pl_git_child_line(struct pl_git_child *c, json_t **ret, struct pl_err *err);
/* Receives up to `n` of the bytes that follow a line. Returns their number, at least 1. Errors as above. */
PL_MUST_CHECK
ssize_t pl_git_child_bytes(struct pl_git_child *c, void *out, size_t n, struct pl_err *err);
