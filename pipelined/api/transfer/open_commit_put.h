/* open_commit_put: adds the operations of one request to an open commit, together with those of their records
 * that are in no pack. */
#pragma once

#include "pipelined/api/transfer/body_spool.h"
#include "pipelined/api/transfer/transfer.h"
#include "pipelined/db/open_commits/branch_view.h"
#include "pipelined/db/open_commits/open_commits.h"

/* Adds the file in `spool`, which is read from its start. The reply is sent when the write is durable.
 * Returns 0 if `req` was or will be replied to. After PL_ERETRY (the commit accepts no more writes) or
 * another error, `req` has no reply. Takes ownership of nothing. On the pool. */
PL_MUST_CHECK
int pl_open_commit_put_file(struct pl_http_request *req, struct pl_open_commit *c, const char *path, uint8_t kind,
                            struct pl_body_spool *spool, struct pl_err *err);
/* Like pl_open_commit_put_file, for a stream of operations; `new_bytes` is reported in the reply. */
PL_MUST_CHECK
int pl_open_commit_put_ops(struct pl_http_request *req, struct pl_open_commit *c, struct pl_body_spool *spool, uint64_t new_bytes,
                           struct pl_err *err);

/* Calls `put` with the open commit that collects the puts of a branch (pl_open_commits_gather). While
 * `put` returns PL_ERETRY, calls it again with the next such commit. Returns the last result of `put`. On
 * the pool. */
PL_MUST_CHECK
int pl_open_commit_put_run(struct pl_open_commits *o, const struct pl_open_commit_args *args, int64_t window_ms,
                           int (*put)(void *self, struct pl_open_commit *c, struct pl_err *err), void *self, struct pl_err *err);

/* ---- puts whose caller sends the reply itself ---- */

struct pl_open_commit_put_options {
    void *self;
    /* new message of the commit; NULL or "" keeps its present message; must live as long as the request */
    const char *message;
    /* called as pl_open_commit_write.check; may be NULL */
    int (*check)(void *self, const struct pl_branch_file *now, struct pl_err *err);
    /* Called exactly once, on the writer thread, after a pl_open_commit_put_… function has returned 0 for
     * these options. `r` is 0 if the write is durable, else the error `err`. Must not block. */
    void (*done)(void *self, struct pl_open_commit *c, uint64_t new_bytes, int r, const struct pl_err *err);
};
/* Adds a file with its attributes; the caller may free attributes and spool afterwards. PL_ERETRY and other
 * errors as for pl_open_commit_put_file; after an error how->done is not called. */
PL_MUST_CHECK
int pl_open_commit_put_bytes(struct pl_open_commit *c, const char *path, const struct pl_file_attributes *attributes,
                             struct pl_body_spool *spool, const struct pl_open_commit_put_options *how, struct pl_err *err);
/* Adds operations whose files are in packs or in this commit's own records. Copies everything. */
PL_MUST_CHECK
int pl_open_commit_put_list(struct pl_open_commit *c, const struct pl_tree_op *ops, size_t n,
                            const struct pl_open_commit_put_options *how, struct pl_err *err);
