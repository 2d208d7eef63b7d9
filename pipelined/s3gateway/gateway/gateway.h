/* s3gateway/gateway: The repos as S3 buckets, on a port of its own.
 *
 * In:      S3 requests.
 * Out:     Commits through open commits; objects.
 * Uses:    api/{access, transfer}, db/{open_commits, tx}, s3gateway/formats, storage/{base, http, pack, s3, system,
 *          tree, tree_edit}, storage/dataset/{file, ingest}
 * Threads: Storage pool; bodies on HTTP threads.
 *
 * Inside:
 *   gateway_internal       state of one request, shared by the gateway's files
 *   s3_body                receives and verifies a request body
 *   s3_buckets             bucket operations
 *   s3_copy                CopyObject
 *   s3_delete              DeleteObject, DeleteObjects
 *   s3_get                 GetObject, HeadObject
 *   s3_headers             object headers and conditions
 *   s3_list                ListObjects
 *   s3_multipart           multipart upload: create, upload part, abort
 *   s3_multipart_complete  CompleteMultipartUpload
 *   s3_multipart_list      ListParts, ListMultipartUploads
 *   s3_objects             declarations of object operations
 *   s3_operations          table of operations
 *   s3_put                 PutObject
 *   s3_request             reads, authenticates and dispatches a request
 *   s3_target              bucket names to repos and branches */

/* s3_gateway: the repos as S3 buckets, on a port of its own. A bucket is a branch:
 *
 *   REPO                            branch master of a repo of project "default"
 *   BRANCH.REPO[.PROJECT]           another branch, or one of another project
 *   COMMIT.BRANCH.REPO[.PROJECT]    a commit, read-only; COMMIT is its id of 32 digits (with a project: the start of one will do)
 *
 * What is put goes into the branch's open commit (opens.h), which is finished when it is quiet, and is seen at once. Who asks is said by
 * Signature Version 4 in header or query; there is no anonymous access.
 *
 *   s3_gateway    listener, life           s3_ops       the table of operations, and those that are not there
 *   s3_request    what is asked, by whom   s3_target    buckets: names, permissions, views
 *   s3_body       bodies and their sums    s3_chunked, s3_checksum
 *   s3_buckets    s3_list    s3_get    s3_put    s3_delete    s3_copy    s3_multipart (s3_uploads keeps what is uploaded)
 *   s3_headers    metadata, conditions     s3_error     S3's codes */
#pragma once

#include "storage/base/err.h"

#define PL_S3_WINDOW_MS 2000 /* commit_window of a repo that has none */
#define PL_S3_LIST_MAX  1000u

struct pl_api_services;
struct pl_db;
struct pl_entry;
struct pl_s3;

struct pl_s3_config {
    const char *listen; /* "127.0.0.1:7382"; port 0 picks one */
    const char *domain; /* buckets are names below it, too; "" = by path only */
    const char *cors;   /* origins whose pages may ask, separated by commas; "*": all; "" = none */
    const char *dir;    /* uploads are kept there */
};

/* Listens and serves. Texts are copied; `services` outlive it. Errors of pl_http_server_start; of what lies in `dir`. */
PL_MUST_CHECK
int pl_s3_start(struct pl_api_services *services, const struct pl_s3_config *config, struct pl_s3 **ret, struct pl_err *err);
/* Where others reach it. Lives as long as the gateway. */
const char *pl_s3_url(const struct pl_s3 *s);
/* What a collection must keep of a project, as pl_gc_config.keep: parts of uploads under way. `s` NULL: of those in `dir`, which a gateway left
 * that is switched off now. */
PL_MUST_CHECK
int pl_s3_gc_roots(struct pl_s3 *s, const char *dir, struct pl_db *db, const char *project,
                   int (*fn)(void *self, const struct pl_entry *entry, struct pl_err *err), void *self, struct pl_err *err);
/* A repo is gone: so are the uploads into it. NULL is fine. */
void pl_s3_drop_repo(struct pl_s3 *s, int64_t repo_id);
/* As pl_http_server_stop. NULL is fine. */
void pl_s3_stop(struct pl_s3 *s, int64_t deadline_ms);
/* After stop and when the pool does nothing any more. NULL is fine. */
struct pl_s3 *pl_s3_destroy(struct pl_s3 *s);
