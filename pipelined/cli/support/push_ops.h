/* push_ops: sends file operations to a branch or an open commit and prints the result. */
#pragma once

#include "pipelined/cli/support/cli.h"
#include "pipelined/net/remote/retrying_sink.h"
#include "storage/base/buf.h"

/* how often a push is tried if it fails with PL_ERETRY: the store no longer has data that the push relies
 * on */
#define PL_CLI_PUSH_TRIES 3

/* The target and the arguments of a push. */
struct pl_cli_push {
    struct pl_commit_ref to; /* the branch or open commit that receives the files */
    bool open;               /* `to` names an open commit */
    /* each may be NULL; `base` is the id of a commit: the server refuses the push if a pushed path has changed
     * since that commit */
    const char *message, *base, *session;
};

/* Parses "REPO@BRANCH[:/PATH]" into `p`. In place of the branch there may be the id of an open commit, or the
 * start of it; without a branch it is master. If the user has one open commit on the branch, the push goes into it, unless
 * p->base is set. PL_EUSAGE: the text names a finished commit, or p->base is set
 * and the text names an open commit. */
PL_MUST_CHECK
int pl_cli_push_target(struct pl_cli *c, const char *text, struct pl_cli_push *p, struct pl_err *err);
/* Looks up a ref that looks like a commit's id or the start of one. An open commit: sets `*ret_open` to true
 * and `ref->name` to the whole id. A branch of this name: sets `*ret_open` to false. PL_EUSAGE: a finished
 * commit. */
PL_MUST_CHECK
int pl_cli_push_find_open(struct pl_cli *c, struct pl_commit_ref *ref, bool *ret_open, struct pl_err *err);
/* Appends the URL of the request, with author, message, base and session, to `url`. `path`: the path in the
 * repo of the file to put; NULL = the request sends an ops stream. */
PL_MUST_CHECK
int pl_cli_push_url(const struct pl_cli_push *p, const char *path, struct pl_buf *url, struct pl_err *err);
/* Callback for pl_retrying_sink.lost; `arg` is a `struct pl_cli`. Prints that the server is not reachable and
 * that the request is retried. */
void pl_cli_push_print_lost(void *arg, const struct pl_err *err);
/* Initialises `ret` for the first request of a command. If the server's address comes from a file that a
 * daemon wrote, lost requests are retried, because the daemon may be restarting; otherwise they are not. Call
 * pl_cli_client first. */
void pl_cli_push_retry_policy(struct pl_cli *c, struct pl_retrying_sink *ret);
/* Sends an ops stream of `n` bytes. `ret` receives the reply, {"commit", "run", "changed", …}; the caller
 * owns it. */
PL_MUST_CHECK
int pl_cli_push_ops(struct pl_cli *c, const struct pl_cli_push *p, const void *ops, size_t n, json_t **ret, struct pl_err *err);
/* Prints the result of a push, and ends the command as pl_cli_run_started does. */
PL_MUST_CHECK
int pl_cli_push_print(struct pl_cli *c, const struct pl_cli_push *p, const json_t *answer, struct pl_err *err);
