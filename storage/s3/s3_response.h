/* s3_answer: what an answer of S3 means: a class for those who decide what comes next, and an error for people. Pure; any thread. */
#pragma once

#include "storage/base/buf.h"

enum pl_s3_response_class {
    PL_S3_OK,
    PL_S3_NOT_FOUND, /* no such key */
    PL_S3_EXISTS,    /* a precondition failed: it is there */
    PL_S3_RETRY, /* the server's or the network's fault: may be tried again; whether the request was carried out is not known */
    PL_S3_REDUCE_RATE,     /* the same, and it asks for fewer requests */
    PL_S3_CLOCK_SKEW,      /* our clock and its differ */
    PL_S3_WRONG_REGION,    /* the bucket is elsewhere */
    PL_S3_BAD_CREDENTIALS, /* the credentials have expired */
    PL_S3_FORBIDDEN,
    PL_S3_NO_BUCKET,
    PL_S3_FULL,
    PL_S3_UNKNOWN_CALL, /* the server does not have this call */
    PL_S3_BAD_RESPONSE, /* anything else: it will not do */
};

/* An error document. Fields are "" where it has none. */
struct pl_s3_response_error {
    char code[64], message[320], region[64];
};
/* Reads it; false (and all "") when it is none. */
bool pl_s3_response_error_parse(const struct pl_buf *text, struct pl_s3_response_error *ret);

/* `status` 0 = there was no answer. `code`: of the problem, "" when there was no body. */
enum pl_s3_response_class pl_s3_response_class_of(unsigned status, const char *code);
/* The error of a class other than OK: "s3: 503 SlowDown: Reduce your request rate". Returns its code: PL_ENOTFOUND, PL_EEXISTS, PL_ENET
 * (AGAIN), PL_EBUSY (SLOWER), PL_EFORBIDDEN (CLOCK, KEYS, FORBIDDEN), PL_EINVAL (NO_BUCKET, REGION), PL_ENOSPC, PL_EUNAVAILABLE, PL_EIO. */
int pl_s3_response_class_error(enum pl_s3_response_class c, unsigned status, const struct pl_s3_response_error *p,
                               struct pl_err *err);
