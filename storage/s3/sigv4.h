/* sigv4: AWS Signature Version 4 for S3, both ways: what a client signs and what a verifier computes. No I/O, no clock.
 * https://docs.aws.amazon.com/AmazonS3/latest/API/sigv4-auth-using-authorization-header.html and its neighbours.
 *
 *   canonical request = METHOD \n path \n query \n (name:value \n)… \n name;name… \n payload
 *   string to sign    = AWS4-HMAC-SHA256 \n time \n scope \n hex SHA-256 of the canonical request
 *   signature         = hex HMAC(key of the day, string to sign)
 *
 * Times are texts as on the wire: "20130524T000000Z" (sigv4_time below). All functions may be called from any thread; PL_ENOMEM is
 * their only error where no other is named. Reading what a request claims: sigv4_verify.h. */
#pragma once

#include "storage/base/buf.h"
#include "storage/base/hash.h"

#define PL_SIGV4_TIME_BYTES  16 /* "20130524T000000Z" */
#define PL_SIGV4_DATE_BYTES  8
#define PL_SIGV4_HEX         64
#define PL_SIGV4_REGION_MAX  63
#define PL_SIGV4_SERVICE_MAX 15
#define PL_SIGV4_PAIRS_MAX   128                 /* headers or query parameters of one request */
#define PL_SIGV4_TEXT_MAX    (128u << 10)        /* a canonical request */
#define PL_SIGV4_EXPIRES_MAX (7u * 24 * 60 * 60) /* seconds; of a presigned URL */
#define PL_SIGV4_SCOPE_BYTES (PL_SIGV4_DATE_BYTES + PL_SIGV4_REGION_MAX + PL_SIGV4_SERVICE_MAX + 16)

/* What x-amz-content-sha256 may say beside a hash. */
#define PL_SIGV4_UNSIGNED          "UNSIGNED-PAYLOAD"
#define PL_SIGV4_STREAMING         "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
#define PL_SIGV4_STREAMING_TRAILER "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
#define PL_SIGV4_UNSIGNED_TRAILER  "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
#define PL_SIGV4_EMPTY_SHA256      "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

/* A header or a query parameter, decoded; names of headers in any case. Borrowed. */
struct pl_sigv4_pair {
    const char *name, *value;
};

/* A request as it is signed. Everything is borrowed. */
struct pl_sigv4_request {
    const char *method;
    const char *path;                  /* decoded, from "/": "/bucket/a key" */
    const struct pl_sigv4_pair *query; /* any order; without X-Amz-Signature */
    size_t n_query;
    const struct pl_sigv4_pair *headers; /* exactly those to sign, any order; of one name several are joined by "," */
    size_t n_headers;
    const char *payload; /* hex SHA-256 of the body or one of the words above */
};

/* Day, region and service that a key is for; "aws4_request" is understood. */
struct pl_sigv4_scope {
    char date[PL_SIGV4_DATE_BYTES + 1];
    char region[PL_SIGV4_REGION_MAX + 1];
    char service[PL_SIGV4_SERVICE_MAX + 1];
};

struct pl_sigv4_key {
    uint8_t b[PL_HASH_BYTES];
};

/* "20130524T000000Z" of seconds since 1970 (0 .. the year 9999); returns `out`. */
char *pl_sigv4_time(int64_t unix_s, char out[PL_SIGV4_TIME_BYTES + 1]);
/* The other way. PL_EINVAL for anything but that form. */
PL_MUST_CHECK
int pl_sigv4_time_parse(const char *text, int64_t *ret_unix_s, struct pl_err *err);

/* The scope of a time; PL_EINVAL when region or service is empty, too long, or has bytes other than [A-Za-z0-9._-]. */
PL_MUST_CHECK
int pl_sigv4_scope_init(struct pl_sigv4_scope *scope, const char *time, const char *region, const char *service,
                        struct pl_err *err);
/* "20130524/us-east-1/s3/aws4_request"; returns `out`. */
char *pl_sigv4_scope_text(const struct pl_sigv4_scope *scope, char out[PL_SIGV4_SCOPE_BYTES]);

