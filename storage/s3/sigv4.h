/* sigv4: AWS Signature Version 4 for S3, in both directions: a client signs with it, and a server computes
 * the signature to compare. No I/O, no clock. Specification:
 * https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-auth-using-authorization-header.html and the pages
 * next to it.
 *
 *   canonical request = METHOD \n path \n query \n (name:value \n)… \n name;name… \n payload
 *   string to sign    = AWS4-HMAC-SHA256 \n time \n scope \n hex SHA-256 of the canonical request
 *   signature         = hex HMAC(signing key of the day, string to sign)
 *
 * Times are strings as in the protocol: "20130524T000000Z" (pl_sigv4_time below). All functions may be called
 * from any thread, and fail with PL_ENOMEM only, unless other errors are named. sigv4_verify.h reads the
 * signature of a received request. */
#pragma once

#include "storage/base/buf.h"
#include "storage/base/hash.h"

#define PL_SIGV4_TIME_BYTES  16 /* "20130524T000000Z" */
#define PL_SIGV4_DATE_BYTES  8
#define PL_SIGV4_HEX         64
#define PL_SIGV4_REGION_MAX  63
#define PL_SIGV4_SERVICE_MAX 15
#define PL_SIGV4_PAIRS_MAX   128                 /* headers, or query parameters, of one request */
#define PL_SIGV4_TEXT_MAX    (128u << 10)        /* bytes of a canonical request */
#define PL_SIGV4_EXPIRES_MAX (7u * 24 * 60 * 60) /* maximum lifetime of a presigned URL, in seconds */
#define PL_SIGV4_SCOPE_BYTES (PL_SIGV4_DATE_BYTES + PL_SIGV4_REGION_MAX + PL_SIGV4_SERVICE_MAX + 16)

/* Values of the header x-amz-content-sha256 that are not the hash of a body. */
#define PL_SIGV4_UNSIGNED          "UNSIGNED-PAYLOAD"
#define PL_SIGV4_STREAMING         "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
#define PL_SIGV4_STREAMING_TRAILER "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
#define PL_SIGV4_UNSIGNED_TRAILER  "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
#define PL_SIGV4_EMPTY_SHA256      "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

/* A header or a decoded query parameter; header names in upper or lower case. Borrowed strings. */
struct pl_sigv4_pair {
    const char *name, *value;
};

/* A request to sign. All pointers are borrowed. */
struct pl_sigv4_request {
    const char *method;
    const char *path;                  /* decoded, from "/": "/bucket/a key" */
    const struct pl_sigv4_pair *query; /* in any order, without X-Amz-Signature */
    size_t n_query;
    /* exactly the headers to sign, in any order; values of equal names are joined by "," */
    const struct pl_sigv4_pair *headers;
    size_t n_headers;
    const char *payload; /* hex SHA-256 of the body, or one of the values above */
};

/* Day, region and service for which a signing key is valid; the final "aws4_request" is implied. */
struct pl_sigv4_scope {
    char date[PL_SIGV4_DATE_BYTES + 1];
    char region[PL_SIGV4_REGION_MAX + 1];
    char service[PL_SIGV4_SERVICE_MAX + 1];
};

struct pl_sigv4_key {
    uint8_t b[PL_HASH_BYTES];
};

/* Formats seconds since 1970 (up to the year 9999) as "20130524T000000Z"; returns `out`. */
char *pl_sigv4_time(int64_t unix_s, char out[PL_SIGV4_TIME_BYTES + 1]);
/* Parses such a time. PL_EINVAL for any other form. */
PL_MUST_CHECK
int pl_sigv4_time_parse(const char *text, int64_t *ret_unix_s, struct pl_err *err);

/* Makes the scope of a time. PL_EINVAL if region or service is empty, too long, or has bytes other than
 * [A-Za-z0-9._-]. */
PL_MUST_CHECK
int pl_sigv4_scope_init(struct pl_sigv4_scope *scope, const char *time, const char *region, const char *service,
                        struct pl_err *err);
/* Formats a scope as "20130524/us-east-1/s3/aws4_request"; returns `out`. */
char *pl_sigv4_scope_text(const struct pl_sigv4_scope *scope, char out[PL_SIGV4_SCOPE_BYTES]);

