/* open_put: one request's part of an open commit: its operations with the records that no pack has yet, on their way to the spool. */
#pragma once

#include "pipelined/api/transfer/body_spool.h"
#include "pipelined/api/transfer/transfer.h"
#include "pipelined/db/open_commits/branch_view.h"
#include "pipelined/db/open_commits/open_commits.h"

/* Makes and sends it; the answer comes when it survives a crash. `spool` is read again from its start. 0: `req` is or will be replied to;
 * PL_ERETRY: the commit takes nothing more (nothing was replied); other errors are the answer. Takes nothing. On the pool. */
PL_MUST_CHECK
int pl_open_commit_put_file(struct pl_http_request *req, struct pl_open_commit *c, const char *path, uint8_t kind,
                            struct pl_body_spool *spool, struct pl_err *err);
/* The same of an ops stream; `new_bytes` is told in the answer. */
PL_MUST_CHECK
int pl_open_commit_put_ops(struct pl_http_request *req, struct pl_open_commit *c, struct pl_body_spool *spool, uint64_t new_bytes,
                           struct pl_err *err);

/* Calls `put` with the commit that gathers (pl_open_commits_gather), and again with the next when that one takes nothing more: PL_ERETRY. Its
 * other results are the call's. On the pool. */
PL_MUST_CHECK
int pl_open_commit_put_run(struct pl_open_commits *o, const struct pl_open_commit_args *args, int64_t window_ms,
                           int (*put)(void *self, struct pl_open_commit *c, struct pl_err *err), void *self, struct pl_err *err);

/* ---- for other answers than those ---- */

struct pl_open_commit_put_options {
    void *self;
    const char *message; /* the commit's from now on; NULL or "": it stays. As long as the request */
    /* pl_open_commit_write.check; may be NULL. */
    int (*check)(void *self, const struct pl_branch_file *now, struct pl_err *err);
    /* Exactly once, on the writer thread, when the call has given 0: `r` 0 = it survives a crash. Must not block. */
    void (*done)(void *self, struct pl_open_commit *c, uint64_t new_bytes, int r, const struct pl_err *err);
};
/* A file with its attributes, whose bytes may go. Errors and PL_ERETRY as above: then `done` is not called. */
PL_MUST_CHECK
int pl_open_commit_put_bytes(struct pl_open_commit *c, const char *path, const struct pl_file_attributes *attributes,
                             struct pl_body_spool *spool, const struct pl_open_commit_put_options *how, struct pl_err *err);
/* Operations whose files' bytes are in packs or in this commit's spool. All is copied. */
PL_MUST_CHECK
int pl_open_commit_put_list(struct pl_open_commit *c, const struct pl_tree_op *ops, size_t n,
                            const struct pl_open_commit_put_options *how, struct pl_err *err);
