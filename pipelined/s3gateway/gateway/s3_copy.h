/* s3_copy: the source named by x-amz-copy-source, for CopyObject and UploadPartCopy. */
#pragma once

#include "pipelined/s3gateway/gateway/s3_headers.h"
#include "pipelined/s3gateway/gateway/s3_objects.h"

struct pl_s3_copy_source {
    struct pl_buf name;
    /* parts of the source's name, within `name` or the request's header; version NULL = the newest */
    const char *text, *key, *version;
    char bucket[PL_S3_BUCKET_MAX + 1];
    struct pl_s3_target target;
    struct pl_branch_view view;
    struct pl_branch_file file;
    char etag[PL_S3_ETAG_MAX + 1];
};

/* Finds the source and checks its conditions. `s` must be `{0}`; finish it even after an error.
 * PL_S3_NO_SUCH_KEY, PL_S3_NO_SUCH_VERSION, PL_S3_INVALID_ARGUMENT, PL_S3_PRECONDITION_FAILED, errors of
 * pl_s3_target_of. */
PL_MUST_CHECK
int pl_s3_source(struct pl_s3_request *q, struct pl_s3_copy_source *s, struct pl_err *err);
void pl_s3_copy_source_finish(struct pl_s3_copy_source *s);
/* pl_s3_copy_source_keep makes sure that the source's bytes are in packs, so that another open commit of the
 * project may refer to them. pl_s3_copy_source_read appends `count` bytes from offset `first` to `spool`. */
PL_MUST_CHECK
int pl_s3_copy_source_keep(const struct pl_s3_copy_source *s, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_copy_source_read(const struct pl_s3_copy_source *s, uint64_t first, uint64_t count, struct pl_body_spool *spool,
                           struct pl_err *err);
/* Appends the reply document; `element` is "CopyObjectResult" or "CopyPartResult". `sum`: checksum of the copy, of this
 * kind; PL_S3_SUM_NONE = none. */
PL_MUST_CHECK
int pl_s3_copy_result(struct pl_buf *out, const char *element, const char *etag, enum pl_s3_sum_kind kind, const char *sum);
