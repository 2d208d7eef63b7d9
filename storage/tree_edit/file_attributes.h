/* file_attributes: what S3 clients store about a file besides its bytes: ETag, content type, metadata.
 * Attributes travel with the PUT of a path (tree_edit.h) and become the row of that path in the commit's
 * second tree. The tree of paths and content ids do not include them.
 *
 *   u8 version, 1; then fields, their tags ascending (META may repeat, with strictly ascending names):
 *     u8 tag, varint length, bytes
 *
 *   1 ETAG         text between the quotes          6 ENCODING  Content-Encoding
 *   2 MODIFIED     u64 LE, µs since 1970 UTC        7 LANGUAGE  Content-Language
 *   3 TYPE         Content-Type                     8 EXPIRES   Expires
 *   4 CACHE        Cache-Control                    9 CHECKSUM  u8 algorithm, then the header's text:
 *   5 DISPOSITION  Content-Disposition                          base64, or base64-PARTS
 *  10 PARTS        the parts of a multipart upload 11 TAGS      object tags: A=1&B=2, with % & = + as %XX
 *                                                  16 META      name in lower case, one zero byte, value
 *
 * PARTS: varint number of runs, then for each run of parts of one size: varint number of parts, varint bytes of
 * each; then nothing, or the checksum of each part, in binary, all of one length.
 *
 * Texts contain no byte < 0x20 except tab, and no 0x7F. No I/O; any thread. */
#pragma once

#include "storage/base/buf.h"

#define PL_FILE_ATTRIBUTES_MAX_BYTES 4000u /* less than PL_ROW_MAX_BYTES */

enum pl_attribute {
    PL_ATTR_ETAG = 1,
    PL_ATTR_MODIFIED = 2,
    PL_ATTR_TYPE = 3,
    PL_ATTR_CACHE = 4,
    PL_ATTR_DISPOSITION = 5,
    PL_ATTR_ENCODING = 6,
    PL_ATTR_LANGUAGE = 7,
    PL_ATTR_EXPIRES = 8,
    PL_ATTR_CHECKSUM = 9,
    PL_ATTR_PARTS = 10,
    PL_ATTR_TAGS = 11,
    PL_ATTR_META = 16
};

/* Encoded attributes, borrowed; {0} = no attributes. */
struct pl_file_attributes {
    const uint8_t *data;
    size_t len;
};

/* Encode attributes: call begin, then add in order of tag, then pl_file_attributes_check on the result.
 * PL_ENOMEM, PL_ETOOBIG. */
PL_MUST_CHECK
int pl_file_attributes_begin(struct pl_buf *out, struct pl_err *err);
PL_MUST_CHECK
int pl_file_attributes_add(struct pl_buf *out, enum pl_attribute tag, const void *bytes, size_t n, struct pl_err *err);
PL_MUST_CHECK
int pl_file_attributes_add_modified(struct pl_buf *out, int64_t us, struct pl_err *err);
/* Adds a META field. `name` is converted to lower case. */
PL_MUST_CHECK
int pl_file_attributes_add_meta(struct pl_buf *out, const char *name, const char *value, struct pl_err *err);

/* Adds a PARTS field for `n` parts (1 or more) of `sizes` bytes. `sums`: `n` checksums of `sum_bytes` bytes each;
 * NULL = none. */
PL_MUST_CHECK
int pl_file_attributes_add_parts(struct pl_buf *out, const uint64_t *sizes, size_t n, const uint8_t *sums, size_t sum_bytes,
                                 struct pl_err *err);

/* Checks the encoding described above. PL_EFORMAT. */
PL_MUST_CHECK
int pl_file_attributes_check(const struct pl_file_attributes *a, struct pl_err *err);

/* One field. `bytes` points into the attributes. */
struct pl_attribute_field {
    uint8_t tag;
    const uint8_t *bytes;
    size_t len;
};
/* Iterates: returns the field behind `*at` (0 = the first field) and moves `*at`. False at the end or at
 * damaged bytes. */
bool pl_file_attributes_next(const struct pl_file_attributes *a, size_t *at, struct pl_attribute_field *ret);
/* Finds the first field with this tag. False if there is none. */
bool pl_file_attributes_find(const struct pl_file_attributes *a, enum pl_attribute tag, struct pl_attribute_field *ret);
/* The parts of a PARTS field; points into the attributes. */
struct pl_file_parts {
    const uint8_t *runs, *end; /* the encoded runs */
    uint64_t n, bytes;         /* number of parts, and of their bytes together */
    const uint8_t *sums;       /* NULL = the parts have no checksums */
    size_t sum_bytes;
};
/* Reads the PARTS field. False if there is none. */
bool pl_file_attributes_parts(const struct pl_file_attributes *a, struct pl_file_parts *ret);
/* Reads a PARTS field by itself. False if it is malformed. */
bool pl_file_parts_read(const struct pl_attribute_field *f, struct pl_file_parts *ret);
/* Gives size and offset of part `number` (1 = the first), and its checksum (NULL = it has none). False if there
 * is no such part. */
bool pl_file_parts_get(const struct pl_file_parts *p, uint64_t number, uint64_t *ret_first, uint64_t *ret_size,
                       const uint8_t **ret_sum);
/* Returns the MODIFIED field in µs since 1970 UTC, or `fallback` if there is none. */
int64_t pl_file_attributes_modified(const struct pl_file_attributes *a, int64_t fallback);
/* True if `a` and `b` have the same fields, ignoring MODIFIED. */
bool pl_file_attributes_same(const struct pl_file_attributes *a, const struct pl_file_attributes *b);
