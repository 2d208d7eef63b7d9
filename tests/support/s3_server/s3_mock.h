/* s3_mock: an S3 server in the test's own process, on loopback: strict about what it is asked, and as unkind as it is told to be.
 *
 * Strict: every request must be in canonical form on the wire, signed by its own definition of Signature Version 4 (s3_mock_verify.c shares
 * no code with the product), with the hash of its body (on TLS: its CRC32C), without a query parameter, condition or Expect that it does not
 * know. What is not so is refused and counted: a test ends with s3_mock_violations() == 0.
 *
 * Unkind: s3_mock_fault() says what happens to which request; s3_mock_chaos() draws it from a seed. */
#pragma once

#include "storage/base/buf.h"

#include <stdbool.h>
#include <stdint.h>

#define S3_MOCK_KEY    "AKIAMOCKMOCKMOCKMOCK"
#define S3_MOCK_SECRET "mock/secret+of/the+mock/0123456789abcdef"
#define S3_MOCK_BUCKET "bucket"
#define S3_MOCK_REGION "mock-region-1"

struct s3_mock;

struct s3_mock_config {
    uint16_t port;                                    /* 0 = any */
    bool tls;                                         /* with a certificate of its own: s3_mock_ca */
    const char *access_key, *secret, *token, *region; /* NULL = as above, no token */
    unsigned page_keys;                               /* of a list at most; 0 = 1,000 */
    bool ignores_conditions;                          /* a second put replaces, whatever If-None-Match says */
    bool refuses_conditions;                          /* 501 */
    bool ignores_signed_ranges;                       /* a presigned GET gives what it is asked for */
    bool ignores_signed_hashes;                       /* a presigned PUT takes other bytes */
    bool cruel;                                       /* chaos draws refusals and silence, too */
    bool virtual_style;                               /* the bucket is in Host, which is then "bucket.…" */
};

struct s3_mock *s3_mock_start(const struct s3_mock_config *config);
void s3_mock_stop(struct s3_mock *m);
/* "http://127.0.0.1:PORT"; https with TLS. Until stop. */
const char *s3_mock_url(const struct s3_mock *m);
/* A file with the certificate to trust; the mock removes it. */
const char *s3_mock_ca(const struct s3_mock *m);

enum s3_fault_kind {
    S3_FAULT_NONE,
    S3_FAULT_500,          /* nothing is done */
    S3_FAULT_503,          /* SlowDown */
    S3_FAULT_409,          /* ConditionalRequestConflict */
    S3_FAULT_403,          /* AccessDenied */
    S3_FAULT_RESET_BODY,   /* the connection ends while the request's body comes */
    S3_FAULT_RESET_BEFORE, /* ... before anything is done */
    S3_FAULT_RESET_AFTER,  /* done, and no answer */
    S3_FAULT_CUT,          /* done, and the answer ends after `bytes` of its body */
    S3_FAULT_STALL,        /* done, and the answer stops after `bytes` until the client goes */
    S3_FAULT_500_AFTER,    /* done, and 500 */
    S3_FAULT_200_ERROR,    /* nothing is done, and the answer is 200 with an error in its body */
    S3_FAULT_TWICE,        /* delivered twice: the second answer counts */
    S3_FAULT_LATE,         /* no answer, and carried out `bytes` requests later */
    S3_FAULT_WRONG_ETAG,
    S3_FAULT_NO_ETAG,
    S3_FAULT_SLOW,                  /* done, and the answer's body begins byte by byte */
    S3_FAULT_KINDS,                 /* of which chaos draws; what follows does more than to fail */
    S3_FAULT_FLIP = S3_FAULT_KINDS, /* done, and one bit of byte `bytes` of the answer's body is another */
    S3_FAULT_OTHER_RANGE,           /* a range is answered with what lies `bytes` further on, as the answer says */
    S3_FAULT_WHOLE,                 /* ... with 200 and all of it */
    S3_FAULT_404,                   /* NoSuchKey; nothing is done */
    S3_FAULT_KEYS_SLOW_DOWN,        /* DeleteObjects: nothing is done, and the answer says SlowDown of each key */
    S3_FAULT_NO_LENGTH,             /* done, and the answer's body ends with the connection, after `bytes` */
    S3_FAULT_NO_BUCKET,             /* NoSuchBucket; nothing is done, as with those that follow */
    S3_FAULT_REDIRECT,              /* PermanentRedirect */
    S3_FAULT_BAD_REGION,            /* AuthorizationHeaderMalformed */
    S3_FAULT_BAD_KEY,               /* InvalidAccessKeyId */
    S3_FAULT_FULL,                  /* QuotaExceeded */
    S3_FAULT_UNKNOWN_CALL,          /* NotImplemented */
    S3_FAULTS,
};
struct s3_fault {
    enum s3_fault_kind kind;
    const char *method; /* NULL = any */
    const char *key;    /* a part of the path; NULL = any */
    unsigned skip;      /* so many that match pass first */
    unsigned times;     /* then so many are hit; 0 = all */
    unsigned bytes;
};
/* Adds one; the first that matches counts. */
void s3_mock_fault(struct s3_mock *m, struct s3_fault fault);
/* From now `percent` of all requests meet a fault drawn from `seed`; 0 = none. Late ones come at once then. Takes the others away. */
void s3_mock_chaos(struct s3_mock *m, uint64_t seed, unsigned percent);

/* Its clock is so far from the machine's. */
void s3_mock_set_clock(struct s3_mock *m, int64_t ahead_s);
/* Requests for the bucket are sent on: 301 names `region`, which the signature must be for from now on. */
void s3_mock_set_region(struct s3_mock *m, const char *region);
/* Everything is answered with 307 to this origin, the path behind it (without the bucket, where that is in the host); NULL = no more. */
void s3_mock_set_redirect(struct s3_mock *m, const char *origin);
/* Other keys are valid from now; the old ones are ExpiredToken. */
void s3_mock_set_keys(struct s3_mock *m, const char *access_key, const char *secret, const char *token);

/* A copy of the object's bytes into `ret`; false when there is none. Key with the store's prefix. */
bool s3_mock_object(struct s3_mock *m, const char *key, struct pl_buf *ret);
/* Puts one behind everybody's back. */
void s3_mock_plant(struct s3_mock *m, const char *key, const void *bytes, size_t n);
size_t s3_mock_objects(struct s3_mock *m);
/* Requests that came; of one method, or all (NULL). */
unsigned s3_mock_requests(struct s3_mock *m, const char *method);
/* "METHOD /path?query" of request `number`, counted from 0 at the start; "" when it has not come yet, or came long ago. */
void s3_mock_request(struct s3_mock *m, unsigned number, char *out, size_t size);
/* The most that were being served at one time. */
unsigned s3_mock_at_once(struct s3_mock *m);
unsigned s3_mock_connections(struct s3_mock *m);
/* Requests that a client of S3 must not make; the last one's fault is in s3_mock_violation. */
unsigned s3_mock_violations(struct s3_mock *m);
const char *s3_mock_violation(struct s3_mock *m);
