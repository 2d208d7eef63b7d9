/* s3_checksum: the checksums that S3 clients send with data and read back: crc32, crc32c, crc64nvme, sha1,
 * sha256, sha512, md5. Pure functions; one sum is used by one thread. CRCs run at 1 to 2 GB/s per core. */
#pragma once

#include "storage/base/buf.h"

/* The numbers are stored in file attributes (storage/tree_edit/file_attributes.h, CHECKSUM). */
enum pl_s3_sum_kind {
    PL_S3_SUM_NONE,
    PL_S3_CRC32,
    PL_S3_CRC32C,
    PL_S3_CRC64NVME,
    PL_S3_SHA1,
    PL_S3_SHA256,
    PL_S3_SHA512,
    PL_S3_MD5,
    PL_S3_SUM_KINDS
};

#define PL_S3_ETAG_MAX      63u
#define PL_S3_SUM_MAX_BYTES 64
/* bytes of a checksum as text: base64, a suffix such as "-10000" (number of parts), and the NUL */
#define PL_S3_SUM_TEXT 96

struct pl_s3_sum_info {
    const char *name;    /* name in x-amz-checksum-algorithm, such as "CRC32" */
    const char *header;  /* name of the header, such as "x-amz-checksum-crc32" */
    const char *element; /* name of the XML element, such as "ChecksumCRC32" */
    size_t bytes;
    bool joins; /* true if the checksum of a file can be computed from the checksums of its parts */
};
/* Returns the properties of a kind; NULL for PL_S3_SUM_NONE. */
const struct pl_s3_sum_info *pl_s3_sum_info(enum pl_s3_sum_kind kind);
/* Find the kind by its name or header, ignoring case; PL_S3_SUM_NONE if there is none. */
enum pl_s3_sum_kind pl_s3_sum_named(const char *name);
enum pl_s3_sum_kind pl_s3_sum_of_header(const char *header);

struct pl_s3_sum {
    enum pl_s3_sum_kind kind;
    uint64_t crc;
    void *md; /* EVP_MD_CTX of OpenSSL; NULL for CRCs */
};
/* Starts a sum; finish it with pl_s3_sum_finish. `{0}` is a sum of kind NONE, which ignores all data.
 * PL_ENOMEM. */
PL_MUST_CHECK
int pl_s3_sum_init(struct pl_s3_sum *s, enum pl_s3_sum_kind kind, struct pl_err *err);
void pl_s3_sum_finish(struct pl_s3_sum *s);
void pl_s3_sum_add(struct pl_s3_sum *s, const void *data, size_t n);
/* Gives the checksum: big-endian, padded with zeros. No data may be added afterwards. */
void pl_s3_sum_get(struct pl_s3_sum *s, uint8_t ret[PL_S3_SUM_MAX_BYTES]);
/* Joins two CRCs. `a` is the CRC of a first block of bytes, and `b` is the CRC of the `b_bytes` bytes that
 * follow this block. On return `a` is the CRC of the block and these bytes together. */
void pl_s3_sum_join(enum pl_s3_sum_kind kind, uint8_t a[PL_S3_SUM_MAX_BYTES], const uint8_t b[PL_S3_SUM_MAX_BYTES],
                    uint64_t b_bytes);

/* Encodes the bytes of a sum as base64. */
void pl_s3_sum_text(enum pl_s3_sum_kind kind, const uint8_t bytes[PL_S3_SUM_MAX_BYTES], char ret[PL_S3_SUM_TEXT]);
/* Decodes base64; false if the text is not a sum of this kind. */
bool pl_s3_sum_parse(enum pl_s3_sum_kind kind, const char *text, uint8_t ret[PL_S3_SUM_MAX_BYTES]);
