/* push: operations that came in a body → a commit, its run, and the answer. Used by uploads. On the pool. */
#pragma once

#include "pipelined/api/transfer/transfer.h"

/* Whether there is room for what is pushed, as far as the request says how much that is. Results of running jobs come always. PL_ENOSPC. */
PL_MUST_CHECK
int pl_branch_push_admit(struct pl_api_services *s, const struct pl_http_request *req, struct pl_err *err);

/* That {repo} is there and may be pushed to: before a body is taken. `ret` may be NULL. PL_ENOTFOUND, PL_EOUTPUT. */
PL_MUST_CHECK
int pl_branch_push_check(struct pl_api_services *s, const struct pl_http_request *req, struct pl_repo_row *ret,
                         struct pl_err *err);
/* What came of it, as the interface tells it. */
struct pl_push_result;
json_t *pl_branch_push_json(const char *project, const char *repo, const char *branch, const struct pl_push_result *result,
                            uint64_t new_bytes);
/* Pushes onto {project}/{repo}@{branch} with the arguments base, message, author of `req`, and tells the engine of the run. `new_bytes`:
 * what the writer has brought for it. The errors of pl_db_push. */
PL_MUST_CHECK
int pl_branch_push(struct pl_api_services *s, const struct pl_http_request *req, const void *ops, size_t n, uint64_t new_bytes,
                   json_t **ret, struct pl_err *err);
