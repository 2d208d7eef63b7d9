/* s3_headers: headers and conditions of requests and replies that describe an object: ETag, times, metadata,
 * checksum. */
#pragma once

#include "pipelined/s3gateway/gateway/gateway_internal.h"
#include "storage/tree_edit/file_attributes.h"

#define PL_S3_META_MAX       2048u /* bytes of all names and values of x-amz-meta-* */
#define PL_S3_TYPE_DEFAULT   "binary/octet-stream"
#define PL_S3_DIRECTORY_ETAG "d41d8cd98f00b204e9800998ecf8427e"

/* Gives the ETag, without quotes: the stored one, or one made from the content. */
void pl_s3_etag(const struct pl_entry *entry, const struct pl_buf *attributes, char ret[PL_S3_ETAG_MAX + 1]);
/* Puts the ETag in quotes, as XML documents and headers need it. */
void pl_s3_quote(const char *etag, char ret[PL_S3_ETAG_MAX + 3]);
/* Format a time as "Wed, 12 Oct 2009 17:50:00 GMT", and as "2009-10-12T17:50:30.000Z". */
void pl_s3_http_time(int64_t us, char ret[32]);
void pl_s3_iso_time(int64_t us, char ret[32]);

/* What the gateway itself knows of a file's bytes. */
struct pl_s3_known {
    const char *etag;                       /* NULL = none */
    enum pl_s3_sum_kind kind;               /* of `sum` */
    const char *sum;                        /* checksum as text; NULL = none */
    const struct pl_attribute_field *parts; /* PL_ATTR_PARTS; NULL = none */
    const char *tags;                       /* as stored (s3_tags.h); "" = no tags; NULL = not known */
};
/* Makes the attributes of a file that the request puts: from its headers, what is known of the bytes, and the
 * current time. If all together are too large, the checksums of the parts are left out, then the parts.
 * PL_S3_METADATA_TOO_LARGE, PL_S3_INVALID_ARGUMENT. */
PL_MUST_CHECK
int pl_s3_attributes(const struct pl_s3_request *q, const struct pl_s3_known *known, struct pl_buf *out, struct pl_err *err);
/* Like pl_s3_attributes, but starts from the existing attributes `from` instead of the request's headers. A
 * checksum, parts and tags that are given replace the existing ones. */
PL_MUST_CHECK
int pl_s3_attributes_again(const struct pl_buf *from, const struct pl_s3_known *known, struct pl_buf *out, struct pl_err *err);
/* Checks the headers that set an ACL. PL_S3_INVALID_ARGUMENT, PL_S3_ACL_NOT_SUPPORTED, PL_S3_BUCKET_ACL. */
PL_MUST_CHECK
int pl_s3_check_acl(const struct pl_s3_request *q, struct pl_err *err);
/* Appends the tags of the header x-amz-tagging as they are stored; nothing if there are none. The buffer has a NUL
 * behind them. Errors of pl_s3_tags_of_header; PL_S3_NOT_IMPLEMENTED: the key is that of a folder. */
PL_MUST_CHECK
int pl_s3_tags_asked(const struct pl_s3_request *q, struct pl_buf *out, struct pl_err *err);
/* Refuses headers that ask for features that the gateway lacks (encryption, locks). Errors of
 * pl_s3_check_acl; PL_S3_NOT_IMPLEMENTED names the header; PL_S3_INVALID_STORAGE_CLASS. */
PL_MUST_CHECK
int pl_s3_check_wants(const struct pl_s3_request *q, struct pl_err *err);

/* Sets the reply headers of a file, except Content-Type, which it writes into `type` and returns: an override
 * in the query, the file's own, or the default. `part`: the reply is one of several parts, so the checksum of the
 * file is left out. */
const char *pl_s3_reply_attributes(struct pl_s3_request *q, const struct pl_branch_file *f, bool part, char *type,
                                   size_t type_size);
/* Returns true if the client asks for checksums in the reply. */
bool pl_s3_wants_sum(const struct pl_s3_request *q);
/* Sets x-amz-version-id, unless `commit` is "". */
void pl_s3_reply_version(struct pl_s3_request *q, const char *commit);
/* Sets the ETag header, quoted. */
void pl_s3_reply_etag(struct pl_s3_request *q, const char *etag);
/* Sets the header of a checksum and x-amz-checksum-type, unless `text` is "". `composite`: the object's checksum
 * is made of those of its parts. */
void pl_s3_reply_sum(struct pl_s3_request *q, enum pl_s3_sum_kind kind, const char *text, bool composite);
/* Reads the stored checksum; PL_S3_SUM_NONE if there is none. */
enum pl_s3_sum_kind pl_s3_stored_sum(const struct pl_branch_file *f, char ret[PL_S3_SUM_TEXT]);
/* Reads the parts in which the file was uploaded. False: it was not uploaded in parts, or they are not known. */
bool pl_s3_parts_of(const struct pl_branch_file *f, struct pl_file_parts *ret);

/* Returns true if a header's list of ETags ("*", or several, quoted or not) contains this one. */
bool pl_s3_etag_listed(const char *list, const char *etag);
/* Checks the conditions of a read: If-Match, If-None-Match, If-Modified-Since and If-Unmodified-Since, whose
 * names begin with `prefix` ("" or "x-amz-copy-source-"). PL_S3_PRECONDITION_FAILED. `*ret_unchanged`: reply
 * 304. */
PL_MUST_CHECK
int pl_s3_read_conditions(const struct pl_s3_request *q, const char *prefix, const char *etag, int64_t modified_us,
                          bool *ret_unchanged, struct pl_err *err);
/* Checks the form of a write's conditions: If-None-Match or If-Match, with ETags or "*"; of a DELETE also
 * x-amz-if-match-last-modified-time and x-amz-if-match-size. PL_S3_NOT_IMPLEMENTED, PL_S3_INVALID_REQUEST,
 * PL_S3_INVALID_ARGUMENT. */
PL_MUST_CHECK
int pl_s3_check_write_conditions(const struct pl_s3_request *q, struct pl_err *err);
/* Checks a write of the request's key against the present file (`now`, NULL = none): that the write does not make a
 * folder of a file or a file of an empty folder, and the conditions of the request, if it has any. A
 * pl_open_commit_put_options.check whose `self` is the request. PL_ECOLLISION, PL_S3_PRECONDITION_FAILED,
 * PL_S3_NO_SUCH_KEY. */
PL_MUST_CHECK
int pl_s3_check_write(void *self, const struct pl_branch_file *now, struct pl_err *err);
