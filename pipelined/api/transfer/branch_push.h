/* branch_push: turns the operations of a request body into a commit and its run, and makes the reply. Call
 * its functions on the pool. */
#pragma once

#include "pipelined/api/transfer/transfer.h"

/* Checks that there is disk space for a push. The size is the one that the request states; without one, a
 * small push is assumed. Results of workers are always admitted. PL_ENOSPC. */
PL_MUST_CHECK
int pl_branch_push_admit(struct pl_api_services *s, const struct pl_http_request *req, struct pl_err *err);
/* Like pl_branch_push_admit, for a push that will bring `bytes` bytes in other requests. */
PL_MUST_CHECK
int pl_branch_push_admit_bytes(struct pl_api_services *s, const struct pl_http_request *req, uint64_t bytes, struct pl_err *err);

/* Checks, before the body is received, that {repo} exists and may be pushed to. `ret` gets its row; may be
 * NULL. PL_ENOTFOUND, PL_EOUTPUT. */
PL_MUST_CHECK
int pl_branch_push_check(struct pl_api_services *s, const struct pl_http_request *req, struct pl_repo_row *ret,
                         struct pl_err *err);
/* Makes the API's JSON for the result of a push. `new_bytes`: bytes that the client uploaded for it. */
struct pl_push_result;
json_t *pl_branch_push_json(const char *project, const char *repo, const char *branch, const struct pl_push_result *result,
                            uint64_t new_bytes);
/* Adds `stages_read` and `branches` to the reply to a push that made the branch: the branches of the repo that stages read, and
 * its other branches, from which the client tells whether the name was misspelled. `reply` may be NULL. */
void pl_branch_push_add_branches(struct pl_api_services *s, const char *project, const char *repo, const char *branch,
                                 json_t *reply);
/* Returns the author of a commit: the one that the request names ("" or NULL: none), else the user who asks; "" for the daemon's
 * own token, which is no person's. */
const char *pl_branch_push_author(const struct pl_http_request *req, const char *named);
/* Pushes to {project}/{repo}@{branch}, with the query arguments base, message and author of `req`, and tells
 * the engine of the new run. `ret` is the reply's JSON. Returns 201, or 200 if nothing changed; errors of
 * pl_db_push. */
PL_MUST_CHECK
int pl_branch_push(struct pl_api_services *s, const struct pl_http_request *req, const void *ops, size_t n, uint64_t new_bytes,
                   json_t **ret, struct pl_err *err);
