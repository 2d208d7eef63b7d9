/* gone_lookup: says what became of a repo, commit or file that is not there any more. A handler whose lookup failed with
 * PL_ENOTFOUND asks; if the object was there, the error becomes PL_EGONE with when, by whom or by which rule it went.
 *
 *   repo     the audit (access/audit.h), which keeps a year, has who deleted it
 *   commit   the database has when and why it was dropped
 *   file     one of the last PL_GONE_PARENTS_MAX commits of its branch still has it
 *
 * Call the functions on the pool, without a database reader. */
#pragma once

#include "pipelined/api/data_routes/commit_view.h"

#define PL_GONE_PARENTS_MAX 200u   /* commits that are searched for a file */
#define PL_GONE_AUDIT_MAX   100000 /* newest audit entries that are searched for a repo */

/* `r` is the result of a lookup of the repo of the request's {project} and {repo}, or of its commit `ref` (NULL = only of
 * the repo), and `err` its error. Returns PL_EGONE with a new message, or `r` with `err` as it was. */
int pl_gone_commit(struct pl_api *a, const struct pl_http_request *req, const char *ref, int r, struct pl_err *err);
/* The same after a lookup of the file or folder `path` in the finished commit `v`. */
int pl_gone_file(struct pl_api *a, const struct pl_http_request *req, const struct pl_commit_view *v, const char *path, int r,
                 struct pl_err *err);
