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
 *   s3_attributes          GetObjectAttributes
 *   s3_body                receives and verifies a request body
 *   s3_buckets             bucket operations
 *   s3_copy                CopyObject
 *   s3_cors_rules          CORS: operations of rules, replies to pages of other origins
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
 *   s3_tagging             PutObjectTagging, GetObjectTagging, DeleteObjectTagging
 *   s3_target              bucket names to repos and branches
 *   s3_versions            ListObjectVersions */

/* gateway: serves the repos as S3 buckets, on a port of its own. A bucket is a branch:
 *
 *   REPO                            branch master of a repo of project "default"
 *   BRANCH.REPO[.PROJECT]           another branch, or a branch of another project
 *   COMMIT.BRANCH.REPO[.PROJECT]    a commit, read-only; COMMIT is its id of 32 digits, or, if the project
 *                                   is given, a prefix of the id
 *
 * A put goes into the branch's open commit (open_commits.h), which is finished after a period without writes;
 * other requests see the put at once. Requests are authenticated by Signature Version 4, in a header or in
 * the query. There is no anonymous access. */
#pragma once

#include "storage/base/err.h"

#define PL_S3_WINDOW_MS 2000 /* milliseconds that puts gather in a repo without commit_window */
#define PL_S3_LIST_MAX  1000u

struct pl_api_services;
struct pl_db;
struct pl_entry;
struct pl_s3;

struct pl_s3_config {
    const char *listen; /* address to listen on, "127.0.0.1:7382"; port 0 picks a free one */
    const char *domain; /* host names BUCKET.domain are accepted too; "" = buckets by path only */
    /* origins whose web pages may call the gateway, separated by commas; "*" = all; "" = none */
    const char *cors;
    const char *dir; /* folder for the files of multipart uploads and for CORS rules */
};

/* Opens the uploads in `dir`, listens and serves. Copies the texts; `services` must outlive the gateway.
 * Errors of pl_http_server_start, and of reading the uploads in `dir`. */
PL_MUST_CHECK
int pl_s3_start(struct pl_api_services *services, const struct pl_s3_config *config, struct pl_s3 **ret, struct pl_err *err);
/* Returns the URL at which clients reach the gateway. Lives as long as the gateway. */
const char *pl_s3_url(const struct pl_s3 *s);
/* Calls `fn` for each file entry of a project's multipart uploads in progress, which garbage collection must
 * keep; for pl_gc_config.keep. `s` NULL: the gateway is switched off, and the uploads are read from `dir`. */
PL_MUST_CHECK
int pl_s3_gc_roots(struct pl_s3 *s, const char *dir, struct pl_db *db, const char *project,
                   int (*fn)(void *self, const struct pl_entry *entry, struct pl_err *err), void *self, struct pl_err *err);
/* Removes the uploads into a deleted repo, and its CORS rules. `s` may be NULL. */
void pl_s3_drop_repo(struct pl_s3 *s, int64_t repo_id);
/* Stops the server, as pl_http_server_stop. `s` may be NULL. */
void pl_s3_stop(struct pl_s3 *s, int64_t deadline_ms);
/* Frees the gateway. Call it after stop, when the pool has finished the gateway's jobs. NULL is allowed;
 * returns NULL. */
struct pl_s3 *pl_s3_destroy(struct pl_s3 *s);