/* Derives the signing key of a scope from the secret, with four HMACs. */
PL_MUST_CHECK
int pl_sigv4_key_derive(const char *secret, const struct pl_sigv4_scope *scope, struct pl_sigv4_key *ret, struct pl_err *err);
/* Like pl_sigv4_key_derive, with a cache of PL_SIGV4_KEYS_KEPT keys for the whole process. The cache key
 * includes the secret, so a changed secret never yields an old signing key. */
#define PL_SIGV4_KEYS_KEPT 256
PL_MUST_CHECK
int pl_sigv4_key(const char *secret, const struct pl_sigv4_scope *scope, struct pl_sigv4_key *ret, struct pl_err *err);

/* Appends the canonical request. PL_ELIMIT for more than PL_SIGV4_PAIRS_MAX headers or parameters, PL_ETOOBIG
 * beyond out->max. */
PL_MUST_CHECK
int pl_sigv4_canonical(const struct pl_sigv4_request *q, struct pl_buf *out, struct pl_err *err);
/* Appends the query string in its signed form, "a=1&b=", sorted and percent-encoded. A client that sends this
 * form sends exactly what was signed. */
PL_MUST_CHECK
int pl_sigv4_query(const struct pl_sigv4_pair *query, size_t n, struct pl_buf *out, struct pl_err *err);
/* Computes the signature of a request: 64 lower-case hex digits. Errors as in pl_sigv4_canonical. */
PL_MUST_CHECK
int pl_sigv4_sign(const struct pl_sigv4_request *q, const struct pl_sigv4_scope *scope, const struct pl_sigv4_key *key,
                  const char *time, char ret[PL_SIGV4_HEX + 1], struct pl_err *err);
/* Appends the value of the Authorization header. The request's headers must contain host, x-amz-date,
 * x-amz-content-sha256 and, with temporary credentials, x-amz-security-token; all of them are signed.
 * `ret_signature` (may be NULL) receives the signature, the seed of chunk signatures. */
PL_MUST_CHECK
int pl_sigv4_authorization(const struct pl_sigv4_request *q, const struct pl_sigv4_scope *scope, const struct pl_sigv4_key *key,
                           const char *access_key, const char *time, struct pl_buf *out, char ret_signature[PL_SIGV4_HEX + 1],
                           struct pl_err *err);
/* Appends the path and the query of a presigned URL, percent-encoded:
 * "/bucket/key?X-Amz-Algorithm=…&X-Amz-Signature=…". The user of the URL must send the request's headers
 * (host at least) unchanged. q->payload must be PL_SIGV4_UNSIGNED, or equal to the hash in a signed header
 * x-amz-content-sha256. `token` may be NULL. PL_EINVAL unless 1 ≤ expires_s ≤ PL_SIGV4_EXPIRES_MAX. */
PL_MUST_CHECK
int pl_sigv4_presign(const struct pl_sigv4_request *q, const struct pl_sigv4_scope *scope, const struct pl_sigv4_key *key,
                     const char *access_key, const char *token, const char *time, uint32_t expires_s, struct pl_buf *out,
                     struct pl_err *err);

/* State of the signatures of an aws-chunked body; each signature includes the previous one. */
struct pl_sigv4_stream {
    struct pl_sigv4_key key;
    char time[PL_SIGV4_TIME_BYTES + 1];
    char scope[PL_SIGV4_SCOPE_BYTES];
    char previous[PL_SIGV4_HEX + 1];
};
/* Starts with `seed`, the signature of the request's headers. */
void pl_sigv4_stream_init(struct pl_sigv4_stream *s, const struct pl_sigv4_scope *scope, const struct pl_sigv4_key *key,
                          const char *time, const char *seed);
/* Computes the signature of the next chunk, whose bytes have the SHA-256 `sha256`. The last chunk is
 * empty. */
PL_MUST_CHECK
int pl_sigv4_stream_chunk(struct pl_sigv4_stream *s, const struct pl_hash *sha256, char ret[PL_SIGV4_HEX + 1],
                          struct pl_err *err);
/* Computes the signature of the trailer, after the last chunk. `sha256` is the hash of its lines
 * "name:value\n" with lower-case names. */
PL_MUST_CHECK
int pl_sigv4_stream_trailer(struct pl_sigv4_stream *s, const struct pl_hash *sha256, char ret[PL_SIGV4_HEX + 1],
                            struct pl_err *err);

/* Compares two signatures in constant time. Returns false if one of them does not have PL_SIGV4_HEX
 * digits. */
bool pl_sigv4_same(const char *a, const char *b);