/* The key of a scope: four HMACs. */
PL_MUST_CHECK
int pl_sigv4_key_derive(const char *secret, const struct pl_sigv4_scope *scope, struct pl_sigv4_key *ret, struct pl_err *err);
/* The same out of a cache of PL_SIGV4_KEYS_KEPT keys that the whole process shares. A secret that changed is another key. */
#define PL_SIGV4_KEYS_KEPT 256
PL_MUST_CHECK
int pl_sigv4_key(const char *secret, const struct pl_sigv4_scope *scope, struct pl_sigv4_key *ret, struct pl_err *err);

/* Appends the canonical request. PL_ELIMIT past PL_SIGV4_PAIRS_MAX, PL_ETOOBIG past out->max. */
PL_MUST_CHECK
int pl_sigv4_canonical(const struct pl_sigv4_request *q, struct pl_buf *out, struct pl_err *err);
/* Appends the query as it is signed, "a=1&b=": sorted and encoded. What is sent in this form is signed as it was sent. */
PL_MUST_CHECK
int pl_sigv4_query(const struct pl_sigv4_pair *query, size_t n, struct pl_buf *out, struct pl_err *err);
/* The signature of a request, 64 lower-case hex digits. Errors as pl_sigv4_canonical. */
PL_MUST_CHECK
int pl_sigv4_sign(const struct pl_sigv4_request *q, const struct pl_sigv4_scope *scope, const struct pl_sigv4_key *key,
                  const char *time, char ret[PL_SIGV4_HEX + 1], struct pl_err *err);
/* Appends the value of the Authorization header. The request's headers must hold host, x-amz-date, x-amz-content-sha256 and, with
 * temporary credentials, x-amz-security-token; all that is in them is signed. `ret_signature` (may be NULL) is the seed of chunk
 * signatures. */
PL_MUST_CHECK
int pl_sigv4_authorization(const struct pl_sigv4_request *q, const struct pl_sigv4_scope *scope, const struct pl_sigv4_key *key,
                           const char *access_key, const char *time, struct pl_buf *out, char ret_signature[PL_SIGV4_HEX + 1],
                           struct pl_err *err);
/* Appends the path and the whole query of a presigned URL, percent-encoded: "/bucket/key?X-Amz-Algorithm=…&X-Amz-Signature=…". The
 * request's headers (host at least) are those that the holder must send as they are; q->payload is PL_SIGV4_UNSIGNED or the hash that
 * a signed x-amz-content-sha256 names. `token` may be NULL. PL_EINVAL unless 1 ≤ expires_s ≤ PL_SIGV4_EXPIRES_MAX. */
PL_MUST_CHECK
int pl_sigv4_presign(const struct pl_sigv4_request *q, const struct pl_sigv4_scope *scope, const struct pl_sigv4_key *key,
                     const char *access_key, const char *token, const char *time, uint32_t expires_s, struct pl_buf *out,
                     struct pl_err *err);

/* The signatures of an aws-chunked body: each is made over the one before. */
struct pl_sigv4_stream {
    struct pl_sigv4_key key;
    char time[PL_SIGV4_TIME_BYTES + 1];
    char scope[PL_SIGV4_SCOPE_BYTES];
    char previous[PL_SIGV4_HEX + 1];
};
/* `seed` is the signature of the request's head. */
void pl_sigv4_stream_init(struct pl_sigv4_stream *s, const struct pl_sigv4_scope *scope, const struct pl_sigv4_key *key,
                          const char *time, const char *seed);
/* The signature of the next chunk, whose bytes hash to `sha256` (the last chunk is empty). */
PL_MUST_CHECK
int pl_sigv4_stream_chunk(struct pl_sigv4_stream *s, const struct pl_hash *sha256, char ret[PL_SIGV4_HEX + 1],
                          struct pl_err *err);
/* The signature of the trailer, whose lines "name:value\n" (names in lower case) hash to `sha256`; after the last chunk. */
PL_MUST_CHECK
int pl_sigv4_stream_trailer(struct pl_sigv4_stream *s, const struct pl_hash *sha256, char ret[PL_SIGV4_HEX + 1],
                            struct pl_err *err);

/* Whether two signatures of PL_SIGV4_HEX digits are the same, in constant time; false when one is of another length. */
bool pl_sigv4_same(const char *a, const char *b);
