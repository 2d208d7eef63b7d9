/* s3_body: the body of a request on its way in: its framing taken off, its sums and signatures checked, its bytes kept until it is whole
 * (spool.h). One thread at a time. */
#pragma once

#include "pipelined/api/transfer/body_spool.h"
#include "pipelined/s3gateway/formats/s3_checksum.h"
#include "pipelined/s3gateway/formats/s3_chunked.h"
#include "storage/base/hash.h"
#include "storage/s3/sigv4.h"

struct pl_s3_request;

#define PL_S3_OBJECT_MAX ((uint64_t)5 << 30)  /* bytes of one PUT or part */
#define PL_S3_MEMORY_ONE ((uint64_t)16 << 20) /* a body up to here is kept in memory, while there is some for it (spool.h) */

struct pl_s3_body {
    struct pl_body_spool spool;
    uint64_t length;      /* bytes that are to come, without framing */
    uint8_t md5[16];      /* when it is whole */
    struct pl_s3_sum sum; /* the client's, or kind NONE */
    uint8_t sum_bytes[PL_S3_SUM_MAX_BYTES];

    bool framed, has_sum, wants_md5;
    bool sum_trails; /* its value comes behind the body */
    uint8_t said_sum[PL_S3_SUM_MAX_BYTES], said_md5[16];
    void *md5_context; /* OpenSSL's */
    bool hashes;       /* all of it against `said_sha256` */
    struct pl_hash said_sha256;
    struct pl_hasher sha256;
    struct pl_s3_chunked chunked;
    bool signs; /* its chunks are signed */
    bool signs_trailer, trailer_seen, trailer_signed;
    struct pl_sigv4_stream stream;
    struct pl_hasher chunk_hash, trailer_hash;
    char chunk_signature[PL_SIGV4_HEX + 1];
};

/* What the head says of it. PL_S3_MISSING_LENGTH, PL_S3_ENTITY_TOO_LARGE past `max` bytes, PL_S3_INVALID_DIGEST, PL_S3_INVALID_REQUEST,
 * PL_S3_NOT_IMPLEMENTED. */
PL_MUST_CHECK
int pl_s3_body_create(struct pl_s3_request *q, uint64_t max, struct pl_s3_body **ret, struct pl_err *err);
struct pl_s3_body *pl_s3_body_destroy(struct pl_s3_body *b);
/* The next bytes as they come. Errors of spool and framing; PL_S3_INCOMPLETE_BODY: more than was said. */
PL_MUST_CHECK
int pl_s3_body_write(struct pl_s3_body *b, const void *data, size_t n, struct pl_err *err);
/* It is at its end: that all came, and is what the client said. PL_S3_INCOMPLETE_BODY, PL_S3_BAD_DIGEST, PL_S3_WRONG_SHA256,
 * PL_S3_SIGNATURE_MISMATCH, PL_S3_MALFORMED_TRAILER. */
PL_MUST_CHECK
int pl_s3_body_check(struct pl_s3_body *b, struct pl_err *err);
