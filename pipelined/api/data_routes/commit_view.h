/* commit_view: a commit as it is read: a finished one out of the store, an open one through what was put into it. */
#pragma once

#include "pipelined/api/server/api_context.h"
#include "pipelined/db/open_commits/open_commits.h"

struct pl_commit_view {
    struct pl_commit_row commit; /* of an open one: `run` is its id, `parent` its base; no object, generation and sums */
    struct pl_open_commit *open; /* NULL: finished */
    struct pl_open_commit_view view;
    struct pl_store *store;
    struct pl_node_source source; /* of commit.root */
};

/* What `ref` names in the pattern's {project} and {repo}: as pl_api_commit_at, or an open commit by its id or the start of it; ^n goes
 * back from an open one to its base and on. On the pool. */
PL_MUST_CHECK
int pl_commit_view_init(struct pl_api *a, const struct pl_http_request *req, const char *ref, struct pl_commit_view *ret,
                        struct pl_err *err);
void pl_commit_view_finish(struct pl_commit_view *v);
/* The open commit that a ref names without ^n: PL_ENOTFOUND for anything else. A reference. */
PL_MUST_CHECK
int pl_commit_view_open_named(struct pl_api *a, const struct pl_http_request *req, const char *ref, struct pl_open_commit **ret,
                              struct pl_err *err);
/* As the interface tells about it; `with_sums`: files and bytes too, which costs a view. On the pool. */
PL_MUST_CHECK
int pl_commit_view_open_json(struct pl_open_commit *c, bool with_sums, json_t **ret, struct pl_err *err);
