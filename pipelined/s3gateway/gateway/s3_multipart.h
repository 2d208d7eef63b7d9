/* s3_multipart: uploads in parts: rows of s3_ops.c. A part is cut and packed as if it were a file; completing makes one file of them all,
 * reading only what lies about their joins (storage/dataset/file/file_concat.h). */
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
/* The request's upload, of its bucket (q->target) and key. PL_S3_NO_SUCH_UPLOAD. */
struct pl_s3_upload;
PL_MUST_CHECK
int pl_s3_upload_named(struct pl_s3_request *q, struct pl_s3_upload **ret, struct pl_err *err);
