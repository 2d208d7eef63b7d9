/* s3_checksum: the checksums that S3 clients send along with bytes and want back: crc32, crc32c, crc64nvme, sha1, sha256. Pure; one sum is
 * for one thread. CRCs go at 1 to 2 GB/s a core. */
#pragma once

#include "storage/base/buf.h"

/* The numbers are those of attributes (storage/tree_edit/file_attributes.h, CHECKSUM). */
enum pl_s3_sum_kind { PL_S3_SUM_NONE, PL_S3_CRC32, PL_S3_CRC32C, PL_S3_CRC64NVME, PL_S3_SHA1, PL_S3_SHA256, PL_S3_SUM_KINDS };

#define PL_S3_ETAG_MAX      63u
#define PL_S3_SUM_MAX_BYTES 32
#define PL_S3_SUM_TEXT      56 /* base64, "-10000" and the NUL fit */
#define PL_S3_ETAG_MAX      63u

struct pl_s3_sum_info {
    const char *name;    /* "CRC32", in x-amz-checksum-algorithm */
    const char *header;  /* "x-amz-checksum-crc32" */
    const char *element; /* "ChecksumCRC32" */
    size_t bytes;
    bool joins; /* the sum of a whole follows from those of its parts */
};
/* NULL for PL_S3_SUM_NONE. */
const struct pl_s3_sum_info *pl_s3_sum_info(enum pl_s3_sum_kind kind);
/* PL_S3_SUM_NONE for a name that is none; in any case. */
enum pl_s3_sum_kind pl_s3_sum_named(const char *name);
enum pl_s3_sum_kind pl_s3_sum_of_header(const char *header);

struct pl_s3_sum {
    enum pl_s3_sum_kind kind;
    uint64_t crc;
    void *md; /* OpenSSL's */
};
/* `{0}` is a sum of kind NONE, which adds nothing. PL_ENOMEM. */
PL_MUST_CHECK
int pl_s3_sum_init(struct pl_s3_sum *s, enum pl_s3_sum_kind kind, struct pl_err *err);
void pl_s3_sum_finish(struct pl_s3_sum *s);
void pl_s3_sum_add(struct pl_s3_sum *s, const void *data, size_t n);
/* The bytes as they are told: big-endian. Nothing may be added afterwards. */
void pl_s3_sum_get(struct pl_s3_sum *s, uint8_t ret[PL_S3_SUM_MAX_BYTES]);
/* Of CRCs: `a` of some bytes, `b` of the `b_bytes` behind them → that of both, into `a`. */
void pl_s3_sum_join(enum pl_s3_sum_kind kind, uint8_t a[PL_S3_SUM_MAX_BYTES], const uint8_t b[PL_S3_SUM_MAX_BYTES],
                    uint64_t b_bytes);

/* Bytes of a sum ↔ base64. */
void pl_s3_sum_text(enum pl_s3_sum_kind kind, const uint8_t bytes[PL_S3_SUM_MAX_BYTES], char ret[PL_S3_SUM_TEXT]);
/* False when it is none of that kind. */
bool pl_s3_sum_parse(enum pl_s3_sum_kind kind, const char *text, uint8_t ret[PL_S3_SUM_MAX_BYTES]);
