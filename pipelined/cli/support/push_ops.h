/* push_ops: sends file operations to a branch or an open commit and prints the result. */
#pragma once

#include "pipelined/cli/support/cli.h"
#include "pipelined/net/remote/retrying_sink.h"
#include "storage/base/buf.h"

#define PL_CLI_PUSH_TRIES 3 /* tries of a push after PL_ERETRY: data that the store had is gone */

/* Target and arguments of a push. */
struct pl_cli_push {
    struct pl_commit_ref to; /* the branch or open commit */
    bool open;               /* `to` names an open commit */
    /* `base`: refuse if a path changed since this commit; each may be NULL */
    const char *message, *base, *session;
};

/* Parses "REPO@BRANCH[:/PATH]", or an open commit given by its id or the start of it, into `p`. Without a
 * branch it is master. PL_EUSAGE: the text names a finished commit, or p->base is given for an open
 * commit. */
PL_MUST_CHECK
int pl_cli_push_target(struct pl_cli *c, const char *text, struct pl_cli_push *p, struct pl_err *err);
/* Looks up a ref that looks like a commit id or the start of one. If it is an open commit, `*ret_open` is
 * true and `ref->name` becomes the whole id; if it names a branch, `*ret_open` is false. PL_EUSAGE: it is a
 * finished commit. */
PL_MUST_CHECK
int pl_cli_push_find_open(struct pl_cli *c, struct pl_commit_ref *ref, bool *ret_open, struct pl_err *err);
/* Appends the request's URL with author, message, base and session to `url`. `path` is the file to put; NULL
 * = the request sends an ops stream. */
PL_MUST_CHECK
int pl_cli_push_url(const struct pl_cli_push *p, const char *path, struct pl_buf *url, struct pl_err *err);
/* Callback for pl_retrying_sink.lost; `arg` is a `struct pl_cli`. Prints that the server is not reachable and
 * that the request is retried. */
void pl_cli_push_print_lost(void *arg, const struct pl_err *err);
/* Initialises `ret` for the first request of a command: it retries if a daemon has written its address (it
 * may be restarting), and does not retry otherwise. Call pl_cli_client first. */
void pl_cli_push_retry_policy(struct pl_cli *c, struct pl_retrying_sink *ret);
/* Sends an ops stream of `n` bytes. `ret` receives the reply, {"commit", "run", "changed", …}; the caller
 * owns it. */
PL_MUST_CHECK
int pl_cli_push_ops(struct pl_cli *c, const struct pl_cli_push *p, const void *ops, size_t n, json_t **ret, struct pl_err *err);
/* Prints the result of a push and the command to type next; with --json, the reply. */
PL_MUST_CHECK
int pl_cli_push_print(const struct pl_cli *c, const struct pl_cli_push *p, const json_t *answer, struct pl_err *err);
