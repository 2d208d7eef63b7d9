/* push: operations onto a branch's head, and what became of it. */
#pragma once

#include "pipelined/cli/support/cli.h"
#include "pipelined/net/remote/retrying_sink.h"
#include "storage/base/buf.h"

#define PL_CLI_PUSH_TRIES 3 /* when the store says that data it had is gone */

/* What goes with a push. */
struct pl_cli_push {
    struct pl_commit_ref to;              /* a branch, or an open commit */
    bool open;                            /* the latter */
    const char *message, *base, *session; /* each may be NULL */
};

/* "REPO@BRANCH[:/PATH]", or an open commit by its id or the start of one, into `p`: PL_EUSAGE when it is neither. No branch: master. */
PL_MUST_CHECK
int pl_cli_push_target(struct pl_cli *c, const char *text, struct pl_cli_push *p, struct pl_err *err);
/* What looks like an id or the start of one: an open commit (`ref->name` becomes its whole id), unless a branch has that name. PL_EUSAGE
 * for a commit that is finished. */
PL_MUST_CHECK
int pl_cli_push_find_open(struct pl_cli *c, struct pl_commit_ref *ref, bool *ret_open, struct pl_err *err);
/* Where it goes, with author, message, …: a file at `path`, or operations when that is NULL. */
PL_MUST_CHECK
int pl_cli_push_url(const struct pl_cli_push *p, const char *path, struct pl_buf *url, struct pl_err *err);
/* pl_retrying_sink.lost of a `struct pl_cli`: says that the server is away, and that it is tried again. */
void pl_cli_push_print_lost(void *arg, const struct pl_err *err);
/* For a first call: patient where a daemon was, who may be starting anew; none where nobody is known to have been. After pl_cli_client. */
void pl_cli_push_retry_policy(struct pl_cli *c, struct pl_retrying_sink *ret);
/* Sends an ops stream. The answer: {"commit", "run", "changed", …}. */
PL_MUST_CHECK
int pl_cli_push_ops(struct pl_cli *c, const struct pl_cli_push *p, const void *ops, size_t n, json_t **ret, struct pl_err *err);
/* Tells what came of it, and what to type next. */
PL_MUST_CHECK
int pl_cli_push_print(const struct pl_cli *c, const struct pl_cli_push *p, const json_t *answer, struct pl_err *err);
