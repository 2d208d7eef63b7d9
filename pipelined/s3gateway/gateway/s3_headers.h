/* s3_headers: what requests and answers say of an object beside its bytes: ETag, times, metadata, conditions. */
#pragma once

#include "pipelined/s3gateway/gateway/gateway_internal.h"

#define PL_S3_META_MAX       2048u /* bytes of names and values of x-amz-meta-* */
#define PL_S3_TYPE_DEFAULT   "binary/octet-stream"
#define PL_S3_DIRECTORY_ETAG "d41d8cd98f00b204e9800998ecf8427e"

/* Without quotes. */
void pl_s3_etag(const struct pl_entry *entry, const struct pl_buf *attributes, char ret[PL_S3_ETAG_MAX + 1]);
/* As it stands in documents and headers: in quotes. */
void pl_s3_quote(const char *etag, char ret[PL_S3_ETAG_MAX + 3]);
/* "Wed, 12 Oct 2009 17:50:00 GMT"; "2009-10-12T17:50:30.000Z". */
void pl_s3_http_time(int64_t us, char ret[32]);
void pl_s3_iso_time(int64_t us, char ret[32]);

/* Attributes of what the request puts: its headers, with this ETag and checksum (`sum` NULL: none). PL_S3_METADATA_TOO_LARGE,
 * PL_S3_INVALID_ARGUMENT. */
PL_MUST_CHECK
int pl_s3_attributes(const struct pl_s3_request *q, const char *etag, enum pl_s3_sum_kind kind, const char *sum,
                     struct pl_buf *out, struct pl_err *err);
/* The same from what is known already; a checksum that is given takes the place of the one there. */
PL_MUST_CHECK
int pl_s3_attributes_again(const struct pl_buf *from, const char *etag, enum pl_s3_sum_kind kind, const char *sum,
                           struct pl_buf *out, struct pl_err *err);
/* Headers that want what is not there. PL_S3_NOT_IMPLEMENTED by name, PL_S3_INVALID_STORAGE_CLASS. */
PL_MUST_CHECK
int pl_s3_check_wants(const struct pl_s3_request *q, struct pl_err *err);

/* The answer's headers of a file: all but Content-Type, which is returned (the request's own, an override in its query, or the default). */
const char *pl_s3_reply_attributes(struct pl_s3_request *q, const struct pl_branch_file *f, char *type, size_t type_size);
/* x-amz-version-id */
void pl_s3_reply_version(struct pl_s3_request *q, const char *commit);
/* ETag, quoted. */
void pl_s3_reply_etag(struct pl_s3_request *q, const char *etag);
void pl_s3_reply_sum(struct pl_s3_request *q, enum pl_s3_sum_kind kind, const char *text);

/* Whether a header's list of ETags ("*", several, quoted or not) has this one. */
bool pl_s3_etag_listed(const char *list, const char *etag);
/* If-Match, If-None-Match, If-Modified-Since, If-Unmodified-Since, their names with `prefix` before them ("", "x-amz-copy-source-").
 * PL_S3_PRECONDITION_FAILED; `*ret_unchanged`: 304 is the answer. */
PL_MUST_CHECK
int pl_s3_read_conditions(const struct pl_s3_request *q, const char *prefix, const char *etag, int64_t modified_us,
                          bool *ret_unchanged, struct pl_err *err);
/* Those of a write: If-None-Match: *, If-Match. PL_S3_NOT_IMPLEMENTED for others. */
PL_MUST_CHECK
int pl_s3_check_write_conditions(const struct pl_s3_request *q, struct pl_err *err);
/* pl_open_commit_put_options.check of a request that has such; `self` is the request. PL_S3_PRECONDITION_FAILED, PL_S3_NO_SUCH_KEY. */
PL_MUST_CHECK
int pl_s3_write_conditions(void *self, const struct pl_branch_file *now, struct pl_err *err);
bool pl_s3_has_write_conditions(const struct pl_s3_request *q);
