/* s3_body: receives the body of a request: removes the aws-chunked framing, checks checksums and signatures,
 * and keeps the bytes in a spool (body_spool.h) until the body is complete. One thread at a time. */
#pragma once

#include "pipelined/api/transfer/body_spool.h"
#include "pipelined/s3gateway/formats/s3_checksum.h"
#include "pipelined/s3gateway/formats/s3_chunked.h"
#include "storage/base/hash.h"
#include "storage/s3/sigv4.h"

struct pl_s3_request;

#define PL_S3_OBJECT_MAX ((uint64_t)5 << 30) /* largest body of a PUT or of a part, in bytes */
/* a body up to this size is kept in memory, if the spool has memory left */
#define PL_S3_MEMORY_ONE ((uint64_t)16 << 20)

struct pl_s3_body {
    struct pl_body_spool spool;
    uint64_t length; /* announced length in bytes, without framing */
    uint8_t md5[16]; /* computed MD5; valid once the body is complete */
    /* computed checksum of the kind that the client chose; kind NONE = not computed */
    struct pl_s3_sum sum;
    uint8_t sum_bytes[PL_S3_SUM_MAX_BYTES];

    bool framed, has_sum, wants_md5;
    bool sum_trails; /* the checksum's value follows the body, in a trailer */
    uint8_t said_sum[PL_S3_SUM_MAX_BYTES], said_md5[16];
    void *md5_context; /* EVP_MD_CTX of OpenSSL; owned */
    bool hashes;       /* compare the SHA-256 of the whole body with `said_sha256` */
    struct pl_hash said_sha256;
    struct pl_hasher sha256;
    struct pl_s3_chunked chunked;
    bool signs; /* the chunks are signed */
    bool signs_trailer, trailer_seen, trailer_signed;
    struct pl_sigv4_stream stream;
    struct pl_hasher chunk_hash, trailer_hash;
    char chunk_signature[PL_SIGV4_HEX + 1];
};

/* Creates the receiver from the request's headers. PL_S3_MISSING_LENGTH, PL_S3_ENTITY_TOO_LARGE above `max`
 * bytes, PL_S3_INVALID_DIGEST, PL_S3_INVALID_REQUEST, PL_S3_INVALID_ARGUMENT, PL_S3_NOT_IMPLEMENTED. */
PL_MUST_CHECK
int pl_s3_body_create(struct pl_s3_request *q, uint64_t max, struct pl_s3_body **ret, struct pl_err *err);
struct pl_s3_body *pl_s3_body_destroy(struct pl_s3_body *b);
/* Takes the next bytes as they were received. Errors of the spool and of the framing; PL_S3_INCOMPLETE_BODY:
 * more bytes than announced. */
PL_MUST_CHECK
int pl_s3_body_write(struct pl_s3_body *b, const void *data, size_t n, struct pl_err *err);
/* Checks the complete body: its length, checksums and trailer signature. Sets `md5` and `sum_bytes`.
 * PL_S3_INCOMPLETE_BODY, PL_S3_BAD_DIGEST, PL_S3_WRONG_SHA256, PL_S3_MALFORMED_TRAILER. */
PL_MUST_CHECK
int pl_s3_body_check(struct pl_s3_body *b, struct pl_err *err);
/* Parses the complete body as an XML document with this root. `ret` belongs to the caller. PL_S3_MALFORMED_XML. */
struct pl_s3_xml;
PL_MUST_CHECK
int pl_s3_body_xml(struct pl_s3_body *b, const char *root, struct pl_s3_xml **ret, struct pl_err *err);
