/* s3_objects: what the operations on objects share, and the operations: rows of s3_ops.c. */
#pragma once

#include "pipelined/api/transfer/download.h"
#include "pipelined/api/transfer/open_commit_put.h"
#include "pipelined/s3gateway/gateway/gateway_internal.h"

/* An element; `url`: percent-encoded, as encoding-type wants it. */
PL_MUST_CHECK
int pl_s3_add_text(bool url, struct pl_buf *out, const char *element, const char *text, struct pl_err *err);

/* ---- reading ---- */

/* What a key names: a file, or with a slash at its end a directory that is there: 1; or 0. */
PL_MUST_CHECK
int pl_s3_find(const struct pl_branch_view *v, const char *key, size_t len, struct pl_branch_file *ret, struct pl_err *err);
/* The commit that it is in. */
const char *pl_s3_version_of(const struct pl_branch_view *v, const struct pl_branch_file *f);
int64_t pl_s3_modified(const struct pl_branch_view *v, const struct pl_branch_file *f);
/* Its bytes, whose owner (if there is one) is the caller's to drop. */
struct pl_download_from pl_s3_bytes_of(const struct pl_branch_view *v, const struct pl_branch_file *f);

/* ---- writing ---- */

/* That the key may be put: PL_S3_KEY_TOO_LONG, PL_S3_INVALID_ARGUMENT. `*ret_dir`: it ends with a slash. `ret_path` without that. */
PL_MUST_CHECK
int pl_s3_key_path(const struct pl_s3_request *q, char ret_path[PL_PATH_MAX_BYTES + 1], bool *ret_dir, struct pl_err *err);
/* The operations go into what gathers; `done` as in open_put.h, with `self` the request. PL_S3_ANSWERS_LATER, or an error. */
PL_MUST_CHECK
int pl_s3_write(struct pl_s3_request *q, const struct pl_tree_op *ops, size_t n, bool conditions,
                void (*done)(void *self, struct pl_open_commit *c, uint64_t new_bytes, int r, const struct pl_err *err),
                struct pl_err *err);
/* One file that is in the store: the same. */
PL_MUST_CHECK
int pl_s3_write_entry(struct pl_s3_request *q, const char *path, const struct pl_entry *entry, const struct pl_buf *attributes,
                      void (*done)(void *self, struct pl_open_commit *c, uint64_t new_bytes, int r, const struct pl_err *err),
                      struct pl_err *err);

/* ---- operations ---- */

PL_MUST_CHECK
int pl_s3_get_object(struct pl_s3_request *q, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_put_before(struct pl_s3_request *q, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_put_object(struct pl_s3_request *q, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_copy_object(struct pl_s3_request *q, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_delete_object(struct pl_s3_request *q, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_delete_before(struct pl_s3_request *q, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_delete_objects(struct pl_s3_request *q, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_list_objects(struct pl_s3_request *q, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_list_buckets(struct pl_s3_request *q, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_create_bucket(struct pl_s3_request *q, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_delete_bucket(struct pl_s3_request *q, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_head_bucket(struct pl_s3_request *q, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_bucket_location(struct pl_s3_request *q, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_bucket_versioning(struct pl_s3_request *q, struct pl_err *err);
