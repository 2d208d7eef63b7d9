/* sigv4_verify: what a request says about its signature, and whether that is true. Pure: the caller brings the clock and the secret.
 *
 *   pl_sigv4_claim_read ─▶ key id ─▶ (caller: secret of that key) ─▶ pl_sigv4_claim_fresh ─▶ pl_sigv4_claim_check */
#pragma once

#include "storage/s3/sigv4.h"

#define PL_SIGV4_SKEW_S         (15 * 60)
#define PL_SIGV4_ACCESS_KEY_MAX 128
#define PL_SIGV4_SIGNED_MAX     4096 /* bytes of SignedHeaders */

/* The outcomes, with S3's own error code, HTTP status and sentence:  X(name, S3 code, status, message) */
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

/* What the request claims. Copied: nothing of the request is held. */
struct pl_sigv4_claim {
    bool presigned;
    char access_key[PL_SIGV4_ACCESS_KEY_MAX + 1];
    struct pl_sigv4_scope scope;
    char time[PL_SIGV4_TIME_BYTES + 1];
    uint32_t expires_s;                           /* presigned */
    char signed_headers[PL_SIGV4_SIGNED_MAX + 1]; /* lower case, sorted, ";" between */
    char signature[PL_SIGV4_HEX + 1];
};

/* Reads the Authorization header, or X-Amz-* of the query, out of a request with all its headers and its whole decoded query. OK and
 * `ret`; NONE when the request does not claim to be signed; V2 for Signature Version 2 in header or query; BOTH; BAD_HEADER or BAD_QUERY
 * (a part is missing, doubled, too long or of another form; the scope's date is not the time's; the time of a header claim is missing).
 * `why` (PL_ERR_MSG_BYTES of an error; may be NULL) says what is wrong. The time of a header claim is x-amz-date, else Date in its
 * basic ISO form. */
PL_MUST_CHECK
enum pl_sigv4_verdict pl_sigv4_claim_read(const struct pl_sigv4_request *q, struct pl_sigv4_claim *ret, struct pl_err *why);
/* OK when `now_s` (wall clock, seconds since 1970) is within PL_SIGV4_SKEW_S of the claim's time, or, presigned, within its life; else
 * SKEWED (also a presigned URL from the future) or EXPIRED. */
enum pl_sigv4_verdict pl_sigv4_claim_fresh(const struct pl_sigv4_claim *c, int64_t now_s);
/* Computes the signature anew: OK, MISMATCH, UNSIGNED_HEADER (host or an x-amz-* header is there and not signed). `q` as for
 * claim_read, q->payload as the body's rule says: for a presigned claim x-amz-content-sha256 when it is a signed header, else
 * PL_SIGV4_UNSIGNED. `ret_err` (may be NULL) gets PL_ENOMEM and the like, with MISMATCH. */
PL_MUST_CHECK
enum pl_sigv4_verdict pl_sigv4_claim_check(const struct pl_sigv4_claim *c, const struct pl_sigv4_request *q,
                                           const struct pl_sigv4_key *key, struct pl_err *ret_err);
/* Whether the claim signs that header (lower case). */
bool pl_sigv4_claim_signs(const struct pl_sigv4_claim *c, const char *name);
/* The payload word that claim_check wants for this request: x-amz-content-sha256 where it counts, else PL_SIGV4_UNSIGNED (presigned) or
 * PL_SIGV4_EMPTY_SHA256 when the header is absent. Borrowed from `q`. */
const char *pl_sigv4_claim_payload(const struct pl_sigv4_claim *c, const struct pl_sigv4_request *q);
