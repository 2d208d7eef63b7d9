/* s3_objects: handlers of the operations on objects and buckets (listed in the table of s3_operations.c), and
 * helpers that they share. */
#pragma once

#include "pipelined/api/transfer/download.h"
#include "pipelined/api/transfer/open_commit_put.h"
#include "pipelined/s3gateway/gateway/gateway_internal.h"

/* Appends an XML element; with `url` the text is percent-encoded, as encoding-type=url asks. */
PL_MUST_CHECK
int pl_s3_add_text(bool url, struct pl_buf *out, const char *element, const char *text, struct pl_err *err);

/* Appends the element Owner: the caller. */
PL_MUST_CHECK
int pl_s3_add_owner(const struct pl_s3_request *q, struct pl_buf *out, struct pl_err *err);

/* ---- reading ---- */

/* Finds what a key names: a file, or, if the key ends with a slash, an existing directory. Returns 1 and the
 * entry, or 0. */
PL_MUST_CHECK
int pl_s3_find(const struct pl_branch_view *v, const char *key, size_t len, struct pl_branch_file *ret, struct pl_err *err);
/* Finds what the request reads: its key, in the newest state or in the version that it names. The caller finishes
 * both, also after an error. PL_S3_NO_SUCH_KEY, PL_S3_NO_SUCH_VERSION, errors of pl_s3_target. */
PL_MUST_CHECK
int pl_s3_find_read(struct pl_s3_request *q, struct pl_branch_view *ret_view, struct pl_branch_file *ret, struct pl_err *err);
/* Return the id of the commit that contains the file, and the file's modification time in microseconds. */
const char *pl_s3_version_of(const struct pl_branch_view *v, const struct pl_branch_file *f);
int64_t pl_s3_modified(const struct pl_branch_view *v, const struct pl_branch_file *f);
/* Returns a reader of the file's bytes. If it has an owner, the caller must drop it. */
struct pl_download_from pl_s3_bytes_of(const struct pl_branch_view *v, const struct pl_branch_file *f);

/* ---- writing ---- */

/* Converts the request's key to a path and checks it. `*ret_dir`: the key ends with a slash, which `ret_path`
 * does not have. PL_S3_KEY_TOO_LONG, PL_S3_INVALID_ARGUMENT. */
PL_MUST_CHECK
int pl_s3_key_path(const struct pl_s3_request *q, char ret_path[PL_PATH_MAX_BYTES + 1], bool *ret_dir, struct pl_err *err);
/* Adds the operations to the branch's open commit. `key`: the first operation is for the request's key, which is
 * checked first (pl_s3_check_write). `done` is called as in open_commit_put.h; its `self` is the request. Returns
 * PL_S3_ANSWERS_LATER or an error. */
PL_MUST_CHECK
int pl_s3_write(struct pl_s3_request *q, const struct pl_tree_op *ops, size_t n, bool key,
                void (*done)(void *self, struct pl_open_commit *c, uint64_t new_bytes, int r, const struct pl_err *err),
                struct pl_err *err);
/* Like pl_s3_write, for one file whose bytes are in the store. */
PL_MUST_CHECK
int pl_s3_write_entry(struct pl_s3_request *q, const char *path, const struct pl_entry *entry, const struct pl_buf *attributes,
                      void (*done)(void *self, struct pl_open_commit *c, uint64_t new_bytes, int r, const struct pl_err *err),
                      struct pl_err *err);

/* ---- operations ---- */

PL_MUST_CHECK
int pl_s3_get_object(struct pl_s3_request *q, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_object_attributes(struct pl_s3_request *q, struct pl_err *err);
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
int pl_s3_list_versions(struct pl_s3_request *q, struct pl_err *err);
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
PL_MUST_CHECK
int pl_s3_put_bucket_versioning(struct pl_s3_request *q, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_put_cors(struct pl_s3_request *q, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_get_cors(struct pl_s3_request *q, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_delete_cors(struct pl_s3_request *q, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_get_acl(struct pl_s3_request *q, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_put_acl(struct pl_s3_request *q, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_put_tagging(struct pl_s3_request *q, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_get_tagging(struct pl_s3_request *q, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_delete_tagging(struct pl_s3_request *q, struct pl_err *err);

/* ---- multipart uploads ---- */

/* A part is chunked and packed like a file of its own. Completing the upload joins the parts into one file and reads
 * only the bytes around the joins (storage/dataset/file/file_concat.h). */
PL_MUST_CHECK
int pl_s3_create_upload(struct pl_s3_request *q, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_part_before(struct pl_s3_request *q, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_upload_part(struct pl_s3_request *q, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_part_copy(struct pl_s3_request *q, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_complete_upload(struct pl_s3_request *q, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_abort_upload(struct pl_s3_request *q, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_list_parts(struct pl_s3_request *q, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_list_uploads(struct pl_s3_request *q, struct pl_err *err);
/* Finds the upload that the request names, in its bucket (q->target) and with its key. `ret` is a new
 * reference, owned by the caller. PL_S3_NO_SUCH_UPLOAD. */
struct pl_s3_upload;
PL_MUST_CHECK
int pl_s3_upload_named(struct pl_s3_request *q, struct pl_s3_upload **ret, struct pl_err *err);
