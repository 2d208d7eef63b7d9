/* uploads: bodies that change a branch or an open commit: one file, or an ops stream. The body is spooled; then
 *
 *   to an open commit                     the file's chunks and the operation go into it: answered when they survive a crash (202)
 *   to a branch that gathers              the same, into the commit that gathers there (the repo's commit_window)
 *   to a branch else, or with a base      a commit and its run, at once (201; 200 when nothing changed)
 *
 * Handlers of routes whose pattern has {project}, {repo} and {branch} or {commit}, and {path...} for a file. */
#pragma once

#include "pipelined/api/server/api_context.h"

#define PL_PUSH_BODY_MAX ((uint64_t)256 << 20) /* of an ops stream */

void pl_upload_file_to_branch(struct pl_api *a, struct pl_http_request *req);
void pl_upload_ops_to_branch(struct pl_api *a, struct pl_http_request *req);
void pl_upload_file_to_open(struct pl_api *a, struct pl_http_request *req);
void pl_upload_ops_to_open(struct pl_api *a, struct pl_http_request *req);
