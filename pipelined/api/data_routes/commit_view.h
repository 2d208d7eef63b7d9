/* commit_view: a commit as readers see it: a finished one in the store, or an open one with everything that
 * was put into it. */
#pragma once

#include "pipelined/api/server/api_context.h"
#include "pipelined/db/open_commits/open_commits.h"

struct pl_commit_view {
    /* the commit's row. An open commit has none: then `run` is its id, `parent` is its base commit, and
     * object, generation and totals are unset. */
    struct pl_commit_row commit;
    struct pl_open_commit *open; /* NULL = a finished commit */
    struct pl_open_commit_view view;
    struct pl_store *store;
    struct pl_node_source source; /* reads the tree nodes of commit.root */
};

/* Opens a view of the commit that `ref` names in the repo of the pattern's {project} and {repo}. `ref` is
 * anything that pl_api_commit_at accepts, or the id of an open commit or a prefix of it. ID^1 of an open
 * commit is its base commit, ID^2 the parent of that, and so on. Release it with pl_commit_view_finish.
 * Call it on the pool. Errors of pl_api_commit_at; PL_EGONE: the commit or the repo was deleted. */
PL_MUST_CHECK
int pl_commit_view_init(struct pl_api *a, const struct pl_http_request *req, const char *ref, struct pl_commit_view *ret,
                        struct pl_err *err);
void pl_commit_view_finish(struct pl_commit_view *v);
/* Finds the open commit that a ref without ^n names. `ret` is a new reference. PL_ENOTFOUND: the ref does
 * not name an open commit. */
PL_MUST_CHECK
int pl_commit_view_open_named(struct pl_api *a, const struct pl_http_request *req, const char *ref, struct pl_open_commit **ret,
                              struct pl_err *err);
/* Makes the API's JSON of an open commit. If its owner is known, the JSON has `owner` and `mine`: whether the
 * principal of the request is that owner. With `with_sums` the JSON also has the commit's root and its
 * numbers of files and bytes; the function opens a view of the commit to compute them. Call it on the
 * pool. */
PL_MUST_CHECK
int pl_commit_view_open_json(const struct pl_http_request *req, struct pl_open_commit *c, bool with_sums, json_t **ret,
                             struct pl_err *err);
