/* upload_request: requests whose body changes a branch or an open commit: one file, or a stream of
 * operations. The body is spooled first; then its target decides:
 *
 *   an open commit                          added to it; 202 when durable
 *   a branch of a repo with commit_window   added to its open commit that collects puts; 202 when durable
 *   another branch, or with `base`          a commit and its run, at once; 201, or 200 if nothing changed
 *
 * Handlers of routes whose pattern has {project}, {repo}, {branch} or {commit}, and for a file {path...}. */
#pragma once

#include "pipelined/api/server/api_context.h"

#define PL_PUSH_BODY_MAX ((uint64_t)256 << 20) /* bytes of an operation stream */

void pl_upload_file_to_branch(struct pl_api *a, struct pl_http_request *req);
void pl_upload_ops_to_branch(struct pl_api *a, struct pl_http_request *req);
void pl_upload_file_to_open(struct pl_api *a, struct pl_http_request *req);
void pl_upload_ops_to_open(struct pl_api *a, struct pl_http_request *req);
