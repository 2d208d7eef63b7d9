/* s3_tags: the tags of an object: in the header x-amz-tagging, as XML, and as they are stored (PL_ATTR_TAGS of
 * storage/tree_edit/file_attributes.h).
 *
 *   stored: KEY=VALUE&KEY=VALUE…, sorted by key; %, &, =, + and control characters as %XX, all else as it is
 *
 * Bounds are S3's: PL_S3_TAGS_MAX tags with different keys of 1 to PL_S3_TAG_KEY_MAX characters and values of at most
 * PL_S3_TAG_VALUE_MAX. Pure; any thread. */
#pragma once

#include "storage/base/buf.h"

#define PL_S3_TAGS_MAX      10u
#define PL_S3_TAG_KEY_MAX   128u
#define PL_S3_TAG_VALUE_MAX 256u

struct pl_s3_xml_node;

/* Append the tags to `out` as they are stored, from a header's value ("" = no tags), or from the root of a Tagging
 * document. PL_S3_INVALID_TAG beyond a bound or with a key that occurs twice or begins with "aws:";
 * PL_S3_INVALID_ARGUMENT: the header is not percent-encoded; PL_S3_MALFORMED_XML. */
PL_MUST_CHECK
int pl_s3_tags_of_header(const char *text, struct pl_buf *out, struct pl_err *err);
PL_MUST_CHECK
int pl_s3_tags_of_xml(const struct pl_s3_xml_node *root, struct pl_buf *out, struct pl_err *err);
/* Appends stored tags as a Tagging document. */
PL_MUST_CHECK
int pl_s3_tags_xml(const char *stored, size_t len, struct pl_buf *out, struct pl_err *err);
/* Returns the number of stored tags. */
size_t pl_s3_tags_count(const char *stored, size_t len);
