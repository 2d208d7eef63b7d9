/* push: operations that came in a body → a commit, its run, and the answer. Used by the commit and the file routes. On the pool. */
#pragma once

#include "api_internal.h"

#define PL_PUSH_BODY_MAX ((uint64_t)256 << 20) /* of an ops stream */

/* That {repo} is there and may be pushed to: before a body is taken. PL_ENOTFOUND, PL_EOUTPUT. */
PL_MUST_CHECK
int pl_api_may_push(struct pl_api *a, const struct pl_http_request *req, struct pl_err *err);
/* Pushes onto {project}/{repo}@{branch} with the arguments base, message, author of `req`, and tells the engine of the run. `new_bytes`:
 * what the writer has brought for it. The errors of pl_db_push. */
PL_MUST_CHECK
int pl_api_push(struct pl_api *a, const struct pl_http_request *req, const void *ops, size_t n, uint64_t new_bytes, json_t **ret,
                struct pl_err *err);
