/* s3_multipart: multipart uploads; the functions are rows of s3_operations.c. A part is chunked and packed
 * like a file of its own. Completing the upload joins the parts into one file and reads only the bytes around
 * the joins (storage/dataset/file/file_concat.h). */
#pragma once

#include "pipelined/s3gateway/gateway/gateway_internal.h"

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
