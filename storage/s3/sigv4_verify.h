/* sigv4_verify: reads the signature of a received request and verifies it. Pure: the caller provides the time
 * and the secret.
 *
 *   pl_sigv4_claim_read ─▶ access key ─▶ (caller finds its secret) ─▶ pl_sigv4_claim_fresh
 *                       ─▶ pl_sigv4_claim_check */
#pragma once

#include "storage/s3/sigv4.h"

#define PL_SIGV4_SKEW_S         (15 * 60)
#define PL_SIGV4_ACCESS_KEY_MAX 128
#define PL_SIGV4_SIGNED_MAX     4096 /* bytes of SignedHeaders */

/* The possible results, with S3's error code, HTTP status and message:  X(name, S3 code, status, message) */
#define PL_SIGV4_VERDICT_MAP(X)                                                                                                  \
    X(OK, "", 200, "")                                                                                                           \
    X(NONE, "AccessDenied", 403, "The request is not signed.")                                                                   \
    X(V2, "InvalidRequest", 400, "The authorization mechanism you have provided is not supported. Please use AWS4-HMAC-SHA256.") \
    X(BAD_HEADER, "AuthorizationHeaderMalformed", 400, "The authorization header is malformed.")                                 \
    X(BAD_QUERY, "AuthorizationQueryParametersError", 400, "Query-string authentication parameters are malformed.")              \
    X(BOTH, "InvalidArgument", 400, "Only one auth mechanism allowed.")                                                          \
    X(SKEWED, "RequestTimeTooSkewed", 403, "The difference between the request time and the server's time is too large.")        \
    X(EXPIRED, "AccessDenied", 403, "Request has expired.")                                                                      \
    X(UNSIGNED_HEADER, "AccessDenied", 403, "There were headers present in the request which were not signed.")                  \
    X(MISMATCH, "SignatureDoesNotMatch", 403,                                                                                    \
      "The request signature we calculated does not match the signature you provided. Check your key and signing method.")

enum pl_sigv4_verdict {
#define PL_SIGV4_VERDICT(name, ...) PL_SIGV4_##name,
    PL_SIGV4_VERDICT_MAP(PL_SIGV4_VERDICT)
#undef PL_SIGV4_VERDICT
};
struct pl_sigv4_verdict_info {
    const char *code;
    unsigned status;
    const char *message;
};
const struct pl_sigv4_verdict_info *pl_sigv4_verdict_info(enum pl_sigv4_verdict v);

/* What a request states about its signature (access key, scope, time, signed headers, signature), copied from
 * the request. */
struct pl_sigv4_claim {
    bool presigned;
    char access_key[PL_SIGV4_ACCESS_KEY_MAX + 1];
    struct pl_sigv4_scope scope;
    char time[PL_SIGV4_TIME_BYTES + 1];
    uint32_t expires_s;                           /* lifetime of a presigned URL */
    char signed_headers[PL_SIGV4_SIGNED_MAX + 1]; /* in lower case, separated by ";" */
    char signature[PL_SIGV4_HEX + 1];
};

/* Reads the claim from the Authorization header, or from the X-Amz-* parameters of the query. `q` has all
 * headers and the whole decoded query. The time of a claim in the header is x-amz-date, or Date if it has the
 * same form. Returns OK and fills `ret`; NONE if the request is not signed; V2 for Signature Version 2 in
 * header or query; BOTH for signatures in both places; BAD_HEADER or BAD_QUERY if a part is missing,
 * repeated, too long or malformed, or if the date of the scope is not that of the time. `why` (may be NULL)
 * receives a message with the reason. */
PL_MUST_CHECK
enum pl_sigv4_verdict pl_sigv4_claim_read(const struct pl_sigv4_request *q, struct pl_sigv4_claim *ret, struct pl_err *why);
/* Returns OK if `now_s` (wall clock, seconds since 1970) is within PL_SIGV4_SKEW_S of the claim's time or,
 * for a presigned URL, within its lifetime. Otherwise SKEWED (also for a presigned URL from the future) or
 * EXPIRED. */
enum pl_sigv4_verdict pl_sigv4_claim_fresh(const struct pl_sigv4_claim *c, int64_t now_s);
/* Computes the signature and compares it. Returns OK, MISMATCH, or UNSIGNED_HEADER if host is not signed or
 * the request has an x-amz-* header that is not signed. `q` is the request that was passed to
 * pl_sigv4_claim_read, with its payload set to the result of pl_sigv4_claim_payload. `ret_err` (may be NULL)
 * receives an error such as PL_ENOMEM; the result is then MISMATCH. */
PL_MUST_CHECK
enum pl_sigv4_verdict pl_sigv4_claim_check(const struct pl_sigv4_claim *c, const struct pl_sigv4_request *q,
                                           const struct pl_sigv4_key *key, struct pl_err *ret_err);
/* Returns true if the claim signs the header `name`. */
bool pl_sigv4_claim_signs(const struct pl_sigv4_claim *c, const char *name);
/* Returns the payload value that the client signed: x-amz-content-sha256 if it is present (in a presigned
 * request: if it is a signed header, or a query parameter), otherwise PL_SIGV4_EMPTY_SHA256 (presigned:
 * PL_SIGV4_UNSIGNED). Borrowed from `q`. */
const char *pl_sigv4_claim_payload(const struct pl_sigv4_claim *c, const struct pl_sigv4_request *q);
